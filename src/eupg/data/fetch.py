"""The folders that hold published files, and downloads into the cache, which are checked first."""

from __future__ import annotations

import http.client
import os
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from eupg.errors import DataError, SourceUnavailable

T = TypeVar("T")
# Errors of a network, or of an archive that was cut off.
FAILURES = (OSError, http.client.HTTPException, zipfile.BadZipFile, KeyError)


def cache_folder() -> Path:
    """Return the folder for downloaded data sets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eupg"


def data_folders() -> list[Path]:
    """Return the folders to search: the one named by ``EUPG_DATA``, if it is set, then the cache."""
    named = os.environ.get("EUPG_DATA")
    return [*([Path(named)] if named else []), cache_folder()]


def by_hand(name: str, page: str) -> str:
    """Return advice on how to get a file without this library."""
    return f"download it from {page} and put {name} into {cache_folder()}, or point EUPG_DATA at it"


def download(url: str) -> bytes:
    """Return the content at a web address."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def into_cache(name: str, content: bytes, check: Callable[[Path], T], *, url: str, page: str) -> T:
    """Store downloaded content in the cache once ``check`` accepts it, so that a login page is never stored."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        fetched = Path(folder) / name
        fetched.write_bytes(content)
        try:
            checked = check(fetched)
        except DataError as error:
            raise SourceUnavailable(f"{url} sent something else than the data set: {by_hand(name, page)}") from error
        fetched.replace(cache_folder() / name)
    return checked
