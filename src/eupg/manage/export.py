"""Evidence for a stranger: ledger, served model, schema and public key in a folder of their own.

For whoever must show what was done, or moves on to another system. What leaves is checked first, and holds no record,
no id and no secret key. The served model was fitted on people who are still in training, and a copy of it is out of
reach of a later ``forget``, so the ledger notes that the copy was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from eupg.errors import ParameterError
from eupg.manage.atomic import list_folder, make_folder, write_atomically
from eupg.manage.checking import check_workspace
from eupg.manage.events import Entry
from eupg.manage.intake import changing
from eupg.manage.status import status_of
from eupg.manage.store import Digest
from eupg.manage.transaction import Snapshot
from eupg.manage.workspace import Workspace

_README = """\
EUPG: what was done with a model that can forget
================================================

ledger.jsonl   everything that happened, one entry a line, each tied to the entry before
served.model   the model that was served when this was written; its SHA-256 is "served" in status.json
schema.toml    what the columns mean
signing.pub    the public half of the key that certificates are signed with
status.json    what was served, how many records were in training, and which requests were open
README.txt     this text; it is written last, so where it lies, the export is whole

People and records appear here as keyed digests only, and the key is not part of this folder. The model was fitted on
the records of people, and bounds or categories that the schema says were read from the data are theirs too: hand both
on with care. A person who is forgotten after this was written is still in this copy of the model: delete it then.

How to predict
--------------
Load served.model with the learner that trained it, for instance XGBoostLearner().load("served.model"), and pass
predict_proba a table with named columns. Columns are matched by name and coded by the schema that the file holds.
Names of people and records, and the label, are ignored; a column that is missing or unknown is an error. A matrix
without names is taken only in the coding and order of the features in schema.toml.

How to check the ledger
-----------------------
The digest of an entry is the SHA-256 of the JSON list [number, at, kind, body, previous], with keys sorted, no spaces,
and everything outside ASCII escaped. "previous" is the digest of the entry before. In the folder of this file, with
nothing but Python:

    import hashlib, json
    number, previous = 0, None
    for line in open("ledger.jsonl", encoding="utf-8"):
        entry = json.loads(line)
        listed = [entry[name] for name in ("number", "at", "kind", "body", "previous")]
        text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() != entry["digest"]:
            raise SystemExit(f"entry {entry['number']} was changed")
        if entry["number"] != number + 1 or previous not in (None, entry["previous"]):
            raise SystemExit(f"entry {number + 1} is missing or does not follow the one before")
        number, previous = entry["number"], entry["digest"]
    print(number, "entries, the last with digest", previous)

A chain cannot show that its end was cut off, or that all of it was written anew. Compare it with certificates: each
holds the number and digest of an entry under "ledger", and "eupg verify FILE --key signing.pub" checks its signature.
"""


def export(space: Workspace, out: Path) -> list[Path]:
    """Write ledger, served model, schema, public key and status to a folder, for someone who has none of this.

    Parameters
    ----------
    space
        The workspace. Nothing else may change it meanwhile.
    out
        A folder that is empty or not there yet, outside the workspace.

    Returns
    -------
    list of Path
        The files, in the order they were written; ``README.txt`` comes last and says how to check the ledger.

    Raises
    ------
    ParameterError
        If something lies in the folder, or it is part of the workspace.
    LedgerCorrupt, StoreCorrupt, WorkspaceDamaged
        If the workspace is not what it says; then nothing is written.

    Examples
    --------
    >>> from eupg import EUPG, LocalDP, Manager, SklearnLearner, sources
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
    # Where nothing is trained, this says so before anything is touched.
    space.current()
    _check_place(space, out)
    with changing(space, "export"):
        check_workspace(space)
        served = space.current().served
        # Before the copy is made: a note too many is harmless, a copy that nobody knows of is not.
        space.ledger.append("export", {"what": "served model", "digest": served, "to": "folder"})
        make_folder(out)
        return list(_write(space, out, served))


def _write(space: Workspace, out: Path, served: Digest) -> Iterator[Path]:
    # The export itself is no news about the workspace.
    status = replace(status_of(space), running=None).to_json()
    with space.ledger.snapshot() as snapshot:
        write_atomically(out / "ledger.jsonl", _lines(snapshot))
        status["ledger"] = asdict(snapshot.head())
    yield out / "ledger.jsonl"
    rest = {
        "served.model": space.store.read(served),
        "schema.toml": space.schema.to_toml().encode(),
        "signing.pub": space.signing.public.to_pem(),
        "status.json": json.dumps(status, indent=1, ensure_ascii=False).encode() + b"\n",
        "README.txt": _README.encode(),
    }
    for name, content in rest.items():
        write_atomically(out / name, content)
        yield out / name


def _check_place(space: Workspace, out: Path) -> None:
    if out.resolve().is_relative_to(space.folder.resolve()):
        raise ParameterError(
            f"{out} is part of the workspace, expected a folder elsewhere: what is copied there would stay "
            "when the workspace deletes it"
        )
    if out.is_dir():
        found = len(list_folder(out))
        if found:
            raise ParameterError(f"{out} must be empty or new, found {found} files in it: name another folder")
    elif out.exists():
        raise ParameterError(f"{out} is a file, expected a folder: name another place")


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    for entry in snapshot.entries():
        yield json.dumps(_plain(entry), separators=(",", ":")).encode() + b"\n"


def _plain(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in ("number", "at", "kind", "body", "previous", "digest")}
