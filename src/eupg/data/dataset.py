"""The records themselves: validated once, where they enter, and trusted after that.

A :class:`Dataset` holds the features as one matrix (numbers as they are, categories as their position in the schema's
list, NaN where a value is missing and the schema keeps it; or the bytes of a picture), the label as class numbers, and
two names per row: a stable record id and the person the record belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Listed, Missing, Numeric, Role, category_text
from eupg.data.picture import check_bytes, require_table
from eupg.data.schema import Schema, as_frame
from eupg.errors import DataError, ParameterError, UnknownRecord

if TYPE_CHECKING:
    import pandas as pd

RecordId = str
Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Names = NDArray[np.str_]
# Words in a CSV file that stand for an empty cell, as pandas has them.
_EMPTY = frozenset(("", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan")) | {
    *("#NA", "#N/A", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN")
}


class Examples(Protocol):
    """What a learner may see: rows and labels under a schema, and nothing that names anyone."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""

    @property
    def X(self) -> Matrix:
        """The features, one row an example."""

    @property
    def y(self) -> Labels:
        """The class of each example."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records of people, with stable ids.

    Parameters
    ----------
    schema
        What the columns mean.
    X, y
        Features and classes in the schema's coding.
    ids
        One distinct name per record.
    subjects
        The person each record belongs to. Where the table does not say, each record is a person of its own.
    """

    schema: Schema
    X: Matrix
    y: Labels
    ids: Names
    subjects: Names

    def __post_init__(self) -> None:
        # Whatever others may still write to is copied: a writable array, or a read-only view of somebody's memory.
        picture = self.schema.picture
        if picture is not None:
            check_bytes(picture, np.asarray(self.X))
        for name, kind in (
            ("X", np.uint8 if picture else np.float64),
            ("y", np.int64),
            ("ids", np.str_),
            ("subjects", np.str_),
        ):
            array = np.asarray(getattr(self, name), dtype=kind)
            array = array.copy() if array.flags.writeable or not array.flags.owndata else array
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        rows = len(self.X)
        if self.X.shape != (rows, self.schema.columns):
            what = "features, got" if picture is None else "pixels and channels, got"
            how = "encode the table with Dataset.from_table" if picture is None else "load pictures with image_dataset"
            raise DataError(
                f"expected one row a record and one column for each of {self.schema.columns} {what} a matrix of "
                f"{self.X.shape}: {how}"
            )
        if not len(self.y) == len(self.ids) == len(self.subjects) == rows:
            found = f"{len(self.y)}, {len(self.ids)} and {len(self.subjects)}"
            raise DataError(f"{rows} rows need as many labels, ids and subjects, got {found}: pass one of each a row")
        if len(set(self.ids.tolist())) < rows:
            _distinct(self.ids, "ids")
        for j, attribute in enumerate(self.schema.features if picture is None else ()):
            _check_codes(attribute, self.X[:, j])
        _check_codes(self.schema.label, self.y.astype(np.float64))

    @classmethod
    def from_table(cls, table: Any, schema: Schema, *, ids: str | None = None) -> Dataset:
        """Check a pandas, Arrow or polars table against the schema and take it in.

        Record ids come from the column ``ids``, else from the schema's only identifier, else from the table's index,
        which for a fresh table is the row's position and for a part of one still names the same rows.
        """
        require_table(schema, "Dataset.from_table", "read_images or image_dataset")
        frame = as_frame(table)
        absent = [a.name for a in schema.attributes if a.name not in frame.columns and a.role is not Role.IDENTIFIER]
        if absent:
            raise DataError(f"the table has no column {absent[0]!r}; it has {list(frame.columns)}")
        if ids is None and len(schema.identifiers) == 1 and schema.identifiers[0].name in frame.columns:
            ids = schema.identifiers[0].name
        names = _names(frame, ids) if ids else _index(frame)
        return cls(
            schema=schema,
            X=np.column_stack([a.encode(frame[a.name]) for a in schema.features]),
            y=schema.label.encode(frame[schema.label.name]).astype(np.int64),
            ids=_distinct(names, ids),
            subjects=_names(frame, schema.subject.name) if schema.subject else names,
        )

    @classmethod
    def read(cls, path: str | Path, schema: Schema, *, ids: str | None = None) -> Dataset:
        """Read a CSV or Parquet file and check it against the schema."""
        return cls.from_table(read_table(path, schema, names=[ids] if ids else []), schema, ids=ids)

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
            raise DataError(f"expected a mask of {len(self)} rows, got one of {mask.shape}: pass one value a record")
        # Rows of a valid table are valid: they are not checked again.
        part = object.__new__(Dataset)
        object.__setattr__(part, "schema", self.schema)
        for name in ("X", "y", "ids", "subjects"):
            array = getattr(self, name)[mask]
            array.flags.writeable = False
            object.__setattr__(part, name, array)
        return part

    def where(self, ids: Iterable[RecordId]) -> NDArray[np.bool_]:
        """Return a mask of the records with these ids; an id that is not here is an error."""
        return _mask(self.ids, ids, "record id")

    @cached_property
    def names_people(self) -> bool:
        """Whether it is known which records belong to one person; otherwise each record counts as a person."""
        return self.schema.subject is not None or not np.array_equal(self.subjects, self.ids)

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
        return Dataset(
            self.schema,
            np.concatenate([self.X, more.X]),
            np.concatenate([self.y, more.y]),
            np.concatenate([self.ids, more.ids]),
            np.concatenate([self.subjects, more.subjects]),
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the records as a person reads them: ids as the index, categories by name."""
        import pandas as pd

        picture = self.schema.picture
        each = [self.X] if picture is not None else self.X.T
        columns = {a.name: a.decode(values) for a, values in zip(self.schema.features, each, strict=True)}
        columns[self.schema.label.name] = self.schema.label.decode(self.y.astype(np.float64))
        return pd.DataFrame(columns, index=pd.Index(self.ids.tolist(), name="record"))


def require_dataset(data: object, who: str) -> None:
    """Refuse a table, or anything else, where records are expected, and say how a table becomes records."""
    if not isinstance(data, Dataset):
        raise DataError(
            f"{who} expects a Dataset, got {type(data).__name__}: describe a table with "
            "schema = Schema.infer(table, label=…), then pass Dataset.from_table(table, schema)"
        )


def read_table(path: str | Path, schema: Schema | None = None, *, names: Iterable[str] = ()) -> pd.DataFrame:
    """Read a CSV or Parquet file; columns the schema calls categories or names, and ``names``, are read as text."""
    import pandas as pd

    path = Path(path)
    if not path.is_file():
        raise DataError(f"no file {path}: name a CSV or Parquet file")
    if path.suffix.lower() not in (".parquet", ".pq", ".csv", ".gz", ".zip", ".txt", ".data"):
        raise DataError(f"{path.name}: expected .csv or .parquet, got {path.suffix or 'no suffix'}: convert the file")
    attributes = schema.attributes if schema else ()
    listed = {a.name: a.categories for a in attributes if isinstance(a, Listed)}
    keys = [a.name for a in attributes if a.role in (Role.SUBJECT, Role.IDENTIFIER)]
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(path)
        # A category called "None" or "NA" is a category where the schema lists it, and an empty cell elsewhere.
        empty = {c: sorted(_EMPTY.difference(listed.get(c, ()))) for c in pd.read_csv(path, nrows=0).columns}
        text = dict.fromkeys((*listed, *keys, *names), str)
        return pd.read_csv(path, dtype=text, na_values=empty, keep_default_na=False, low_memory=False)
    except ValueError as error:
        raise DataError(f"{path.name} cannot be read as a table ({error}): check or replace the file") from error


def _names(frame: pd.DataFrame, column: str) -> Names:

    if column not in frame.columns:
        raise DataError(f"the table has no column {column!r} to take names from; it has {list(frame.columns)}")
    text = category_text(frame[column], column)
    empty = sum(v is None for v in text)
    if empty:
        raise DataError(f"column {column!r}: {empty} of {len(text)} rows name nobody: fill them in or drop the rows")
    return text.astype(np.str_)


def _index(frame: pd.DataFrame) -> Names:
    text = category_text(frame.index.to_series(), "index")
    if any(v is None for v in text):
        raise DataError("the table's index has missing entries: name a column of record ids, or reset the index")
    return text.astype(np.str_)


def _check_codes(attribute: Attribute, values: Matrix) -> None:
    """Refuse values that the schema's coding does not have; a table comes in through from_table, which encodes it."""
    known = values[~np.isnan(values)] if attribute.missing is Missing.KEEP else values
    if isinstance(attribute, Numeric):
        fits = (known >= attribute.lower) & (known <= attribute.upper)
    elif isinstance(attribute, Listed):
        fits = (known >= 0) & (known < len(attribute.categories)) & (known == np.floor(known))
    else:
        fits = np.zeros(len(known), dtype=bool)
    if not fits.all():
        raise DataError(
            f"column {attribute.name!r}: {int((~fits).sum())} of {len(values)} rows hold values outside the schema's "
            "coding: encode the table with Dataset.from_table"
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
