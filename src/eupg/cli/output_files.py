"""The files that a command writes. Their names are checked first, so that no result is lost for want of a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eupg.errors import EupgError, ParameterError, StorageError


def check_outputs(*files: Path | None) -> None:
    """Refuse files that could not be written: in no folder, named like a folder, or named twice."""
    named = [file for file in files if file is not None]
    for file in named:
        if not file.parent.is_dir():
            raise StorageError(f"there is no folder {file.parent}: create it, or name another file")
        if file.is_dir():
            raise StorageError(f"{file} is a folder: name a file in it")
    if len({file.resolve() for file in named}) < len(named):
        raise ParameterError(f"{named[0]} is named twice, and one content would replace the other: name another file")


def check_picture(file: Path) -> None:
    """Refuse a picture of another kind than those that can be drawn."""
    if file.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"a picture is written as .svg or .png, got {file.name!r}: name another file")


@contextmanager
def writing(content: str) -> Iterator[None]:
    """Turn a failed write into an error that names what could not be written."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"the {content} could not be written ({error}): name another file") from error


def draw(picture: Callable[[], Path]) -> tuple[str | None, str]:
    """Draw a picture; return its file, and what to say. The figures are worth having without it."""
    try:
        file = str(picture())
    except (EupgError, OSError) as error:
        return None, f"No picture was drawn: {error}"
    except ModuleNotFoundError as error:
        return None, f"No picture was drawn. It needs {error.name}: pip install 'eupg[demo]'"
    return file, f"Picture: {file}"
