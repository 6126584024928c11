"""Rows of a schema as the numbers a network or a linear model wants: z-scores and one-hot categories.

Category lists come from the schema. Means and spreads come from the examples at hand and belong to the model fitted on
them; none of them outlives a forget. A model that goes on from another takes the new examples' scales, unless the first
one's are pinned: those of a k-anonymous release are, since beside it exact means of the retained records would betray
the forgotten ones. ``docs/architecture.md`` compares this with other scalings. Where training itself is to be private,
scales come from the schema's public bounds alone and are pinned, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Missing, Numeric, Ordinal
from eupg.data.dataset import Examples, Matrix
from eupg.data.picture import Picture
from eupg.data.schema import Schema

# Fewer rows than this give no usable mean and spread; a model that goes on from another then keeps that one's.
_ENOUGH = 100
# Bounds that span this factor, counted in steps of the resolution, are taken for a quantity on a logarithmic scale.
_ORDERS = 1000
# Pixels are centred and scaled by fixed numbers, so that no model carries the mean colours of anybody's pictures.
_GREY, _CONTRAST = 127.5, 63.75


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns the schema's coding into network inputs.

    Parameters
    ----------
    features
        The attributes, in order.
    centre, spread
        Mean and standard deviation of each feature; 0 and 1 for categories without an order.
    pinned
        Whether models that go on from this one keep its scales.
    logarithmic
        Positions of numeric features that are read on a logarithmic scale, from their lower bound on.
    """

    features: tuple[Attribute, ...]
    centre: NDArray[np.float64]
    spread: NDArray[np.float64]
    pinned: bool = False
    logarithmic: tuple[int, ...] = ()

    @classmethod
    def of_bounds(cls, schema: Schema) -> Encoder:
        """Take centres and spreads from the schema's public bounds, as if values lay evenly; look at no row.

        Bounds from 0 upwards that span three orders of magnitude of the resolution belong to something like an income,
        of which most values lie near the lower end: those are spread evenly on a logarithmic scale.
        """
        logarithmic = tuple(j for j, a in enumerate(schema.features) if isinstance(a, Numeric) and _spans_orders(a))
        ends = [_ends(a, logarithmic=j in logarithmic) for j, a in enumerate(schema.features)]
        low, high = np.array(ends, dtype=np.float64).T
        return cls(
            schema.features,
            (low + high) / 2,
            np.where(high > low, (high - low) / np.sqrt(12), 1.0),
            pinned=True,
            logarithmic=logarithmic,
        )

    @classmethod
    def fit(cls, examples: Examples, *, start: Encoder | None = None) -> Encoder:
        """Take means and spreads from the examples, or from ``start`` where it is pinned or the examples too few."""
        if examples.schema.picture is not None:
            return cls(examples.schema.features, np.array([_GREY]), np.array([_CONTRAST]))
        if start is not None and (start.pinned or len(examples.y) < _ENOUGH):
            return start
        nominal = np.array([isinstance(a, Categorical) for a in examples.schema.features])
        empty = np.isnan(examples.X)
        known = np.maximum((~empty).sum(axis=0), 1)
        centre = np.where(empty, 0.0, examples.X).sum(axis=0) / known
        spread = np.sqrt((np.where(empty, 0.0, examples.X - centre) ** 2).sum(axis=0) / known)
        return cls(
            examples.schema.features,
            np.where(nominal, 0.0, centre),
            np.where(nominal | (spread == 0), 1.0, spread),
            pinned=bool(getattr(examples, "pins_scales", False)),
        )

    @property
    def width(self) -> int:
        """Number of inputs."""
        return sum(_width(a) for a in self.features)

    def __call__(self, X: Matrix) -> NDArray[np.float32]:
        """Encode rows; a missing value becomes 0 with a flag of its own."""
        if isinstance(self.features[0], Picture):
            return np.asarray((X - np.float32(self.centre[0])) / np.float32(self.spread[0]), dtype=np.float32)
        out = np.zeros((len(X), self.width), dtype=np.float32)
        at = 0
        for j, attribute in enumerate(self.features):
            rows = np.flatnonzero(~np.isnan(X[:, j]))
            if isinstance(attribute, Categorical):
                out[rows, at + X[rows, j].astype(np.int64)] = 1.0
            else:
                values = _logarithm(attribute, X[rows, j]) if j in self.logarithmic else X[rows, j]
                out[rows, at] = (values - self.centre[j]) / self.spread[j]
            at += _width(attribute)
            if attribute.missing is Missing.KEEP:
                out[np.isnan(X[:, j]), at - 1] = 1.0
        return out

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        values = {"centre": self.centre.tolist(), "spread": self.spread.tolist(), "pinned": self.pinned}
        return values | ({"logarithmic": list(self.logarithmic)} if self.logarithmic else {})

    @classmethod
    def from_json(cls, features: tuple[Attribute, ...], values: Mapping[str, Any]) -> Encoder:
        """Read an encoder back."""
        scales = np.array(values["centre"]), np.array(values["spread"])
        logarithmic = tuple(int(j) for j in values.get("logarithmic", ()))
        return cls(features, *scales, bool(values["pinned"]), logarithmic)


def _width(attribute: Attribute) -> int:
    if isinstance(attribute, Picture):
        return attribute.columns
    size = len(attribute.categories) if isinstance(attribute, Categorical) else 1
    return size + (attribute.missing is Missing.KEEP)


def _spans_orders(attribute: Numeric) -> bool:
    step = attribute.resolution
    return attribute.lower >= 0 and (attribute.upper + step) / (attribute.lower + step) >= _ORDERS


def _ends(attribute: Attribute, *, logarithmic: bool) -> tuple[float, float]:
    """Return the least and the largest value a feature can have; 0 and 0 for categories without an order."""
    if isinstance(attribute, Numeric):
        ends = np.array([attribute.lower, attribute.upper])
        low, high = _logarithm(attribute, ends) if logarithmic else ends
        return float(low), float(high)
    return 0.0, float(len(attribute.categories) - 1) if isinstance(attribute, Ordinal) else 0.0


def _logarithm(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(1 + steps of the resolution above the lower bound)."""
    assert isinstance(attribute, Numeric)
    return np.log1p(np.maximum(values - attribute.lower, 0.0) / attribute.resolution)
