"""Tables in record files, whose rows in the subject index are counted from 0 in the order of the records."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eupg.data.dataset import Dataset
from eupg.manage.storage.records import Erased, Manifest, RecordFiles, Rows, Written


@dataclass(frozen=True, eq=False)
class Table:
    """A table in record files: what a workspace notes about it, and the row with which the next records begin."""

    files: RecordFiles
    noted: Written | Erased
    following: int

    @property
    def manifest(self) -> Manifest:
        return self.noted.manifest

    @property
    def live(self) -> set[str]:
        """The names of its files, and of their sketches."""
        return {*self.manifest, *(sketch for _, sketch in self.noted.sidecars.values())}

    def read(self) -> Dataset:
        return self.files.read(self.manifest)

    def places(self, rows: ArrayLike) -> dict[int, Rows]:
        """Return which of these rows each file holds, by the files' numbers."""
        held = {slot: self.files.read_sketch(sketch).rows for slot, sketch in self.noted.sidecars.values()}
        there = {slot: np.intersect1d(here.astype(np.int64), np.asarray(rows, np.int64)) for slot, here in held.items()}
        return {slot: here for slot, here in there.items() if len(here)}

    def erase(self, rows: ArrayLike) -> tuple["Table", Erased]:
        """Return the table without these rows, and what that changed."""
        erased = self.files.erase(self.manifest, self.noted.sidecars, self.places(rows))
        return Table(self.files, erased, self.following), erased

    def append(self, data: Dataset, *, rows_per_part: int = 8192) -> "Table":
        """Return the table with more records."""
        following = self.following + len(data)
        new = self.files.append_sketched(
            self.manifest,
            data,
            np.arange(self.following, following),
            first_slot=1 + max((slot for slot, _ in self.noted.sidecars.values()), default=-1),
            rows_per_part=rows_per_part,
        )
        noted = Written((*self.manifest, *new.manifest), {**self.noted.sidecars, **new.sidecars}, new.rows)
        return Table(self.files, noted, following)


def write(files: RecordFiles, data: Dataset, *, rows_per_part: int = 8192) -> Table:
    """Write all records to new files."""
    written = files.write_sketched(data, np.arange(len(data)), first_slot=0, rows_per_part=rows_per_part)
    return Table(files, written, len(data))
