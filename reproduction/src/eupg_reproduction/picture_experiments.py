"""The experiments on pictures: CIFAR-10 with ResNet-18, on a GPU. ``eupg-reproduction run images`` runs them all.

Three repetitions instead of the paper's five, and one for sweeps and for SISA, which trains long.
"""

from __future__ import annotations

from collections.abc import Mapping

from eupg_reproduction.cell import Value
from eupg_reproduction.experiment import Experiment, Grid
from eupg_reproduction.picture_recipes import BASE_EPOCHS

_PAPER: dict[str, Value] = {"recipe": "paper", "effort": 100, "finetune": 5, "forget": 0.05, "references": 8}
# Bases of permuted pictures are trained for fewer epochs; the short retrain has none.
_BETTER = {**_PAPER, "recipe": "better"}
_BASE = {**_BETTER, "pretrain": BASE_EPOCHS}
_EUPG = ("EUPG k=30", "EUPG ε=1")
_BLOCKS = ("EUPG k=30, blocks 8×8", "EUPG k=30, blocks 16×16")


def _pictures(methods: tuple[str, ...], settings: Mapping[str, Value | tuple[Value, ...]]) -> Grid:
    return Grid("pictures", ("cifar10",), ("resnet18",), methods, settings)


PICTURES = (
    Experiment(
        "quality_resnet18",
        "the paper's table of unlearning quality for ResNet-18 on CIFAR-10: utility and RMIA, before and after",
        (_pictures(("Retrain", "Short retrain", "Certified-SP", *_EUPG), _PAPER),),
        core_minutes=22,
        most_repeats=3,
        gpu=True,
    ),
    Experiment(
        "better_resnet18",
        "a better fine-tuning for EUPG and the short retrain alike, and blocks of pixels as what is permuted",
        (
            _pictures(("Short retrain",), _BETTER),
            _pictures(("EUPG k=30",), _BASE),
            # On held-out pictures the paper's own base did better here, of as many epochs as Retrain.
            _pictures(("EUPG ε=1",), _BETTER),
            _pictures(_BLOCKS, _BASE),
        ),
        core_minutes=8,
        most_repeats=3,
        gpu=True,
    ),
    Experiment(
        "blocks_resnet18",
        "what the size of a permuted block changes: the base alone, and after fine-tuning",
        (
            _pictures(
                ("EUPG k=30", *(f"EUPG k=30, blocks {b}×{b}" for b in (2, 4, 8, 16))), {**_BASE, "finetune": (0, 5)}
            ),
        ),
        core_minutes=4,
        most_repeats=1,
        gpu=True,
    ),
    Experiment(
        "sisa_resnet18",
        "SISA's row of the table",
        (_pictures(("SISA",), _PAPER),),
        core_minutes=4,
        most_repeats=1,
        gpu=True,
    ),
    Experiment(
        "epochs_resnet18",
        "quality against the epochs of fine-tuning, beside as many epochs from scratch",
        (
            _pictures(("EUPG ε=1",), {**_PAPER, "finetune": 0}),
            _pictures(("Short retrain", "EUPG ε=1", "Certified-SP"), {**_PAPER, "finetune": (3, 5, 10, 20, 30, 50)}),
        ),
        core_minutes=10,
        most_repeats=1,
        gpu=True,
    ),
)
