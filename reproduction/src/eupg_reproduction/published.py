"""The figures that the paper printed, for comparison with ours."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from eupg_reproduction.spread import Spread

RUNS = 5
_METHODS = {
    "Retrain": "retrain",
    "SISA": "sisa",
    "Certified-SP": "certified-sp",
    "EUPG k=30": "eupg-k",
    "EUPG ε=1": "eupg-dp",
}


def published(
    table: str,
    dataset: str,
    model: str,
    method: str,
    metric: str,
    phase: str = "after",
    *,
    forget: float = 0.05,
    epochs: int = 5,
) -> Spread | None:
    """Return a figure of the paper, mean and standard deviation over 5 runs; None if it has none.

    Parameters
    ----------
    table
        One of the paper's tables, by the name it has in ``published.csv``.
    dataset, model, method
        By the names that experiments use.
    metric, phase
        Such as ``utility``, ``before``.
    forget
        The share of records forgotten.
    epochs
        Epochs or trees of fine-tuning: 5 in all tables except ``ft_epochs``.

    Examples
    --------
    >>> str(published("quality_mlp", "adult", "mlp", "EUPG k=30", "utility", "before"))
    '85.64 ± 0.08'
    >>> published("quality_mlp", "adult", "mlp", "Short retrain", "utility") is None
    True
    >>> str(published("ft_epochs", "cifar10", "resnet18", "EUPG ε=1", "utility", epochs=50))
    '92.61 ± 0.26'
    """
    return _figures().get((table, dataset, model, _METHODS.get(method, ""), metric, phase, forget, epochs))


@cache
def _figures() -> dict[tuple[str, str, str, str, str, str, float, int], Spread]:
    text = files("eupg_reproduction").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (
            row["table"],
            row["dataset"],
            row["model"],
            row["method"],
            row["metric"],
            row["phase"],
            float(row["forget_ratio"]),
            int(row["finetune_epochs"]),
        ): Spread(float(row["mean"]), float(row["std"]), RUNS)
        for row in csv.DictReader(text.splitlines())
    }
