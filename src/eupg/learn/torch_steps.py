"""The training loops of networks: tensors stay on the device, no DataLoader, no worker processes.

On tables the cost of a step is overhead, not arithmetic, so each epoch shuffles the resident tensors once and slices
them, the optimiser is fused, and small networks run on one thread (two are slower there; ``reproduction/benchmarks``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from eupg.errors import DataError
from eupg.learn.mlp_gradient import Gradient, plain_gradient
from eupg.learn.noisy import GradientClipping, NoisySteps
from eupg.learn.pictures import Pictures, sent, tuned
from eupg.learn.rule import Loss, Rule

# Below this many weights a step is dominated by overhead, and a second thread only adds to it.
_SMALL = 2_000_000
Moments = Mapping[str, Tensor]
# What is learnt from, on its device: the encoded rows of a table, or pictures, which are read batch by batch.
Inputs = Tensor | Pictures


@dataclass(frozen=True)
class Bounds:
    """How far a network may move from where it starts: pulled back by ``anchor``, or in its last layer alone."""

    anchor: float
    head_only: bool

    @property
    def free(self) -> bool:
        """Whether nothing holds the network back."""
        return not self.anchor and not self.head_only


def steps_in(rows: int, size: int, epochs: int) -> int:
    """Return the number of steps of so many passes."""
    return epochs * len(batches(rows, size))


def train(
    network: nn.Module,
    X: Inputs,
    y: Tensor,
    rule: Rule,
    *,
    steps: int,
    generator: torch.Generator,
    part: tuple[float, float] = (0.0, 1.0),
    moments: Moments | None = None,
    bounds: Bounds | None = None,
) -> torch.optim.Optimizer:
    """Train for some steps, over the given part of the schedule, and return the optimiser with its moments."""
    network.train()
    moving = head(network) if bounds is not None and bounds.head_only else list(network.parameters())
    optimiser = rule.build(moving)
    origin = [p.detach().clone() for p in moving] if bounds is not None and bounds.anchor else []
    if moments is not None:
        restore(optimiser, network, moments)
    set_gradients = (plain_gradient(network) if rule.plain else None) or _automatic(network, rule.loss)
    read = _reading(X)
    for step, (batch, labels) in enumerate(islice(shuffled(X, y, rule.batch_size, generator), steps)):
        rate = rule.rate_at(step, steps, part)
        optimiser.param_groups[0]["lr"] = rate
        # The last batch of a pass has a size of its own, for which a search would not pay.
        with tuned(X.device, on=len(labels) == rule.batch_size):
            set_gradients(read(batch), labels)
        optimiser.step()
        if origin and bounds is not None:
            pull = min(1.0, bounds.anchor * rate)
            with torch.no_grad():
                for weight, home in zip(moving, origin, strict=True):
                    weight.lerp_(home, pull)
    return optimiser


def head(network: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the last layer that has any."""
    layers = [layer for layer in network.modules() if list(layer.parameters(recurse=False))]
    return list(layers[-1].parameters(recurse=False))


def train_noisily(
    network: nn.Module,
    X: Inputs,
    y: Tensor,
    *,
    noise: NoisySteps,
    sigma: float,
    batch_size: int,
    generator: torch.Generator,
    rng: np.random.Generator,
    rule: Rule | None = None,
) -> None:
    """Clip the weights, then take the noisy steps; fresh noise at each, from ``rng`` (on a GPU, from its own).

    Of the rule only the loss is used; by default it is the mean cross-entropy.

    Buffers are not noised, so none may carry anything from one step to the next, or out of the last: they are put back
    each time, and statistics of batch normalisation are then taken anew, with the weights the noise has blurred.
    """
    network.train()
    fresh = [buffer.clone() for buffer in network.buffers()]
    weights, slopes = _flatten(network)
    _clip(weights, noise.start)
    draw = _noise(weights, rng)
    loss = Rule(1.0, 0.0, batch_size) if rule is None else rule
    written = plain_gradient(network, keep=True) if loss.plain else None
    set_gradients, read = written or _automatic(network, loss.loss, keep=True), _reading(X)
    for batch, labels in islice(shuffled(X, y, batch_size, generator), noise.steps):
        set_gradients(read(batch), labels)
        with torch.no_grad():
            if isinstance(noise, GradientClipping):
                _clip(slopes, noise.gradient)
                weights.mul_(noise.keeps)
            weights.add_(slopes, alpha=-noise.step_size)
            if not isinstance(noise, GradientClipping):
                _clip(weights, noise.radius)
            weights.add_(draw(), alpha=sigma)
            for buffer, value in zip(network.buffers(), fresh, strict=True):
                buffer.copy_(value)
    for parameter in network.parameters():
        parameter.data, parameter.grad = parameter.data.clone(), None
    update_bn((_as_is(X, rows) for rows in batches(len(X), batch_size)), network)


def _flatten(network: nn.Module) -> tuple[Tensor, Tensor]:
    """Lay all weights, and all gradients, end to end in one tensor each; the network keeps views of them."""
    parameters = list(network.parameters())
    weights = torch.cat([p.detach().reshape(-1) for p in parameters])
    slopes, at = torch.zeros_like(weights), 0
    for p in parameters:
        place = slice(at, at + p.numel())
        p.data, p.grad = weights[place].view_as(p), slopes[place].view_as(p)
        at += p.numel()
    return weights, slopes


def _clip(values: Tensor, radius: float) -> None:
    """Shorten a vector to the radius; in double precision, since the claim rests on it."""
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if not math.isfinite(norm):
        raise DataError(
            "a gradient or weight is not finite, so no bound on it holds: lower step_size or check the records"
        )
    if norm > radius:
        values.mul_(radius / norm * (1 - 1e-6))


def _noise(weights: Tensor, rng: np.random.Generator) -> Any:
    """Return a function that draws standard normal noise.

    On a CPU from NumPy: PyTorch's own generator there takes 32 bits of any seed, which can be tried out.
    """
    if weights.device.type == "cpu" and weights.dtype is torch.float32:
        buffer = torch.empty(len(weights))

        def draw() -> Tensor:
            rng.standard_normal(dtype=np.float32, out=buffer.numpy())
            return buffer

        return draw
    if weights.device.type == "cpu":
        return lambda: torch.from_numpy(rng.standard_normal(len(weights))).to(weights.dtype)
    generator = torch.Generator(weights.device).manual_seed(int(rng.integers(2**63)))
    return lambda: torch.randn(len(weights), generator=generator, device=weights.device, dtype=weights.dtype)


def moments_of(optimiser: torch.optim.Optimizer, network: nn.Module) -> Moments:
    """Return what the optimiser remembers, by weight."""
    return {
        f"{kind}.{name}": value.detach().clone()
        for name, parameter in network.named_parameters()
        for kind, value in optimiser.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore(optimiser: torch.optim.Optimizer, network: nn.Module, moments: Moments) -> None:
    """Let the optimiser remember again; what another kind of optimiser remembered is of no use to it."""
    kinds = ("step", "exp_avg", "exp_avg_sq") if isinstance(optimiser, torch.optim.Adam) else ("momentum_buffer",)
    for name, parameter in network.named_parameters():
        known = {kind: moments[f"{kind}.{name}"] for kind in kinds if f"{kind}.{name}" in moments}
        # Laid out in memory as the weight is, which fused optimisers count on.
        optimiser.state[parameter] = {
            kind: torch.empty_like(parameter, requires_grad=False).copy_(value)
            if value.shape == parameter.shape
            else value.clone().to(parameter.device)
            for kind, value in known.items()
        }


def shuffled(X: Inputs, y: Tensor, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Return batches without end, shuffled anew at each pass; of pictures, their pixels."""
    parts = batches(len(X), size)
    while True:
        order = torch.randperm(len(X), generator=generator)
        place = sent(order, X.device)
        inputs = X.drawn(order, generator) if isinstance(X, Pictures) else X.index_select(0, place)
        labels = y.index_select(0, place)
        for batch in parts:
            yield inputs[batch], labels[batch]


def _reading(X: Inputs) -> Callable[[Tensor], Tensor]:
    """Return how a batch becomes what the network takes."""
    return X.lens.read if isinstance(X, Pictures) else lambda batch: batch


def _as_is(X: Inputs, rows: slice) -> Tensor:
    """Return what the network takes of some rows, not augmented."""
    return X.in_place(rows) if isinstance(X, Pictures) else X[rows]


def _automatic(network: nn.Module, loss: Loss, *, keep: bool = False) -> Gradient:
    """Return a function that sets gradients; with ``keep`` it writes into the tensors that are there."""

    def set_gradients(inputs: Tensor, labels: Tensor) -> None:
        network.zero_grad(set_to_none=not keep)
        torch.autograd.backward(loss(network, inputs, labels))

    return set_gradients


@contextmanager
def threads_for(network: nn.Module) -> Iterator[None]:
    """Run small networks on one thread; restore the setting after."""
    before = torch.get_num_threads()
    small = sum(p.numel() for p in network.parameters()) < _SMALL
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(device: str, seed: int) -> Iterator[None]:
    """Seed what a network draws on its device, and put PyTorch's own generators back as they were."""
    place = torch.device(device)
    on_cuda = place.type == "cuda"
    with torch.random.fork_rng(devices=[place] if on_cuda else []):
        # Not torch.manual_seed, which would also reach devices that are not put back.
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        yield


def batches(rows: int, size: int) -> list[slice]:
    """Cut rows into batches; a single last row joins the batch before, as batch normalisation cannot learn from one."""
    starts = list(range(0, rows, size))
    if size > 1 and len(starts) > 1 and rows - starts[-1] == 1:
        starts.pop()
    return [slice(at, end) for at, end in pairwise([*starts, rows])]


@contextmanager
def single_rows(rows: int, size: int) -> Iterator[None]:
    """Explain the refusal of a network that cannot learn from one row at a time, where no other batch can be made."""
    try:
        yield
    except ValueError as error:
        if rows > 1 and size > 1:
            raise
        raise DataError(
            f"the network cannot learn from {rows} records in batches of {size} ({error}): keep more records, raise "
            "batch_size, or use a network without batch normalisation"
        ) from error
