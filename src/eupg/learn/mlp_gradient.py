"""The gradient of a plain perceptron, written out.

On networks as small as the paper's, automatic differentiation spends about as long on bookkeeping as on arithmetic. For
a sequence of linear layers with ReLU between them the gradient of the cross-entropy is a dozen matrix products; a test
compares it with PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Gradient = Callable[[Tensor, Tensor], None]


def plain_gradient(network: nn.Module, *, keep: bool = False) -> Gradient | None:
    """Return a function that sets the gradients of the mean cross-entropy, or None where the network is another.

    With ``keep`` it writes into the gradient tensors that are there.
    """
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
        seen = [inputs]
        for layer in linear[:-1]:
            seen.append(torch.addmm(layer.bias, seen[-1], layer.weight.T).relu_())
        slope = torch.addmm(linear[-1].bias, seen[-1], linear[-1].weight.T).softmax(dim=1)
        # The derivative of the mean cross-entropy by the logits: probability less truth, over the batch.
        slope.scatter_add_(1, labels[:, None], minus_one.expand(len(labels), 1)).div_(len(labels))
        for depth in reversed(range(len(linear))):
            layer = linear[depth]
            torch.mm(slope.T, seen[depth], out=layer.weight.grad)
            torch.sum(slope, dim=0, out=layer.bias.grad)
            if depth:
                slope = torch.ops.aten.threshold_backward(slope @ layer.weight, seen[depth], 0)

    return set_gradients
