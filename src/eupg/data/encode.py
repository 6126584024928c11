"""Rows of a schema as the numbers a network or a linear model wants: z-scores and one-hot categories.

Category lists come from the schema. Means and spreads come from the examples at hand and belong to the model fitted on
them; none of them outlives a forget. A model that goes on from another takes the new examples' scales, unless the first
one's are pinned: those of a k-anonymous release are, since beside it exact means of the retained records would betray
the forgotten ones. ``docs/architecture.md`` compares this with other scalings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Missing
from eupg.data.dataset import Examples, Matrix

# Fewer rows than this give no usable mean and spread; a model that goes on from another then keeps that one's.
_ENOUGH = 100


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
    """

    features: tuple[Attribute, ...]
    centre: NDArray[np.float64]
    spread: NDArray[np.float64]
    pinned: bool = False

    @classmethod
    def fit(cls, examples: Examples, *, start: Encoder | None = None) -> Encoder:
        """Take means and spreads from the examples, or from ``start`` where it is pinned or the examples too few."""
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
        out = np.zeros((len(X), self.width), dtype=np.float32)
        at = 0
        for j, attribute in enumerate(self.features):
            rows = np.flatnonzero(~np.isnan(X[:, j]))
            if isinstance(attribute, Categorical):
                out[rows, at + X[rows, j].astype(np.int64)] = 1.0
            else:
                out[rows, at] = (X[rows, j] - self.centre[j]) / self.spread[j]
            at += _width(attribute)
            if attribute.missing is Missing.KEEP:
                out[np.isnan(X[:, j]), at - 1] = 1.0
        return out

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        return {"centre": self.centre.tolist(), "spread": self.spread.tolist(), "pinned": self.pinned}

    @classmethod
    def from_json(cls, features: tuple[Attribute, ...], values: Mapping[str, Any]) -> Encoder:
        """Read an encoder back."""
        return cls(features, np.array(values["centre"]), np.array(values["spread"]), bool(values["pinned"]))


def _width(attribute: Attribute) -> int:
    size = len(attribute.categories) if isinstance(attribute, Categorical) else 1
    return size + (attribute.missing is Missing.KEEP)
