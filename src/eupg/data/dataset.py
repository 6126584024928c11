"""The records themselves: validated once, where they enter, and trusted after that.

A :class:`Dataset` holds the features as one matrix, the label as class numbers, and two names per row: a stable record
id and the person the record belongs to. In the matrix of a table, numbers are as they are, categories are positions in
the schema's list, and NaN is a missing value that the schema keeps. The matrix of pictures holds bytes, that of public
features whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Missing, Role, category_text
from eupg.data.kind import Accepts, DataKind
from eupg.data.pictures.attribute import check_bytes
from eupg.data.schema import Schema, as_frame
from eupg.data.table_file import TableFile, return_memory
from eupg.data.vector import check_on_grid
from eupg.errors import DataError, ParameterError, UnknownRecord
from eupg.pages import card

if TYPE_CHECKING:
    import pandas as pd

RecordId = str
Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Names = NDArray[np.str_]
_ARRAYS = ("X", "y", "ids", "subjects")
_FROM_TABLE = Accepts(DataKind.TABLE, instead="read_images or image_dataset")


class Examples(Protocol):
    """What a learner may see: rows and labels under a schema, and nothing that names anyone."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""

    @property
    def X(self) -> Matrix:
        """The features, one row per example."""

    @property
    def y(self) -> Labels:
        """The class of each example."""


class ExamplesInParts(Protocol):
    """Examples that may be larger than memory: each part fits."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""

    def __len__(self) -> int:
        """Return the number of examples."""

    def batches(self) -> Iterator[tuple[Matrix, Labels]]:
        """Yield the features and classes of each part, in the same order every time."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records of people, with stable ids.

    Parameters
    ----------
    schema, X, y
        The meaning of the columns; features and classes in the schema's coding.
    ids
        One distinct name per record.
    subjects
        The person each record belongs to. Where the table does not say, each record counts as a person.
    """

    schema: Schema
    X: Matrix
    y: Labels
    ids: Names
    subjects: Names

    def __post_init__(self) -> None:
        picture, vector, rows = self.schema.picture, self.schema.vector, len(self.X)
        if picture is not None:
            check_bytes(picture, np.asarray(self.X))
        if vector is not None:
            check_on_grid(vector, np.asarray(self.X))
        for name, dtype in (("X", self.schema.dtype), ("y", np.int64), ("ids", np.str_), ("subjects", np.str_)):
            array = np.asarray(getattr(self, name), dtype=dtype)
            # Whatever others may still write to is copied: a writable array, or a read-only view of their memory.
            self._set(name, array.copy() if array.flags.writeable or not array.flags.owndata else array)
        if np.array_equal(self.subjects, self.ids):
            # Each record is a person: one array of names serves for both.
            self._set("subjects", self.ids)
        if self.X.shape != (rows, self.schema.columns):
            unit, loader = ("features", "encode the table with Dataset.from_table")
            if picture is not None:
                unit, loader = ("pixels and channels", "load pictures with image_dataset")
            if vector is not None:
                unit, loader = ("public features", "encode pictures or texts with encode_records")
            raise DataError(
                f"expected one row per record and one column for each of {self.schema.columns} {unit}, got a matrix of "
                f"{self.X.shape}: {loader}"
            )
        if not len(self.y) == len(self.ids) == len(self.subjects) == rows:
            lengths = f"{len(self.y)}, {len(self.ids)} and {len(self.subjects)}"
            raise DataError(
                f"{rows} rows need as many labels, ids and subjects, got {lengths}: pass one of each per row"
            )
        if len(set(self.ids.tolist())) < rows:
            _distinct(self.ids, "ids")
        if self.schema.kind is DataKind.TABLE:
            for j, attribute in enumerate(self.schema.features):
                _check_codes(attribute, self.X[:, j])
        _check_codes(self.schema.label, self.y.astype(np.float64))

    def __repr__(self) -> str:
        # Counts alone: values and names of people have no place in a log or a traceback.
        people = f" of {len(np.unique(self.subjects)):,} people" if self.names_people else ""
        columns = f"{len(self.schema.features)} features, label {self.schema.label.name!r}"
        return f"<Dataset: {len(self):,} records{people}, {columns}>"

    def _repr_html_(self) -> str:
        counts = zip(self.schema.label.categories, np.bincount(self.y, minlength=self.schema.classes), strict=True)
        rows = [(f"{self.schema.label.name}: {name}", f"{count:,} records") for name, count in counts]
        return card(repr(self)[1:-1], rows)

    def _set(self, name: str, array: NDArray[Any]) -> None:
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    @classmethod
    def from_table(
        cls, table: Any, schema: Schema, *, ids: str | None = None, drop_unlabelled: bool = False
    ) -> Dataset:
        """Check a pandas, Arrow or polars table, or a DuckDB relation, against the schema and encode it.

        Rows without a label are refused, or left out with ``drop_unlabelled``.

        Record ids come from the column ``ids``, else from the schema's only identifier, else from the table's index.
        The index of a new table is the row's position; a part of a table keeps the index of the whole.
        """
        _FROM_TABLE.check(schema, "Dataset.from_table")
        frame = as_frame(table)
        absent = [a.name for a in schema.attributes if a.name not in frame.columns and a.role is not Role.IDENTIFIER]
        if absent:
            raise DataError(f"the table has no column {absent[0]!r}; it has {list(frame.columns)}")
        if schema.label.missing is Missing.REFUSE:
            frame = _labelled(frame, schema.label.name, drop=drop_unlabelled)
        if ids is None and len(schema.identifiers) == 1 and schema.identifiers[0].name in frame.columns:
            ids = schema.identifiers[0].name
        # Column by column into the matrix that stays: a list of all columns, and a copy, would be as large again.
        X = np.empty((len(frame), schema.columns), dtype=schema.dtype)
        for j, attribute in enumerate(schema.features):
            X[:, j] = attribute.encode(frame[attribute.name])
        y = schema.label.encode(frame[schema.label.name]).astype(np.int64)
        names = _distinct(_names(frame, ids), ids) if ids else _index(frame)
        subjects = _names(frame, schema.subject.name) if schema.subject else names
        return cls.of_checked(schema, X, y, names, subjects)

    @classmethod
    def of_checked(cls, schema: Schema, *arrays: NDArray[Any]) -> Dataset:
        """Return records from arrays that are known to fit the schema and that nobody else can write to."""
        data = object.__new__(cls)
        object.__setattr__(data, "schema", schema)
        for name, array in zip(_ARRAYS, arrays, strict=True):
            data._set(name, array)
        return data

    @classmethod
    def read(
        cls,
        path: str | Path,
        schema: Schema,
        *,
        ids: str | None = None,
        drop_unlabelled: bool = False,
        sep: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        query: str | None = None,
        table: str | None = None,
    ) -> Dataset:
        """Read a file or the answer to a query, as :class:`~eupg.data.TableFile` does, and check it by the schema."""
        file = TableFile(path, sep=sep, encoding=encoding, decimal=decimal, query=query, table=table)
        names = [ids] if ids else []
        data = cls.from_table(file.read(schema, names=names), schema, ids=ids, drop_unlabelled=drop_unlabelled)
        return_memory()
        return data

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.X)

    @cached_property
    def id_set(self) -> frozenset[RecordId]:
        """All record ids."""
        return frozenset(self.ids.tolist())

    def select(self, rows: NDArray[np.bool_]) -> Dataset:
        """Return the records at which the mask is true."""
        mask = np.asarray(rows, dtype=bool)
        if mask.shape != (len(self),):
            raise DataError(f"expected a mask of {len(self)} rows, got one of {mask.shape}: pass one value per record")
        # Rows of a valid table are valid: they are not checked again.
        X, y, ids = self.X[mask], self.y[mask], self.ids[mask]
        return self.of_checked(self.schema, X, y, ids, ids if self.subjects is self.ids else self.subjects[mask])

    def where(self, ids: Iterable[RecordId]) -> NDArray[np.bool_]:
        """Return a mask of the records with these ids; an id that is not here is an error."""
        return _mask(self.ids, ids, "record id")

    @cached_property
    def names_people(self) -> bool:
        """Whether the records say which person they belong to; otherwise each record counts as a person."""
        same = self.subjects is self.ids or np.array_equal(self.subjects, self.ids)
        return self.schema.subject is not None or not same

    def where_subjects(self, subjects: Iterable[str]) -> NDArray[np.bool_]:
        """Return a mask of all records of these people; a person who is not here is an error."""
        return _mask(self.subjects, subjects, "person")

    def of_subjects(self, subjects: Iterable[str]) -> Dataset:
        """Return all records of these people."""
        return self.select(self.where_subjects(subjects))

    def without(self, ids: Iterable[RecordId]) -> Dataset:
        """Return the other records; an id that is not here is an error."""
        return self.select(~self.where(ids))

    def plus(self, more: Dataset) -> Dataset:
        """Return these records followed by new ones under the same schema."""
        if more.schema != self.schema:
            raise DataError("new records must come under the same schema: load them with this data set's schema")
        ids, count = np.unique(np.concatenate([self.ids, more.ids]), return_counts=True)
        if (count > 1).any():
            raise DataError(
                f"{(count > 1).sum()} ids of {len(more)} new records are taken, first {str(ids[count > 1][0])!r}: "
                "every record needs its own, so load them with ids= or an identifier column, or let ids be generated "
                "(Manager.add with fresh_ids, or eupg add without --id)"
            )
        X, y, names, subjects = (np.concatenate([getattr(self, name), getattr(more, name)]) for name in _ARRAYS)
        return Dataset(self.schema, X, y, names, subjects)

    def to_pandas(self) -> pd.DataFrame:
        """Return the records as a person reads them: ids as the index, categories by name."""
        import pandas as pd

        encoded = self.X.T if self.schema.kind is DataKind.TABLE else [self.X]
        columns = {a.name: a.decode(values) for a, values in zip(self.schema.features, encoded, strict=True)}
        columns[self.schema.label.name] = self.schema.label.decode(self.y.astype(np.float64))
        return pd.DataFrame(columns, index=pd.Index(self.ids.tolist(), name="record"))


def require_dataset(data: object, who: str) -> None:
    """Refuse anything but a Dataset, and say how to make one from a table."""
    if not isinstance(data, Dataset):
        raise DataError(
            f"{who} expects a Dataset, got {type(data).__name__}: describe a table with "
            "schema = Schema.infer(table, label=…), then pass Dataset.from_table(table, schema)"
        )


def _labelled(frame: pd.DataFrame, label: str, *, drop: bool) -> pd.DataFrame:
    """Return the rows that have a label; unless they may be dropped, refuse a table with others."""
    empty = frame[label].isna()
    if not empty.any():
        return frame
    if not drop:
        raise DataError(
            f"the label {label!r} is missing in {int(empty.sum()):,} of {len(frame):,} rows, which cannot be trained "
            "on: fill it in, delete these rows, or leave them out with --drop-unlabelled (drop_unlabelled=True)"
        )
    return frame[~empty]


def _names(frame: pd.DataFrame, column: str) -> Names:
    if column not in frame.columns:
        raise DataError(f"the table has no column {column!r} to take names from; it has {list(frame.columns)}")
    text = category_text(frame[column], column)
    empty = sum(v is None for v in text)
    if empty:
        raise DataError(f"column {column!r}: {empty} of {len(text)} names are empty: fill them in or drop the rows")
    return text.astype(np.str_)


def _index(frame: pd.DataFrame) -> Names:
    import pandas as pd

    if isinstance(frame.index, pd.RangeIndex):
        # Without a Python object per row.
        first, last = (frame.index[0], frame.index[-1]) if len(frame) else (0, 0)
        return frame.index.to_numpy().astype(f"U{max(len(str(first)), len(str(last)))}")
    text = category_text(frame.index.to_series(), "index")
    if any(v is None for v in text):
        raise DataError("the table's index has missing entries: name a column of record ids, or reset the index")
    return _distinct(text.astype(np.str_), None)


def _check_codes(attribute: Attribute, values: Matrix) -> None:
    misfits = int((~attribute.fits(values)).sum())
    if misfits:
        raise DataError(
            f"column {attribute.name!r}: {misfits} of {len(values)} rows hold values outside the schema's coding: "
            "encode the table with Dataset.from_table"
        )


def _distinct(names: Names, column: str | None) -> Names:
    repeats = len(names) - len(np.unique(names))
    if repeats:
        raise DataError(
            f"column {column!r}: {repeats} of {len(names)} rows repeat a record id: every record needs its own; "
            "if the column names people, give it the role 'subject'"
        )
    return names


def _mask(names: Names, wanted: Iterable[str], what: str) -> NDArray[np.bool_]:
    if isinstance(wanted, str):
        raise ParameterError(f"expected a list, got the single {what} {wanted!r}: write [{wanted!r}]")
    chosen = np.array(sorted({str(w) for w in wanted}), dtype=np.str_)
    unknown = chosen[~np.isin(chosen, names)]
    if len(unknown):
        raise UnknownRecord(
            f"{len(unknown)} of {len(chosen)} are not here, first {what} {str(unknown[0])!r}: "
            "never among the records, or already forgotten"
        )
    return np.isin(names, chosen)
