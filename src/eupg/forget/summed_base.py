"""A base model with the sums over the records it was fine-tuned on: a record that leaves is subtracted from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from eupg.learn.learner import Model, Sums


@dataclass(frozen=True, eq=False)
class SummedBase:
    """A base model and the sums that fine-tuning needs.

    Parameters
    ----------
    base
        The model.
    sums
        Over the records that are seen raw. They name nobody, and they are personal data as the records are.
    """

    base: Model
    sums: Sums = field(repr=False)
