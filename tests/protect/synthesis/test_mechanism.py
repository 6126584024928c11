import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.checks import ContractViolation, check_mechanism
from eupg.data.attribute import Categorical, Key, Missing, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate, Neighbours, Unit
from eupg.protect.synthesis.mechanism import DPSynthesis, at_most
from eupg.rng import Secret, Seeded
from people import SCHEMA, people
from statistical.refuting import RARE, chi_square

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


def table(attributes, X, y, subjects=None) -> Dataset:
    keys = () if subjects is None else (Key(name="person", role=Role.SUBJECT),)
    names = np.arange(len(y)).astype(str)
    return Dataset(
        Schema((*keys, *attributes)), np.asarray(X, float), y, names, names if subjects is None else subjects
    )


def binary(columns: int) -> tuple:
    return (*(Categorical(name=f"f{j}", categories=("a", "b")) for j in range(columns)), LABEL)


@pytest.mark.parametrize("mechanism", [DPSynthesis(), DPSynthesis(2.0, delta=1e-6, max_records=3), DPSynthesis(0.05)])
def test_contract_is_kept(mechanism):
    check_mechanism(mechanism, people())


class RefusesTheEmpty(DPSynthesis):
    """Gives away, by refusing, that nobody is there."""

    def protect(self, data, rng):
        if not len(data):
            raise DataError("there is no record to protect: bring at least one")
        return super().protect(data, rng)


def test_contract_finds_a_claim_on_presence_that_an_empty_table_breaks():
    with pytest.raises(ContractViolation, match="must not reveal whether a table is empty"):
        check_mechanism(RefusesTheEmpty(), people())


def test_claim_is_for_a_person_and_covers_everything_with_the_label():
    claim = DPSynthesis(2.0, delta=1e-6).guarantee(SCHEMA)
    assert claim == DifferentiallyPrivate(
        epsilon=2.0,
        delta=1e-6,
        unit=Unit.PERSON,
        neighbours=Neighbours.ADD_OR_REMOVE,
        covers=("age", "income", "health", "town", "job", "score", "ill"),
    )
    assert claim.for_person(50) == claim


def test_claim_is_for_a_record_where_nobody_is_named():
    claim = DPSynthesis(2.0).guarantee(Schema(binary(2)))
    assert (claim.unit, claim.epsilon, claim.for_person(3).epsilon) == (Unit.RECORD, 2.0, 6.0)


def test_declared_rows_and_inferred_bounds_narrow_the_claim():
    assert "number of rows, 40, was declared and not counted" in DPSynthesis(rows=40).guarantee(SCHEMA).sentence()
    schema = Schema((Numeric(name="age", lower=17, upper=90, inferred=("lower", "upper")), LABEL))
    assert "Lower, upper of 'age' read from the data" in DPSynthesis().guarantee(schema).sentence()
    assert DPSynthesis().guarantee(SCHEMA).caveats == ()


def test_declared_rows_are_drawn_and_others_follow_a_noisy_count():
    data = people()
    assert len(DPSynthesis(rows=17).protect(data, Seeded(1))) == 17
    counts = {len(DPSynthesis(20.0, max_records=3).protect(data, Seeded(seed))) for seed in range(8)}
    assert len(counts) > 4
    assert all(abs(count - 300) < 150 for count in counts)


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 5), st.integers(0, 2**32))
def test_at_most_so_many_records_of_each_person_take_part(persons, most, seed):
    subjects = np.array([f"p{i}" for i in persons], dtype=str)
    data = table(binary(1), np.zeros((len(persons), 1)), np.zeros(len(persons), int), subjects)
    kept = at_most(data, most, Seeded(seed))
    for person in range(5):
        assert (kept.subjects == f"p{person}").sum() == min(most, persons.count(person))
    assert set(kept.ids) <= set(data.ids)


def test_those_who_take_part_are_chosen_uniformly_and_each_person_apart():
    """All pairs of ten subsets for two people with five records each, two used: chi-square at 1e-9."""
    data = table(binary(1), np.zeros((10, 1)), np.zeros(10, int), np.array(["a", "b"] * 5))
    subsets = {frozenset(s): i for i, s in enumerate(itertools.combinations(range(0, 10, 2), 2))}
    seen = np.zeros((10, 10))
    for seed in range(4000):
        ids = at_most(data, 2, Seeded(seed)).ids.astype(int)
        mine, theirs = (subsets[frozenset((ids[ids % 2 == side] - side).tolist())] for side in (0, 1))
        seen[mine, theirs] += 1
    assert chi_square(seen.ravel(), np.ones(100)) > RARE


def test_all_records_take_part_where_a_record_is_the_unit():
    """Were some of a group dropped, removing one record could let another one in: two would change, not one."""
    data = table(binary(1), np.zeros((6, 1)), np.zeros(6, int))
    shared = dataclasses.replace(data, subjects=np.full(6, "the same"))
    assert len(at_most(shared, 1, Seeded(1))) == 6


def test_release_depends_on_neither_names_nor_order():
    """As long as nobody has more records than take part, the noisy counts are those of the set of records."""
    data, mechanism = people(), DPSynthesis(2.0, max_records=3)
    order = np.random.default_rng(1).permutation(len(data))
    renamed = Dataset(
        data.schema,
        data.X[order],
        data.y[order],
        np.array([f"other {i}" for i in range(300)]),
        np.char.add("someone else ", data.subjects[order]),
    )
    first, second = (mechanism.protect(d, Seeded(3)) for d in (data, renamed))
    assert first.X.tobytes() == second.X.tobytes()
    assert first.y.tobytes() == second.y.tobytes()


def test_what_lies_between_grid_points_changes_no_bit_of_the_release():
    data = people()
    X = data.X.copy()
    X[:, 0] += np.where(X[:, 0] < 90, 0.3, 0)
    X[:, 5] += 0.01 * (X[:, 5] < 1)
    moved = dataclasses.replace(data, X=X)
    first, second = (DPSynthesis(20.0, max_records=3).protect(d, Seeded(3)) for d in (data, moved))
    assert first.X.tobytes() == second.X.tobytes()


@pytest.mark.parametrize("rng", [Seeded(1), Secret()])
def test_released_values_are_on_the_public_grid_to_the_last_bit(rng):
    release = DPSynthesis(1.0).protect(people(), rng)
    for j, attribute in enumerate(release.schema.features):
        values = release.X[~np.isnan(release.X[:, j]), j]
        if isinstance(attribute, Numeric):
            points = np.minimum(attribute.lower + np.arange(attribute.points) * attribute.resolution, attribute.upper)
            assert np.isin(values, points).all()
        else:
            assert np.isin(values, np.arange(len(attribute.categories))).all()
        assert attribute.missing is Missing.KEEP or len(values) == len(release)
    # One bit pattern for every missing value: a NaN has room for a secret.
    assert len(np.unique(release.X[np.isnan(release.X)].view(np.uint64))) <= 1
    assert release.y.dtype == np.int64


@pytest.mark.parametrize("rows", [0, 1, 2, 10])
@pytest.mark.parametrize("classes", [2, 3])
def test_tables_that_are_all_noise_still_give_a_release(rows, classes):
    """Totals and counts below zero, empty bins, classes nobody has: nothing may fail, and none may be told by it."""
    data = people(max(rows, 3), classes=classes).select(np.arange(max(rows, 3)) < rows)
    for seed, mechanism in enumerate([DPSynthesis(e) for e in (0.02, 0.3, 5.0, 1e6)] * 3):
        release = mechanism.protect(data, Seeded(seed))
        assert len(release) >= 1
        assert release.X.shape == (len(release), 6)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "1", True])
def test_meaningless_epsilon_is_refused(value):
    with pytest.raises(ParameterError, match="epsilon must be a positive finite number"):
        DPSynthesis(value)


@pytest.mark.parametrize("value", [-0.1, 1, 2.0, math.nan, "0"])
def test_meaningless_delta_is_refused(value):
    with pytest.raises(ParameterError, match="delta must be 0, or a small probability"):
        DPSynthesis(1.0, delta=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_meaningless_numbers_of_records_and_rows_are_refused(value):
    with pytest.raises(ParameterError, match="max_records must be a whole number"):
        DPSynthesis(max_records=value)
    with pytest.raises(ParameterError, match="rows must be a whole number"):
        DPSynthesis(rows=value)


def wide(attribute) -> Dataset:
    return table((attribute, *binary(1)), np.zeros((5, 2)), np.zeros(5, int))


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (wide(Categorical(name="c", categories=tuple(map(str, range(20_001))))), "merge rare ones"),
        (wide(Numeric(name="c", lower=0, upper=1e18, resolution=1e-6)), "coarser resolution"),
        (table(binary(501), np.zeros((5, 501)), np.zeros(5, int)), "drop those that matter least"),
    ],
)
def test_schema_past_the_limits_is_refused_with_the_remedy(data, remedy):
    with pytest.raises(ParameterError, match=remedy):
        DPSynthesis().protect(data, Seeded(1))


def test_schema_in_which_nothing_can_vary_is_refused():
    with pytest.raises(DataError, match="declare more"):
        DPSynthesis().protect(table((Numeric(name="c", lower=3, upper=3), LABEL), [[3]], [0]), Seeded(1))


def test_too_small_a_budget_for_so_many_columns_is_refused():
    with pytest.raises(ParameterError, match="ask for a larger ε"):
        DPSynthesis(1e-4).protect(table(binary(50), np.zeros((5, 50)), np.zeros(5, int)), Seeded(1))
