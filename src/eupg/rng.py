"""Sources of randomness: the operating system for real protection, a seed for experiments.

A permutation or a noise value protects only as long as nobody can repeat it, so :class:`Secret` asks the operating
system and stores nothing. :class:`Seeded` repeats an experiment exactly. Anyone who knows the seed can undo the
protection, and everything made with a seed says so. Each stage of the flow draws from a stream of its own, named after
the stage: forgetting twice repeats the fine-tuning stream, and a new step in one stage does not change another.
"""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from eupg.errors import ParameterError
from eupg.validation import is_whole


class Randomness(ABC):
    """A source of random bits that knows whether it can be repeated."""

    seeded: bool

    @abstractmethod
    def stage(self, name: str) -> Randomness:
        """Return the stream of this name; it does not depend on draws from this one."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw independent uniform integers from 0 to 2⁶³−1."""

    def words_at(self, first: int, count: int) -> NDArray[np.uint64]:
        """Return the words from place ``first`` on of those that a new stream of this name draws.

        So the parts of a table can draw, each for itself, what the whole table would draw at once. A source that cannot
        be repeated draws new words.
        """
        return self.words(count)

    @abstractmethod
    def generator(self) -> np.random.Generator:
        """Return a NumPy generator for steps that carry no privacy claim, such as initial weights."""

    def permutation(self, count: int) -> NDArray[np.intp]:
        """Draw a uniform permutation of ``count`` positions."""
        return self.permutation_within(np.zeros(count, dtype=np.int64))

    def permutation_within(self, groups: NDArray[np.int64]) -> NDArray[np.intp]:
        """Draw a uniform permutation inside each group, independent between groups.

        Entry ``i`` is the position whose value moves to position ``i``; both lie in the same group.
        """
        home = np.argsort(groups, kind="stable")
        while True:
            keys = self.words(len(groups))
            drawn = np.lexsort((keys, groups))
            tied = (keys[drawn[1:]] == keys[drawn[:-1]]) & (groups[drawn[1:]] == groups[drawn[:-1]])
            # Equal keys would fall in index order, so they are drawn again: every order stays exactly as likely.
            if not tied.any():
                source = np.empty(len(groups), dtype=np.intp)
                source[home] = drawn
                return source


class Secret(Randomness):
    """Randomness of the operating system; nothing is stored, and nothing can be repeated."""

    seeded = False

    def stage(self, name: str) -> Secret:
        """Return this source: the bits of the operating system are independent anyway."""
        return self

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw independent uniform integers from 0 to 2⁶³−1 from the operating system."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(1)

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator started from the operating system's entropy."""
        return np.random.default_rng()


class Seeded(Randomness):
    """Randomness that can be repeated: for experiments and tests, never for protection.

    Parameters
    ----------
    seed
        Any non-negative integer.

    Examples
    --------
    >>> a, b = Seeded(7).stage("protect"), Seeded(7).stage("protect")
    >>> bool((a.words(3) == b.words(3)).all())
    True
    """

    seeded = True

    def __init__(self, seed: int, path: tuple[str, ...] = ()) -> None:
        if not is_whole(seed) or seed < 0:
            raise ParameterError(f"a seed is a non-negative integer, got {seed!r}: pass for example Seeded(7)")
        self.seed = int(seed)
        self.path = path
        self._stream = self._fresh("words")

    def stage(self, name: str) -> Seeded:
        """Return the stream of this name, always the same for the same seed and name."""
        return Seeded(self.seed, (*self.path, name))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw the next integers from 0 to 2⁶³−1 of this stream."""
        return _uniform(self._stream, count)

    def words_at(self, first: int, count: int) -> NDArray[np.uint64]:
        """Return words of a new stream of this stage, without drawing those before them.

        Examples
        --------
        >>> bool((Seeded(7).words_at(2, 3) == Seeded(7).words(5)[2:]).all())
        True
        """
        stream = self._fresh("words")
        # A word of 63 bits takes exactly one step of the generator.
        stream.bit_generator.advance(first)  # type: ignore[attr-defined]
        return _uniform(stream, count)

    def generator(self) -> np.random.Generator:
        """Return the NumPy generator of this stage, each time from its beginning."""
        return self._fresh("generator")

    def _fresh(self, purpose: str) -> np.random.Generator:
        key = tuple(zlib.crc32(name.encode()) for name in (*self.path, purpose))
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def __repr__(self) -> str:
        """Show the seed and the stage."""
        return f"Seeded({self.seed}, {'/'.join(self.path) or 'root'})"


def _uniform(stream: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return stream.integers(0, 2**63, size=count, dtype=np.uint64)
