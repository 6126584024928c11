"""Rows of a schema as inputs of a network or a linear model: scaled numbers and one-hot categories.

Category lists come from the schema. Scales come from the schema or from a release, and a model that starts from another
keeps its scales. They never come from the records: exact means, stored before and after a forget, would reveal the
forgotten record by one subtraction. ``docs/decisions/scales-from-schema.md`` compares this with other scalings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Missing, Numeric, Ordinal
from eupg.data.dataset import Examples, Matrix
from eupg.data.kind import DataKind
from eupg.data.pictures.attribute import Picture
from eupg.data.schema import Schema
from eupg.data.vector import GRID, Vector

# Bounds that span this factor, counted in steps of the resolution, get a logarithmic scale.
_ORDERS = 1000
# Bounds that span this factor get a mixed scale.
_HUNDREDS = 100
# The linear share of a mixed scale; the rest is logarithmic.
_LINEAR = 0.25
# Fewer rows of a release than this give no usable mean and spread.
_ENOUGH = 100
# Pixels are centred and scaled by fixed numbers, so that no model holds the mean colours of anybody's pictures.
_GREY, _CONTRAST = 127.5, 63.75


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns the schema's coding into network inputs.

    Parameters
    ----------
    features
        The attributes, in order.
    centre, spread
        The number subtracted from each feature, and its divisor; 0 and 1 for categories without an order.
    pinned
        Whether the scales are public or those of a release. Files of earlier versions may hold others.
    logarithmic, mixed
        Positions of numeric features on a logarithmic scale, which starts at their lower bound; and of those on a scale
        that is a quarter linear and otherwise logarithmic, from 0 at their lower bound to 1 at their upper bound.
    """

    features: tuple[Attribute, ...]
    centre: NDArray[np.float64]
    spread: NDArray[np.float64]
    pinned: bool = False
    logarithmic: tuple[int, ...] = ()
    mixed: tuple[int, ...] = ()

    @classmethod
    def of_pictures(cls, schema: Schema) -> Encoder:
        """Scale pixels by fixed numbers."""
        return cls(schema.features, np.array([_GREY]), np.array([_CONTRAST]))

    @classmethod
    def of_bounds(cls, schema: Schema) -> Encoder:
        """Take centres and spreads from the schema's public bounds, as if values were uniform; no row is used.

        Bounds from 0 upwards that span three orders of magnitude of the resolution belong to quantities such as an
        income, most values of which are near the lower end: these are uniform on a logarithmic scale. Bounds that span
        two orders may belong to a count, which is similar, or to an age, which is not: these are uniform on a mixed
        scale.
        """
        factors = [(j, _factor(a)) for j, a in enumerate(schema.features) if isinstance(a, Numeric)]
        logarithmic = tuple(j for j, factor in factors if factor >= _ORDERS)
        mixed = tuple(j for j, factor in factors if _HUNDREDS <= factor < _ORDERS)
        plain = cls(schema.features, np.empty(0), np.empty(0), True, logarithmic, mixed)
        ends = [plain._transformed(j, np.array(_bounds(attribute))) for j, attribute in enumerate(schema.features)]
        low, high = np.array(ends, dtype=np.float64).T
        return replace(plain, centre=(low + high) / 2, spread=np.where(high > low, (high - low) / np.sqrt(12), 1.0))

    @classmethod
    def of_release(cls, schema: Schema, X: Matrix) -> Encoder:
        """Take centres and spreads from protected rows, coarsely: spreads are powers of two, centres multiples of half.

        A permutation keeps the sum of each column. Exact scales of two releases, one before and one after a person
        left, would reveal the person's record. Where there are too few rows, the scales of the public bounds stay.
        """
        public = cls.of_bounds(schema)
        if len(X) < _ENOUGH:
            return public
        centre, spread = public.centre.copy(), public.spread.copy()
        for j, attribute in enumerate(schema.features):
            values = public._transformed(j, X[~np.isnan(X[:, j]), j])
            if isinstance(attribute, Categorical) or len(values) < _ENOUGH or np.ptp(values) == 0:
                continue
            spread[j] = 2.0 ** np.round(np.log2(np.std(values)))
            centre[j] = np.round(2 * np.mean(values) / spread[j]) * spread[j] / 2
        return replace(public, centre=centre, spread=spread)

    @classmethod
    def fit(cls, examples: Examples, *, start: Encoder | None = None) -> Encoder:
        """Return the scales for examples: those of ``start``, or of their release, or of the schema."""
        if examples.schema.kind is DataKind.PICTURES:
            return cls.of_pictures(examples.schema)
        if examples.schema.vector is not None:
            # So that inputs have a mean square of about 1, as those of tables and pictures have.
            spread = GRID / np.sqrt(examples.schema.vector.dimension)
            return cls(examples.schema.features, np.array([0.0]), np.array([spread]))
        if start is not None:
            return start
        scales: Encoder | None = getattr(examples, "scales", None)
        return cls.of_bounds(examples.schema) if scales is None else scales

    @property
    def width(self) -> int:
        """Number of inputs."""
        return sum(_width(a) for a in self.features)

    def __call__(self, X: Matrix) -> NDArray[np.float32]:
        """Encode rows; a missing value becomes 0 with a flag of its own."""
        if isinstance(self.features[0], Picture | Vector):
            return np.asarray((X - np.float32(self.centre[0])) / np.float32(self.spread[0]), dtype=np.float32)
        out = np.zeros((len(X), self.width), dtype=np.float32)
        at = 0
        for j, attribute in enumerate(self.features):
            rows = np.flatnonzero(~np.isnan(X[:, j]))
            if isinstance(attribute, Categorical):
                out[rows, at + X[rows, j].astype(np.int64)] = 1.0
            else:
                out[rows, at] = (self._transformed(j, X[rows, j]) - self.centre[j]) / self.spread[j]
            at += _width(attribute)
            if attribute.missing is Missing.KEEP:
                out[np.isnan(X[:, j]), at - 1] = 1.0
        return out

    def _transformed(self, feature: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        attribute = self.features[feature]
        if feature in self.logarithmic:
            return _logarithm(attribute, values)
        if feature not in self.mixed:
            return values
        low, high = _bounds(attribute)
        linear = np.maximum(values - low, 0.0) / (high - low)
        logarithmic = _logarithm(attribute, values) / _logarithm(attribute, np.array(high))
        return _LINEAR * linear + (1 - _LINEAR) * logarithmic

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        values = {"centre": self.centre.tolist(), "spread": self.spread.tolist(), "pinned": self.pinned}
        curves = {"logarithmic": list(self.logarithmic), "mixed": list(self.mixed)}
        return values | {word: features for word, features in curves.items() if features}

    @classmethod
    def from_json(cls, features: tuple[Attribute, ...], values: Mapping[str, Any]) -> Encoder:
        """Read an encoder back."""
        scales = np.array(values["centre"]), np.array(values["spread"])
        logarithmic, mixed = (tuple(int(j) for j in values.get(word, ())) for word in ("logarithmic", "mixed"))
        return cls(features, *scales, bool(values["pinned"]), logarithmic, mixed)


def _width(attribute: Attribute) -> int:
    if isinstance(attribute, Picture):
        return attribute.columns
    if isinstance(attribute, Vector):
        return attribute.dimension
    size = len(attribute.categories) if isinstance(attribute, Categorical) else 1
    return size + (attribute.missing is Missing.KEEP)


def _factor(attribute: Numeric) -> float:
    """Return the ratio of the bounds, counted in steps of the resolution; 1 if the lower bound is negative."""
    step = attribute.resolution
    return (attribute.upper + step) / (attribute.lower + step) if attribute.lower >= 0 else 1.0


def _bounds(attribute: Attribute) -> tuple[float, float]:
    """Return the least and the largest value of a feature; 0 and 0 for categories without an order."""
    if isinstance(attribute, Numeric):
        return attribute.lower, attribute.upper
    return 0.0, float(len(attribute.categories) - 1) if isinstance(attribute, Ordinal) else 0.0


def _logarithm(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(1 + steps of the resolution above the lower bound)."""
    assert isinstance(attribute, Numeric)
    return np.log1p(np.maximum(values - attribute.lower, 0.0) / attribute.resolution)
