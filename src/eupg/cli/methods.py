"""The method that the options of ``eupg train`` choose, or the one that a plan recommends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.cli.names import GuaranteeName, LearnerName, MethodName, check_parameters, mechanism
from eupg.cli.options import Choices
from eupg.errors import DataError, ParameterError

if TYPE_CHECKING:
    from eupg.forget.durable import Durable
    from eupg.forget.eupg import EUPG

# Every pass of private training costs budget.
_PRIVATE_EPOCHS = 5
# The options of the methods other than EUPG.
_OWN_OPTIONS = {
    MethodName.RETRAIN: ("effort", "exposure", "learner"),
    MethodName.SISA: ("effort", "shards", "slices", "learner"),
    MethodName.CERTIFIED_SP: ("effort", "finetune", "epsilon", "delta", "learner"),
    MethodName.EXACT_TREES: (),
    MethodName.EXACT_HEAD: (),
}


def chosen_method(choices: Choices) -> Durable:
    """Return the method that the options choose; those that are missing or do not belong together are refused."""
    name = choices.method or MethodName.EUPG
    if name is MethodName.EUPG:
        _check_eupg(choices)
        return _eupg(choices)
    own = _OWN_OPTIONS[name]
    extra = [option for option in choices.passed if option[2:].replace("-", "_") not in ("method", *own)]
    if extra:
        raise ParameterError(
            f"--method {name} has no {', '.join(extra)}: leave it out, or use --method eupg with a --guarantee"
        )
    if "learner" in own and choices.learner is None:
        raise ParameterError(f"--method {name} needs a kind of model: pass --learner, such as --learner xgboost")
    return _rival(name, choices)


def _rival(name: MethodName, choices: Choices) -> Durable:
    from eupg import forget
    from eupg.learn.recipes import careful_recipe, paper_recipe

    if name is MethodName.EXACT_TREES:
        return forget.ExactTrees()
    if name is MethodName.EXACT_HEAD:
        return forget.ExactHead()
    assert choices.learner is not None
    if name is MethodName.RETRAIN:
        recipe = careful_recipe(choices.learner)
        effort = recipe.pretrain if choices.effort is None else choices.effort
        return forget.Retrain(recipe.learner, effort, 1.0 if choices.exposure is None else choices.exposure)
    recipe = paper_recipe(choices.learner)
    effort = recipe.pretrain if choices.effort is None else choices.effort
    if name is MethodName.SISA:
        passed = {n: v for n in ("shards", "slices") if (v := getattr(choices, n)) is not None}
        return forget.SISA(recipe.learner, effort, **passed)
    if choices.learner is not LearnerName.MLP:
        raise ParameterError(f"--method {name} needs a network: pass --learner mlp, got --learner {choices.learner}")
    passed = {n: v for n in ("finetune", "epsilon", "delta") if (v := getattr(choices, n)) is not None}
    return forget.CertifiedSP(recipe.learner, effort, **passed)


def planned_method(plan: Path, choices: Choices) -> tuple[Durable, list[str]]:
    """Return the method that a plan recommends, and what certificates must say because it looked at the records."""
    from eupg.manage.description import rebuild

    if choices.passed:
        raise ParameterError(
            f"the plan chooses {', '.join(choices.passed)}: leave out either --plan or the options it chooses"
        )
    try:
        values = json.loads(plan.read_text(encoding="utf-8"))
        row, not_covered = values["take"], str(values["not_covered"])
        if row is None:
            raise ParameterError(f"{plan} recommends nothing: pass --method, or --guarantee and --learner, instead")
        return rebuild(row["method"]), [not_covered]
    except ParameterError:
        raise
    except OSError as error:
        raise DataError(f"the plan cannot be read ({error}): pass a file that eupg plan --out wrote") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{plan} is not a plan ({error!r}): pass a file that eupg plan --out wrote") from error


def _check_eupg(choices: Choices) -> None:
    """Refuse choices that are missing or do not belong together."""
    foreign_options = {"--effort": choices.effort, "--shards": choices.shards, "--slices": choices.slices}
    foreign = [name for name, value in foreign_options.items() if value is not None]
    if foreign:
        raise ParameterError(
            f"--method eupg has no {', '.join(foreign)}: use --pretrain and --finetune, or leave it out"
        )
    if choices.guarantee is GuaranteeName.PRIVATE_TREES:
        tunes = choices.learner is not None and choices.exposure
        unused = {
            "--pretrain": choices.pretrain is not None,
            "--learner": choices.learner is not None and not tunes,
            "--exposure": bool(choices.exposure) and not tunes,
            "--finetune": bool(choices.finetune) and not tunes,
        }
        refused = [name for name, passed in unused.items() if passed]
        if refused:
            raise ParameterError(
                f"--guarantee private-trees makes its own kind of base model and serves it as it is, so "
                f"{', '.join(refused)} would be ignored: leave it out, or pass both --learner and --exposure to "
                "fine-tune from it"
            )
    elif choices.guarantee is GuaranteeName.PRIVATE_HEAD:
        others = {name: getattr(choices, name) for name in ("pretrain", "finetune", "exposure", "learner")}
        refused = [f"--{name}" for name, value in others.items() if value not in (None, 0)]
        if refused:
            raise ParameterError(
                f"--guarantee private-head makes its own kind of model and serves it as it is, so {', '.join(refused)} "
                "would be ignored: leave it out"
            )
    elif choices.guarantee is None or choices.learner is None:
        raise ParameterError(
            "a guarantee and a learner are needed: pass --guarantee and --learner, another --method, or --plan with a "
            "file from eupg plan"
        )
    check_parameters(choices.parameters, [choices.guarantee])
    if choices.top_up and choices.exposure in (None, 0, 1):
        raise ParameterError(
            "--top-up replaces exposed people who leave, and here nobody or everybody is exposed: pass --exposure "
            "between 0 and 1 with it, or leave it out"
        )
    if choices.subtract and (choices.learner not in (LearnerName.XGBOOST, LearnerName.LIGHTGBM) or choices.exposure):
        raise ParameterError(
            "--subtract gives new values to the leaves of trees from everyone's records: pass --learner xgboost or "
            "lightgbm with it and no --exposure, or leave it out"
        )


def _eupg(choices: Choices) -> EUPG:
    """Return EUPG by the paper's recipe, or, where only some people are exposed, by the careful one."""
    from eupg.forget.eupg import EUPG
    from eupg.learn.recipes import careful_recipe, leaf_recipe, paper_recipe

    assert choices.guarantee is not None
    protection = mechanism(choices.guarantee, choices.parameters)
    private_trees = choices.guarantee is GuaranteeName.PRIVATE_TREES
    if choices.guarantee is GuaranteeName.PRIVATE_HEAD:
        from eupg.learn.heads.model import HeadLearner

        return EUPG(protection, HeadLearner(), 1, 0, exposure=0)
    if private_trees and choices.learner is None:
        from eupg.learn.leaves.learner import LeafLearner

        return EUPG(protection, LeafLearner(), 1, 0, exposure=0)
    assert choices.learner is not None
    if choices.subtract:
        from eupg.learn.leaves.leaf_ridge import LeafRidge

        plain = paper_recipe(choices.learner)
        pretrain = plain.pretrain if choices.pretrain is None else choices.pretrain
        return EUPG(protection, plain.learner, pretrain, 1, finetuner=LeafRidge(plain.learner))
    exposure = 1.0 if choices.exposure is None else choices.exposure
    careful = leaf_recipe if private_trees else careful_recipe
    recipe = paper_recipe(choices.learner) if exposure == 1 and not private_trees else careful(choices.learner)
    base, full = recipe.learner, recipe.pretrain
    if choices.guarantee is GuaranteeName.DPSGD:
        # One network: choosing among several would cost budget for each.
        base, full = paper_recipe(choices.learner).learner, _PRIVATE_EPOCHS
    return EUPG(
        protection,
        base,
        full if choices.pretrain is None else choices.pretrain,
        recipe.finetune if choices.finetune is None else choices.finetune,
        exposure=exposure,
        top_up=choices.top_up,
        finetuner=recipe.finetuner,
    )
