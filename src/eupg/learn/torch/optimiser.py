"""How weights move: the optimiser and what it remembers, the loss, and the learning rate during a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eupg.errors import ParameterError
from eupg.validation import check_below_one

OPTIMISERS = ("adam", "sgd")
SCHEDULES = ("cosine", "one-cycle")
PRECISIONS = ("float32", "bfloat16")
Network = Callable[[Tensor], Tensor]
# What an optimiser remembers about each weight.
Moments = Mapping[str, Tensor]
# As in PyTorch's OneCycleLR: the highest rate over the first, and the first over the last.
_RISE, _FALL = 25.0, 1e4


@dataclass(frozen=True)
class TrainingRule:
    """Adam or SGD with constant momentum, over batches of one size, with a learning rate that follows a schedule.

    ``warm_up`` is the share of a one-cycle schedule during which the rate rises. ``compile`` concerns captured steps.
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
        """Refuse unknown choices and shares outside their range."""
        for name in ("momentum", "warm_up", "label_smoothing"):
            check_below_one(name, getattr(self, name))
        for name, choices in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if self.nesterov and not self.momentum:
            raise ParameterError("nesterov needs a momentum above 0: set one, or leave nesterov out")

    def build(self, parameters: Iterable[Tensor], *, rate: Tensor | None = None) -> torch.optim.Optimizer:
        """Return a new optimiser; with ``rate``, one for a CUDA graph, which reads its learning rate from there."""
        weights = list(parameters)
        first = self.learning_rate if rate is None else rate
        if self.optimiser == "adam":
            adam = torch.optim.Adam(
                weights, lr=first, weight_decay=self.weight_decay, fused=True, capturable=rate is not None
            )
            # A few steps, such as those of last batches, run outside the graph; PyTorch would warn about them.
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
        """Return the learning rate after a share of a training of this many steps."""
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        first = self.learning_rate / _RISE
        step, top, last = progress * steps, self.warm_up * steps - 1, steps - 1
        if step <= top:
            return _bend(first, self.learning_rate, step / top if top > 0 else 1.0)
        # Beyond the last step, as in a part that was not planned for, the rate stays where it ended.
        return _bend(self.learning_rate, first / _FALL, min(1.0, (step - top) / (last - top)) if last > top else 1.0)

    def rate_at(self, step: int, steps: int, part: tuple[float, float]) -> float:
        """Return the learning rate of one of the steps that make up a part of the schedule."""
        begin, end = part
        whole = steps / (end - begin) if end > begin else steps
        return self.rate(begin + (end - begin) * step / steps, whole)

    @property
    def plain(self) -> bool:
        """Whether the loss is the mean cross-entropy in single precision and nothing else."""
        return self.label_smoothing == 0 and self.precision == "float32"

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch; layers may run in half precision, weights and losses do not."""
        with self._autocast(inputs.device):
            logits = network(inputs)
        logits = logits.float() if logits.dtype is torch.bfloat16 else logits
        return cross_entropy(logits, labels, label_smoothing=self.label_smoothing)

    def _autocast(self, device: torch.device) -> AbstractContextManager[object]:
        if self.precision == "float32":
            return nullcontext()
        # Each weight is cast once per step, so a cache gains nothing; in a CUDA graph it would keep stale casts.
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def _bend(begin: float, end: float, share: float) -> float:
    """Return the point of half a cosine wave from one value to another."""
    return end + (begin - end) / 2 * (1 + math.cos(math.pi * share))


def moments_of(optimiser: torch.optim.Optimizer, network: nn.Module) -> Moments:
    """Return what the optimiser remembers, by weight."""
    return {
        f"{kind}.{name}": value.detach().clone()
        for name, parameter in network.named_parameters()
        for kind, value in optimiser.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore_moments(optimiser: torch.optim.Optimizer, network: nn.Module, moments: Moments) -> None:
    """Give an optimiser its moments back; those of another kind of optimiser are left out."""
    kinds = ("step", "exp_avg", "exp_avg_sq") if isinstance(optimiser, torch.optim.Adam) else ("momentum_buffer",)
    for name, parameter in network.named_parameters():
        known = {kind: moments[f"{kind}.{name}"] for kind in kinds if f"{kind}.{name}" in moments}
        # Fused optimisers need moments with the memory layout of the weight.
        optimiser.state[parameter] = {
            kind: torch.empty_like(parameter, requires_grad=False).copy_(value)
            if value.shape == parameter.shape
            else value.clone().to(parameter.device)
            for kind, value in known.items()
        }
