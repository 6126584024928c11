"""How models are trained by default: the paper's settings, and the library's own careful rule.

:func:`paper_recipe` has the settings of the paper, and the library's own for models that the paper lacks.

:func:`careful_recipe` is one rule for base models and fine-tuning, for every learner and table; nothing is set by data
set. The base: two strengths of a learner (one for networks), each at an eighth, a quarter, a half and all of its
effort, until more does worse than less did; a fifth of the release, held out, decides by log-loss. The fine-tuning:
gentle recipes, chosen among the exposed people alone, a quarter of them held out in turn; what does not gain two
standard errors over the base, or tells two classes apart less well than the base, is not done, so that a small sample
cannot spoil it. The short retrain, the control of both, takes strides that suit its few steps, and no time to choose.
``docs/decisions/choosing-recipes.md`` says what was tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from eupg.errors import ParameterError
from eupg.learn.best_of import BestOf
from eupg.learn.learner import Learner

MODELS = ("mlp", "xgboost", "lightgbm", "logistic")
# Epochs or trees of a full training, and of a fine-tuning.
EFFORTS = {"mlp": (50, 5), "xgboost": (100, 5), "lightgbm": (100, 10), "logistic": (20, 5)}
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Recipe:
    """A base learner and a fine-tuner, with the most effort each may spend: the arguments of EUPG. And its control.

    Parameters
    ----------
    learner, pretrain
        How bases, and full trainings, are made.
    finetuner, finetune
        How a base goes on; None where the learner of the base does.
    short, short_effort
        How the short retrain is made, from scratch on everyone, with no more effort than a fine-tuning may spend.
    """

    learner: Learner
    pretrain: int
    finetuner: Learner | None
    finetune: int
    short: Learner
    short_effort: int


def paper_recipe(model: str, table: str = "", *, threads: int = 0) -> Recipe:
    """Return the paper's settings for a model on a table, or the library's own for models that the paper lacks.

    Parameters
    ----------
    model
        One of ``MODELS``.
    table
        The data set's name; any other name gets the settings that the paper uses on most.
    threads
        CPU threads of boosted trees; 0 takes one for small tables and all for large ones.
    """
    learner = paper_learner(model, table, threads=threads)
    full, short = EFFORTS[model]
    # The paper's own steps are large; those of the other models suit a long training alone.
    brisk = learner if model in ("mlp", "xgboost") else careful_recipe(model).short
    return Recipe(learner, full, None, short, brisk, short)


def paper_learner(model: str, table: str = "", *, refresh: bool = False, threads: int = 1) -> Learner:
    """Return the learner of :func:`paper_recipe`.

    Parameters
    ----------
    model, table, threads
        As there.
    refresh
        Whether fine-tuning refreshes the leaves of trees instead of adding trees (XGBoost).
    """
    if model == "mlp":
        from eupg.learn.networks import MLP
        from eupg.learn.torch_learner import TorchLearner

        width, decay = (256 if table == "credit" else 128), (1e-5 if table in ("heart", "credit") else 1e-4)
        return TorchLearner(MLP((width, width)), weight_decay=decay)
    if model == "xgboost":
        from eupg.learn.xgboost_learner import XGBoostLearner

        return XGBoostLearner(refresh_leaves=refresh, threads=threads)
    if model == "lightgbm":
        from eupg.learn.lightgbm_learner import LightGBMLearner

        return LightGBMLearner(threads=threads)
    if model == "logistic":
        from eupg.learn.sklearn_learner import SklearnLearner

        return SklearnLearner()
    raise ParameterError(f"no model {model!r}: choose one of {', '.join(MODELS)}")


def careful_recipe(model: str) -> Recipe:
    """Return the library's one rule for a model: efforts and strengths chosen on held-out parts of what is seen."""
    if model not in MODELS:
        raise ParameterError(f"no model {model!r}: choose one of {', '.join(MODELS)}")
    rules = {"mlp": mlp_recipe, "xgboost": xgboost_recipe, "lightgbm": lightgbm_recipe, "logistic": logistic_recipe}
    return rules[model]()


def xgboost_recipe() -> Recipe:
    """Return the rule for XGBoost."""
    from eupg.learn.xgboost_learner import XGBoostLearner

    base = tuple(XGBoostLearner(max_depth=depth, learning_rate=0.1) for depth in (4, 6))
    gentle = tuple(XGBoostLearner(max_depth=3, learning_rate=rate) for rate in (0.1, 0.2))
    short = XGBoostLearner(max_depth=6, learning_rate=0.3)
    return Recipe(BestOf(base, _HELD_OUT), 200, BestOf(gentle), 20, short, 20)


def lightgbm_recipe() -> Recipe:
    """Return the rule for LightGBM."""
    from eupg.learn.lightgbm_learner import LightGBMLearner

    base = tuple(LightGBMLearner(leaves=leaves) for leaves in (15, 31))
    gentle = tuple(LightGBMLearner(leaves=8, learning_rate=rate) for rate in (0.05, 0.1))
    return Recipe(BestOf(base, _HELD_OUT), 200, BestOf(gentle), 20, LightGBMLearner(leaves=31, learning_rate=0.3), 20)


def mlp_recipe() -> Recipe:
    """Return the rule for multi-layer perceptrons."""
    from eupg.learn.torch_learner import TorchLearner

    base = (TorchLearner(learning_rate=3e-3),)
    gentle = (TorchLearner(learning_rate=1e-3, anchor=30.0), TorchLearner(learning_rate=1e-3, head_only=True))
    return Recipe(BestOf(base, _HELD_OUT), 40, BestOf(gentle), 16, TorchLearner(learning_rate=1e-2), 8)


def logistic_recipe() -> Recipe:
    """Return the rule for logistic regression."""
    from sklearn.linear_model import SGDClassifier

    from eupg.learn.sklearn_learner import SklearnLearner

    base = tuple(SklearnLearner(SGDClassifier(loss="log_loss", alpha=alpha)) for alpha in (1e-3, 1e-4))
    gentle = (SklearnLearner(SGDClassifier(loss="log_loss", alpha=1e-3)),)
    return Recipe(BestOf(base, _HELD_OUT), 16, BestOf(gentle), 8, base[0], 8)
