"""A method as plain values: built again from them, or honest about what cannot be."""

import copy
import dataclasses
import json

import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier

from eupg import EUPG
from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.torch.networks import MLP
from eupg.manage.description import agrees, as_described, describe, rebuild
from eupg.protect import MDAV, LocalDP, MDAVBySize, ProbabilisticKAnonymity, RefinedMDAV
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation

METHODS = [
    EUPG(mechanism, learner, pretrain=3, finetune=2)
    for mechanism in (ProbabilisticKAnonymity(k=7), LocalDP(epsilon=2.5))
    for learner in (
        SklearnLearner(),
        SklearnLearner(SGDClassifier(loss="log_loss", alpha=0.01)),
        SklearnLearner(LogisticRegression(C=0.5, solver="saga", warm_start=True)),
        XGBoostLearner(max_depth=3, threads=1),
        LightGBMLearner(threads=1),
        TorchLearner(network=MLP(hidden=(7, 5)), batch_size=64),
    )
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_methods_of_the_library_are_built_again(method):
    noted = json.loads(json.dumps(describe(method)))
    again = rebuild(noted)
    assert repr(again) == repr(method)
    assert describe(again) == noted


def test_descriptions_tell_methods_apart():
    assert len({json.dumps(describe(method)) for method in METHODS}) == len(METHODS)


PICTURES = EUPG(PixelDP(), TorchLearner(), pretrain=3, finetune=2)


@pytest.mark.parametrize("mechanism", [PixelDP(), PixelPermutation()], ids=repr)
def test_options_left_alone_are_written_too(mechanism):
    """Another default in a later version must not change a workspace, nor what a certificate says was done."""
    noted = json.loads(json.dumps(describe(EUPG(mechanism, TorchLearner(), pretrain=3))))
    assert set(noted["with"]["mechanism"]["with"]) == {f.name for f in dataclasses.fields(mechanism)}
    assert noted["with"]["learner"]["with"]["optimiser"] == "adam"
    method = rebuild(noted)
    assert isinstance(method, EUPG)
    assert method.mechanism == mechanism


def test_description_from_before_an_option_came_to_be_means_its_default():
    noted = json.loads(json.dumps(describe(PICTURES)))
    del noted["with"]["mechanism"]["with"]["channels"], noted["with"]["learner"]["with"]["schedule"]
    before = copy.deepcopy(noted)
    assert agrees(PICTURES, noted)
    assert noted == before
    assert describe(rebuild(noted)) == describe(PICTURES)
    for other in (
        dataclasses.replace(PICTURES, mechanism=PixelDP(channels="shared")),
        dataclasses.replace(PICTURES, learner=TorchLearner(schedule="one-cycle")),
    ):
        assert not agrees(other, noted)
        assert agrees(other, describe(other))


def without_microaggregation(method):
    """A description from before groups could be formed in several ways."""
    noted = json.loads(json.dumps(describe(method)))
    del noted["with"]["mechanism"]["with"]["microaggregation"]
    return noted


def test_description_from_before_groups_were_refined_means_exact_mdav():
    method = EUPG(ProbabilisticKAnonymity(k=7), SklearnLearner(), pretrain=1)
    exact = dataclasses.replace(method, mechanism=ProbabilisticKAnonymity(7, MDAV()))
    noted = without_microaggregation(method)
    assert describe(rebuild(noted)) == describe(exact)
    assert agrees(exact, noted)
    assert not agrees(method, noted)
    assert as_described(method, noted) == exact
    assert method.mechanism == ProbabilisticKAnonymity(7)


@pytest.mark.parametrize("way", [MDAV(), RefinedMDAV(), MDAVBySize(), MDAVBySize(exact_to=10)], ids=repr)
def test_way_to_form_groups_is_recorded_and_built_again(way):
    method = EUPG(ProbabilisticKAnonymity(7, way), SklearnLearner(), pretrain=1)
    noted = json.loads(json.dumps(describe(method)))
    again = rebuild(noted)
    assert isinstance(again, EUPG)
    assert again.mechanism == method.mechanism
    assert as_described(method, noted) is method


def test_choice_that_an_old_description_does_not_have_is_not_taken_back():
    method = EUPG(ProbabilisticKAnonymity(7, RefinedMDAV()), SklearnLearner(), pretrain=1)
    noted = without_microaggregation(method)
    assert as_described(method, noted) is method
    assert not agrees(method, noted)


def test_method_with_parts_of_your_own_agrees_with_its_description():
    method = EUPG(OwnMechanism(epsilon=1.0), SklearnLearner(), pretrain=1)
    assert agrees(method, json.loads(json.dumps(describe(method))))
    assert not agrees(method, describe(dataclasses.replace(method, pretrain=2)))


class OwnMechanism(LocalDP):
    """A plug-in."""


def test_own_parts_are_named_and_not_built():
    noted = describe(EUPG(OwnMechanism(epsilon=1.0), SklearnLearner(), pretrain=1))
    with pytest.raises(ParameterError, match=r"OwnMechanism.*only you can build: open it with Manager"):
        rebuild(json.loads(json.dumps(noted)))


@pytest.mark.parametrize("module", ["eupg_plugin.protect", "sklearnex.linear_model", "__main__"])
def test_class_of_a_familiar_name_from_elsewhere_is_a_part_of_your_own(module):
    stranger = type("LocalDP", (), {"__module__": module, "__repr__": lambda self: "stranger"})()
    assert describe(stranger) == {"opaque": "stranger"}


@pytest.mark.parametrize(
    "values",
    [
        {"class": "Popen", "with": {"args": "id"}},
        {"class": "os.system", "with": {}},
        {"class": "EUPG", "with": None},
        {"class": "__import__", "with": {"name": "os"}},
        {},
        7,
        [],
        {"class": "LocalDP", "with": {"epsilon": 1.0}},
    ],
    ids=repr,
)
def test_nothing_else_is_ever_built(values):
    with pytest.raises(WorkspaceDamaged):
        rebuild(values)
