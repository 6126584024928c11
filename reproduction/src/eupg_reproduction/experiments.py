"""The experiments, declared as data: sets, models, methods and what is swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eupg.errors import ParameterError
from eupg.learn.recipes import EFFORTS, MODELS
from eupg_reproduction.cell import Cell, Value
from eupg_reproduction.experiment import Experiment, Grid
from eupg_reproduction.kinds import kind
from eupg_reproduction.methods import SETS
from eupg_reproduction.picture_experiments import PICTURES

_RIVALS = ("Retrain", "Short retrain", "SISA")
_EUPG = ("EUPG k=30", "EUPG ε=1")
_SHORT = ("Short retrain", *_EUPG)
_CERTIFIED = ("Certified-SP", "Certified-SP, published calibration")
# The number of reference models that never saw a record; as many did.
_PAPER: dict[str, Value] = {"recipe": "paper", "forget": 0.05, "references": 8}
_FULL: dict[str, dict[str, Value]] = {
    model: {**_PAPER, "effort": full, "finetune": short} for model, (full, short) in EFFORTS.items()
}
_MLP, _TREES = _FULL["mlp"], _FULL["xgboost"]
_OTHERS = ("lightgbm", "logistic")
_REFRESHED = "EUPG k=30, leaves refreshed"
_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
_TUNED: dict[str, Value] = {"recipe": "tuned", "forget": 0.05, "references": 8}
_CANARIED = ("logistic", "xgboost")
_CLAIMED = ("synthesis ε=1", "synthesis ε=4", "synthesis ε=10")
# The fewer people, the more one of them shows. So many runs can refute an ε of up to about 4.2.
_CANARY: dict[str, Value] = {"people": 200, "runs": 500}


def _swept(word: str, values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(f"{word}={value:g}" if isinstance(value, float) else f"{word}={value}" for value in values)


def _timed(settings: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in settings.items() if name != "references"}


EXPERIMENTS = (
    Experiment(
        "smoke",
        "every kind of measurement once, on RAND HIE at tiny effort: shows that all works, not how well",
        (
            Grid(
                "quality",
                ("rand_hie",),
                ("xgboost",),
                (*_RIVALS, *_EUPG, _REFRESHED),
                {**_PAPER, "effort": 10, "finetune": 2, "references": 4},
            ),
            Grid(
                "quality",
                ("rand_hie",),
                ("mlp",),
                ("Retrain", "Short retrain", "Certified-SP", "EUPG k=30"),
                {**_PAPER, "effort": 2, "finetune": 1, "references": 0},
            ),
            Grid(
                "base",
                ("rand_hie",),
                ("xgboost",),
                ("Unprotected", "k=30"),
                {"effort": 10, "forget": 0.05, "references": 4},
            ),
            Grid("exposure", ("rand_hie",), ("logistic",), ("k=30", "synthesis ε=1"), {"exposure": (0.0, 0.05)}),
            Grid("exposure", ("rand_hie",), ("logistic",), ("From scratch",), {"exposure": (0.05, 1.0)}),
            Grid("exposure", ("rand_hie",), ("logistic",), ("Short retrain",), {"exposure": 1.0}),
            Grid("exposure_audit", ("rand_hie",), ("logistic",), ("k=30",), {"exposure": 0.05, "references": 4}),
            Grid(
                "epsilon_models",
                ("rand_hie",),
                ("logistic",),
                ("synthesis ε=1",),
                {"people": 100, "runs": 4, "exposure": 0.1, "canary": ("never seen raw", "seen raw")},
            ),
            Grid(
                "runtime",
                ("rand_hie",),
                ("xgboost",),
                ("Retrain", "Short retrain", "EUPG k=30"),
                _timed({**_PAPER, "effort": 10, "finetune": 2}),
            ),
        ),
        core_minutes=0.5,
        most_repeats=1,
    ),
    Experiment(
        "synthesis",
        "bases from full-record DP synthesis, against ε and the share of people ever seen raw",
        (
            Grid(
                "exposure",
                SETS,
                MODELS,
                _swept("synthesis ε", (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)),
                {"exposure": (0.0, 0.02, 0.05, 1.0)},
            ),
        ),
        core_minutes=66,
    ),
    Experiment(
        "exposure",
        "the exposure frontier: k-anonymity and local DP against the share of people ever seen raw, and the controls",
        (
            Grid("exposure", SETS, MODELS, ("From scratch",), {"exposure": _SHARES}),
            Grid("exposure", SETS, MODELS, ("Short retrain",), {"exposure": 1.0}),
            Grid("exposure", SETS, MODELS, ("k=10", "k=30", "k=100", "ε=1", "ε=4"), {"exposure": (0.0, *_SHARES)}),
        ),
        core_minutes=49,
    ),
    Experiment(
        "exposure_audit",
        "membership inference on people seen raw and never seen raw, before any erasure",
        (
            Grid("exposure_audit", SETS, ("xgboost",), ("k=30",), {"exposure": (0.05, 1.0), "references": 8}),
            Grid(
                "exposure_audit",
                SETS,
                ("xgboost",),
                ("synthesis ε=1",),
                {"exposure": (0.0, 0.05, 1.0), "references": 8},
            ),
        ),
        core_minutes=16,
    ),
    Experiment(
        "epsilon_models",
        "a lower bound on ε of models with and without one person made to be found, and controls that see them raw",
        (
            Grid(
                "epsilon_models",
                ("adult",),
                _CANARIED,
                ("Unprotected",),
                {**_CANARY, "exposure": 1.0, "canary": "seen raw"},
            ),
            Grid(
                "epsilon_models",
                ("adult",),
                _CANARIED,
                _CLAIMED,
                {**_CANARY, "exposure": (0.0, 0.1, 1.0), "canary": "never seen raw"},
            ),
            Grid(
                "epsilon_models",
                ("adult",),
                _CANARIED,
                _CLAIMED,
                {**_CANARY, "exposure": (0.1, 1.0), "canary": "seen raw"},
            ),
        ),
        core_minutes=7,
        most_repeats=1,
    ),
    Experiment(
        "quality_mlp",
        "the paper's table of unlearning quality for MLPs: utility, RMIA AUC and TPR at 1 %, before and after",
        (Grid("quality", SETS, ("mlp",), (*_RIVALS, *_CERTIFIED, *_EUPG), _MLP),),
        core_minutes=11,
    ),
    Experiment(
        "quality_xgboost",
        "the same for XGBoost, with both ways to fine-tune trees",
        (Grid("quality", SETS, ("xgboost",), (*_RIVALS, *_EUPG, _REFRESHED, "EUPG ε=1, leaves refreshed"), _TREES),),
        core_minutes=2,
    ),
    Experiment(
        "quality_others",
        "the same for LightGBM and logistic regression, which the paper lacks",
        tuple(Grid("quality", SETS, (model,), (*_RIVALS, *_EUPG), _FULL[model]) for model in _OTHERS),
        core_minutes=4,
    ),
    Experiment(
        "tuned",
        "the same with recipes tuned inside what they may see, so that Retrain is not handicapped by over-training",
        (Grid("quality", SETS, MODELS, ("Retrain", *_SHORT), _TUNED),),
        core_minutes=39,
    ),
    Experiment(
        "k_sweep",
        "base model before fine-tuning against k, with the original-data line",
        (
            Grid(
                "base",
                ("heart",),
                ("xgboost",),
                ("Unprotected", *_swept("k", (3, 5, 10, 20, 30, 50, 100, 300, 1000))),
                {"effort": 100, "forget": 0.05, "references": 8},
            ),
        ),
        core_minutes=3,
    ),
    Experiment(
        "epsilon_sweep",
        "base model before fine-tuning against ε of local DP, with the original-data line",
        (
            Grid(
                "base",
                ("heart",),
                ("xgboost",),
                ("Unprotected", *_swept("ε", (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 300.0))),
                {"effort": 100, "forget": 0.05, "references": 8},
            ),
        ),
        core_minutes=3,
    ),
    Experiment(
        "forget_ratio",
        "quality against the share of people forgotten",
        (
            Grid(
                "quality",
                ("adult",),
                ("mlp",),
                (*_RIVALS, "Certified-SP", *_EUPG),
                {**_MLP, "forget": (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)},
            ),
        ),
        core_minutes=10,
    ),
    Experiment(
        "ft_epochs",
        "quality against the epochs of fine-tuning, beside as many epochs from scratch",
        (
            Grid("quality", SETS, ("mlp",), (*_SHORT, "Certified-SP"), {**_MLP, "finetune": (1, 2, 3, 5, 10)}),
            Grid("quality", SETS, ("mlp",), _EUPG, {**_MLP, "finetune": 0}),
        ),
        core_minutes=8,
    ),
    Experiment(
        "label_dp",
        "local DP that protects the label too: ε=1 in all, and ε=1 for the features with 1 for the label",
        (
            Grid("quality", SETS, ("mlp",), ("EUPG ε=0.5, label ε=0.5", "EUPG ε=1, label ε=1", "Short retrain"), _MLP),
            Grid(
                "quality",
                SETS,
                ("xgboost",),
                ("EUPG ε=0.5, label ε=0.5", "EUPG ε=1, label ε=1", "Short retrain"),
                _TREES,
            ),
        ),
        core_minutes=9,
    ),
    Experiment(
        "runtime",
        "seconds by phase and of a forget, storage and inference; nothing beside, no evaluation in the timer",
        (
            Grid("runtime", SETS, ("mlp",), (*_RIVALS, "Certified-SP", *_EUPG), _timed(_MLP)),
            Grid("runtime", SETS, ("mlp",), ("Short retrain", "EUPG k=30"), {**_timed(_MLP), "finetune": (1, 2, 3)}),
            Grid("runtime", SETS, ("xgboost",), (*_RIVALS, *_EUPG, _REFRESHED), _timed(_TREES)),
            *(Grid("runtime", SETS, (model,), (*_RIVALS, *_EUPG), _timed(_FULL[model])) for model in _OTHERS),
        ),
        core_minutes=40,
    ),
    Experiment(
        "runtime_tuned",
        "the same for the tuned recipes, of the models that train in seconds",
        (Grid("runtime", SETS, ("xgboost", "lightgbm", "logistic"), ("Retrain", *_SHORT), _timed(_TUNED)),),
        core_minutes=10,
    ),
    *PICTURES,
)
# What ``all`` stands for.
_TABLES = tuple(e for e in EXPERIMENTS if e.name != "smoke" and not e.gpu)


def experiment(name: str) -> Experiment:
    """Return an experiment by name."""
    for one in EXPERIMENTS:
        if one.name == name:
            return one
    raise ParameterError(
        f"no experiment {name!r}: choose one of {', '.join(e.name for e in EXPERIMENTS)}, all or images"
    )


def minutes_of_all(cores: int) -> float:
    """Return the estimated minutes of ``run all`` at 5 repetitions; what measures time runs on one core."""
    apart = sum(e.core_minutes for e in _TABLES if all(kind(grid.kind).alone for grid in e.grids))
    return apart + (sum(e.core_minutes for e in _TABLES) - apart) / cores


def cells_of(names: Sequence[str], repeats: int) -> list[Cell]:
    """Return the cells of these experiments, each once.

    ``all`` is every experiment on tables but the smoke test, ``images`` every one on pictures.
    """
    groups = {"all": _TABLES, "images": PICTURES}
    chosen = [e for name in names for e in groups.get(name) or [experiment(name)]]
    return list({cell.key: cell for one in chosen for cell in one.cells(repeats)}.values())
