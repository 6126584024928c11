"""The paper's own figures, as it printed them: what ours are compared with."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from eupg.bench.spread import Spread

RUNS = 5
_METHODS = {
    "Retrain": "retrain",
    "SISA": "sisa",
    "Certified-SP": "certified-sp",
    "EUPG k=30": "eupg-k",
    "EUPG ε=1": "eupg-dp",
}


def published(
    table: str, dataset: str, model: str, method: str, metric: str, phase: str = "after", *, forget: float = 0.05
) -> Spread | None:
    """Return a figure of the paper, mean and standard deviation over 5 runs; None where it has none.

    Parameters
    ----------
    table
        One of the paper's tables, by the name it has in ``published.csv``.
    dataset, model, method
        In the words of the experiments.
    metric, phase
        Such as ``utility``, ``before``.
    forget
        The share of records forgotten.

    Examples
    --------
    >>> str(published("quality_mlp", "adult", "mlp", "EUPG k=30", "utility", "before"))
    '85.64 ± 0.08'
    >>> published("quality_mlp", "adult", "mlp", "Short retrain", "utility") is None
    True
    """
    return _figures().get((table, dataset, model, _METHODS.get(method, ""), metric, phase, forget))


@cache
def _figures() -> dict[tuple[str, str, str, str, str, str, float], Spread]:
    text = files("eupg.bench").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (
            row["table"],
            row["dataset"],
            row["model"],
            row["method"],
            row["metric"],
            row["phase"],
            float(row["forget_ratio"]),
        ): Spread(float(row["mean"]), float(row["std"]), RUNS)
        for row in csv.DictReader(text.splitlines())
        # Its table of fine-tuning epochs is of images alone, which are not measured here.
        if row["table"] != "ft_epochs"
    }
