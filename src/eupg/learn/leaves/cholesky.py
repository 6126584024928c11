"""Solving a positive definite system in one fixed order of operations.

Numerical libraries divide such work among threads, and their sums are rounded differently with the number of threads,
the processor and the build. Here every number is the result of the same additions, multiplications, divisions and
square roots in the same order, without fused operations, and all of these are defined by IEEE 754. Vectors hold numbers
that do not depend on each other, so the order is the same for vectors of any length.

The matrix is held in panels: ``panels[p, i, j]`` is the number in row i and column 8p + j. A panel's rows follow each
other in memory, which is the order in which they are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from eupg.learn.leaves.counting import Floats, compiled

# Columns of a panel.
PANEL = 8
# A block of so many rows of a panel stays in registers while a multiple of every earlier row is subtracted.
_ROWS = 4
# Numbers in a vector.
_LANES = 4
# So many rows are completed before they are subtracted from all others; those of a few panels fit into a core's cache.
_DEPTH = 64


def solve(panels: Floats, columns: int) -> Floats:
    """Return the solution of a positive definite system for each column of the targets.

    Parameters
    ----------
    panels
        The upper triangle of the matrix, whose size is a multiple of eight, then the targets, filled up to whole
        panels. What lies below the diagonal is not looked at. All is overwritten.
    columns
        Number of targets.

    Examples
    --------
    >>> panels = np.zeros((2, 8, 8))
    >>> panels[0], panels[1, :, :2] = 4 * np.eye(8), [1, 2]
    >>> solve(panels, 2)[:3].tolist()
    [[0.25, 0.5], [0.25, 0.5], [0.25, 0.5]]
    """
    size = panels.shape[1]
    _factorise(panels, size)
    _substitute(panels, size, columns)
    return np.hstack(list(panels[size // PANEL :]))[:, :columns]


def _subtraction(_context: Any, block: Any, factors: Any, rows: Any, count: Any) -> Any:
    """Subtract multiples of rows from a block: the first number of each array is where it begins.

    Compiled code uses registers well only where they are asked for by name, so this writes its instructions itself.
    """

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), _LANES)
        nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        copies = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)

        def place(array: Any, index: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(array, [index]), kind.as_pointer())

        def whole(number: int) -> Any:
            return ir.Constant(ir.IntType(64), number)

        arrays = zip(signature.args[:3], arguments[:3], strict=True)
        target, left, right = (context.make_array(kind)(context, builder, value).data for kind, value in arrays)
        starts = range(0, PANEL, _LANES)
        places = [[place(target, whole(row * PANEL + lane), vector) for lane in starts] for row in range(_ROWS)]
        sums = [[cgutils.alloca_once(builder, vector) for _ in starts] for _ in range(_ROWS)]  # type: ignore[no-untyped-call]
        for row in range(_ROWS):
            for source, total in zip(places[row], sums[row], strict=True):
                builder.store(builder.load(source, align=8), total)
        with cgutils.for_range(builder, arguments[3]) as loop:
            start = builder.mul(loop.index, whole(PANEL))
            pieces = [builder.load(place(right, builder.add(start, whole(lane)), vector), align=8) for lane in starts]
            for row in range(_ROWS):
                number = builder.load(builder.gep(left, [builder.add(start, whole(row))]))
                factor = builder.shuffle_vector(builder.insert_element(nothing, number, first), nothing, copies)
                for piece, total in zip(pieces, sums[row], strict=True):
                    builder.store(builder.fsub(builder.load(total), builder.fmul(factor, piece)), total)
        for row in range(_ROWS):
            for source, total in zip(places[row], sums[row], strict=True):
                builder.store(builder.load(total), source, align=8)
        return context.get_dummy_value()

    return types.void(block, factors, rows, count), instructions


_subtract: Any = intrinsic(_subtraction)


@compiled
def _complete(panels: Floats, panel: int, first: int) -> None:
    """Divide a block of rows of a panel by the factor's triangle on the diagonal; on the diagonal, find it."""
    own, start = first // PANEL, first % PANEL
    for row in range(first, first + _ROWS):
        column = start + row - first
        for above in range(first, row):
            factor = panels[own, above, column]
            for j in range(PANEL):
                panels[panel, row, j] -= factor * panels[panel, above, j]
        root = math.sqrt(panels[own, row, column]) if panel == own else panels[own, row, column]
        for j in range(PANEL):
            panels[panel, row, j] /= root
        if panel == own:
            panels[own, row, column] = root


@compiled
def _factorise(panels: Floats, size: int) -> None:
    """Replace the upper triangle by U, where the matrix is UᵀU, and targets b by the solution z of Uᵀz = b."""
    numbers, height = panels.reshape(-1), size * PANEL
    for top in range(0, size, _DEPTH):
        for panel in range(top // PANEL, len(panels)):
            begin = panel * height
            for row in range(top, min((panel + 1) * PANEL, size), _ROWS):
                factors = numbers[row // PANEL * height + top * PANEL + row % PANEL :]
                block, rows = numbers[begin + row * PANEL :], numbers[begin + top * PANEL :]
                _subtract(block, factors, rows, min(row - top, _DEPTH))
                if row < top + _DEPTH:
                    _complete(panels, panel, row)


@compiled
def _substitute(panels: Floats, size: int, columns: int) -> None:
    """Replace z by the solution x of Ux = z, for each column of targets."""
    for column in range(size, size + columns):
        solution = panels[column // PANEL, :, column % PANEL]
        for k in range(size - 1, -1, -1):
            rest = solution[k]
            for j in range(k + 1, size):
                rest -= panels[j // PANEL, k, j % PANEL] * solution[j]
            solution[k] = rest / panels[k // PANEL, k, k % PANEL]
