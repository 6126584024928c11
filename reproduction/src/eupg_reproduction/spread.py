"""A mean with its standard deviation over repetitions, and when two of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of ``count`` values.

    The deviation divides by the number of values, as in ``eupg compare``. It is the smaller of the two usual estimates,
    so that agreement is not declared too early.

    Examples
    --------
    >>> ours, paper = Spread.of([85.0, 85.2]), Spread(85.4, 0.2, 5)
    >>> str(ours), round(ours.minus(paper), 2), ours.agrees(paper), ours.agrees(Spread(85.5, 0.2, 5))
    ('85.10 ± 0.10', -0.3, True, False)
    """

    mean: float
    std: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise values."""
        return cls(fmean(values), pstdev(values), len(values))

    def minus(self, other: Spread) -> float:
        """Return this mean minus the other."""
        return self.mean - other.mean

    def agrees(self, other: Spread) -> bool:
        """Return whether the means differ by at most the sum of the standard deviations."""
        # Rounded, because 0.3 is more than 0.1 + 0.2 in floating point.
        return round(abs(self.minus(other)), 9) <= round(self.std + other.std, 9)

    def __str__(self) -> str:
        """Return mean and deviation with two decimals."""
        return f"{self.mean:.2f} ± {self.std:.2f}"
