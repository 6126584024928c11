import pytest

from eupg.cli.methods import chosen_method
from eupg.cli.names import GuaranteeName, LearnerName, MethodName, MicroaggregationName
from eupg.cli.options import Choices
from eupg.errors import ParameterError
from eupg.forget import EUPG
from eupg.protect import MDAV, MDAVBySize, ProbabilisticKAnonymity, RefinedMDAV


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (None, MDAVBySize()),
        (MicroaggregationName.BY_SIZE, MDAVBySize()),
        (MicroaggregationName.MDAV, MDAV()),
        (MicroaggregationName.REFINED, RefinedMDAV()),
    ],
)
def test_option_chooses_how_groups_are_formed(name, way):
    choices = Choices(guarantee=GuaranteeName.KANONYMITY, k=12, microaggregation=name, learner=LearnerName.XGBOOST)
    method = chosen_method(choices)
    assert isinstance(method, EUPG)
    assert method.mechanism == ProbabilisticKAnonymity(12, way)


def test_way_to_form_groups_is_refused_where_no_groups_are_formed():
    choices = Choices(method=MethodName.EXACT_TREES, microaggregation=MicroaggregationName.MDAV)
    with pytest.raises(ParameterError, match="--method exact-trees has no --microaggregation"):
        chosen_method(choices)
