"""The methods of the comparison, with the settings among which each may choose.

Every method that may look at records has six settings to choose from, judged on a held-out fifth of the training
people. Methods under differential privacy have one, fixed in advance: a choice by the records would spend budget that
their claim does not count.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from eupg.errors import ParameterError
from eupg.forget.unlearner import Unlearner

Setting = float | int
Settings = Mapping[str, Setting]
EPSILON, DELTA = 1.0, 1e-5


@dataclass(frozen=True)
class Rival:
    """One method of the comparison.

    Parameters
    ----------
    label
        Its name on pages.
    ours
        Whether it is a method of this library rather than a control or somebody else's.
    make
        Returns it with some settings.
    choices
        The settings it may choose from.
    package
        What must be installed beyond the library's own packages.
    unit
        Whom its claim is about.
    adds_up
        Whether the claim weakens as people leave.
    unchanged
        Whether the served model stays as it is.
    """

    label: str
    ours: bool
    make: Callable[..., Unlearner]
    choices: tuple[Settings, ...] = ({},)
    package: str | None = None
    unit: str = "everything erased"
    adds_up: bool = False
    unchanged: bool = False

    @property
    def available(self) -> bool:
        """Whether its package is installed."""
        return self.package is None or importlib.util.find_spec(self.package) is not None


def rival(name: str) -> Rival:
    """Return a method by name."""
    if name not in RIVALS:
        raise ParameterError(f"no method {name!r}: choose one of {', '.join(RIVALS)}")
    return RIVALS[name]


def _grid(**values: tuple[Setting, ...]) -> tuple[Settings, ...]:
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


def _boosted(depth: Setting, rate: Setting) -> object:
    from eupg.learn.xgboost import XGBoostLearner

    return XGBoostLearner(max_depth=int(depth), learning_rate=float(rate), threads=1)


def _retrain(depth: Setting, trees: Setting) -> Unlearner:
    from eupg.forget.retrain import Retrain

    return Retrain(_boosted(depth, 0.1), int(trees))  # type: ignore[arg-type]


def _short(depth: Setting, rate: Setting) -> Unlearner:
    from eupg.forget.retrain import Retrain

    return Retrain(_boosted(depth, rate), 20)  # type: ignore[arg-type]


def _sisa(depth: Setting, trees: Setting) -> Unlearner:
    from eupg.forget.sisa.method import SISA

    return SISA(_boosted(depth, 0.1), int(trees), jobs=1)  # type: ignore[arg-type]


def _exact(penalty: Setting, most_cells: Setting) -> Unlearner:
    from eupg.forget.exact_trees import ExactTrees

    return ExactTrees(float(penalty), int(most_cells))


def _eupg_k(pretrain: Setting, finetune: Setting) -> Unlearner:
    from eupg.forget.eupg import EUPG
    from eupg.learn.recipes import paper_learner
    from eupg.protect.kanonymity import ProbabilisticKAnonymity

    return EUPG(ProbabilisticKAnonymity(30), paper_learner("xgboost"), int(pretrain), int(finetune))


def _eupg_subtracts(pretrain: Setting, penalty: Setting) -> Unlearner:
    from eupg.forget.eupg import EUPG
    from eupg.learn.leaves.leaf_ridge import LeafRidge
    from eupg.learn.recipes import paper_learner
    from eupg.learn.xgboost import XGBoostLearner
    from eupg.protect.kanonymity import ProbabilisticKAnonymity

    trees = paper_learner("xgboost")
    assert isinstance(trees, XGBoostLearner)
    ridge = LeafRidge(trees, penalty=float(penalty))
    return EUPG(ProbabilisticKAnonymity(30), trees, int(pretrain), 1, finetuner=ridge)


def _private_trees() -> Unlearner:
    from eupg.forget.eupg import EUPG
    from eupg.forget.private_trees.base import PrivateTrees
    from eupg.learn.leaves.learner import LeafLearner

    base = PrivateTrees(EPSILON, DELTA, max_records=5)
    return EUPG(base, LeafLearner(), pretrain=1, finetune=0, exposure=0)


def _certified_sp(rate: Setting, effort: Setting) -> Unlearner:
    from eupg.forget.certified_sp import CertifiedSP
    from eupg.learn.torch.learner import TorchLearner

    return CertifiedSP(TorchLearner(learning_rate=float(rate)), int(effort), 5, epsilon=EPSILON, delta=DELTA)


def _retrain_mlp(rate: Setting, effort: Setting) -> Unlearner:
    from eupg.forget.retrain import Retrain
    from eupg.learn.torch.learner import TorchLearner

    return Retrain(TorchLearner(learning_rate=float(rate)), int(effort))


def _dare(depth: Setting, random_layers: Setting) -> Unlearner:
    from eupg_reproduction.rivals.dare import DaRE

    return DaRE(depth=int(depth), random_layers=int(random_layers), in_place=True)


def _rewind(penalty: Setting, rewound: Setting) -> Unlearner:
    from eupg_reproduction.rivals.rewind import RewindToDelete

    return RewindToDelete(float(penalty), rewound=int(rewound), epsilon=EPSILON, delta=DELTA)


def _dp_ebm() -> Unlearner:
    from eupg_reproduction.rivals.dp_ebm import DPEBM

    return DPEBM(EPSILON, DELTA)


RIVALS = {
    "retrain": Rival("Retrain, XGBoost", False, _retrain, _grid(depth=(4, 6), trees=(50, 100, 200))),
    "short-retrain": Rival("Short retrain, 20 trees", False, _short, _grid(depth=(4, 6), rate=(0.2, 0.3, 0.5))),
    "retrain-mlp": Rival("Retrain, MLP", False, _retrain_mlp, _grid(rate=(1e-3, 3e-3, 1e-2), effort=(8, 16))),
    "sisa": Rival("SISA, XGBoost", False, _sisa, _grid(depth=(4, 6), trees=(50, 100, 200))),
    "dare": Rival("DaRE forest", False, _dare, _grid(depth=(8, 12, 16), random_layers=(0, 3))),
    "rewind": Rival(
        "Rewind-to-Delete", False, _rewind, _grid(penalty=(3e-4, 1e-3, 3e-3), rewound=(100, 200)), adds_up=True
    ),
    "certified-sp": Rival("Certified-SP, MLP", False, _certified_sp, _grid(rate=(1e-3, 3e-3, 1e-2), effort=(8, 16))),
    "dp-ebm": Rival("DP-EBM, ε=1", False, _dp_ebm, package="interpret", unit="record", unchanged=True),
    "exact-trees": Rival("Exact trees", True, _exact, _grid(penalty=(5.0, 20.0, 80.0), most_cells=(900, 1800))),
    "eupg-subtracts": Rival(
        "EUPG k=30, by subtraction",
        True,
        _eupg_subtracts,
        _grid(pretrain=(25, 50, 100), penalty=(20.0, 80.0)),
        unit="record",
    ),
    "eupg-k30": Rival(
        "EUPG k=30, XGBoost", True, _eupg_k, _grid(pretrain=(50, 100, 200), finetune=(5, 20)), unit="record"
    ),
    "private-trees": Rival("Private trees, ε=1", True, _private_trees, unit="person", unchanged=True),
}
