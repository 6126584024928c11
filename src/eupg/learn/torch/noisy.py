"""The loop of :mod:`eupg.learn.noisy_finetuning`: weights and gradients are clipped; each step adds fresh noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from eupg.errors import DataError
from eupg.learn.noisy_finetuning import GradientClipping, NoisySteps
from eupg.learn.torch.batch_gradient import gradient_of
from eupg.learn.torch.inputs import Inputs, Pictures, batches, reading, shuffled
from eupg.learn.torch.optimiser import TrainingRule


def train_noisily(
    network: nn.Module,
    X: Inputs,
    y: Tensor,
    rule: TrainingRule,
    *,
    noise: NoisySteps,
    sigma: float,
    generator: torch.Generator,
    rng: np.random.Generator,
) -> None:
    """Clip the weights, then take the noisy steps with noise from ``rng`` (on a GPU, from the GPU's generator).

    Only the loss and the batch size of the rule are used.

    Buffers receive no noise, so none may carry anything from one step to the next, or out of the last. They are
    reset at each step, and statistics of batch normalisation are then computed anew with the noisy weights.
    """
    network.train()
    fresh = [buffer.clone() for buffer in network.buffers()]
    weights, slopes = _flatten(network)
    _clip(weights, noise.start)
    draw = _noise(weights, rng)
    set_gradients, read = gradient_of(network, rule, keep=True), reading(X)
    for batch, labels in islice(shuffled(X, y, rule.batch_size, generator), noise.steps):
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
    parts = batches(len(X), rule.batch_size)
    update_bn((X.unaugmented(rows) if isinstance(X, Pictures) else X[rows] for rows in parts), network)


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


def _noise(weights: Tensor, rng: np.random.Generator) -> Callable[[], Tensor]:
    """Return a function that draws standard normal noise.

    On a CPU it uses NumPy: PyTorch's generator there takes only 32 bits of a seed, which can be guessed by search.
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
