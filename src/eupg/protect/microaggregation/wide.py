"""MDAV for wide tables, such as features of pictures: hundreds of columns, on a CPU or a GPU, in plain PyTorch.

The compiled search skips rows by bounding boxes, which exclude nothing in hundreds of dimensions. Here all distances
are one matrix-vector product, ‖x−c‖² = ‖x‖² − 2x·c + ‖c‖², in single precision, on a table from which rows that have a
group are removed from time to time. Groups are those of MDAV up to that rounding: rows whose distances differ by less
than about a millionth may be exchanged. Sizes never depend on rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from eupg.errors import DataError
from eupg.protect.microaggregation.groups import Groups, Matrix, check_input

if TYPE_CHECKING:
    from torch import Tensor

# The k nearest lie in the k lines with the nearest heads; lines of this many rows balance the two searches.
_LINE = 32
# A generous bound on the rounding error of a distance, in units of the table's extent.
_SLACK = 1e-4


def wide_mdav(X: ArrayLike, k: int, *, device: str = "cpu") -> Groups:
    """Group similar rows of a wide table, at least ``k`` per group, by MDAV.

    Parameters
    ----------
    X, k
        As for :func:`eupg.protect.mdav`.
    device
        Where PyTorch computes: ``"cpu"`` or ``"cuda"``.

    Examples
    --------
    >>> wide_mdav([[1.0], [2.0], [3.0], [10.0], [11.0], [30.0], [31.0]], 2).tolist()
    [1, 1, 2, 2, 2, 0, 0]
    """
    table, k = check_input(X, k)
    if len(table) < 2 * k:
        return np.zeros(len(table), np.int64)
    check_device(device)
    import torch

    with torch.no_grad():
        search = _Search(_scaled(table, device), k)
        search.form_groups()
        return search.labels.cpu().numpy()


def check_device(device: str) -> None:
    """Refuse a device that PyTorch does not know or cannot use."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DataError(f"PyTorch cannot use the device {device!r} ({error}): pass device='cpu'") from error


def _scaled(table: Matrix, device: str) -> Tensor:
    """Move the mean to 0 and scale the largest number to 1: groups stay the same, and single precision suffices."""
    import torch

    rows = torch.tensor(table, device=device)
    # Divided first, so that no sum overflows; in the input's own precision.
    rows /= rows.abs().max().clamp_min(torch.finfo(rows.dtype).tiny)
    rows -= rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    return (rows / rows.abs().max().clamp_min(torch.finfo(torch.float32).tiny)).float().T.contiguous()


class _Search:
    """The rows that have no group yet, as columns, and their squared lengths.

    As columns, products with a point are read in the order of memory. No step waits for a GPU before the end.
    """

    def __init__(self, columns: Tensor, k: int) -> None:
        import torch

        names = torch.arange(columns.shape[1], device=columns.device)
        self.k, self.labels, self.formed = k, torch.zeros_like(names), 0
        self.total = columns.sum(dim=1, dtype=torch.float64)
        self.on_cpu = columns.device.type == "cpu"
        self._pack(columns, names)

    def form_groups(self) -> None:
        """Form groups as MDAV does until fewer than 2k rows are left, which are the last group."""
        import torch

        while self.left >= 3 * self.k:
            products = self._group_around(self._farthest_from_centroid())
            self._group_around(torch.add(self.far, products, alpha=-2).argmax())
            self._pack_if_sparse()
        if self.left >= 2 * self.k:
            self._group_around(self._farthest_from_centroid())
        self.labels[self.names[self.far > -float("inf")]] = self.formed

    def _pack(self, columns: Tensor, names: Tensor) -> None:
        """Keep these rows only, the farthest from their centroid first, and pad with rows that cannot be chosen."""
        import torch

        self.left = len(names)
        centroid = (self.total / self.left).float()
        away = (columns - centroid[:, None]).square_().sum(dim=0)
        if self.on_cpu:
            order = away.argsort(descending=True)
            columns, names, away = columns.index_select(1, order), names[order], away[order]
        self.columns, self.names = columns, names
        # Squared lengths: minus infinity where a row must not be the farthest, plus infinity where not the nearest.
        self.far = columns.square().sum(dim=0)
        # The nearest are searched in whole lines; the padding of the last line is infinitely far.
        self.near = torch.full((-(-self.left // _LINE) * _LINE,), float("inf"), device=columns.device)
        self.near[: self.left] = self.far
        self.centroid_then = centroid
        self.away_then = away.sqrt().cpu().numpy() if self.on_cpu else None

    def _pack_if_sparse(self) -> None:
        # Removing rows costs about as much as two searches over all.
        if self.left <= 0.9 * len(self.names) and len(self.names) > 4096:
            remaining = (self.far > -float("inf")).nonzero()[:, 0]
            self._pack(self.columns.index_select(1, remaining), self.names[remaining])

    def _farthest_from_centroid(self) -> Tensor:
        """Return the position of the row farthest from the centroid of all that are left."""
        import torch

        centroid = (self.total / self.left).float()
        if self.away_then is None:
            return torch.addmv(self.far, self.columns.T, centroid, alpha=-2).argmax()
        # Rows are sorted by their distance from an earlier centroid: the farthest row now was among the first then.
        moved = float((centroid - self.centroid_then).norm()) + _SLACK
        end = min(64, len(self.names))
        while True:
            away = torch.addmv(self.far[:end], self.columns[:, :end].T, centroid, alpha=-2)
            best = away.argmax()
            farthest = float((self.columns[:, best] - centroid).norm()) if float(away[best]) > -float("inf") else 0.0
            needed = int(np.searchsorted(-self.away_then, moved - farthest, side="right"))
            if needed <= end:
                return best
            end = min(max(needed if farthest else 0, 2 * end), len(self.names))

    def _group_around(self, centre: Tensor) -> Tensor:
        """Form the group of a row and its k−1 nearest, and return every row's product with it."""
        import torch

        at = centre.reshape(1)
        products = torch.mv(self.columns.T, self.columns.index_select(1, at)[:, 0])
        distances = self.near.clone()
        distances[: len(products)].add_(products, alpha=-2)
        # The centre itself comes first, even if rounding gave it a distance to itself.
        distances.index_fill_(0, at, -float("inf"))
        group = self._nearest(distances)
        self.labels.index_fill_(0, self.names.index_select(0, group), self.formed)
        self.total -= self.columns.index_select(1, group).sum(dim=1, dtype=torch.float64)
        self.far.index_fill_(0, group, -float("inf"))
        self.near.index_fill_(0, group, float("inf"))
        self.formed += 1
        self.left -= self.k
        return products

    def _nearest(self, distances: Tensor) -> Tensor:
        """Return the positions of the k smallest distances.

        A row among the k nearest lies in one of the k lines with the smallest heads: in any other line there would be
        k rows nearer than it. Two short searches replace one long one.
        """
        lines = distances.view(-1, _LINE)
        if len(lines) <= 2 * self.k:
            return distances.topk(self.k, largest=False).indices
        chosen = lines.amin(dim=1).topk(self.k, largest=False).indices
        candidates = lines.index_select(0, chosen)
        inside = candidates.reshape(-1).topk(self.k, largest=False).indices
        return chosen[inside // _LINE] * _LINE + inside % _LINE
