"""The rows that the options of ``eupg plan`` and ``eupg compare`` choose: one place, so that both measure the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from eupg.cli.methods import chosen_method
from eupg.cli.names import GuaranteeName, LearnerName, MethodName
from eupg.cli.options import Choices
from eupg.cli.terminal import counted
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.compare.rows import MethodRow
    from eupg.data.dataset import Dataset
    from eupg.forget.durable import Durable
    from eupg.learn.recipes import Recipe
    from eupg.protect.mechanism import Mechanism

GROUPS, BUDGETS = (30,), (1.0,)


class RowName(StrEnum):
    """The kinds of rows. The controls, retrain and short retrain, are always among them."""

    RETRAIN = "retrain"
    SHORT_RETRAIN = "short-retrain"
    EXACT_TREES = "exact-trees"
    SISA = "sisa"
    CERTIFIED_SP = "certified-sp"
    SUBTRACTING = "subtracting"
    KANONYMITY = GuaranteeName.KANONYMITY
    DP = GuaranteeName.DP
    SYNTHESIS = GuaranteeName.SYNTHESIS
    PRIVATE_TREES = GuaranteeName.PRIVATE_TREES

    def fits(self, learner: LearnerName) -> bool:
        """Tell whether a learner can have this row."""
        if self is RowName.CERTIFIED_SP:
            return learner is LearnerName.MLP
        return self is not RowName.SUBTRACTING or learner in (LearnerName.XGBOOST, LearnerName.LIGHTGBM)


@dataclass(frozen=True, kw_only=True)
class RowChoices:
    """What the options say about rows.

    Parameters
    ----------
    names
        The kinds of rows.
    learner
        The kind of model.
    groups, subtracting_groups
        The k of k-anonymity, and of its rows that forget by subtraction.
    budgets
        The ε of every row that has one.
    max_records
        Records used per person, where the budget is per person.
    exposures
        Chances to be seen raw.
    effort, finetune
        Epochs or trees of a full training and after a request, instead of those of the recipe.
    """

    names: Sequence[RowName]
    learner: LearnerName
    groups: Sequence[int] = GROUPS
    subtracting_groups: Sequence[int] = GROUPS
    budgets: Sequence[float] = BUDGETS
    max_records: int = 1
    exposures: Sequence[float] = (1.0,)
    effort: int | None = None
    finetune: int | None = None

    def __post_init__(self) -> None:
        misfit = [name for name in self.names if not name.fits(self.learner)]
        if misfit:
            needed = "mlp" if misfit[0] is RowName.CERTIFIED_SP else "xgboost or lightgbm"
            raise ParameterError(
                f"{misfit[0]} needs --learner {needed}, got --learner {self.learner}: change it, or leave the method "
                "out"
            )

    @property
    def recipe(self) -> Recipe:
        """How models are made: the careful rule, with the efforts that the options name."""
        from eupg.learn.recipes import careful_recipe

        recipe = careful_recipe(self.learner)
        if self.effort is not None:
            recipe = replace(recipe, pretrain=self.effort)
        return recipe if self.finetune is None else replace(recipe, finetune=self.finetune, short_effort=self.finetune)

    @property
    def mechanisms(self) -> dict[str, Mechanism]:
        """The guarantees by name, each of which is measured at every exposure."""
        from eupg.protect import DPSynthesis, LocalDP, ProbabilisticKAnonymity

        made: dict[str, Mechanism] = {}
        if RowName.KANONYMITY in self.names:
            made |= {f"k={k}": ProbabilisticKAnonymity(k) for k in self.groups}
        if RowName.DP in self.names:
            made |= {f"ε={epsilon:g}": LocalDP(epsilon) for epsilon in self.budgets}
        if RowName.SYNTHESIS in self.names:
            synthetic = {e: DPSynthesis(e, max_records=self.max_records) for e in self.budgets}
            made |= {f"synthetic ε={epsilon:g}": mechanism for epsilon, mechanism in synthetic.items()}
        return made

    @property
    def methods(self) -> dict[str, Durable]:
        """The further methods by name."""
        learner, effort = self.learner, self.effort
        trees: dict[str, Any] = {"guarantee": GuaranteeName.PRIVATE_TREES, "max_records": self.max_records}
        groups: dict[str, Any] = {"guarantee": GuaranteeName.KANONYMITY, "learner": learner, "subtract": True}
        certified: dict[str, Any] = {"method": MethodName.CERTIFIED_SP, "learner": learner, "effort": effort}
        certified["finetune"] = self.finetune
        made: dict[RowName, Callable[[], dict[str, Choices]]] = {
            RowName.EXACT_TREES: lambda: {"Exact trees": Choices(method=MethodName.EXACT_TREES)},
            RowName.SISA: lambda: {"SISA": Choices(method=MethodName.SISA, learner=learner, effort=effort)},
            RowName.CERTIFIED_SP: lambda: {
                f"Certified-SP ε={e:g}": Choices(**certified, epsilon=e) for e in self.budgets
            },
            RowName.SUBTRACTING: lambda: {
                f"k={k}, subtracting": Choices(**groups, k=k, pretrain=effort) for k in self.subtracting_groups
            },
            RowName.PRIVATE_TREES: lambda: {
                f"private trees ε={e:g}": Choices(**trees, epsilon=e) for e in self.budgets
            },
        }
        rows = [row for name in made if name in self.names for row in made[name]().items()]
        return {name: chosen_method(choices) for name, choices in rows}

    @property
    def rows(self) -> list[MethodRow]:
        """All rows, the controls first."""
        from eupg.compare.rows import method_rows

        return method_rows(self.recipe, self.mechanisms, methods=self.methods, exposures=self.exposures)


def head_methods(budgets: Sequence[float], *, records: int) -> dict[str, Durable]:
    """Return the methods that are measured on public features."""
    methods = {"Exact head": chosen_method(Choices(method=MethodName.EXACT_HEAD))}
    for epsilon in budgets:
        options: dict[str, Any] = {"epsilon": epsilon, "max_records": records}
        methods[f"private head ε={epsilon:g}"] = chosen_method(Choices(guarantee=GuaranteeName.PRIVATE_HEAD, **options))
    return methods


def records_used(methods: Sequence[object], data: Dataset) -> list[str]:
    """Say how many records of each person are used, where a method caps them and somebody has more.

    Parameters
    ----------
    methods
        Methods, or mechanisms.
    data
        The records.
    """
    from eupg.protect.units import used_records

    parts = [getattr(method, "mechanism", method) for method in methods]
    caps = sorted({cap for part in parts if (cap := getattr(part, "max_records", None)) is not None})
    lines = []
    for cap in caps:
        used = used_records(data, cap)
        if data.names_people and used < len(data):
            names = dict.fromkeys(type(part).__name__ for part in parts if getattr(part, "max_records", None) == cap)
            verb = "uses" if len(names) == 1 else "use"
            lines.append(
                f"Some people have several records. {' and '.join(names)} {verb} at most {counted(cap, 'record')} of "
                f"each person, drawn at random: {used:,} of {len(data):,} records. More are used with --max-records."
            )
    return lines
