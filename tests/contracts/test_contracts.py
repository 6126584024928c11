"""Every implementation, held to the contract of its protocol; and every contract, shown to catch a broken one."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from eupg import EUPG, SISA, Retrain
from eupg.checks import ContractViolation, check_learner, check_mechanism, check_unlearner
from eupg.data.attribute import Key
from eupg.data.schema import Schema
from eupg.forget import Aggregate, CertifiedSP
from eupg.forget.exact_trees import ExactTrees
from eupg.guarantees import Unit
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.leaves.leaf_ridge import LeafRidge
from eupg.learn.leaves.ridge import ridge_scores
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping
from eupg.protect import LocalDP, ProbabilisticKAnonymity, Unprotected
from eupg.protect.release import Release
from eupg.rng import Seeded
from people import people

MECHANISMS = [
    ProbabilisticKAnonymity(5),
    ProbabilisticKAnonymity(30),
    LocalDP(1.0),
    LocalDP(4.0, label_epsilon=1.0),
    LocalDP(1.0, unsafe_learn_embeddings=True),
]
NEIGHBOURS = SklearnLearner(
    KNeighborsClassifier(),
    trusted=("sklearn.neighbors._kd_tree.KDTree", "sklearn.metrics._dist_metrics.EuclideanDistance64"),
)
LEARNERS = [
    TorchLearner(),
    XGBoostLearner(threads=1),
    XGBoostLearner(refresh_leaves=True, threads=1),
    LightGBMLearner(threads=1, least_records=2),
    SklearnLearner(),
    SklearnLearner(LogisticRegression()),
    SklearnLearner(MLPClassifier((8,)), trusted=("sklearn.neural_network._stochastic_optimizers.AdamOptimizer",)),
    SklearnLearner(GradientBoostingClassifier(max_depth=2), trusted=("sklearn.tree._tree.Tree",)),
    SklearnLearner(ExtraTreesClassifier(max_depth=3), trusted=("sklearn.tree._tree.Tree",)),
    NEIGHBOURS,
]
XGBOOST = XGBoostLearner(threads=1)
UNLEARNERS = [
    EUPG(ProbabilisticKAnonymity(10), XGBoostLearner(threads=1), pretrain=3, finetune=2),
    EUPG(LocalDP(1.0), SklearnLearner(), pretrain=2, finetune=1),
    EUPG(ProbabilisticKAnonymity(10), TorchLearner(), pretrain=2, finetune=1),
    EUPG(ProbabilisticKAnonymity(10), LightGBMLearner(threads=1), pretrain=3, finetune=0),
    EUPG(ProbabilisticKAnonymity(10), XGBOOST, pretrain=3, finetune=1, finetuner=LeafRidge(XGBOOST)),
    ExactTrees(),
    Retrain(LightGBMLearner(threads=1), effort=3),
    Retrain(TorchLearner(), effort=1),
    Retrain(SklearnLearner(KNeighborsClassifier()), effort=1),
    SISA(XGBoostLearner(threads=1), effort=6, shards=3, slices=3),
    SISA(LightGBMLearner(threads=1, least_records=2), effort=6, shards=2, slices=3, aggregate=Aggregate.VOTE),
    SISA(TorchLearner(batch_size=32), effort=3, shards=3, slices=2, unit=Unit.RECORD),
    SISA(SklearnLearner(), effort=3, shards=1, slices=4, likelihood={f"p{i}": float(i) for i in range(10)}),
    SISA(NEIGHBOURS, effort=1, shards=3, slices=1),
    CertifiedSP(TorchLearner(batch_size=32), effort=2, finetune=2, noise=GradientClipping(1.0, 0.1, 0.5, 0.1, 4)),
    CertifiedSP(TorchLearner(batch_size=32), effort=2, finetune=1, noise=ModelClipping(1.0, 0.1, 2), epsilon=4.0),
]


def name(thing) -> str:
    return repr(thing)[:70]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name)
def test_mechanism_keeps_its_contract(mechanism):
    check_mechanism(mechanism, people())


def test_unprotected_keeps_the_contract_and_warns():
    with pytest.warns(UserWarning, match="for ablation only"):
        check_mechanism(Unprotected(), people())


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
@pytest.mark.parametrize("classes", [2, 3])
def test_learner_keeps_its_contract(learner, classes, tmp_path):
    check_learner(learner, people(classes=classes), tmp_path)


@pytest.mark.parametrize("unlearner", UNLEARNERS, ids=name)
def test_unlearner_keeps_its_contract(unlearner):
    check_unlearner(unlearner, people(120))


def without_keys(schema):
    return Schema(tuple(a for a in schema.attributes if not isinstance(a, Key)))


def overwrite(array, value):
    """Write into an array that its owner made read-only."""
    array.flags.writeable = True
    array[0] = value
    array.flags.writeable = False


class KeepsOrder:
    """A mechanism that permutes well and forgets to shuffle the rows."""

    inner = ProbabilisticKAnonymity(5)

    def guarantee(self, schema):
        return self.inner.guarantee(schema)

    def protect(self, data, rng):
        groups = self.inner.groups(data)
        X = np.column_stack([data.X[rng.permutation_within(groups), j] for j in range(data.X.shape[1])])
        claim = dataclasses.replace(self.guarantee(data.schema), seeded=rng.seeded)
        return Release(without_keys(data.schema), X, data.y.copy(), claim)


class NamesPeople(KeepsOrder):
    def protect(self, data, rng):
        return dataclasses.replace(self.inner.protect(data, rng), schema=data.schema)


class HidesItsSeed(KeepsOrder):
    def protect(self, data, rng):
        release = self.inner.protect(data, rng)
        return dataclasses.replace(release, guarantee=self.guarantee(data.schema))


class DoesNothing(KeepsOrder):
    def protect(self, data, rng):
        return Release.shuffled(data, data.X, data.y, self.guarantee(data.schema), Seeded(1))


class LeavesTheBounds(KeepsOrder):
    """Releases one value past the end of its public range, or of its list."""

    def __init__(self, name):
        self.name = name

    def protect(self, data, rng):
        release = self.inner.protect(data, rng)
        X, j = release.X.copy(), [a.name for a in release.schema.features].index(self.name)
        X[0, j] = getattr(data.schema[self.name], "upper", 3) + 1
        return dataclasses.replace(release, X=X)


class WritesToTheRecords(KeepsOrder):
    def __init__(self, name):
        self.name = name

    def protect(self, data, rng):
        overwrite(getattr(data, self.name), 0)
        return self.inner.protect(data, rng)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (KeepsOrder(), "rows must be shuffled"),
        (NamesPeople(), "must name nobody"),
        (HidesItsSeed(), "marked seeded"),
        (DoesNothing(), "another seed"),
        (LeavesTheBounds("income"), "'income' must lie inside"),
        (LeavesTheBounds("town"), "'town' must lie inside"),
        (WritesToTheRecords("X"), "records untouched"),
        (WritesToTheRecords("y"), "records untouched"),
        (WritesToTheRecords("subjects"), "records untouched"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, KeepsOrder) else None,
)
def test_broken_mechanism_is_caught(broken, complaint):
    with pytest.raises(ContractViolation, match=complaint):
        check_mechanism(broken, people())


class Forgetful(XGBoostLearner):
    """Says that it warm-starts and does not."""

    def fit(self, examples, *, effort, rng, start=None):
        return super().fit(examples, effort=effort, rng=rng)


class Unseeded(SklearnLearner):
    def fit(self, examples, *, effort, rng, start=None):
        return super().fit(examples, effort=effort, rng=np.random.default_rng(), start=start)


class WritesToTheExamples(SklearnLearner):
    def fit(self, examples, *, effort, rng, start=None):
        if len(examples.y):
            overwrite(examples.y, 1 - people().y[0])
        return super().fit(examples, effort=effort, rng=rng, start=start)


class LoadsAnother(SklearnLearner):
    """Loads a model that differs from the saved one in the last digits."""

    def load(self, path):
        return Blurred(super().load(path))


class Blurred:
    def __init__(self, model):
        self.model = model

    def predict_proba(self, X):
        return self.model.predict_proba(X).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (Forgetful(threads=1), "must differ from a fit from scratch"),
        (Unseeded(), "same seed"),
        (WritesToTheExamples(), "examples untouched"),
        (LoadsAnother(), "a loaded model must predict exactly"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_broken_learner_is_caught(broken, complaint, tmp_path):
    with pytest.raises(ContractViolation, match=complaint):
        check_learner(broken, people(), tmp_path)


class FromTheServedModel(EUPG):
    """Goes on from the served model instead of the base: the mistake the whole method exists to avoid."""

    def update(self, trained, data, rng):
        return super().update(dataclasses.replace(trained, memory=trained.model), data, rng)


class KeepsIds(Retrain):
    def forget(self, trained, retained, rng):
        after = super().forget(trained, retained, rng)
        return dataclasses.replace(after, memory=list(trained.ids))


class WritesToTheTable(Retrain):
    def train(self, data, rng):
        overwrite(data.X, 0)
        return super().train(data, rng)


class ReleasesNewRecords(EUPG):
    """Makes a new base model of all records whenever some come in: those added later are no longer untouched by it."""

    def update(self, trained, data, rng):
        new = not set(data.ids.tolist()) <= trained.kept
        return self.train(data, rng) if new else super().update(trained, data, rng)


class HidesItsHistory(CertifiedSP):
    """Goes on from the served model, as it must, and does not say so."""

    depends_on_history = False


class InventsAHistory(Retrain):
    """Says that the order of requests matters, where it does not."""

    depends_on_history = True


class RestartsTooLate(SISA):
    """Goes on from a checkpoint that has seen what is to be forgotten."""

    def _retrain(self, memory, data, first, rng):
        later = {shard: min(part + 1, self.slices - 1) for shard, part in first.items()}
        return super()._retrain(memory, data, later if memory.places else first, rng)


class KeepsPlaces(SISA):
    """Remembers where those who left used to sit."""

    def update(self, trained, data, rng):
        after = super().update(trained, data, rng)
        places = {**trained.memory.places, **after.memory.places}
        return dataclasses.replace(after, memory=dataclasses.replace(after.memory, places=places))


class KeepsTheScores(ExactTrees):
    """Counts anew and serves scores that were solved from the counts before."""

    def update(self, trained, data, rng):
        after = super().update(trained, data, rng)
        scores = ridge_scores(trained.memory.statistics, self.penalty)
        return dataclasses.replace(after, model=dataclasses.replace(after.model, scores=scores))


class KeepsWhatWasAdded(SISA):
    """Leaves shards alone whose new records are asked back."""

    def update(self, trained, data, rng):
        new = {name for name in trained.kept if name.startswith("new-")}
        if new <= set(data.ids.tolist()):
            return super().update(trained, data, rng)
        return dataclasses.replace(trained, ids=frozenset(data.ids.tolist()), kept=frozenset(data.ids.tolist()))


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (FromTheServedModel(LocalDP(1.0), SklearnLearner(SGDClassifier(loss="log_loss")), 2, 1), "A, then B"),
        (KeepsIds(SklearnLearner(), 1), "reachable"),
        (WritesToTheTable(SklearnLearner(), 1), "records untouched"),
        (ReleasesNewRecords(LocalDP(1.0), SklearnLearner(), 2, 1), "added later must be exact"),
        (HidesItsHistory(TorchLearner(), 1, 1, noise=GradientClipping(1.0, 0.1, 0.5, 0.1, 1)), "A, then B"),
        (InventsAHistory(SklearnLearner(), 1), "unless depends_on_history is true"),
        (RestartsTooLate(XGBoostLearner(threads=1), 6, shards=1, slices=3), "the content of the forgotten records"),
        (KeepsPlaces(XGBoostLearner(threads=1), 4, shards=2, slices=2), "reachable"),
        (KeepsTheScores(), "A, then B"),
        (KeepsWhatWasAdded(SklearnLearner(), 2, shards=2, slices=2), "lead back to the same model"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_broken_unlearner_is_caught(broken, complaint):
    with warnings.catch_warnings(), pytest.raises(ContractViolation, match=complaint):
        check_unlearner(broken, people(120))
