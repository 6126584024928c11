"""Several networks of one shape, trained in the same steps: what a GPU needs to be busy with small ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from eupg.learn.rule import Rule
from eupg.learn.torch_steps import batches


def train_together(
    networks: list[nn.Module],
    tables: list[tuple[Tensor, Tensor]],
    rule: Rule,
    *,
    epochs: int,
    generators: list[torch.Generator],
) -> None:
    """Train stacked weights: optimisers work on each number by itself, so the networks never meet."""
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
