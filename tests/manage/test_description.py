"""A method as plain values: built again from them, or honest about what cannot be."""

import json

import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier

from eupg import EUPG, LightGBMLearner, LocalDP, ProbabilisticKAnonymity, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.learn.networks import MLP
from eupg.manage.description import describe, rebuild

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
