"""The training loops of networks: tensors stay on the device, without a DataLoader or worker processes.

On tables a step costs overhead rather than arithmetic. Each epoch therefore shuffles the resident tensors once and
slices them, the optimiser is fused, and small networks run on one thread (two are slower there, see
``reproduction/benchmarks``). Pictures on a GPU are trained by captured steps where that is possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from eupg.errors import DataError
from eupg.learn.torch.batch_gradient import gradient_of
from eupg.learn.torch.captured import WORTH_CAPTURING, captured_step, train_captured
from eupg.learn.torch.inputs import Inputs, Pictures, batches, reading, shuffled, tuned
from eupg.learn.torch.optimiser import Moments, TrainingRule, moments_of, restore_moments

# Below this many weights a step is dominated by overhead, and a second thread only adds to it.
_SMALL = 2_000_000
# oneDNN pads the channels of a convolution to a multiple of this.
_CHANNELS = 8


@dataclass(frozen=True)
class Bounds:
    """How far a network may move from where it starts: pulled back by ``anchor``, or in its last layer alone."""

    anchor: float = 0.0
    head_only: bool = False


FREE = Bounds()


def train(
    network: nn.Module,
    X: Inputs,
    y: Tensor,
    rule: TrainingRule,
    *,
    steps: int,
    generator: torch.Generator,
    factory: object = None,
    part: tuple[float, float] = (0.0, 1.0),
    moments: Moments | None = None,
    bounds: Bounds = FREE,
    keep: bool = False,
) -> Moments | None:
    """Train for some steps over a part of the schedule; with ``keep`` return the optimiser's moments.

    Networks of one ``factory`` share captured steps.
    """
    worth = steps >= WORTH_CAPTURING and len(X) >= rule.batch_size
    if isinstance(X, Pictures) and X.device.type == "cuda" and bounds == FREE and worth:
        with captured_step(network, X, rule, factory=factory) as step:
            if step is not None:
                return train_captured(
                    step, network, X, y, rule, steps=steps, generator=generator, part=part, moments=moments, keep=keep
                )
    network.train()
    moving = head(network) if bounds.head_only else list(network.parameters())
    optimiser = rule.build(moving)
    origin = [p.detach().clone() for p in moving] if bounds.anchor else []
    if moments is not None:
        restore_moments(optimiser, network, moments)
    set_gradients, read = gradient_of(network, rule), reading(X)
    for number, (batch, labels) in enumerate(islice(shuffled(X, y, rule.batch_size, generator), steps)):
        rate = rule.rate_at(number, steps, part)
        optimiser.param_groups[0]["lr"] = rate
        # The last batch of a pass has a size of its own, for which a search would not pay.
        with tuned(X.device, on=len(labels) == rule.batch_size):
            set_gradients(read(batch), labels)
        optimiser.step()
        if origin:
            with torch.no_grad():
                for weight, home in zip(moving, origin, strict=True):
                    weight.lerp_(home, min(1.0, bounds.anchor * rate))
    return moments_of(optimiser, network) if keep else None


def head(network: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the last layer that has any."""
    layers = [layer for layer in network.modules() if list(layer.parameters(recurse=False))]
    return list(layers[-1].parameters(recurse=False))


def train_together(
    networks: list[nn.Module],
    tables: list[tuple[Tensor, Tensor]],
    rule: TrainingRule,
    *,
    epochs: int,
    generators: list[torch.Generator],
) -> None:
    """Train several networks of one shape in the same steps, which keeps a GPU busy with small ones.

    Their weights are stacked. Optimisers treat each number by itself, so the networks do not influence each other.
    """
    for network in networks:
        network.train()
    weights, buffers = stack_module_state(networks)
    optimiser = rule.build(weights.values())
    rows, device = min(len(y) for _, y in tables), tables[0][0].device
    parts = batches(rows, rule.batch_size)
    steps, step = epochs * len(parts), 0

    def losses(weights: Any, buffers: Any, inputs: Tensor, labels: Tensor) -> Tensor:
        return rule.loss(lambda rows: functional_call(networks[0], (weights, buffers), (rows,)), inputs, labels)

    together = torch.vmap(losses, randomness="different")
    for _ in range(epochs):
        orders = [
            torch.randperm(len(y), generator=g)[:rows].to(device) for (_, y), g in zip(tables, generators, strict=True)
        ]
        inputs = torch.stack([X[o] for (X, _), o in zip(tables, orders, strict=True)])
        labels = torch.stack([y[o] for (_, y), o in zip(tables, orders, strict=True)])
        for batch in parts:
            optimiser.param_groups[0]["lr"] = rule.rate(step / steps, steps)
            optimiser.zero_grad(set_to_none=True)
            total: Tensor = together(weights, buffers, inputs[:, batch], labels[:, batch]).sum()
            total.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            step += 1
    for i, network in enumerate(networks):
        network.load_state_dict({name: value[i].detach() for name, value in (weights | buffers).items()})


@contextmanager
def threads_for(network: nn.Module) -> Iterator[None]:
    """Run small networks on one thread, and narrow convolutions without oneDNN; restore the settings afterwards."""
    before = torch.get_num_threads()
    small = sum(p.numel() for p in network.parameters()) < _SMALL
    # On processors without AVX-512, oneDNN of PyTorch 2.13 writes past the end of such tensors and corrupts memory.
    narrow = any(isinstance(part, nn.Conv2d) and part.out_channels % _CHANNELS for part in network.modules())
    onednn = bool(torch.backends.mkldnn.enabled)
    torch.set_num_threads(1 if small else before)
    torch.backends.mkldnn.enabled = onednn and not narrow  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.backends.mkldnn.enabled = onednn  # type: ignore[assignment]


@contextmanager
def seeded(device: str, seed: int) -> Iterator[None]:
    """Seed a network's random draws on its device; restore PyTorch's own generators afterwards."""
    place = torch.device(device)
    on_cuda = place.type == "cuda"
    with torch.random.fork_rng(devices=[place] if on_cuda else []):
        # Not torch.manual_seed, which would also reach devices that are not restored.
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def single_rows(rows: int, size: int) -> Iterator[None]:
    """Explain the error of a network that cannot learn from one row at a time, where no larger batch is possible."""
    try:
        yield
    except ValueError as error:
        if rows > 1 and size > 1:
            raise
        raise DataError(
            f"the network cannot learn from {rows} records in batches of {size} ({error}): keep more records, raise "
            "batch_size, or use a network without batch normalisation"
        ) from error
