"""How weights are moved: the optimiser, the loss, and the learning rate over the course of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from eupg.errors import ParameterError
from eupg.learn.learner import check_settings

OPTIMISERS = ("adam", "sgd")
SCHEDULES = ("cosine", "one-cycle")
PRECISIONS = ("float32", "bfloat16")
Network = Callable[[Tensor], Tensor]
Loss = Callable[[Network, Tensor, Tensor], Tensor]
# As in PyTorch's OneCycleLR: the highest rate over the first, and the first over the last.
_RISE, _FALL = 25.0, 1e4


@dataclass(frozen=True)
class Rule:
    """Adam or SGD with momentum, over batches of a size, with a rate that follows a schedule.

    ``warm_up`` is the share of a one-cycle schedule during which the rate rises. Momentum stays as it is throughout.
    ``compile`` is for steps that are captured.
    """

    learning_rate: float
    weight_decay: float
    batch_size: int
    optimiser: str = "adam"
    momentum: float = 0.9
    nesterov: bool = False
    schedule: str = "cosine"
    warm_up: float = 0.3
    label_smoothing: float = 0.0
    precision: str = "float32"
    compile: bool = False

    def check(self) -> None:
        """Refuse what is none of the choices, and shares of 1 or more."""
        shares = ("momentum", "warm_up", "label_smoothing")
        check_settings(self, whole={}, positive=(), not_negative=shares)
        for name in shares:
            if getattr(self, name) >= 1:
                raise ParameterError(f"{name} must be below 1, got {getattr(self, name)!r}")
        for name, choices in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if self.nesterov and not self.momentum:
            raise ParameterError("nesterov needs a momentum above 0: set one, or leave nesterov out")

    def build(self, parameters: Iterable[Tensor], *, rate: Tensor | None = None) -> torch.optim.Optimizer:
        """Return a fresh optimiser; with ``rate``, one that reads its learning rate from there, for a CUDA graph."""
        weights = list(parameters)
        first = self.learning_rate if rate is None else rate
        if self.optimiser == "adam":
            adam = torch.optim.Adam(
                weights, lr=first, weight_decay=self.weight_decay, fused=True, capturable=rate is not None
            )
            # A few steps, such as those of last batches, are taken outside of the graph, of which PyTorch would warn.
            adam._warned_capturable_if_run_uncaptured = True
            return adam
        return torch.optim.SGD(
            weights,
            lr=first,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            fused=all(w.device.type == "cuda" for w in weights),
        )

    def rate(self, progress: float, steps: float) -> float:
        """Return the rate when a share of the training, of so many steps in all, is done."""
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        first = self.learning_rate / _RISE
        step, top, last = progress * steps, self.warm_up * steps - 1, steps - 1
        if step <= top:
            return _bend(first, self.learning_rate, step / top if top > 0 else 1.0)
        # Beyond the last step, as in a part that was not planned for, the rate stays where it ended.
        return _bend(self.learning_rate, first / _FALL, min(1.0, (step - top) / (last - top)) if last > top else 1.0)

    def rate_at(self, step: int, steps: int, part: tuple[float, float]) -> float:
        """Return the rate of a step of those that make up a part of the schedule."""
        begin, end = part
        whole = steps / (end - begin) if end > begin else steps
        return self.rate(begin + (end - begin) * step / steps, whole)

    @property
    def plain(self) -> bool:
        """Whether the loss is the mean cross-entropy in single precision and nothing else."""
        return self.label_smoothing == 0 and self.precision == "float32"

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Return the precision in which layers are computed; weights and losses stay in single precision."""
        if self.precision == "float32":
            return nullcontext()
        # Each weight is cast once a step, so a cache gains nothing; in a CUDA graph it would keep stale casts.
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        with self.autocast(inputs.device):
            logits = network(inputs)
        logits = logits.float() if logits.dtype is torch.bfloat16 else logits
        return cross_entropy(logits, labels, label_smoothing=self.label_smoothing)


def _bend(begin: float, end: float, share: float) -> float:
    """Return where half a cosine from one value to another stands."""
    return end + (begin - end) / 2 * (1 + math.cos(math.pi * share))
