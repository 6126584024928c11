import dataclasses
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.audit.duplicates import DuplicateReport, near_duplicates
from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from people import people
from pictures import pictures
from vectors import vectors

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
SCHEMA = Schema(
    (
        Numeric(name="age", lower=0, upper=100, missing=Missing.KEEP),
        Numeric(name="income", lower=-1e6, upper=1e6),
        Ordinal(name="health", categories=("poor", "fair", "good")),
        Categorical(name="town", categories=("A", "B", "C"), missing=Missing.KEEP),
        LABEL,
    )
)


def records(rows, labels=None, schema=SCHEMA, first=0) -> Dataset:
    X = np.array(rows, dtype=float).reshape(-1, len(schema.features))
    names = np.arange(first, first + len(X)).astype(str)
    return Dataset(schema, X, np.zeros(len(X), int) if labels is None else np.array(labels), names, names)


NAN = np.nan
KEPT = records([[30, 100, 0, 0], [30, 100, 0, 0], [50, 300, 1, 1], [NAN, 200, 2, NAN]], [0, 1, 0, 1], first=100)


def test_identical_twins_are_told_apart_by_their_label():
    gone = records([[30, 100, 0, 0], [50, 300, 1, 1], [50, 300, 1, 2], [NAN, 200, 2, NAN]], [1, 1, 0, 1])
    report = near_duplicates(gone, KEPT)
    # The first has a twin of each label, the second only one of the other, the third none, the fourth one of its own.
    assert (report.same_label, report.other_label, report.identical) == (2, 1, 3)
    assert report.distances.tolist() == [0, 0, np.inf, 0]


def test_two_missing_values_are_equal_and_one_is_not():
    gone = records([[NAN, 200, 2, NAN], [40, 200, 2, NAN], [NAN, 200, 2, 0]], [1, 1, 1])
    report = near_duplicates(gone, KEPT, within=1, tolerance=0.99)
    assert report.identical == report.near == 1
    assert report.differing == 3


def test_zero_has_one_sign():
    schema = Schema((Numeric(name="v", lower=-1, upper=1), LABEL))
    assert near_duplicates(records([[-0.0]], schema=schema), records([[0.0]], schema=schema)).identical == 1


def test_differing_attributes_are_counted_whatever_their_size():
    gone = records([[30, 100, 2, 0], [30, -5e5, 2, 0], [99, -5e5, 2, 0]])
    assert [near_duplicates(gone, KEPT, within=w).differing for w in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_distance_is_in_standard_deviations_of_the_retained():
    kept = records([[30, 0, 0, 0], [30, 10, 0, 0]], first=9)
    # Income is 0 or 10: one standard deviation is 5, so 1 is 0.2 away. Age is constant there: its unit stays 1.
    gone = records([[30, 1, 0, 0], [30.5, 0, 0, 0], [30, 4, 0, 0]])
    report = near_duplicates(gone, kept, tolerance=0.5)
    np.testing.assert_allclose(report.distances, [0.2, 0.5, np.inf])
    assert (report.near, report.identical) == (2, 0)


def test_forgotten_records_do_not_shape_the_scale():
    kept = records([[30, 0, 0, 0], [30, 10, 0, 0]], first=9)
    with_outlier = near_duplicates(records([[30, 1, 0, 0], [30, 9e5, 0, 0]]), kept, tolerance=0.5)
    assert with_outlier.distances[0] == pytest.approx(0.2)


VALUES = st.tuples(
    st.sampled_from([20.0, 30.0, 31.0, np.nan]),
    st.sampled_from([0.0, 1.0, 50.0]),
    st.sampled_from([0.0, 1.0, 2.0]),
    st.sampled_from([0.0, 1.0, np.nan]),
    st.integers(0, 1),
)
TABLE = st.lists(VALUES, min_size=1, max_size=12)


def slow(gone: Dataset, kept: Dataset, within: int, tolerance: float):
    """Compare every pair, attribute by attribute, as the documentation says it."""
    scale = [np.nanstd(c) if not np.isnan(c).all() else 0.0 for c in kept.X.T]
    same = other = differing = 0
    distances = []
    for x, y in zip(gone.X, gone.y, strict=True):
        twins, fewest, nearest = set(), 99, np.inf
        for z, label in zip(kept.X, kept.y, strict=True):
            unlike, square = 0, 0.0
            for j, (p, q) in enumerate(zip(x, z, strict=True)):
                if p == q or (np.isnan(p) and np.isnan(q)):
                    continue
                unlike += 1
                whole = j == 3 or np.isnan(p) or np.isnan(q)
                square += 1.0 if whole else ((p - q) / (scale[j] or 1.0)) ** 2
            twins |= set() if unlike else {int(label)}
            fewest, nearest = min(fewest, unlike), min(nearest, square**0.5)
        same += int(y) in twins
        other += bool(twins) and int(y) not in twins
        differing += fewest <= within
        distances.append(nearest if nearest <= tolerance else np.inf)
    return same, other, differing, distances


@given(TABLE, TABLE, st.integers(0, 3), st.sampled_from([0.0, 0.05, 0.4321, 0.9876]))
@settings(max_examples=150, deadline=None)
def test_agrees_with_comparing_every_pair(gone, kept, within, tolerance):
    gone, kept = (records([r[:4] for r in rows], [r[4] for r in rows], first=f) for rows, f in ((gone, 0), (kept, 50)))
    report = near_duplicates(gone, kept, within=within, tolerance=tolerance)
    same, other, differing, distances = slow(gone, kept, within, tolerance)
    assert (report.same_label, report.other_label, report.differing) == (same, other, differing)
    np.testing.assert_allclose(report.distances, distances)
    assert report.near == np.isfinite(distances).sum()


def test_categories_alone_have_no_distance_but_0():
    schema = Schema((Categorical(name="town", categories=("A", "B")), LABEL))
    report = near_duplicates(records([[0], [1]], schema=schema), records([[0]], schema=schema), tolerance=0.9)
    assert report.distances.tolist() == [0, np.inf]


def test_hundred_thousand_records_take_seconds():
    """Measured at 0.3 s (2.8 GHz, one core); comparing all pairs of 5,000 and 95,000 takes minutes."""
    rng = np.random.default_rng(0)
    schema = Schema((*(Numeric(name=f"v{j}", lower=-99, upper=99) for j in range(12)), LABEL))
    X = rng.normal(size=(100_000, 12))
    X[:50] = X[5000:5050]
    gone, kept = records(X[:5000], schema=schema), records(X[5000:], schema=schema, first=5000)
    start = time.perf_counter()
    report = near_duplicates(gone, kept, within=1)
    elapsed_s = time.perf_counter() - start
    assert (report.identical, report.differing, report.near) == (50, 50, 50)
    assert elapsed_s < 10


def test_report_reads_well_and_is_plain():
    gone = records([[30, 100, 0, 0], [50, 300, 1, 1], [50, 300, 1, 2]], [1, 1, 0])
    report = near_duplicates(gone, KEPT, within=1, tolerance=0.25)
    assert report.sentence() == (
        "2 of 3 forgotten records have an identical twin among the 4 retained: 1 with the same label, 1 only with "
        "another; 3 have one that differs in at most 1 of 4 features; 2 have one within 0.25 standard deviations. What "
        "the model learns from a retained twin holds for the forgotten record too, and no erasure undoes it."
    )
    plain = json.loads(json.dumps(report.to_json()))
    assert plain["differing"] == 3
    assert "distances" not in plain
    none = near_duplicates(records([[99, 0, 0, 0]]), KEPT, tolerance=0)
    assert none.sentence().startswith("0 of 1 forgotten records have an identical twin")
    assert none.sentence().endswith("Other dependencies, such as relatives, are not looked for.")
    assert report == near_duplicates(gone, KEPT, within=1, tolerance=0.25)
    with pytest.raises(ValueError, match="read-only"):
        report.distances[0] = 1


def test_unusable_input_is_refused():
    gone = records([[30, 100, 0, 0]])
    with pytest.raises(DataError, match="must have the same schema: load both with one"):
        near_duplicates(gone, people(5))
    with pytest.raises(DataError, match="expected records on both sides, got 0 forgotten and 4 retained"):
        near_duplicates(records([]), KEPT)
    with pytest.raises(DataError, match="expected records on both sides, got 1 forgotten and 0 retained"):
        near_duplicates(gone, records([]))
    for within in (-1, 4, 1.0, True):
        with pytest.raises(ParameterError, match="within must be a whole number from 0 to below 4 features, got"):
            near_duplicates(gone, KEPT, within=within)  # type: ignore[arg-type]
    for tolerance in (-0.1, 1.0, True, "0.1"):
        with pytest.raises(ParameterError, match=r"tolerance must be a number from 0 to below 1, .* use within"):
            near_duplicates(gone, KEPT, tolerance=tolerance)  # type: ignore[arg-type]
    wide = Schema((*(Numeric(name=f"v{j}", lower=0, upper=1) for j in range(30)), LABEL))
    with pytest.raises(ParameterError, match=r"within=3 of 30 features leaves 4,060 choices to try, more than 1000"):
        near_duplicates(records(np.zeros(30), schema=wide), records(np.zeros(30), schema=wide), within=3)


def brute_distances(gone, kept):
    a, b = gone.X.astype(float), kept.X.astype(float)
    return np.sqrt(((a[:, None] - b[None]) ** 2).mean(axis=2)).min(axis=1) / 63.75


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 5), (3, 2)])
def test_near_pictures_are_those_of_a_full_comparison(height, width):
    kept, rng = pictures(300, 1, height=height, width=width), np.random.default_rng(2)
    noise = rng.integers(-12, 13, (40, kept.X.shape[1])) * rng.integers(0, 3, (40, 1))
    pixels = np.clip(kept.X[:40].astype(int) + noise, 0, 255).astype(np.uint8)
    gone = dataclasses.replace(kept.select(np.arange(300) < 40), X=pixels)
    exact = brute_distances(gone, kept)
    for tolerance in (0.05, 0.15, 0.5):
        report = near_duplicates(gone, kept, tolerance=tolerance)
        near = exact <= tolerance
        assert near.any()
        assert report.near == near.sum()
        np.testing.assert_allclose(report.distances[near], exact[near])
        assert np.isinf(report.distances[~near]).all()


def test_identical_pictures_are_counted_by_their_labels():
    kept = pictures(50, 1)
    gone = dataclasses.replace(kept.select(np.arange(50) < 3), y=kept.y[:3] ^ np.array([0, 1, 0]))
    report = near_duplicates(gone, kept, tolerance=0)
    assert (report.same_label, report.other_label, report.near, report.attributes) == (2, 1, 3, 1)
    strangers = near_duplicates(pictures(3, 9), kept)
    assert (strangers.identical, strangers.near) == (0, 0)


def test_words_about_pictures_speak_of_grey_levels():
    kept = pictures(50, 1)
    report = near_duplicates(kept.select(np.arange(50) < 3), kept)
    assert "3 have one within 6.4 of 255 grey levels" in report.sentence()
    assert report.to_json()["grey_levels"] == pytest.approx(6.375)
    with pytest.raises(ParameterError, match="from 0 to below 1 features"):
        near_duplicates(kept, kept, within=1)


def test_part_of_a_report_is_the_report_of_the_part():
    gone = records([[30, 100, 0, 0], [50, 300, 1, 1], [50, 300, 1, 2], [NAN, 200, 2, NAN]], [1, 1, 0, 1])
    whole = near_duplicates(gone, KEPT, within=1, tolerance=0.25)
    for rows in ([0], [2], [1, 3], [0, 1, 2, 3]):
        part = whole.of(np.array(rows))
        chosen = np.isin(np.arange(4), rows)
        # Scales are those of the retained records, so they do not depend on who else is forgotten.
        alone = near_duplicates(gone.select(chosen), KEPT, within=1, tolerance=0.25)
        assert part == alone
        assert part.sentence() == alone.sentence()
        assert "twins" not in part.to_json()


def test_report_that_was_read_back_says_the_same_and_has_no_parts():
    report = near_duplicates(records([[30, 100, 0, 0]], [1]), KEPT)
    again = DuplicateReport.from_json(report.to_json())
    assert (again, again.sentence()) == (report, report.sentence())
    with pytest.raises(ParameterError, match="no results for single records"):
        again.of(np.array([0]))


def test_vectors_are_compared_by_their_distance_and_bytes():
    data = vectors(400, 30, named=False)
    ours, theirs = data.select(np.arange(400) < 5), data.select(np.arange(400) >= 5)
    X, y = theirs.X.copy(), theirs.y.copy()
    X[7], y[7] = ours.X[0], 1 - ours.y[0]
    # Towards zero, so that the vector is not too long.
    X[8] = np.trunc(ours.X[1] * 0.97)
    report = near_duplicates(ours, dataclasses.replace(theirs, X=X, y=y), tolerance=0.05)
    assert (report.same_label, report.other_label, report.near, report.attributes) == (0, 1, 2, 1)
    assert report.distances[0] == 0
    assert report.distances[1] == pytest.approx(0.03, abs=1e-3)
    assert np.isinf(report.distances[2:]).all()
