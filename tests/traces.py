"""Looking for what should be gone: every byte of a folder, and everything in it that is compressed, opened."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def of_text(text: str) -> dict[str, bytes]:
    """Return the bytes a text may stand as."""
    forms = {"UTF-8": text.encode(), "UTF-16-LE": text.encode("utf-16-le"), "UTF-16-BE": text.encode("utf-16-be")}
    return forms | {"JSON": json.dumps(text)[1:-1].encode(), "hexadecimal": text.encode().hex().encode()}


def of_number(value: float) -> dict[str, bytes]:
    """Return the bytes a number may stand as: in decimals, and in both sizes and both orders."""
    kinds = ("<f8", ">f8", "<f4", ">f4")
    return {"decimals": repr(value).encode()} | {kind: np.array([value], kind).tobytes() for kind in kinds}


def files_in(folder: Path) -> list[Path]:
    """Return every file below a folder, other than the code that PyTorch compiles and keeps."""
    return [path for path in folder.rglob("*") if path.is_file() and "torchinductor" not in str(path)]


def traces(folder: Path, wanted: Mapping[str, Mapping[str, bytes]]) -> list[tuple[str, str, str]]:
    """Return where something wanted stands: the file or the part of it, what it is, and in which form."""
    return [
        (place, what, form)
        for path in sorted(p for p in folder.rglob("*") if p.is_file())
        for place, content in _opened(str(path.relative_to(folder)), path.read_bytes(), path)
        for what, forms in wanted.items()
        for form, needle in forms.items()
        if needle in content
    ]


def _opened(name: str, content: bytes, path: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield a file's bytes, and those of everything compressed inside."""
    yield name, content
    yield f"{Path(name).parent}/", Path(name).name.encode()
    if content.startswith(b"PAR1"):
        yield f"{name}, table", _plain(pq.read_table(pa.BufferReader(content)))
    if path is not None and content.startswith(b"SQLite format 3"):
        yield f"{name}, rows", _rows(path)
    start = content.find(b"PK\x03\x04")
    if start >= 0:
        # Model files have a line of JSON before their archive.
        with zipfile.ZipFile(io.BytesIO(content[start:])) as archive:
            for member in archive.namelist():
                yield from _opened(f"{name}, {member}", archive.read(member))
    if content[:2] in (b"\x1f\x8b", b"\x78\x9c"):
        yield f"{name}, inflated", zlib.decompress(content, 47)


def _plain(table: pa.Table) -> bytes:
    columns = [table.column(name).combine_chunks() for name in table.column_names]
    buffers = [bytes(b) for column in columns for b in column.buffers() if b is not None]
    return b"\n".join([*buffers, repr(table.to_pydict()).encode(), repr(table.schema.metadata).encode()])


def _rows(path: Path) -> bytes:
    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = [row for table in tables for row in connection.execute(f'SELECT * FROM "{table}"')]
    connection.close()
    return b"\n".join(str(value).encode() for row in found for value in row)
