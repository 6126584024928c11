"""Ridge regression from counts: the solution of the normal equations, the same bits whatever the threads."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eupg.data.dataset import Dataset
from eupg.learn.leaves.public_cells import public_cells
from eupg.learn.leaves.ridge import class_weights, ridge_scores
from eupg.learn.leaves.statistics import RidgeStatistics
from learn.leaves.test_statistics import dense
from people import people


def counted(data: Dataset, most: int = 150) -> RidgeStatistics:
    cells = public_cells(data.schema, most=most)
    return RidgeStatistics.count_in(cells, data.X, data.y, classes=data.schema.classes)


@pytest.mark.parametrize("penalties", [10.0, "one per cell"], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_solve_the_normal_equations_of_the_records(classes, penalties):
    data = people(400, classes=classes)
    cells = public_cells(data.schema, most=150)
    if isinstance(penalties, str):
        penalties = np.linspace(1, 50, cells.count)
    X = dense(cells.codes(data.X), cells.count).astype(float)
    signs = 2.0 * np.eye(classes)[data.y] - 1
    targets, slope = (signs[:, 1:], 3.0) if classes == 2 else (signs, 1.5)
    by_class = class_weights(np.bincount(data.y)) if classes == 2 else np.ones(classes)
    weighted = X.T * by_class[data.y]
    expected = slope * np.linalg.solve(
        weighted @ X + np.diag(np.broadcast_to(penalties, cells.count)), weighted @ targets
    )
    if classes == 2:
        expected[0] -= np.log(by_class[1] / by_class[0])
    np.testing.assert_allclose(ridge_scores(counted(data), penalties), expected, atol=1e-9)


def test_the_rarer_class_has_the_greater_weight_and_all_records_have_their_number():
    records = np.array([8999, 999])
    weights = class_weights(records)
    assert weights[1] / weights[0] == pytest.approx(3)
    assert weights @ (records + 1) == pytest.approx(10_000)


@pytest.mark.parametrize("only", [0, 1])
def test_records_of_one_class_alone_have_finite_scores_that_say_so(only):
    data = people(60)
    alone = data.select(data.y == only)
    scores = ridge_scores(counted(alone), 1.0)
    assert np.isfinite(scores).all()
    cells = public_cells(data.schema, most=150)
    margins = dense(cells.codes(alone.X), cells.count) @ scores[:, 0]
    assert ((margins > 0) == only).all()


def test_two_classes_as_one_column_or_as_two_give_the_same_probabilities():
    """The difference of the two columns that one-against-all would have is the one column, where weights are equal."""
    data = people(300)
    first, second = np.flatnonzero(data.y == 0), np.flatnonzero(data.y == 1)
    both = min(len(first), len(second))
    statistics = counted(data.select(np.isin(np.arange(300), np.concatenate([first[:both], second[:both]]))))
    one = ridge_scores(statistics, 10.0)
    third = np.zeros((statistics.cells, 1), dtype=np.int64)
    pairs = statistics.pairs.sum(axis=0, keepdims=True)
    three = RidgeStatistics(pairs, np.hstack([statistics.labels, third]), np.append(statistics.records, 0))
    several = ridge_scores(three, 10.0)
    np.testing.assert_allclose(several[:, 1] - several[:, 0], one[:, 0], atol=1e-12)


def test_scores_have_the_bits_of_plain_operations_in_one_order():
    """Sums of a numerical library, which depend on its build and its threads, have others; so have fused operations."""
    statistics = counted(people(300), most=200)
    used = np.flatnonzero(statistics.labels.sum(axis=1))
    light, heavy = class_weights(statistics.records)
    first, second = (matrix[np.ix_(used, used)] for matrix in statistics.pairs)
    factor = light * first + heavy * second
    factor[np.diag_indices_from(factor)] += 10.0
    size = len(used)
    for k in range(size):
        for m in range(k):
            factor[k, k:] = factor[k, k:] - factor[m, k] * factor[m, k:]
        factor[k, k] = math.sqrt(factor[k, k])
        factor[k, k + 1 :] = factor[k, k + 1 :] / factor[k, k]
    solution = heavy * statistics.labels[used, 1] - light * statistics.labels[used, 0]
    for k in range(size):
        solution[k] = solution[k] / factor[k, k]
        solution[k + 1 :] = solution[k + 1 :] - factor[k, k + 1 :] * solution[k]
    for k in reversed(range(size)):
        for j in range(k + 1, size):
            solution[k] = solution[k] - factor[k, j] * solution[j]
        solution[k] = solution[k] / factor[k, k]
    expected = 3.0 * solution
    expected[0] -= math.log(heavy / light)
    assert ridge_scores(statistics, 10.0)[used, 0].tobytes() == expected.tobytes()


def test_solutions_at_the_same_time_do_not_disturb_each_other():
    statistics = counted(people(3000), most=1000)
    with ThreadPoolExecutor(4) as pool:
        bits = {scores.tobytes() for scores in pool.map(lambda _: ridge_scores(statistics, 10.0), range(8))}
    assert bits == {ridge_scores(statistics, 10.0).tobytes()}


def test_a_cell_without_records_has_no_score_and_no_part():
    codes = np.array([[0, 1], [0, 1], [0, 3], [0, 3]], dtype=np.int32)
    scores = ridge_scores(RidgeStatistics.of(codes, np.array([1, 1, 0, 0]), cells=4, classes=2), 1.0)
    assert scores[2] == 0
    assert scores[:, 0] == pytest.approx([0.0, 2.0, 0.0, -2.0])


def test_nobody_gives_no_scores():
    nobody = RidgeStatistics.of(np.empty((0, 2), dtype=np.int32), np.empty(0, dtype=np.int64), cells=3, classes=3)
    assert ridge_scores(nobody, 10.0).tolist() == [[0.0] * 3] * 3
