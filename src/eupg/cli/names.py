"""The words of the command line, and the objects behind them: the only place where a name selects behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.forget.protected_training import ProtectedTraining
    from eupg.protect.features.encoder import PublicEncoder
    from eupg.protect.mechanism import Mechanism
    from eupg.protect.microaggregation.choice import Microaggregation

SOURCES = ("rand_hie", "adult", "heart", "credit")


class LearnerName(StrEnum):
    """The learners of ``--learner``."""

    XGBOOST = "xgboost"
    LIGHTGBM = "lightgbm"
    MLP = "mlp"
    LOGISTIC = "logistic"


class MicroaggregationName(StrEnum):
    """The ways to form groups of ``--microaggregation``."""

    BY_SIZE = "by-size"
    MDAV = "mdav"
    REFINED = "refined"


class MethodName(StrEnum):
    """The methods of ``--method``."""

    EUPG = "eupg"
    RETRAIN = "retrain"
    SISA = "sisa"
    CERTIFIED_SP = "certified-sp"
    EXACT_TREES = "exact-trees"
    EXACT_HEAD = "exact-head"


class GuaranteeName(StrEnum):
    """The guarantees of ``--guarantee``."""

    KANONYMITY = "kanonymity"
    DP = "dp"
    SYNTHESIS = "synthesis"
    DPSGD = "dpsgd"
    PRIVATE_TREES = "private-trees"
    PRIVATE_HEAD = "private-head"


class EncoderName(StrEnum):
    """The public encoders of ``--encoder``."""

    WORDLLAMA = "wordllama"
    MINILM = "minilm"
    EFFICIENTNET_LITE0 = "efficientnet-lite0"
    EFFICIENTNET_LITE1 = "efficientnet-lite1"
    EFFICIENTNET_LITE2 = "efficientnet-lite2"

    @property
    def for_texts(self) -> bool:
        """Whether it describes texts, not pictures."""
        return self in (EncoderName.WORDLLAMA, EncoderName.MINILM)


# The options of each guarantee. Those of the others are refused with it.
PARAMETERS: dict[str, tuple[str, ...]] = {
    GuaranteeName.KANONYMITY: ("k", "microaggregation"),
    GuaranteeName.DP: ("epsilon", "label_epsilon"),
    GuaranteeName.SYNTHESIS: ("epsilon", "delta", "max_records"),
    GuaranteeName.DPSGD: ("epsilon", "delta", "max_records"),
    GuaranteeName.PRIVATE_TREES: ("epsilon", "delta", "max_records"),
    GuaranteeName.PRIVATE_HEAD: ("epsilon", "delta", "max_records"),
}


def option_name(field: str) -> str:
    """Return the option that a field holds.

    Examples
    --------
    >>> option_name("max_records")
    '--max-records'
    """
    return f"--{field.replace('_', '-')}"


def check_parameters(
    values: Mapping[str, object], chosen: Sequence[str], known: Sequence[str] = tuple(GuaranteeName)
) -> None:
    """Refuse options that belong to none of the chosen guarantees.

    Parameters
    ----------
    values
        The options of the command that are parameters of guarantees; None where one was not passed.
    chosen, known
        The guarantees that the user chose, and those that the command knows.
    """
    own = sorted({name for guarantee in chosen for name in PARAMETERS[guarantee] if name in values})
    for name in sorted(set(values).difference(own)):
        if values[name] is not None:
            owners = [guarantee for guarantee in known if name in PARAMETERS[guarantee]]
            raise ParameterError(
                f"{option_name(name)} belongs to --guarantee {' or '.join(owners)} and would be ignored with "
                f"{' and '.join(chosen)}, which can have {', '.join(map(option_name, own))}: leave it out, or choose "
                "another guarantee"
            )


def mechanism(guarantee: str, parameters: Mapping[str, Any]) -> Mechanism | ProtectedTraining:
    """Return the protection behind a guarantee; a parameter that is None or missing has its default."""
    # Both load a class when it is first used: only some guarantees need a framework.
    from eupg import forget, protect

    passed = {name: parameters[name] for name in PARAMETERS[guarantee] if parameters.get(name) is not None}
    match guarantee:
        case GuaranteeName.KANONYMITY:
            ways: dict[str, type[Microaggregation]] = {
                MicroaggregationName.MDAV: protect.MDAV,
                MicroaggregationName.REFINED: protect.RefinedMDAV,
                MicroaggregationName.BY_SIZE: protect.MDAVBySize,
            }
            way = passed.pop("microaggregation", MicroaggregationName.BY_SIZE)
            return protect.ProbabilisticKAnonymity(**passed, microaggregation=ways[way]())
        case GuaranteeName.DP:
            return protect.LocalDP(**passed)
        case GuaranteeName.SYNTHESIS:
            return protect.DPSynthesis(**passed)
        case GuaranteeName.DPSGD:
            return forget.DPSGDBase(**passed)
        case GuaranteeName.PRIVATE_HEAD:
            return forget.PrivateHead(**passed)
        case _:
            return forget.PrivateTrees(**passed)


def encoder(name: EncoderName) -> PublicEncoder:
    """Return the public encoder of that name, with the settings of the command line."""
    from eupg import protect

    match name:
        case EncoderName.WORDLLAMA:
            return protect.WordLlama()
        case EncoderName.MINILM:
            return protect.MiniLM()
        case EncoderName.EFFICIENTNET_LITE0:
            return protect.EfficientNetLite0(size=224)
        case EncoderName.EFFICIENTNET_LITE1:
            return protect.EfficientNetLite1()
        case EncoderName.EFFICIENTNET_LITE2:
            return protect.EfficientNetLite2()
