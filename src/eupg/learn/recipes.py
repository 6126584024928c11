"""How models are trained by default: the paper's settings, and the library's own careful rule.

The careful rule is the same for every learner and table. The base model: two strengths of a learner (one for networks),
each at an eighth, a quarter, a half and all of its effort, until more effort does worse; log-loss on a held-out fifth
of the release decides. Fine-tuning: gentle recipes, chosen among the exposed people alone with a quarter of them held
out in turn. A recipe that gains less than two standard errors over the base, or separates two classes less well, is not
used, so a small sample cannot spoil the base. The short retrain, the control of both, uses step sizes that suit its few
steps and does not choose. ``docs/decisions/choosing-recipes.md`` lists what was tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from eupg.errors import ParameterError
from eupg.learn.best_of import BestOf
from eupg.learn.learner import Correcting, Learner

MODELS = ("mlp", "xgboost", "lightgbm", "logistic")
# Epochs or trees of a full training, and of a fine-tuning.
EFFORTS = {"mlp": (50, 5), "xgboost": (100, 5), "lightgbm": (100, 10), "logistic": (20, 5)}
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Recipe:
    """The arguments of EUPG, a base learner and a fine-tuner with the most effort of each, and those of its control.

    Parameters
    ----------
    learner, pretrain
        How base models, and full trainings, are made.
    finetuner, finetune
        How a base model is fine-tuned; None if its own learner does it.
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
        CPU threads of boosted trees; 0 means one for small tables and all for large ones.
    """
    learner = paper_learner(model, table, threads=threads)
    full, short = EFFORTS[model]
    # The paper's own steps are large; those of the other models suit only a long training.
    brisk = learner if model in ("mlp", "xgboost") else careful_recipe(model).short
    return Recipe(learner, full, None, short, brisk, short)


def paper_learner(model: str, table: str = "", *, refresh: bool = False, threads: int = 1) -> Learner:
    """Return the learner of :func:`paper_recipe`; with ``refresh`` XGBoost refreshes leaves and adds no trees."""
    _check_model(model)
    if model == "mlp":
        from eupg.learn.torch.learner import TorchLearner
        from eupg.learn.torch.networks import MLP

        width, decay = (256 if table == "credit" else 128), (1e-5 if table in ("heart", "credit") else 1e-4)
        return TorchLearner(MLP((width, width)), weight_decay=decay)
    if model == "xgboost":
        from eupg.learn.xgboost import XGBoostLearner

        return XGBoostLearner(refresh_leaves=refresh, threads=threads)
    if model == "lightgbm":
        from eupg.learn.lightgbm import LightGBMLearner

        return LightGBMLearner(threads=threads)
    from eupg.learn.sklearn import SklearnLearner

    return SklearnLearner()


def careful_recipe(model: str) -> Recipe:
    """Return the library's careful rule for one of ``MODELS``."""
    _check_model(model)
    base: tuple[Learner, ...]
    gentle: tuple[Learner, ...]
    if model == "xgboost":
        from eupg.learn.xgboost import XGBoostLearner

        base = tuple(XGBoostLearner(max_depth=depth, learning_rate=0.1) for depth in (4, 6))
        gentle = tuple(XGBoostLearner(max_depth=3, learning_rate=rate) for rate in (0.1, 0.2))
        short = XGBoostLearner(max_depth=6, learning_rate=0.3)
        return Recipe(BestOf(base, _HELD_OUT), 200, BestOf(gentle), 20, short, 20)
    if model == "lightgbm":
        from eupg.learn.lightgbm import LightGBMLearner

        base = tuple(LightGBMLearner(leaves=leaves) for leaves in (15, 31))
        gentle = tuple(LightGBMLearner(leaves=8, learning_rate=rate) for rate in (0.05, 0.1))
        brisk = LightGBMLearner(leaves=31, learning_rate=0.3)
        return Recipe(BestOf(base, _HELD_OUT), 200, BestOf(gentle), 20, brisk, 20)
    if model == "mlp":
        from eupg.learn.torch.learner import TorchLearner

        base = (TorchLearner(learning_rate=3e-3),)
        gentle = (TorchLearner(learning_rate=1e-3, anchor=30.0), TorchLearner(learning_rate=1e-3, head_only=True))
        return Recipe(BestOf(base, _HELD_OUT), 40, BestOf(gentle), 16, TorchLearner(learning_rate=1e-2), 8)
    from sklearn.linear_model import SGDClassifier

    from eupg.learn.sklearn import SklearnLearner

    base = tuple(SklearnLearner(SGDClassifier(loss="log_loss", alpha=alpha)) for alpha in (1e-3, 1e-4))
    gentle = (SklearnLearner(SGDClassifier(loss="log_loss", alpha=1e-3)),)
    return Recipe(BestOf(base, _HELD_OUT), 16, BestOf(gentle), 8, base[0], 8)


def leaf_recipe(model: str) -> Recipe:
    """Return the careful rule for fine-tuning from leaves, such as those of PrivateTrees, by one of ``MODELS``.

    Trees may be as many as those of a full training: held-out people decide, and leaves alone are soon outgrown.
    """
    from eupg.learn.leaves.learner import LeafLearner

    recipe = careful_recipe(model)
    assert isinstance(recipe.finetuner, BestOf)
    # A learner that cannot do this is refused here.
    gentle = tuple(LeafLearner(cast(Correcting, learner)) for learner in recipe.finetuner.learners)
    effort = recipe.pretrain if recipe.finetuner.accumulates else recipe.finetune
    return Recipe(gentle[0], 1, BestOf(gentle), effort, recipe.short, recipe.short_effort)


def _check_model(model: str) -> None:
    if model not in MODELS:
        raise ParameterError(f"no model {model!r}: choose one of {', '.join(MODELS)}")
