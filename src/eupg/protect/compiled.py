"""The two ways in which this library compiles functions with Numba. Importing this module imports Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
# A third of the time to compile would go into entry points from Python and C, which inner functions do not need.
_INNER: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile for use from Python, and cache the result on disk where that is possible."""
    try:
        return cast(Function, njit(error_model="numpy", nogil=True, cache=True)(function))
    except RuntimeError:  # no folder is writable: every process compiles for itself
        return cast(Function, njit(error_model="numpy", nogil=True)(function))


def inner(function: Function) -> Function:
    """Compile for use by other compiled functions only."""
    return cast(Function, njit(**_INNER)(function))


def inner_without_nan(function: Function) -> Function:
    """Compile likewise, promising that no value is NaN: only then are minima and maxima vectorised."""
    return cast(Function, njit(fastmath={"nnan", "nsz"}, **_INNER)(function))
