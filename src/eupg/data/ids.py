"""Sets and mappings of record ids that a few can leave or join without the others being copied."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import chain
from types import MappingProxyType
from typing import Any

from eupg.data.dataset import RecordId

_Combination = Callable[[frozenset[RecordId], Iterable[RecordId]], frozenset[RecordId]]


class IdSet(Set[RecordId]):
    """A set that does not change; a set with some ids more or fewer shares with it what is the same.

    Ids are spread over buckets by their hash. Where one leaves, its bucket alone is written anew, and the id is not
    kept anywhere. The time this takes grows with the square root of the number of ids.

    Examples
    --------
    >>> ids = IdSet(["1", "2", "3"])
    >>> sorted(ids - {"2"}), len(ids), ids == frozenset("123")
    (['1', '3'], 3, True)
    """

    __slots__ = ("_buckets", "_count")

    def __init__(self, ids: Iterable[RecordId] = ()) -> None:
        ids = frozenset(ids)
        self._buckets = (frozenset[RecordId](),) * max(1, math.isqrt(len(ids)))
        self._replace(ids, frozenset.union)

    def __contains__(self, name: object) -> bool:
        return name in self._buckets[hash(name) % len(self._buckets)]

    def __iter__(self) -> Iterator[RecordId]:
        return chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        return self._count

    def __sub__(self, others: Set[Any]) -> IdSet:
        return self._combined(others, frozenset.difference)

    def __or__(self, others: Set[Any]) -> IdSet:
        return self._combined(others, frozenset.union)

    def _combined(self, others: Iterable[RecordId], combine: _Combination) -> IdSet:
        result = IdSet()
        result._buckets = self._buckets
        result._replace(others, combine)
        return result

    def _replace(self, others: Iterable[RecordId], combine: _Combination) -> None:
        """Combine the buckets in which others belong with those."""
        buckets, spread = list(self._buckets), defaultdict[int, list[RecordId]](list)
        for name in others:
            spread[hash(name) % len(buckets)].append(name)
        for number, names in spread.items():
            buckets[number] = combine(buckets[number], names)
        self._buckets = tuple(buckets)
        self._count = sum(map(len, buckets))

    @classmethod
    def _from_iterable(cls, ids: Iterable[Any]) -> frozenset[Any]:
        return frozenset(ids)


class IdMap(Mapping[RecordId, str]):
    """A mapping from ids that does not change, as :class:`IdSet` is a set that does not.

    Examples
    --------
    >>> people = IdMap({"1": "a", "2": "b"})
    >>> dict(people.without(["2"])), dict(people.joined({"3": "a"})) == {"1": "a", "2": "b", "3": "a"}
    ({'1': 'a'}, True)
    """

    __slots__ = ("_buckets", "_count")

    def __init__(self, items: Mapping[RecordId, str] = MappingProxyType({})) -> None:
        buckets: list[dict[RecordId, str]] = [{} for _ in range(max(1, math.isqrt(len(items))))]
        for name, value in items.items():
            buckets[hash(name) % len(buckets)][name] = value
        self._buckets: tuple[Mapping[RecordId, str], ...] = tuple(buckets)
        self._count = len(items)

    def __getitem__(self, name: RecordId) -> str:
        return self._buckets[hash(name) % len(self._buckets)][name]

    def __iter__(self) -> Iterator[RecordId]:
        return chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        return self._count

    def without(self, names: Iterable[RecordId]) -> IdMap:
        """Return a mapping that lacks these ids."""
        return self._changed(dict.fromkeys(names))

    def joined(self, items: Mapping[RecordId, str]) -> IdMap:
        """Return a mapping that has these items too."""
        changed = self._changed(items)
        # A mapping that began small keeps buckets of the size that the square root promises.
        return IdMap(changed) if len(changed) > 4 * len(changed._buckets) ** 2 else changed

    def _changed(self, items: Mapping[RecordId, str | None]) -> IdMap:
        """Return a mapping in which the buckets of these ids are written anew; None removes an id."""
        buckets, result = list(self._buckets), IdMap()
        fresh: dict[int, dict[RecordId, str]] = {}
        for name, value in items.items():
            number = hash(name) % len(buckets)
            if number not in fresh:
                fresh[number] = dict(buckets[number])
            bucket = fresh[number]
            if value is None:
                bucket.pop(name, None)
            else:
                bucket[name] = value
        result._count = self._count
        for number, bucket in fresh.items():
            result._count += len(bucket) - len(buckets[number])
            buckets[number] = bucket
        result._buckets = tuple(buckets)
        return result
