"""Who may be seen raw: decided for each person once, by chance alone, and for each independently of all others.

A person's chance must not depend on who else is there, who came before or who has left. Otherwise the people a model is
fitted on would tell something about someone who is gone. A keyed digest of the name gives each person a coin of their
own. The key is drawn from the operating system, so nobody can foresee a coin; in a seeded run it is the same each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.rng import Randomness

Rows = NDArray[np.bool_]
_BITS = 64
_NAMES_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Lottery:
    """A decision for every person, those included who have not come yet.

    Parameters
    ----------
    share
        The probability that a person is drawn.
    key
        Makes the digests that decide; without it they say nothing.
    drawn_before, passed_before
        Digests of people whose decision was made under another key, or by a top-up. They keep it.
    decided
        The same by name, for as long as the names are in memory: no digest is computed for these people.
    """

    share: float
    key: bytes = field(repr=False)
    drawn_before: frozenset[int] = field(default=frozenset(), repr=False)
    passed_before: frozenset[int] = field(default=frozenset(), repr=False)
    decided: Mapping[str, bool] = field(default_factory=dict, repr=False)

    @classmethod
    def start(cls, share: float, rng: Randomness) -> Lottery:
        """Begin a lottery in which nobody's decision is known yet."""
        return cls(float(share), rng.stage("exposure").words(4).tobytes())

    def keeping(self, *, drawn: Iterable[str] = (), passed: Iterable[str] = ()) -> Lottery:
        """Return the lottery in which these people keep the decisions that were made for them before."""
        yes = frozenset(map(self._digest, drawn))
        no = frozenset(map(self._digest, passed))
        before, after = self.drawn_before | yes, (self.passed_before | no) - yes
        # Whoever is named here is found by digest from now on.
        named = yes | no
        decided = {name: was for name, was in self.decided.items() if self._digest(name) not in named}
        return replace(self, drawn_before=before, passed_before=after, decided=decided if named else self.decided)

    def deciding(self, decided: Mapping[str, bool]) -> Lottery:
        """Return the lottery in which these people keep the decisions that were made for them before, by name."""
        return replace(self, decided={**self.decided, **decided})

    def drawn(self, data: Dataset) -> Rows:
        """Tell for each record whether its person is drawn."""
        # A part at a time, so that not every name becomes a Python object at once.
        parts = [self._drawn(data.subjects[i : i + _NAMES_AT_ONCE]) for i in range(0, len(data), _NAMES_AT_ONCE)]
        return np.concatenate([np.empty(0, dtype=bool), *parts])

    def _drawn(self, subjects: NDArray[np.str_]) -> Rows:
        names = subjects.tolist()
        decisions = list(map(self.decided.get, names))
        unknown = {name for name, was in zip(names, decisions, strict=True) if was is None}
        if unknown:
            new = {name: self._decide(name) for name in unknown}
            decisions = [new[name] if was is None else was for name, was in zip(names, decisions, strict=True)]
        return np.array(decisions, dtype=bool)

    def topped_up(self, data: Dataset, rng: Randomness) -> Lottery:
        """Return the lottery with further people drawn, all equally likely, until the share of people is reached."""
        people = np.unique(data.subjects)
        chosen = self._people(people)
        others = people[~chosen]
        wanted = max(0, round(self.share * len(people)) - int(chosen.sum()))
        return self.keeping(drawn=others[rng.stage("top up").permutation(len(others))[:wanted]].tolist())

    def _people(self, people: NDArray[np.str_]) -> Rows:
        return np.fromiter((self._decide(name) for name in people.tolist()), dtype=bool, count=len(people))

    def _decide(self, name: str) -> bool:
        known = self.decided.get(name)
        if known is not None:
            return known
        digest = self._digest(name)
        if digest in self.drawn_before:
            return True
        # A share of 1 lies above every digest, a share of 0 above none.
        return digest < int(self.share * 2**_BITS) and digest not in self.passed_before

    def _digest(self, name: str) -> int:
        return int.from_bytes(hashlib.blake2b(name.encode(), key=self.key, digest_size=_BITS // 8).digest(), "big")


def exposed_people(data: Dataset, share: float, rng: Randomness) -> Dataset:
    """Return the records of the people whom EUPG draws at this exposure and randomness."""
    return data.select(Lottery.start(share, rng).drawn(data))
