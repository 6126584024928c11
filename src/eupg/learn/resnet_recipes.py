"""The paper's settings for ResNet-18 on CIFAR-10, as learners: one for the base, one for fine-tuning."""

from __future__ import annotations

from dataclasses import replace

import torch

from eupg.learn.augment import Augment
from eupg.learn.resnet import ResNet18
from eupg.learn.torch_learner import TorchLearner


def resnet18_learner(*, device: str = "cuda", width: int = 64) -> TorchLearner:
    """Return the recipe for training from scratch: SGD with momentum, batches of 256, a cosine from 0.1.

    On a GPU layers are computed in bfloat16.
    """
    return TorchLearner(
        ResNet18(width),
        learning_rate=0.1,
        batch_size=256,
        weight_decay=5e-4,
        device=device,
        optimiser="sgd",
        augment=Augment(),
        precision="float32" if torch.device(device).type == "cpu" else "bfloat16",
    )


def resnet18_finetuner(*, device: str = "cuda", width: int = 64) -> TorchLearner:
    """Return the recipe for fine-tuning: the same with one cycle up to 0.05 and down."""
    return replace(resnet18_learner(device=device, width=width), learning_rate=5e-2, schedule="one-cycle")
