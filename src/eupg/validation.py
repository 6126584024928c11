"""Checks of numbers that serve as parameters, with one message per rule.

True and False are whole numbers to Python but not to a reader, so they are refused everywhere. NaN fails every
comparison, and the checks are written so that a failed comparison refuses the value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eupg.errors import ParameterError


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number of Python or NumPy.

    Examples
    --------
    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number of Python or NumPy; NaN and the infinities are.

    Examples
    --------
    >>> is_number(0.5), is_number("0.5"), is_number(False)
    (True, False, False)
    """
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_whole(name: str, value: Any, *, at_least: int, of: str = "") -> int:
    """Return a whole number within its lower bound, or refuse the value; ``of`` names the unit that is counted.

    Examples
    --------
    >>> check_whole("k", np.int64(30), at_least=2)
    30
    >>> check_whole("block", 0, at_least=1, of="pixels")
    Traceback (most recent call last):
    eupg.errors.ParameterError: block must be a whole number of pixels of at least 1, got 0
    """
    if not is_whole(value) or value < at_least:
        counted = f"whole number of {of}" if of else "whole number"
        raise ParameterError(f"{name} must be a {counted} of at least {at_least}, got {value!r}")
    return int(value)


def check_positive(name: str, value: Any) -> None:
    """Refuse a value that is not a positive finite number.

    Examples
    --------
    >>> check_positive("epsilon", float("nan"))
    Traceback (most recent call last):
    eupg.errors.ParameterError: epsilon must be a positive finite number, got nan
    """
    if not (is_number(value) and math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be a positive finite number, got {value!r}")


def is_share(value: Any) -> bool:
    """Tell whether a value is a number from 0 to 1, both included."""
    return is_number(value) and 0 <= value <= 1


def check_below_one(name: str, value: Any) -> None:
    """Refuse a value that is not a number from 0 to below 1.

    Examples
    --------
    >>> check_below_one("delta", 1)
    Traceback (most recent call last):
    eupg.errors.ParameterError: delta must be a number from 0 to below 1, got 1
    """
    if not is_number(value) or not 0 <= value < 1:
        raise ParameterError(f"{name} must be a number from 0 to below 1, got {value!r}")
