"""One place decides what a whole number, a number and a share are."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import eupg
from eupg.audit.membership.references import complementary_halves
from eupg.errors import ParameterError
from eupg.validation import check_below_one, check_positive, check_whole, is_share

SOURCE = Path(eupg.__file__).parent
# These ask what kind of JSON value they hold, where true is not a number, or are read without NumPy.
JSON_VALUES = {"certify/canonical.py", "guarantees/kanonymous.py", "learn/leaves/cells.py", "strict_json.py"}


@pytest.mark.parametrize("value", [True, False, 2.0, "2", None, 1, -5, math.nan, np.float64(3), np.bool_(True)])
def test_what_is_not_a_whole_number_is_refused(value):
    with pytest.raises(ParameterError, match=r"^k must be a whole number of at least 2, got "):
        check_whole("k", value, at_least=2)


def test_whole_numbers_of_numpy_become_those_of_python():
    assert type(check_whole("k", np.int32(2), at_least=2)) is int


@pytest.mark.parametrize("value", [True, 0, -1.0, math.nan, math.inf, "1", None])
def test_what_is_not_positive_and_finite_is_refused(value):
    with pytest.raises(ParameterError, match=r"^epsilon must be a positive finite number, got "):
        check_positive("epsilon", value)


@pytest.mark.parametrize("value", [True, -0.1, 1, math.nan, "0.5", None])
def test_what_is_not_below_one_is_refused(value):
    with pytest.raises(ParameterError, match=r"^delta must be a number from 0 to below 1, got "):
        check_below_one("delta", value)


def test_shares_hold_both_ends():
    assert [is_share(v) for v in (0, 1, np.float32(0.5), True, 1.01, math.nan, "1")] == [True] * 3 + [False] * 4


@pytest.mark.parametrize("models", [2.0, True, 3, 0])
def test_reference_models_are_counted_in_whole_numbers(models):
    with pytest.raises(ParameterError, match="ask for an even number of at least 2"):
        complementary_halves(np.array([0, 0]), models, np.random.default_rng(0))


def test_no_parameter_is_checked_by_hand():
    by_hand = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if isinstance(node.args[1], ast.Name) and node.args[1].id == "bool"
    }
    assert by_hand - JSON_VALUES == {"validation.py"}
