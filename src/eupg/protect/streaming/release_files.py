"""A release in files: parts of a table that may be larger than memory, and the guarantee they carry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.errors import DataError
from eupg.files import write_atomically
from eupg.guarantees import Guarantee
from eupg.guarantees.reading import guarantee_from_json
from eupg.protect.release import Release
from eupg.protect.streaming.chunks import TableColumns
from eupg.protect.streaming.folder import MANIFEST

_FORMAT = "eupg-release-1"


@dataclass(frozen=True)
class ReleaseFiles:
    """Protected rows in random order, in Parquet files of one folder, which fit into memory one at a time.

    Parameters
    ----------
    folder
        Where the files lie.
    schema
        Schema without the columns that name records or people.
    guarantee
        The claim about a record that the rows were made from.
    parts
        The number of rows of each file, by its name.
    """

    folder: Path
    schema: Schema
    guarantee: Guarantee
    parts: dict[str, int]

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(self.parts.values())

    @property
    def seeded(self) -> bool:
        """Whether a known seed can undo the protection."""
        return self.guarantee.seeded

    def batches(self) -> Iterator[tuple[Matrix, Labels]]:
        """Yield the features and classes of each part, in the coding of the schema."""
        import pyarrow.parquet as pq

        columns = TableColumns(self.schema)
        for name, rows in self.parts.items():
            try:
                table = pq.read_table(self.folder / name, columns=columns.names, use_threads=False, partitioning=None)
            except OSError as error:
                raise DataError(f"{self.folder / name} cannot be read ({error}): repeat eupg protect") from error
            if len(table) != rows:
                raise DataError(f"{self.folder / name} has {len(table)} rows, expected {rows}: repeat eupg protect")
            *features, label = columns.coded(table)
            yield np.column_stack(features), label.astype(np.int64)

    def load(self) -> Release:
        """Return the whole release, if it fits into memory."""
        parts = list(self.batches())
        X, y = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return Release(self.schema, X, y, self.guarantee)

    def save(self) -> None:
        """Write what the parts mean beside them. A folder without this file is not a release."""
        content = {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_json(),
            "schema": self.schema.to_json(),
            "parts": self.parts,
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.folder / MANIFEST, text.encode())

    @classmethod
    def open(cls, folder: str | Path) -> ReleaseFiles:
        """Open the release in a folder."""
        folder = Path(folder)
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder} holds no release that can be read ({error}): make one with eupg protect"
            ) from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise DataError(f"{folder / MANIFEST} is not of the format {_FORMAT}: make a release with eupg protect")
        parts = {str(name): int(rows) for name, rows in content["parts"].items()}
        schema, claim = Schema.from_json(content["schema"]), guarantee_from_json(content["guarantee"])
        return cls(folder, schema, claim, parts)
