"""Evidence for a third party: ledger, served model, schema and public key in a folder of their own.

The export is checked first, and holds no record, no id and no secret key. The served model was fitted on people who are
still in training, and a later ``forget`` does not reach a copy of it, so the ledger notes that the copy was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from eupg.errors import ParameterError
from eupg.files import list_folder, make_folder, write_atomically
from eupg.manage.checking import check_workspace
from eupg.manage.requests.intake import changing
from eupg.manage.status import status_of
from eupg.manage.storage.store import Digest
from eupg.manage.storage.workspace import Workspace


def export(space: Workspace, out: Path) -> list[Path]:
    """Write ledger, served model, schema, public key and status to a folder, and return the files in that order.

    ``README.txt`` is written last and says how to check the ledger.

    Parameters
    ----------
    space
        The workspace. Nothing else may change it meanwhile.
    out
        A folder outside the workspace that is empty or does not exist yet.

    Raises
    ------
    ParameterError
        If the folder is not empty, or is part of the workspace.
    LedgerCorrupt, StoreCorrupt, WorkspaceDamaged
        If the workspace is damaged; then nothing is written.

    Examples
    --------
    >>> from eupg import EUPG, Manager, sources
    >>> from eupg.learn import SklearnLearner
    >>> from eupg.protect import LocalDP
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> method = EUPG(LocalDP(1.0), SklearnLearner(), pretrain=1, finetune=1)
    >>> manager = Manager(folder.name + "/workspace", method)
    >>> manager.train(sources.rand_hie().train)
    >>> [path.name for path in export(manager.space, Path(folder.name) / "out")]
    ['ledger.jsonl', 'served.model', 'schema.toml', 'signing.pub', 'status.json', 'README.txt']
    >>> manager.close()
    >>> folder.cleanup()
    """
    out = Path(out)
    # Raises where nothing is trained, before anything is touched.
    space.state()
    _check_place(space, out)
    with changing(space, "export"):
        check_workspace(space)
        served = space.state().served
        # Before the copy is made: a superfluous note is harmless, an unknown copy is not.
        space.ledger.append("export", {"what": "served model", "digest": served, "to": "folder"})
        make_folder(out)
        return list(_write(space, out, served))


def _write(space: Workspace, out: Path, served: Digest) -> Iterator[Path]:
    status = status_of(space).to_json()
    with space.ledger.snapshot() as snapshot:
        lines = (json.dumps(vars(entry), separators=(",", ":")).encode() + b"\n" for entry in snapshot.entries())
        write_atomically(out / "ledger.jsonl", lines)
        status["ledger"] = asdict(snapshot.head())
    yield out / "ledger.jsonl"
    rest = {
        "served.model": space.store.read(served),
        "schema.toml": space.schema.to_toml().encode(),
        "signing.pub": space.signing.public.to_pem(),
        "status.json": json.dumps(status, indent=1, ensure_ascii=False).encode() + b"\n",
        "README.txt": resources.files(__package__).joinpath("evidence_folder.txt").read_bytes(),
    }
    for name, content in rest.items():
        write_atomically(out / name, content)
        yield out / name


def _check_place(space: Workspace, out: Path) -> None:
    if out.resolve().is_relative_to(space.folder.resolve()):
        raise ParameterError(
            f"{out} is part of the workspace, expected a folder elsewhere: a copy there would stay when the workspace "
            "deletes the original"
        )
    if out.is_dir():
        count = len(list_folder(out))
        if count:
            raise ParameterError(f"{out} must be empty or new, got one with {count} files: name another folder")
    elif out.exists():
        raise ParameterError(f"{out} is a file, expected a folder: name another place")
