import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.protect.local_dp import LocalDP
from eupg.protect.utility import Embedding, learn_embeddings
from eupg.rng import Secret, Seeded
from people import SCHEMA, people

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


@given(st.floats(0.01, 50), st.one_of(st.none(), st.floats(0.01, 10)))
@settings(max_examples=30)
def test_channel_budgets_add_up_to_at_most_the_claim(epsilon, label_epsilon):
    mechanism = LocalDP(epsilon, label_epsilon=label_epsilon)
    channels = mechanism.channels(SCHEMA)
    spent = math.fsum(c.epsilon for c in channels.values())
    assert spent <= mechanism.guarantee(SCHEMA).epsilon
    assert set(channels) == set(mechanism.guarantee(SCHEMA).covers)


def test_label_is_left_open_unless_it_has_a_budget():
    assert LocalDP(1).guarantee(SCHEMA).leaves_open == ("ill",)
    data = people()
    bare = LocalDP(1).protect(data, Seeded(1))
    assert sorted(bare.y) == sorted(data.y)
    covered = LocalDP(1, label_epsilon=0.5)
    claim = covered.guarantee(SCHEMA)
    assert (claim.epsilon, claim.leaves_open) == (1.5, ())
    assert claim.covers[-1] == "ill"
    assert sorted(covered.protect(data, Seeded(1)).y) != sorted(data.y)


def test_released_values_lie_on_the_public_grid():
    release = LocalDP(2.0).protect(people(), Secret())
    income = release.X[:, 1] / 0.5
    assert np.allclose(income, np.rint(income))
    assert release.X[:, 0].min() >= 0
    assert release.X[:, 0].max() <= 100
    assert set(np.unique(release.X[:, 3])) <= {0, 1, 2, 3}


def test_upper_bound_off_the_grid_is_still_reached_and_never_passed():
    schema = Schema((Numeric(name="v", lower=0, upper=1, resolution=0.3), LABEL))
    data = Dataset(schema, np.ones((2000, 1)), np.arange(2000) % 2, *[np.arange(2000).astype(str)] * 2)
    values = np.unique(LocalDP(1.0).protect(data, Seeded(1)).X.round(9))
    assert values.tolist() == [0, 0.3, 0.6, 0.9, 1]
    assert (LocalDP(1e6).protect(data, Seeded(1)).X == 1).all()
    low = dataclasses.replace(data, X=np.full((2000, 1), 0.93))
    assert np.allclose(LocalDP(1e6).protect(low, Seeded(1)).X, 0.9)


def test_huge_epsilon_returns_nearly_every_value():
    data = people(2000)
    release = LocalDP(10_000.0).protect(data, Seeded(1))
    assert np.mean(np.sort(release.X[:, 0]) == np.sort(data.X[:, 0])) > 0.95


def test_a_missing_value_can_appear_and_disappear():
    data = people(3000)
    release = LocalDP(1.0).protect(data, Seeded(1))
    shares = np.isnan(release.X).mean(axis=0)
    assert (shares[:4] == 0).all()
    # Presence is randomised nearly to a coin flip at this budget; category 'job' has three symbols.
    assert 0.3 < shares[5] < 0.6
    assert 0.2 < shares[4] < 0.45


def test_constant_attribute_takes_no_budget():
    schema = Schema((Numeric(name="a", lower=0, upper=9), Numeric(name="same", lower=3, upper=3), LABEL))
    channels = LocalDP(1.0).channels(schema)
    assert channels["a"].epsilon == pytest.approx(1.0)
    assert channels["same"].epsilon == 0.0


def test_hierarchy_makes_near_categories_likelier():
    weights = LocalDP(6.0).channels(SCHEMA)["town"].value.matrix()[0]
    assert weights[0] > weights[1] > weights[2] == weights[3]


def test_embedding_overrides_hierarchy_and_order_refuses_one():
    vectors = {"A": (1.0, 0.0), "B": (-1.0, 0.0), "C": (0.9, 0.1), "D": (0.0, 1.0)}
    channel = LocalDP(6.0, embeddings={"town": Embedding(vectors, public=True)}).channels(SCHEMA)["town"].value
    assert channel.matrix()[0].argsort()[::-1].tolist() == [0, 2, 3, 1]
    with pytest.raises(ParameterError, match="its order is its utility"):
        LocalDP(1, embeddings={"health": Embedding({}, public=True)}).channels(SCHEMA)
    with pytest.raises(ParameterError, match="not a feature"):
        LocalDP(1, embeddings={"nothing": Embedding({}, public=True)}).channels(SCHEMA)
    with pytest.raises(ParameterError, match="no vector for category"):
        LocalDP(1, embeddings={"town": Embedding({"A": (1.0,)}, public=True)}).channels(SCHEMA)


def test_utilities_learnt_on_private_records_are_named_in_the_claim():
    assert "does not cover" in LocalDP(1, unsafe_learn_embeddings=True).guarantee(SCHEMA).sentence()
    private = learn_embeddings(people(), public=False)
    assert "learnt from private records" in LocalDP(1, embeddings=private).guarantee(SCHEMA).sentence()
    public = learn_embeddings(people(seed=5), public=True)
    assert LocalDP(1, embeddings=public).guarantee(SCHEMA).caveats == ()
    assert len(LocalDP(1, unsafe_learn_embeddings=True).protect(people(), Seeded(1))) == 300


def test_embeddings_place_categories_that_occur_alike_close_together():
    rng = np.random.default_rng(0)
    twin = rng.integers(0, 4, 4000)
    partner = np.where(twin < 2, rng.integers(0, 2, 4000), rng.integers(2, 4, 4000))
    schema = Schema(
        (
            Categorical(name="a", categories=tuple("abcd")),
            Ordinal(name="b", categories=tuple("wxyz")),
            LABEL,
        )
    )
    data = Dataset(schema, np.column_stack([twin, partner]), twin % 2, *[np.arange(4000).astype(str)] * 2)
    attribute = schema["a"]
    assert isinstance(attribute, Categorical)
    cosine = learn_embeddings(data, public=True)["a"].utility(attribute)
    assert cosine[0, 1] > 0.9
    assert cosine[0, 2] < -0.2
    assert np.allclose(np.diag(cosine), 1)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "1"])
def test_meaningless_budget_is_refused(value):
    with pytest.raises(ParameterError, match="epsilon must be a positive finite number"):
        LocalDP(value)
    with pytest.raises(ParameterError, match="label_epsilon must be a positive"):
        LocalDP(1, label_epsilon=value)


def test_inferred_bounds_narrow_the_claim():
    schema = Schema((Numeric(name="age", lower=17, upper=90, inferred=("lower", "upper")), LABEL))
    assert "Lower, upper of 'age' read from the data" in LocalDP(1).guarantee(schema).sentence()


def test_rare_and_unseen_categories_are_neutral_not_alike():
    rng = np.random.default_rng(1)
    sizes = [4000, 4000, 40, 40, 0, 0]
    codes = np.repeat(np.arange(6), sizes)
    schema = Schema(
        (Categorical(name="a", categories=tuple("abcdef")), Ordinal(name="b", categories=tuple("xyz")), LABEL)
    )
    X = np.column_stack([codes, rng.integers(0, 3, len(codes))])
    data = Dataset(schema, X, codes % 2, *[np.arange(len(codes)).astype(str)] * 2)
    learnt = learn_embeddings(data, public=True)["a"]
    lengths = np.linalg.norm(list(learnt.vectors.values()), axis=1)
    assert (lengths[4:] < 1e-9).all()
    attribute = schema["a"]
    assert isinstance(attribute, Categorical)
    assert np.allclose(learnt.utility(attribute)[4, :4], 0)


def test_embeddings_that_are_given_win_over_learnt_ones():
    vectors = {c: tuple(np.eye(4)[i]) for i, c in enumerate("ABCD")}
    given = LocalDP(3.0, embeddings={"town": Embedding(vectors, public=True)}, unsafe_learn_embeddings=True)
    only = LocalDP(3.0, embeddings={"town": Embedding(vectors, public=True)})
    a, b = (m.protect(people(), Seeded(1)).X[:, 3] for m in (given, only))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("vectors", [{"A": (1.0,), "B": (1.0, 2.0)}, {"A": (math.nan,), "B": (1.0,)}])
def test_ragged_or_infinite_vectors_are_refused(vectors):
    attribute = Categorical(name="x", categories=("A", "B"))
    with pytest.raises(ParameterError, match="finite and of one length"):
        Embedding(vectors, public=True).utility(attribute)


@pytest.mark.parametrize("dimensions", [0, -1, 2.5, True])
def test_meaningless_number_of_dimensions_is_refused(dimensions):
    with pytest.raises(ParameterError, match="dimensions must be a whole number"):
        learn_embeddings(people(), dimensions=dimensions, public=True)
