"""Texts as they are read: from a column of a table, or from a folder of files with one folder per class.

A text is not a record by itself. :func:`eupg.protect.features.encoder.encode_records` turns texts into records of
public features, which a workspace keeps. The texts themselves stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eupg.data.attribute import Attribute, Categorical, Key, Role, category_text
from eupg.data.dataset import Labels, Names
from eupg.data.schema import as_frame
from eupg.data.table_file import TableFile
from eupg.errors import DataError, ParameterError

_SUFFIXES = (".txt", ".md", ".eml", "")
_MOST_CLASSES = 100


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts with their labels, the names of the records, and their authors.

    Parameters
    ----------
    texts
        One per record.
    label
        The attribute to predict.
    y
        The class of each text, as a position in the label's categories.
    ids, subjects
        One distinct name per text, and the person it belongs to.
    name
        What the texts are called in the schema.
    person
        The name of the column of authors; None where each text counts as a person.

    Examples
    --------
    >>> label = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
    >>> Texts.of(["hello", "buy now"], [0, 1], label=label, subjects=["ada", "bob"])
    <Texts: 2 texts of 2 people, label 'kind'>
    """

    texts: tuple[str, ...]
    label: Categorical
    y: Labels
    ids: Names
    subjects: Names
    name: str = "text"
    person: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        wrong = next((type(text).__name__ for text in self.texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise DataError(f"expected texts, got a {wrong}: fill missing texts in, or drop their rows")
        if not len(self.texts) == len(self.y) == len(self.ids) == len(self.subjects):
            lengths = f"{len(self.y)}, {len(self.ids)} and {len(self.subjects)}"
            raise DataError(f"{len(self.texts)} texts need as many labels, ids and authors, got {lengths}")

    def __repr__(self) -> str:
        # Counts alone: a text has no place in a log or a traceback.
        people = "" if self.person is None else f" of {len(np.unique(self.subjects)):,} people"
        return f"<Texts: {len(self):,} texts{people}, label {self.label.name!r}>"

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.texts)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes beside the text: the person, if known, and the label."""
        people = () if self.person is None else (Key(name=self.person, role=Role.SUBJECT),)
        return (*people, self.label)

    @classmethod
    def of(
        cls,
        texts: Iterable[str],
        labels: Iterable[int],
        *,
        label: Categorical,
        ids: Iterable[Any] | None = None,
        subjects: Iterable[Any] | None = None,
    ) -> Texts:
        """Return texts with their classes, given as positions in the label's categories."""
        written = tuple(texts)
        names = np.array([str(i) for i in (range(len(written)) if ids is None else ids)], dtype=np.str_)
        people = names if subjects is None else np.array([str(person) for person in subjects], dtype=np.str_)
        y = np.asarray(list(labels), dtype=np.int64)
        return cls(written, label, y, names, people, person=None if subjects is None else "person")


def read_texts(
    source: Any,
    *,
    label: str = "class",
    text: str | None = None,
    subject: str | None = None,
    ids: str | None = None,
    classes: Sequence[str] | None = None,
) -> Texts:
    """Read texts from a column of a table, or from a folder of text files that has one folder per class.

    Parameters
    ----------
    source
        A folder; or a table: a pandas, Arrow or polars table, or a file as :class:`~eupg.data.TableFile` reads them.
    label
        The column to predict; for a folder, what the classes are called.
    text
        The column of the texts; not for a folder.
    subject, ids
        The columns that name the author and the record. In a folder each file counts as a person, and a record's id is
        its path inside the folder.
    classes
        The public list of classes. Without it the classes that occur are used, and claims say that the list was read
        from the records.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        if not (text is None and subject is None and ids is None):
            raise ParameterError(
                f"{source} is a folder, in which files are texts: leave text, subject and ids out, or pass a table"
            )
        return _from_folder(Path(source), label, classes)
    if text is None:
        raise ParameterError("the column of the texts is not named: pass text=…, or a folder of text files")
    frame = (
        TableFile(source).read(names=[n for n in (text, label, subject, ids) if n])
        if isinstance(source, str | Path)
        else as_frame(source)
    )
    return _from_table(frame, text, label, subject, ids, classes)


def _from_table(
    frame: Any, text: str, label: str, subject: str | None, ids: str | None, classes: Sequence[str] | None
) -> Texts:
    for name in (text, label, subject, ids):
        if name is not None and name not in frame.columns:
            raise DataError(f"the table has no column {name!r}; it has {list(frame.columns)}")
    named = [name for name in (text, label, subject, ids) if name is not None]
    if len(set(named)) < len(named) and not (subject is not None and subject == ids):
        raise ParameterError(f"expected different columns for text, label, author and id, got {named}")
    empty = int(frame[text].isna().sum())
    if empty:
        raise DataError(f"column {text!r}: {empty} of {len(frame)} texts are missing: fill them in or drop the rows")
    attribute = _label(label, category_text(frame[label], label), classes)
    y = attribute.encode(frame[label]).astype(np.int64)
    names = _names(frame[ids] if ids else frame.index.to_series(), ids or "index")
    people = _names(frame[subject], subject) if subject else names
    return Texts(tuple(map(str, frame[text])), attribute, y, names, people, text, subject)


def _from_folder(root: Path, label: str, classes: Sequence[str] | None) -> Texts:
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    listed = _label(label, np.array(folders, dtype=object), classes)
    texts, y, names = [], [], []
    for code, name in enumerate(listed.categories):
        files = sorted((root / name).rglob("*")) if (root / name).is_dir() else []
        for path in files:
            if path.is_file() and path.suffix.lower() in _SUFFIXES and not path.name.startswith("."):
                texts.append(_read(path))
                y.append(code)
                names.append(path.relative_to(root).as_posix())
    if not texts:
        raise DataError(f"{root} holds no text of any class: put .txt files into one folder per class")
    ids = np.array(names, dtype=np.str_)
    return Texts(tuple(texts), listed, np.array(y, dtype=np.int64), ids, ids)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): replace or remove it") from error


def _label(name: str, values: Any, classes: Sequence[str] | None) -> Categorical:
    if classes is not None:
        return Categorical(name=name, role=Role.LABEL, categories=tuple(classes))
    if any(value is None for value in values):
        raise DataError(f"column {name!r}: the label of some texts is missing: fill it in or drop the rows")
    distinct = sorted({str(value) for value in values})
    if not 2 <= len(distinct) <= _MOST_CLASSES:
        raise DataError(
            f"the label {name!r} has {len(distinct)} distinct values, expected 2 to {_MOST_CLASSES}: name another "
            "column, or pass the list of classes"
        )
    return Categorical(name=name, role=Role.LABEL, categories=tuple(distinct), inferred=("categories",))


def _names(column: Any, name: str) -> Names:
    texts = category_text(column, name)
    if any(value is None for value in texts):
        raise DataError(f"column {name!r}: some names are empty: fill them in or drop the rows")
    return texts.astype(np.str_)
