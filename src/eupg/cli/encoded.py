"""Records of public features on the command line: texts of a table, and texts or pictures of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.cli.names import EncoderName, encoder
from eupg.cli.options import Columns
from eupg.cli.terminal import Terminal, counted
from eupg.data.kind import DataKind
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.dataset import Dataset
    from eupg.data.schema import Schema
    from eupg.data.sources import Source
    from eupg.data.vector import Vectors
    from eupg.forget.durable import Durable
    from eupg.protect.features.encoder import PublicEncoder

INSTEAD_OF_PIXELS = (
    "Instead of noisy averages or permuted pixels (PixelDP, PixelPermutation), whose claims at a useful quality are "
    "about a few pixels or a group, the private head protects the whole picture and its label with the ε of its row. "
    "Use these mechanisms only where you need protected pictures."
)
# Height and width to which pictures of a folder are brought; an encoder scales them to its own size.
_SIDE = 224


def check_for_features(
    name: EncoderName | None, source: str | None, guarantees: Sequence[str] | None, groups: Sequence[int] | None
) -> None:
    """Refuse a plan of pictures or texts that asks for what is made for tables."""
    if name is None:
        raise ParameterError(
            "--data is a folder: pass --encoder efficientnet-lite0 for pictures or --encoder wordllama for texts. The "
            f"plan then measures the private head and the exact head. {INSTEAD_OF_PIXELS}"
        )
    if source is not None:
        raise ParameterError(f"--encoder is for texts and pictures of your own: pass --data instead of {source!r}")
    if guarantees or groups:
        raise ParameterError(
            "with --encoder the plan measures the private head, at each --epsilon, and the exact head: leave "
            "--guarantee and --k out"
        )


def encoded_source(
    data: str,
    columns: Columns,
    name: EncoderName,
    text: str | None,
    terminal: Terminal,
    *,
    hold_out: float | None,
    seed: int,
) -> Source:
    """Read texts or pictures, encode them, and split them by person."""
    from eupg.cli.tables import split_source

    return split_source(
        Path(data).stem, read_encoded(data, columns, name, text, terminal), hold_out=hold_out, seed=seed
    )


def check_encoder(method: Durable, name: EncoderName | None, text: str | None) -> None:
    """Refuse an encoder without a method for its features, and such a method without an encoder."""
    component = getattr(method, "mechanism", method)
    accepts = getattr(component, "accepts", None)
    for_vectors = accepts is not None and accepts.kind is DataKind.VECTORS
    if for_vectors and name is None:
        raise ParameterError(
            f"{type(component).__name__} works on public features of texts or pictures: pass --encoder wordllama with "
            "--text COL, or --encoder efficientnet-lite0 with a folder of pictures"
        )
    if name is not None and not for_vectors:
        raise ParameterError(
            f"--encoder {name} makes records of public features: pass --method exact-head or --guarantee private-head "
            "with it, or leave it out"
        )
    if text is not None and (name is None or not name.for_texts):
        raise ParameterError(
            "--text names a column of texts: pass --encoder wordllama or --encoder minilm with it, or leave it out"
        )


def read_encoded(source: str, columns: Columns, name: EncoderName, text: str | None, terminal: Terminal) -> Dataset:
    """Read texts or pictures and encode them."""
    from eupg.data.pictures.files import read_images
    from eupg.data.texts import read_texts
    from eupg.protect.features.encoder import encode_records

    refused = [option for option in columns.passed if option not in _OWN and option not in _STORED]
    if refused:
        raise ParameterError(f"{', '.join(refused)} has no meaning with --encoder: leave it out")
    folder = Path(source).is_dir()
    if folder and (columns.passed or text is not None):
        raise ParameterError(
            f"{source} is a folder, in which the class is a folder and the record a file: leave "
            f"{', '.join([*columns.passed, *(['--text'] if text else [])])} out"
        )
    if not name.for_texts:
        if not folder:
            raise DataError(f"--encoder {name} reads a folder of pictures with one folder per class, got {source}")
        return encode_records(read_images(source, size=(_SIDE, _SIDE)), encoder(name))
    if folder:
        return encode_records(read_texts(source), encoder(name))
    if text is None or columns.label is None:
        raise ParameterError("a table of texts needs a column of texts and one to predict: pass --text and --label")
    if columns.subject is None and not columns.no_subject:
        raise ParameterError("who wrote the texts? Pass --subject COL, or --no-subject if each is by another person")
    file = columns.of(source)
    table = file.read(names=[name for name in (text, columns.label, columns.subject, columns.id) if name])
    terminal.tell(file.notes)
    if columns.drop_unlabelled and columns.label in table:
        empty = table[columns.label].isna()
        table = table[~empty]
        terminal.tell([f"{counted(int(empty.sum()), 'row')} without a label left out."] if empty.any() else [])
    texts = read_texts(table, text=text, label=columns.label, subject=columns.subject, ids=columns.id)
    return encode_records(texts, encoder(name))


def known_encoder(schema: Schema) -> PublicEncoder:
    """Return the encoder that a workspace's records were read with; one of a user's own is not known here."""
    vector = schema.vector
    assert vector is not None
    for name in EncoderName:
        candidate = encoder(name)
        if (repr(candidate), candidate.digest) == (vector.encoder, vector.digest):
            return candidate
    raise DataError(
        f"the records of this workspace were encoded by {vector.encoder}, which the command line does not know: encode "
        "them in Python with encode_items, and call Manager.predict"
    )


def encoded_column(table: pd.DataFrame, schema: Schema) -> Vectors:
    """Return the vectors of the column of texts in a table."""
    from eupg.protect.features.encoder import encode_items

    vector, known = schema.vector, known_encoder(schema)
    assert vector is not None
    if known.encodes != "texts":
        raise DataError("a table holds no pictures: encode them in Python with encode_items, and call Manager.predict")
    if vector.name not in table.columns:
        raise DataError(f"the table has no column {vector.name!r} of texts; it has {list(table.columns)}")
    empty = int(table[vector.name].isna().sum())
    if empty:
        raise DataError(f"column {vector.name!r}: {empty} of {len(table)} texts are missing: drop these rows")
    return encode_items(known, [str(text) for text in table[vector.name]])


def texts_to_add(table: pd.DataFrame, schema: Schema, *, ids: str | None) -> Dataset:
    """Return the texts of a table as records under the schema of a workspace."""
    from eupg.data.dataset import Dataset
    from eupg.data.texts import read_texts

    vector, label = schema.vector, schema.label
    assert vector is not None
    X = encoded_column(table, schema)
    subject = None if schema.subject is None else schema.subject.name
    texts = read_texts(table, text=vector.name, label=label.name, subject=subject, ids=ids, classes=label.categories)
    return Dataset(schema, X, texts.y, texts.ids, texts.subjects)


_OWN = ("--label", "--subject", "--no-subject", "--id", "--drop-unlabelled")
_STORED = ("--sep", "--encoding", "--decimal", "--query", "--table")
