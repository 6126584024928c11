"""How a raw row becomes a model's input, as plain rules that need no schema: one rule per column.

The rules say what :class:`~eupg.data.rows.RowReader` does without ``strict``, and then what the model's encoder does.
``preprocessing.json`` holds them for ``predict.py``, and the ONNX graph is built from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eupg.data.attribute import Attribute, Categorical, Listed, Missing, Numeric, Outside
from eupg.data.date import Date
from eupg.data.encode import Encoder
from eupg.data.schema import Schema


@dataclass(frozen=True)
class ScaleRule:
    """How a number is scaled: first its curve, then minus ``centre``, then divided by ``spread``.

    The curve is ``linear``; ``logarithmic``: log(1 + (x − lower) / resolution); or ``mixed``: a quarter of
    (x − lower) / (upper − lower), and three quarters of the logarithm divided by that of ``upper``.
    """

    curve: str
    centre: float
    spread: float
    resolution: float


@dataclass(frozen=True)
class ColumnRule:
    """What becomes of the values of one column.

    Parameters
    ----------
    name
        The column's name in the table.
    missing, fill
        Whether a missing value is kept as missing, refused, or filled with this number or code.
    lower, upper, below, above
        Of numbers: the bounds, and whether a number beyond each is clipped or refused.
    date
        Of dates, which become days since 1 January 1970: how a table writes them.
    categories, ordered, unseen
        Of categories: the list, in which a value's position is its code; whether the order means something; and
        what an unlisted value is: a code, or None for missing, or "refuse".
    scale, flag
        Of models that read scaled numbers and one-hot categories: the scale (None: one input per category), and
        whether a last input says that the value is missing.
    """

    name: str
    missing: str
    fill: float | None = None
    lower: float = 0.0
    upper: float = 0.0
    below: str = "refuse"
    above: str = "refuse"
    date: str | None = None
    categories: tuple[str, ...] = ()
    ordered: bool = True
    unseen: float | str | None = None
    scale: ScaleRule | None = None
    flag: bool = False

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs of a model that reads scaled numbers and one-hot categories."""
        names = [self.name] if self.ordered else [f"{self.name}={category}" for category in self.categories]
        return [*names, *([f"{self.name} is missing"] if self.flag else ())]

    def to_json(self) -> dict[str, Any]:
        """Return the values that matter for this kind of column."""
        numeric, listed = ("lower", "upper", "below", "above"), ("categories", "ordered", "unseen")
        left_out = {*(numeric if self.categories else listed), *(() if self.missing == Missing.FILL else ("fill",))}
        left_out |= {word for word in ("date", "scale", "flag") if not getattr(self, word)}
        return {word: value for word, value in asdict(self).items() if word not in left_out}


def column_rules(schema: Schema, encoder: Encoder | None) -> list[ColumnRule]:
    """Return the rules of a table's features; ``encoder`` is that of a model that does not read codes as they are."""
    scales: Sequence[ScaleRule | None] = [None] * len(schema.features)
    if encoder is not None:
        scales = [_scale(encoder, column, attribute) for column, attribute in enumerate(schema.features)]
    return [_rule(a, scale, encoder is not None) for a, scale in zip(schema.features, scales, strict=True)]


def _rule(attribute: Attribute, scale: ScaleRule | None, encoded: bool) -> ColumnRule:
    assert isinstance(attribute, Numeric | Listed)
    inferred = not {"lower", "upper", "categories"}.isdisjoint(attribute.inferred)
    missing = Missing.KEEP if attribute.missing is Missing.REFUSE and inferred else attribute.missing
    flag = encoded and attribute.missing is Missing.KEEP
    if isinstance(attribute, Numeric):
        clipped = [attribute.outside is Outside.CLIP or side in attribute.inferred for side in ("lower", "upper")]
        below, above = ("clip" if clip else "refuse" for clip in clipped)
        return ColumnRule(
            attribute.name,
            missing,
            attribute.fill,
            lower=attribute.lower,
            upper=attribute.upper,
            below=below,
            above=above,
            date=attribute.format if isinstance(attribute, Date) else None,
            scale=scale,
            flag=flag,
        )
    unseen: float | str | None = None if inferred else "refuse"
    return ColumnRule(
        attribute.name,
        missing,
        None if attribute.fill is None else attribute.codes[attribute.fill],
        categories=attribute.categories,
        ordered=not isinstance(attribute, Categorical),
        unseen=unseen if attribute.other is None else attribute.codes[attribute.other],
        scale=scale,
        flag=flag,
    )


def _scale(encoder: Encoder, column: int, attribute: Attribute) -> ScaleRule | None:
    if isinstance(attribute, Categorical):
        return None
    curve = "logarithmic" if column in encoder.logarithmic else "mixed" if column in encoder.mixed else "linear"
    resolution = attribute.resolution if isinstance(attribute, Numeric) else 1.0
    return ScaleRule(curve, float(encoder.centre[column]), float(encoder.spread[column]), resolution)
