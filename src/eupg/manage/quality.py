"""The quality of a served model on people whom no model ever saw, as aggregates that may stay in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from eupg.manage.ledger.events import Json

if TYPE_CHECKING:
    from eupg.data.dataset import Dataset
    from eupg.data.score import Probabilities
    from eupg.learn.learner import Model

QUALITY = "quality"
# Figures about fewer people would be about each of them.
_FEWEST_PEOPLE = 20
# If one class has at least this share, always naming it is nearly always right.
_RARE = 0.9
_95_PERCENT = 1.959964
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, influence: Values, people: NDArray[np.intp], *, least: float = 0.0) -> Self:
        """Return a figure from the influence of each record on it; records of one person vary together."""
        spread = _spread(influence, people)
        # Rounded to what is shown: further digits would only tell more about single people.
        return cls(*(round(float(v), 3) for v in (value, max(least, value - spread), min(1.0, value + spread))))

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Quality:
    """How well a model does on people held out.

    Parameters
    ----------
    served
        The digest of the model.
    records, people
        How many were held out.
    accuracy, auc
        Each with its interval; the AUC where there are two classes, both among the records.
    accuracy_change, auc_change
        Against the model before, on the same records; None where the model did not change.
    classes
        The share of each class.
    names_people
        Whether it is known which records belong to one person.
    """

    served: str
    records: int
    people: int
    accuracy: Estimate
    auc: Estimate | None
    accuracy_change: Estimate | None
    auc_change: Estimate | None
    classes: Mapping[str, float]
    names_people: bool = True

    def to_json(self) -> dict[str, Json]:
        """Return plain values."""
        return {n: dict(vars(v)) if isinstance(v, Estimate) else v for n, v in vars(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returned; other entries are ignored."""
        names = ("accuracy", "auc", "accuracy_change", "auc_change")
        estimates: dict[str, Any] = {n: None if values[n] is None else Estimate(**values[n]) for n in names}
        plain = {n: values[n] for n in ("served", "records", "people", "classes", "names_people")}
        return cls(**plain, **estimates)

    @property
    def lines(self) -> list[str]:
        """The figures in words: one line, and a warning where accuracy says little."""
        figures = [f"AUC {self.auc}"] if self.auc is not None else []
        units = "people" if self.names_people else "records"
        line = f"{', '.join([*figures, f'accuracy {self.accuracy}'])} on {self.people:,} {units} held out"
        change = self.auc_change or self.accuracy_change
        if change is not None:
            low, high = 100 * change.low, 100 * change.high
            line += f"; change against the model before: {100 * change.value:+.1f} ({low:+.1f} to {high:+.1f})"
        common = max(self.classes, key=lambda name: self.classes[name])
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.classes.items())
        lines = [f"Quality: {line}. Classes: {shares}."]
        if self.classes[common] >= _RARE:
            lines.append(
                f"Accuracy says little here: always answering {common!r} is right for {self.classes[common]:.1%} of "
                "the records. Look at the AUC, and at precision and recall."
            )
        return lines


def quality_of(served: str, model: Model, held_out: Dataset, before: Model | None) -> Quality | None:
    """Measure a model on the records held out, beside the model before; None where too few people are held out."""
    names, people = np.unique(held_out.subjects, return_inverse=True)
    if len(names) < _FEWEST_PEOPLE:
        return None
    y, classes = held_out.y, held_out.schema.classes
    both = classes == 2 and 0 < y.sum() < len(y)
    each = [_influences(m.predict_proba(held_out.X), y, both=both) for m in (model, before) if m is not None]

    def estimate(figure: int) -> tuple[Estimate, Estimate | None]:
        (value, influence), *others = (e[figure] for e in each)
        change = [Estimate.of(value - v, influence - i, people, least=-1.0) for v, i in others]
        return Estimate.of(value, influence, people), change[0] if change else None

    accuracy, accuracy_change = estimate(0)
    auc, auc_change = estimate(1) if both else (None, None)
    shares = np.bincount(y, minlength=classes) / len(y)
    labels = {
        str(name): round(float(share), 4) for name, share in zip(held_out.schema.label.categories, shares, strict=True)
    }
    return Quality(
        served, len(y), len(names), accuracy, auc, accuracy_change, auc_change, labels, held_out.names_people
    )


def utility_spread(chances: Probabilities, data: Dataset, *, auc: bool) -> float:
    """Return half the width of the 95 % interval of a model's AUC or accuracy on some people."""
    people = np.unique(data.subjects, return_inverse=True)[1]
    return _spread(_influences(chances, data.y, both=auc)[-1][1], people)


def _spread(influence: Values, people: NDArray[np.intp]) -> float:
    return _95_PERCENT * float(np.sqrt((np.bincount(people, influence) ** 2).sum()))


def _influences(chances: Probabilities, y: NDArray[np.integer], *, both: bool) -> list[tuple[float, Values]]:
    """Return accuracy and AUC, each with the influence of every record on it."""
    right = (chances.argmax(axis=1) == y).astype(np.float64)
    figures = [(float(right.mean()), (right - right.mean()) / len(y))]
    if both:
        # Not at the top: a look at the status reads figures, and computes none.
        from eupg.audit.membership.roc import average_ranks

        scores, positive = chances[:, 1], y == 1
        # The share of the other class that a record beats, counting ties as half (DeLong et al. 1988).
        among_all = average_ranks(scores)
        beaten = np.empty(len(y))
        for mine in (positive, ~positive):
            beaten[mine] = (among_all[mine] - average_ranks(scores[mine])) / (~mine).sum()
        beaten[~positive] = 1 - beaten[~positive]
        value = float(beaten[positive].mean())
        figures.append((value, (beaten - value) / np.where(positive, positive.sum(), (~positive).sum())))
    return figures
