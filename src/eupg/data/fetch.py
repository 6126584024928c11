"""Where published files are looked for, and how what is fetched comes into the cache: checked, or not at all."""

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
# What goes wrong on the way, in a network or in an archive that was cut off.
FAILURES = (OSError, http.client.HTTPException, zipfile.BadZipFile, KeyError)


def cache_folder() -> Path:
    """Return the folder in which fetched data sets are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eupg"


def data_folders() -> list[Path]:
    """Return where files are looked for: the folder named by ``EUPG_DATA``, if it is, then the cache."""
    named = os.environ.get("EUPG_DATA")
    return [*([Path(named)] if named else []), cache_folder()]


def by_hand(name: str, page: str) -> str:
    """Say how to get a file without this library."""
    return f"download it from {page} and put {name} into {cache_folder()}, or point EUPG_DATA at it"


def download(url: str) -> bytes:
    """Return what a web address sends."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def into_cache(name: str, content: bytes, check: Callable[[Path], T], *, url: str, page: str) -> T:
    """Put fetched content into the cache once ``check`` has read it, so that a login page never stays there."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        fetched = Path(folder) / name
        fetched.write_bytes(content)
        try:
            found = check(fetched)
        except DataError as error:
            raise SourceUnavailable(f"what {url} sent is not the published data set: {by_hand(name, page)}") from error
        fetched.replace(cache_folder() / name)
    return found
