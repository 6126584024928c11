"""The shard and slice of each record: by keyed digest, so that a person who leaves does not move anyone else.

In a balanced deal a person's place would depend on who else was there. A digest draws each person's place uniformly and
for that person alone, so the shards of those who stay are those of a training without the person who left.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.guarantees import Unit
from eupg.rng import Randomness

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Sharding:
    """A rule that gives each person, or each record, one of ``shards × slices`` places.

    Parameters
    ----------
    key
        The key of the digests.
    shards, slices
        Place p is slice ``p % slices`` of shard ``p // slices``.
    unit
        Whether all records of a person share a place.
    cuts
        Where one place ends and the next begins, when people are ordered by the likelihood of a request.
    """

    key: bytes = field(repr=False)
    shards: int
    slices: int
    unit: Unit
    cuts: tuple[tuple[float, int], ...] | None = None

    @classmethod
    def draw(
        cls,
        data: Dataset,
        rng: Randomness,
        *,
        shards: int,
        slices: int,
        unit: Unit,
        likelihood: Mapping[str, float] | None,
    ) -> Sharding:
        """Draw a rule; with likelihoods, one with equally full places and the likeliest people in the last ones."""
        rule = cls(rng.words(4).tobytes(), shards, slices, unit)
        if likelihood is None:
            return rule
        ranked = sorted(
            (likelihood.get(name, 0.0), rule._digest(name)) for name in np.unique(rule._names(data)).tolist()
        )
        places = shards * slices
        cuts = tuple(ranked[len(ranked) * i // places] for i in range(1, places)) if ranked else ()
        return replace(rule, cuts=cuts)

    def places(self, data: Dataset, likelihood: Mapping[str, float] | None) -> Places:
        """Return the place of each record."""
        names, back = np.unique(self._names(data), return_inverse=True)
        each = [self._place(name, likelihood) for name in names.tolist()]
        return np.array(each, dtype=np.int64)[back] if each else np.empty(0, dtype=np.int64)

    def _place(self, name: str, likelihood: Mapping[str, float] | None) -> int:
        if self.cuts is None:
            return self._digest(name) * self.shards * self.slices >> 64
        return bisect_right(self.cuts, ((likelihood or {}).get(name, 0.0), self._digest(name)))

    def _names(self, data: Dataset) -> NDArray[np.str_]:
        return data.subjects if self.unit is Unit.PERSON else data.ids

    def _digest(self, name: str) -> int:
        return int.from_bytes(hashlib.blake2b(name.encode(), key=self.key, digest_size=8).digest(), "big")
