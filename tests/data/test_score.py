"""Utility of predictions: percent correct, and the area under the ROC curve."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, roc_auc_score

from eupg.data.score import accuracy, auc
from eupg.errors import DataError


def two_columns(scores):
    scores = np.asarray(scores, dtype=float)
    return np.column_stack([1 - scores, scores])


def test_accuracy_is_the_percentage_of_likeliest_classes_that_are_true():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.5, 0.4, 0.1]])
    assert accuracy(probabilities, np.array([0, 1, 2, 1])) == 75.0


def test_accuracy_of_no_rows_is_refused():
    with pytest.raises(DataError, match="no rows to score: pass at least one"):
        accuracy(np.empty((0, 2)), np.empty(0, dtype=np.int64))


def test_auc_of_a_perfect_and_a_reversed_ranking():
    y = np.array([0, 0, 1, 1])
    assert auc(two_columns([0.1, 0.2, 0.3, 0.4]), y) == 100.0
    assert auc(two_columns([0.4, 0.3, 0.2, 0.1]), y) == 0.0


def test_ties_count_half():
    assert auc(two_columns([0.5, 0.5, 0.5]), np.array([0, 1, 1])) == 50.0
    assert auc(two_columns([0.2, 0.5, 0.5]), np.array([0, 0, 1])) == 75.0


@pytest.mark.parametrize("y", [[0, 0], [1, 1], []])
def test_auc_needs_both_classes(y):
    with pytest.raises(DataError, match="needs rows of both classes"):
        auc(two_columns([0.5] * len(y)), np.array(y, dtype=np.int64))


SCORED = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1)), min_size=2, max_size=60)


@given(SCORED)
@settings(max_examples=80, deadline=None)
def test_auc_agrees_with_scikit_learn(rows):
    scores, y = np.array([s / 12 for s, _ in rows]), np.array([c for _, c in rows])
    assume(0 < y.sum() < len(y))
    assert auc(two_columns(scores), y) == pytest.approx(100 * roc_auc_score(y, scores), abs=1e-9)


@given(SCORED)
@settings(max_examples=50, deadline=None)
def test_accuracy_agrees_with_scikit_learn(rows):
    scores, y = np.array([s / 12 for s, _ in rows]), np.array([c for _, c in rows])
    assert accuracy(two_columns(scores), y) == pytest.approx(100 * accuracy_score(y, scores > 0.5), abs=1e-9)
