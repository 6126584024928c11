"""Copies of the served model outside the workspace: they are noted in the ledger, and say that they do not forget."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eupg.errors import ParameterError, StorageError
from eupg.files import list_folder, make_folder, remove_files, write_atomically
from eupg.guarantees import guarantee_from_json
from eupg.manage.integrations.export.graph import onnx_bytes
from eupg.manage.integrations.export.native import native_files
from eupg.manage.requests.intake import changing
from eupg.manage.storage.store import Digest
from eupg.manage.storage.workspace import Workspace

if TYPE_CHECKING:
    from eupg.manage.trainer import Trainer

NOTICE = (
    "This copy is outside the workspace. A person who is forgotten later is still in it, and EUPG does not delete it: "
    "after the next forget, replace it with a new export."
)
_STATEMENT = "statement.json"
_FORMAT = "eupg-export-1"


class ExportFormat(StrEnum):
    """What an exported model is: a folder with its framework's own file, or one ONNX file."""

    NATIVE = "native"
    ONNX = "onnx"


def export_model(trainer: Trainer, path: str | Path, kind: ExportFormat | str) -> list[Path]:
    """Write the served model for use without this library, with a statement; see :meth:`eupg.Manager.export`."""
    if kind not in list(ExportFormat):
        raise ParameterError(f"format must be one of {[str(known) for known in ExportFormat]}, got {kind!r}")
    space, path, kind = trainer.space, Path(path), ExportFormat(kind)
    # Raises where nothing is trained, before anything is touched.
    space.state()
    _check_place(space, path, kind)
    with changing(space, "export"):
        statement = _statement(space, kind)
        model = trainer.served_model(space.state().served)
        if kind is ExportFormat.ONNX:
            about = {f"eupg.{word}": str(statement[word]) for word in ("model", "claim", "notice")}
            classes = json.dumps(space.schema.label.categories, ensure_ascii=False)
            files = {path: onnx_bytes(model, about | {"classes": classes})}
            beside = path.with_suffix(".statement.json")
        else:
            files = {path / name: content for name, content in native_files(model, NOTICE).items()}
            beside = path / _STATEMENT
        # Before the copy is made: a superfluous note is harmless, an unknown copy is not.
        note = {"what": "served model", "digest": statement["model"], "to": "outside", "format": str(kind)}
        space.ledger.append("export", note)
        if kind is ExportFormat.NATIVE:
            make_folder(path)
            remove_files(path, _earlier_files(path))
        statement["files"] = [file.name for file in files]
        for file, content in (files | {beside: json.dumps(statement, indent=1, ensure_ascii=False).encode()}).items():
            write_atomically(file, content)
    return [*files, beside]


def copies_of(space: Workspace, digest: Digest) -> int:
    """Return how many copies of a model were exported, to wherever."""
    return sum(entry.body["digest"] == digest for entry in space.ledger.entries(kinds=["export"]))


def _statement(space: Workspace, kind: ExportFormat) -> dict[str, Any]:
    state = space.state()
    return {
        "format": _FORMAT,
        "model": state.served,
        "exported_as": str(kind),
        "claim": guarantee_from_json(state.claim).sentence(),
        "change": state.number,
        "ledger": asdict(space.ledger.head()),
        "notice": NOTICE,
    }


def _check_place(space: Workspace, path: Path, kind: ExportFormat) -> None:
    if path.resolve().is_relative_to(space.folder.resolve()):
        raise ParameterError(f"{path} is part of the workspace, expected a place elsewhere: name another one")
    if kind is ExportFormat.ONNX:
        if path.is_dir() or not path.parent.is_dir() or path.suffix != ".onnx":
            raise ParameterError(
                f"expected a file in an existing folder with a name in .onnx, got {path}: name another"
            )
    elif path.exists() and not path.is_dir():
        raise ParameterError(f"{path} is a file, expected a folder: name another place")
    elif path.is_dir() and list_folder(path) and not _earlier_files(path):
        raise ParameterError(
            f"{path} must be empty or new, or hold an earlier export, got one with other files: name another folder"
        )


def _earlier_files(folder: Path) -> list[str]:
    """Return the files of an earlier export to a folder, by its statement; none if it holds no export."""
    try:
        statement = json.loads((folder / _STATEMENT).read_bytes())
        names = statement["files"] if statement["format"] == _FORMAT else []
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    except OSError as error:
        raise StorageError(f"{folder} could not be read ({error}): name another folder") from error
    return [name for name in (*names, _STATEMENT) if (folder / name).is_file() and Path(name).name == name]
