"""The rows of a plan and of a comparison: which methods there are, and how each is called. Both use the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from eupg.errors import ParameterError
from eupg.forget.durable import Durable
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.guarantees import Guarantee
from eupg.learn.recipes import Recipe
from eupg.protect.mechanism import Mechanism

RETRAIN, SHORT_RETRAIN = "Retrain", "Short retrain"


@dataclass(frozen=True)
class MethodRow:
    """One way to train and to forget.

    Parameters
    ----------
    name
        Its name in tables.
    guarantee, exposure
        The name of the protection and the share of people seen raw; None for a control.
    method
        The method itself, which a workspace can run.
    """

    name: str
    guarantee: str | None
    exposure: float | None
    method: Durable


def unseeded(claim: Guarantee) -> Guarantee:
    """Return the claim of a row: the measurement is seeded, and what is trained by its advice is not."""
    return replace(claim, seeded=False)


def method_rows(
    recipe: Recipe,
    mechanisms: Mapping[str, Mechanism],
    *,
    methods: Mapping[str, Durable] = MappingProxyType({}),
    exposures: Sequence[float],
) -> list[MethodRow]:
    """Return the controls, further methods, and every guarantee at every exposure.

    Parameters
    ----------
    recipe
        How models are made.
    mechanisms
        Guarantees by name.
    methods
        Further methods by name.
    exposures
        Chances to be seen raw.
    """
    if not all(0 <= share <= 1 for share in exposures):
        raise ParameterError(f"an exposure is a share from 0 to 1, got {list(exposures)!r}")
    rows = [
        MethodRow(RETRAIN, None, None, Retrain(recipe.learner, recipe.pretrain)),
        MethodRow(SHORT_RETRAIN, None, None, Retrain(recipe.short, recipe.short_effort)),
    ]
    for share in exposures:
        if 0 < share < 1:
            scratch = Retrain(recipe.learner, recipe.pretrain, share)
            rows.append(MethodRow(f"From scratch, {share:.3g} exposed", None, share, scratch))
    rows += [MethodRow(name, name, None, method) for name, method in methods.items()]
    for name, mechanism in mechanisms.items():
        for share in exposures:
            efforts = recipe.pretrain, recipe.finetune
            method = EUPG(mechanism, recipe.learner, *efforts, exposure=share, finetuner=recipe.finetuner)
            rows.append(MethodRow(f"{name}, {share:.3g} exposed", name, share, method))
    return rows
