"""Hold what ``LocalDP.protect`` releases against the exact weights of its channels and against ε; and the row order.

Everything here goes through the public ``protect``, once with the operating system's randomness and once with a seed,
and covers every kind of attribute. The label, where it has no budget of its own, stays with its row, so it tells which
record a released row was made from.

False alarms come from unseeded randomness only. Chi-square tests run at 1e-9 (fewer than 200 of them), tests of ε at
1e-6 (two), of the row order at 1e-7 (two): less than 3e-6 for the whole file.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from eupg.data.attribute import Categorical, Listed, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.local_dp import AttributeChannel, LocalDP
from eupg.protect.release import Release
from eupg.protect.utility import Embedding
from eupg.rng import Randomness
from people import SCHEMA
from statistical.refuting import RARE, chi_square, in_order, refuted, source

MODES = ["secret", "seeded"]
# The kinds of the small table (income on a coarser grid, to fit a full matrix), and those it lacks.
KINDS = Schema(
    (
        *(a if a.name != "income" else dataclasses.replace(a, resolution=50) for a in SCHEMA.attributes[:-1]),
        Numeric(name="height", lower=0, upper=1, resolution=0.3),
        Numeric(name="same", lower=3, upper=3),
        Ordinal(name="grade", categories=tuple("abcd"), missing=Missing.KEEP, role=Role.CONFIDENTIAL),
        Categorical(name="colour", categories=("red", "green", "blue")),
        Categorical(name="region", categories=tuple("efg"), hierarchy={"e": "h", "f": "h"}, missing=Missing.KEEP),
        Categorical(name="blood", categories=("0", "A", "B")),
        Categorical(name="record", role=Role.LABEL, categories=("lowest", "highest", "between", "missing")),
    )
)
BLOOD = Embedding({"0": (1.0, 0.0), "A": (0.8, 0.6), "B": (-1.0, 0.5)}, public=True)
# One row a record, named by the label: both ends, values off the public grid, and all that may be missing.
RECORDS = np.array(
    [
        [0, 0, 0, 0, 0, -1, 0, 3, 0, 0, 0, 0],
        [100, 5000, 2, 3, 1, 1, 3 * 0.3, 3, 3, 2, 2, 2],
        [33.37, 1234.56789, 1, 1, 0, 0.3333, 0.37, 3, 2, 1, 1, 1],
        [90, 20, 2, 2, np.nan, np.nan, 0.6, 3, np.nan, 2, np.nan, 1],
    ]
)
# Each of the eleven attributes that can vary gets a share of 1.
EPSILON, N = 11.0, 30_000


def table(schema: Schema, rows: np.ndarray, labels: np.ndarray) -> Dataset:
    return Dataset(schema, rows, labels, *[np.arange(len(rows)).astype(str)] * 2)


def copies(schema: Schema, records: np.ndarray, rows: int = N) -> Dataset:
    """Return each record many times over; its label says which it is."""
    return table(schema, np.repeat(records, rows, axis=0), np.repeat(np.arange(len(records)), rows))


def mechanism(**more) -> LocalDP:
    return LocalDP(EPSILON, embeddings={"blood": BLOOD}, **more)


def grid(attribute) -> np.ndarray:
    """Return the public values of an attribute, without the missing one."""
    if isinstance(attribute, Listed):
        return np.arange(len(attribute.categories), dtype=float)
    steps = range(int(np.ceil((attribute.upper - attribute.lower) / attribute.resolution - 1e-9)) + 1)
    return np.array([min(attribute.lower + i * attribute.resolution, attribute.upper) for i in steps])


def outputs(attribute, column: np.ndarray) -> np.ndarray:
    """Return the position of each released value on the public grid, one past its end for a missing one."""
    values = grid(attribute)
    place = np.searchsorted(values, column).clip(0, len(values) - 1)
    missing = np.isnan(column) & (attribute.missing is Missing.KEEP)
    assert (missing | (values[place] == column)).all(), f"{attribute.name!r} has values off its public grid"
    return np.where(missing, len(values), place)


def chances(channel: AttributeChannel, value: float) -> np.ndarray:
    """Return the exact probability of each output for one input value."""
    weights = channel.value.matrix() / 2.0**63
    missing = math.isnan(value)
    if channel.presence is None:
        return weights[-1 if missing else np.abs(grid(channel.attribute) - value).argmin()]
    present, absent = channel.presence.matrix()[int(missing)] / 2.0**63
    # A missing number has the lower bound for a value.
    row = weights[0 if missing else np.abs(grid(channel.attribute) - value).argmin()]
    return np.append(present * row, absent)


def p_values(broken: LocalDP, rng: Randomness, records: np.ndarray = RECORDS) -> dict[str, float]:
    """Return, per attribute, how likely its released values are under the honest channels, at the worst record."""
    release = broken.protect(copies(KINDS, records), rng)
    worst = {}
    for j, attribute in enumerate(KINDS.features):
        channel = mechanism().channels(KINDS)[attribute.name]
        worst[attribute.name] = 1.0
        for label, record in enumerate(records):
            expected = chances(channel, record[j])
            seen = np.bincount(outputs(attribute, release.X[release.y == label, j]), minlength=len(expected))
            worst[attribute.name] = min(worst[attribute.name], chi_square(seen, expected))
    return worst


@pytest.mark.parametrize("mode", MODES)
def test_every_attribute_follows_its_channel(mode):
    """Chi-square at 1e-9 for each attribute and record; 30,000 rows show a chance of 1/2 that is 3 points off."""
    found = p_values(mechanism(), source(mode, 1))
    assert {name: p for name, p in found.items() if p < RARE} == {}


@dataclasses.dataclass(frozen=True)
class LeavesOne(LocalDP):
    """Releases one attribute as it is."""

    name: str = ""

    def protect(self, data, rng):
        X, channels = data.X.copy(), self.channels(data.schema)
        for j, attribute in enumerate(data.schema.features):
            if attribute.name != self.name:
                X[:, j] = channels[attribute.name].sample(data.X[:, j], rng.stage(str(j)))
        return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)


@pytest.mark.parametrize("name", [a.name for a in KINDS.features if a.name != "same"])
def test_attribute_that_is_left_as_it_is_is_found(name):
    broken = LeavesOne(EPSILON, embeddings={"blood": BLOOD}, name=name)
    found = p_values(broken, source("seeded", 2), RECORDS[:2])
    assert [n for n, p in found.items() if p < RARE] == [name]


def test_budget_a_fifth_too_large_is_found_in_every_attribute():
    found = p_values(LocalDP(1.2 * EPSILON, embeddings={"blood": BLOOD}), source("seeded", 3))
    assert {name for name, p in found.items() if p > RARE} == {"same"}


@pytest.mark.parametrize("epsilon", [0.5, EPSILON])
def test_weights_of_all_attributes_together_spend_the_budget_and_no_more(epsilon):
    """Exact: the worst ratio of two inputs, multiplied over the attributes, is at most e^ε, and nearly that."""
    spent = []
    for channel in LocalDP(epsilon, embeddings={"blood": BLOOD}).channels(KINDS).values():
        parts = [channel.value.matrix(), *([channel.presence.matrix()] if channel.presence else [])]
        spent += [np.log(weights.max(axis=0) / weights.min(axis=0)).max() for weights in parts]
    assert 0.999 * epsilon < math.fsum(spent) <= epsilon


def dependent(broken: LocalDP, rng: Randomness) -> set[tuple[str, str]]:
    """Return the pairs of attributes, the label among them, whose noise is not independent."""
    release = broken.protect(table(KINDS, np.repeat(RECORDS[2:3], N, axis=0), np.full(N, 2)), rng)
    channels = mechanism(label_epsilon=1.0).channels(KINDS)
    flags = {}
    for j, attribute in enumerate((*KINDS.features, KINDS.label)):
        column, value = (release.X[:, j], RECORDS[2, j]) if j < RECORDS.shape[1] else (release.y.astype(float), 2)
        expected = chances(channels[attribute.name], value)
        # Split the outputs in two about equally likely parts.
        part = int((np.cumsum(expected) < 0.4).sum())
        flags[attribute.name] = outputs(attribute, column) <= part, expected[: part + 1].sum()
    found = set()
    for (one, (a, p)), (other, (b, q)) in itertools.combinations(flags.items(), 2):
        joint = np.outer([1 - p, p], [1 - q, q]).ravel()
        if chi_square(np.bincount(2 * a + b, minlength=4), joint) < RARE:
            found.add((one, other))
    return found


@dataclasses.dataclass(frozen=True)
class OneStream(LocalDP):
    """Draws the noise of two attributes from one stream."""

    def protect(self, data, rng):
        class Shared(type(rng)):
            def stage(self, name):
                return super().stage("attribute 2" if name == "attribute 3" else name)

        return super().protect(data, Shared(rng.seed))


@pytest.mark.parametrize("mode", MODES)
def test_noise_of_one_attribute_says_nothing_about_another(mode):
    """Chi-square at 1e-9 for each pair of attributes, the label included; noise from one stream is found."""
    assert dependent(mechanism(label_epsilon=1.0), source(mode, 4)) == set()


def test_noise_from_one_stream_is_found():
    broken = OneStream(EPSILON, label_epsilon=1.0, embeddings={"blood": BLOOD})
    assert dependent(broken, source("seeded", 4)) == {("health", "town")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", [0, 3])
def test_label_is_randomised_by_its_own_budget(label, mode):
    """Chi-square at 1e-9 against e^ε : 1 : 1 : 1; 30,000 rows show a budget of 0.7 for 0.5."""
    data = table(KINDS, np.repeat(RECORDS[2:3], N, axis=0), np.full(N, label))
    expected = np.where(np.arange(4) == label, math.exp(0.5), 1.0)
    for budget, honest in ((0.5, True), (0.7, False)):
        released = mechanism(label_epsilon=budget).protect(data, source(mode, 5)).y
        assert (chi_square(np.bincount(released, minlength=4), expected) > RARE) == honest


# The two records of the small table that are farthest apart; of a number that may be missing, the highest and none.
HERE, THERE = np.array([[0, 0, 0, 0, 0, 1.0], [100, 5000, 2, 3, np.nan, np.nan]])


def own_values(broken: LocalDP, record: np.ndarray, rng: Randomness) -> np.ndarray:
    """Number each released row by the attributes at which it shows the first record's value."""
    rows = 100_000
    release = broken.protect(table(SCHEMA, np.repeat([record], rows, axis=0), np.zeros(rows, int)), rng)
    return (release.X == HERE) @ (1 << np.arange(6))


@pytest.mark.parametrize("mode", MODES)
def test_whole_record_of_every_kind_withstands(mode):
    """Exact test of ε for all attributes of a record together, both ways round, false alarm 1e-6 each."""
    here, there = (own_values(LocalDP(1.0), record, source(mode, 6 + i)) for i, record in enumerate((HERE, THERE)))
    assert not refuted(here, there, 1.0)
    assert not refuted(there, here, 1.0)
    # A tenth of the claim would be refuted by the same rows: the test can tell.
    assert refuted(here, there, 0.1)


@pytest.mark.parametrize("broken", [LocalDP(6.0), LeavesOne(1.0, name="town"), LeavesOne(1.0, name="score")])
def test_whole_record_of_a_broken_mechanism_is_refuted(broken):
    """Caught: a budget that was not split, and one attribute left as it is."""
    here, there = (own_values(broken, record, source("seeded", 8 + i)) for i, record in enumerate((HERE, THERE)))
    assert refuted(here, there, 1.0)


OFF_GRID = np.array(
    [
        [33.37, 1234.56789, 1, 2, 0, 0.3333],
        [99.99999, 0.123, 0, 0, np.nan, np.nan],
        [-0.0, 4999.9, 2, 3, 1, -0.98765],
    ]
)


@pytest.mark.parametrize("mode", MODES)
def test_released_values_are_on_the_public_grid_to_the_last_bit(mode):
    schema = Schema((*SCHEMA.attributes[:-1], KINDS.label))
    release = LocalDP(6.0).protect(copies(schema, OFF_GRID, 3000), source(mode, 9))
    for j, attribute in enumerate(schema.features):
        outputs(attribute, release.X[:, j])
    # One bit pattern for every missing value: a NaN has room for a secret.
    assert len(np.unique(release.X[np.isnan(release.X)].view(np.uint64))) == 1


def test_what_lies_between_grid_points_changes_no_bit_of_the_release():
    schema = Schema((*SCHEMA.attributes[:-1], KINDS.label))
    rounded = OFF_GRID.copy()
    for row, j in np.argwhere(~np.isnan(OFF_GRID)):
        values = grid(schema.features[j])
        rounded[row, j] = values[np.abs(values - OFF_GRID[row, j]).argmin()]
    assert (rounded != OFF_GRID)[:, [0, 1, 5]].any(axis=0).all()
    tables = (copies(schema, records, 1000) for records in (OFF_GRID, rounded))
    first, second = (LocalDP(6.0).protect(data, source("seeded", 9)) for data in tables)
    assert first.X.tobytes() == second.X.tobytes()


def released_orders(broken, mode: str) -> list[np.ndarray]:
    """Return the order of the rows of three releases, read from a number that the mechanism leaves as it is."""
    count = 400
    number = Numeric(name="number", lower=0, upper=count - 1, role=Role.CONFIDENTIAL)
    schema = Schema((number, Numeric(name="age", lower=0, upper=100), SCHEMA.label))
    data = table(schema, np.column_stack([np.arange(count), np.arange(count) % 7]), np.arange(count) // 200)
    orders = []
    for seed in range(3):
        release = broken.protect(data, source(mode, seed))
        orders.append(release.X[:, 0].astype(int))
        np.testing.assert_array_equal(release.y, data.y[orders[-1]])
    return orders


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("honest", [LocalDP(1e7), ProbabilisticKAnonymity(10)])
def test_rows_come_in_no_order(honest, mode):
    """A budget so large that no value changes lets rows be followed; nothing but a shuffle hides them. 1e-7."""
    orders = released_orders(honest, mode)
    assert [in_order(order) for order in orders] == [""] * 3
    assert [in_order(np.argsort(orders[0])[other]) for other in orders[1:]] == [""] * 2
