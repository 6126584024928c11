"""One way into training: pictures on a GPU by a captured step, where that can be done, all else step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eupg.learn.captured import WORTH_CAPTURING, captured_step, train_captured
from eupg.learn.pictures import Pictures
from eupg.learn.rule import Rule
from eupg.learn.torch_steps import Bounds, Inputs, Moments, moments_of, train


def train_on(
    network: nn.Module,
    X: Inputs,
    y: Tensor,
    rule: Rule,
    *,
    factory: object,
    steps: int,
    generator: torch.Generator,
    part: tuple[float, float] = (0.0, 1.0),
    moments: Moments | None = None,
    bounds: Bounds | None = None,
    keep: bool = False,
) -> Moments | None:
    """Train for some steps, over the given part of the schedule; return the moments if they are to be kept."""
    free = bounds is None or bounds.free
    worth = steps >= WORTH_CAPTURING and len(X) >= rule.batch_size
    if isinstance(X, Pictures) and X.device.type == "cuda" and free and worth:
        with captured_step(network, X, rule, factory=factory) as step:
            if step is not None:
                return train_captured(
                    step,
                    network,
                    X,
                    y,
                    rule,
                    steps=steps,
                    generator=generator,
                    part=part,
                    moments=moments,
                    keep=keep,
                )
    optimiser = train(network, X, y, rule, steps=steps, generator=generator, part=part, moments=moments, bounds=bounds)
    return moments_of(optimiser, network) if keep else None
