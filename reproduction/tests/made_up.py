"""Results made up by hand, so that every figure of a report about them can be worked out with a pencil."""

from collections.abc import Sequence
from typing import Any

from eupg_reproduction.cell import Cell
from eupg_reproduction.experiment import Grid
from eupg_reproduction.experiments import experiment
from eupg_reproduction.report.tidy import Measurements
from eupg_reproduction.results import Result


def place(grid: Grid, t: str, model: str, method: str, changed: dict[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of one place in a grid."""
    settings = dict(grid.settings) | (changed or {})
    return {"kind": grid.kind, "set": t, "model": model, "method": method, **settings}


def result(config: dict[str, Any], metrics: dict[str, Any], seconds: dict[str, float] | None = None) -> Result:
    cell = Cell.of(config)
    line = {"cell": cell.key, "config": cell.config, "version": "1", "at": "2026", "metrics": metrics}
    return Result(cell, line | {"seconds": seconds or {}, "machine": {"cpu": "a pencil", "cores": 1}, "peak_mb": 7.0})


def audit(auc: float, reach: float = 1.0) -> dict[str, float]:
    return {"auc": auc, "low": auc - reach, "high": auc + reach, "null_error": 0.5, "tpr_at_1": 1.0}


def quality(
    method: str,
    after: Sequence[float],
    *,
    before: Sequence[float] | None = None,
    auc: Sequence[float] | None = None,
    table: str = "adult",
    model: str = "mlp",
    changed: dict[str, Any] | None = None,
    name: str | None = None,
) -> list[Result]:
    """Repetitions of one method in a table of quality, one for each utility."""
    grid = experiment(name or f"quality_{model}").grids[0]
    where = place(grid, table, model, method, changed)
    found = []
    for number, utility in enumerate(after):
        later = {"utility": utility, "audit": audit(auc[number] if auc else 50.0)}
        first = {"utility": before[number] if before else utility, "audit": audit(57.0)}
        found.append(result({**where, "repetition": number}, {"before": first, "after": later}, {"forget": 1.0}))
    return found


def runtime(method: str, times: Sequence[float], *, table: str = "adult", finetune: int = 5) -> list[Result]:
    """Timed forgets of the MLP."""
    where = place(experiment("runtime").grids[0], table, "mlp", method) | {"finetune": finetune}
    storage = {"files": 2, "bytes": 1_500_000, "models": 1}
    metrics = {"inference_us_a_record": 2.0, "storage": storage}
    return [
        result({**where, "repetition": number}, metrics, {"forget": time, "train": 4.0})
        for number, time in enumerate(times)
    ]


def exposed(
    method: str, share: float, values: Sequence[float], *, table: str = "adult", model: str = "xgboost"
) -> list[Result]:
    """Utilities at an exposure."""
    where = {"kind": "exposure", "set": table, "model": model, "method": method, "exposure": share}
    controls = {"From scratch": {"train": 100.0}, "Short retrain": {"train": 10.0}}
    seconds = controls.get(method, {"finetune": 1.0, "erase outside": 0.02})
    return [
        result({**where, "repetition": number}, {"utility": value, "kept_base": True}, seconds)
        for number, value in enumerate(values)
    ]


def pictured(
    method: str,
    after: Sequence[float],
    *,
    before: Sequence[float] | None = None,
    auc: float = 50.0,
    name: str = "quality_resnet18",
    changed: dict[str, Any] | None = None,
    seconds: dict[str, float] | None = None,
) -> list[Result]:
    """Runs of one method on pictures, one for each utility; SISA stands in the paper's settings too."""
    grids = experiment(name).grids
    grid = next((one for one in grids if method in one.methods), grids[0])
    where = place(grid, "cifar10", "resnet18", method, changed)
    found = []
    for number, utility in enumerate(after):
        metrics = {
            "before": {"utility": before[number] if before else utility, "audit": audit(57.0)},
            "after": {"utility": utility, "audit": audit(auc)},
            "storage": {"files": 1, "bytes": 44_000_000, "models": 1},
            "records": {"train": 50_000, "forgotten": 2_500},
            "device": "an abacus",
        }
        found.append(result({**where, "repetition": number}, metrics, seconds or {"forget": 1.0}))
    return found


def measurements(*groups: list[Result]) -> Measurements:
    return Measurements(one for group in groups for one in group)
