"""Gradients of a batch: PyTorch's own, or, for a plain perceptron, written out.

On networks as small as the paper's, automatic differentiation spends about as long on bookkeeping as on arithmetic. For
a sequence of linear layers with ReLU between them the gradient of the cross-entropy is a dozen matrix products; a test
compares it with PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from eupg.learn.torch.optimiser import TrainingRule

Gradient = Callable[[Tensor, Tensor], None]


def gradient_of(network: nn.Module, rule: TrainingRule, *, keep: bool = False) -> Gradient:
    """Return a function that sets the gradients of a batch; with ``keep`` it writes into the existing tensors."""
    written_out = plain_gradient(network, keep=keep) if rule.plain else None
    if written_out is not None:
        return written_out

    def set_gradients(inputs: Tensor, labels: Tensor) -> None:
        network.zero_grad(set_to_none=not keep)
        torch.autograd.backward(rule.loss(network, inputs, labels))

    return set_gradients


def plain_gradient(network: nn.Module, *, keep: bool = False) -> Gradient | None:
    """Return a function that sets the gradients of the mean cross-entropy, or None if the network is not plain."""
    layers = list(network) if type(network) is nn.Sequential else []
    linear = [layer for layer in layers if type(layer) is nn.Linear and layer.bias is not None]
    pattern = [nn.Linear, nn.ReLU] * (len(linear) - 1) + [nn.Linear]
    trainable = all(
        p.requires_grad and p.dtype is torch.float32 and p.device.type == "cpu" for p in network.parameters()
    )
    if not linear or [type(layer) for layer in layers] != pattern or not trainable:
        return None
    for parameter in network.parameters() if not keep else ():
        parameter.grad = torch.empty_like(parameter)
    minus_one = torch.full((1, 1), -1.0)

    @torch.no_grad()
    def set_gradients(inputs: Tensor, labels: Tensor) -> None:
        outputs = [inputs]
        for layer in linear[:-1]:
            outputs.append(torch.addmm(layer.bias, outputs[-1], layer.weight.T).relu_())
        slope = torch.addmm(linear[-1].bias, outputs[-1], linear[-1].weight.T).softmax(dim=1)
        # The derivative of the mean cross-entropy by the logits: probability less truth, over the batch.
        slope.scatter_add_(1, labels[:, None], minus_one.expand(len(labels), 1)).div_(len(labels))
        for depth in reversed(range(len(linear))):
            layer = linear[depth]
            torch.mm(slope.T, outputs[depth], out=layer.weight.grad)
            torch.sum(slope, dim=0, out=layer.bias.grad)
            if depth:
                slope = torch.ops.aten.threshold_backward(slope @ layer.weight, outputs[depth], 0)

    return set_gradients
