"""Fine-tuning beyond the head: a public network with a private head continues on the raw pictures of some people.

A head on fixed features never sees a raw picture. Whoever may use the raw pictures of some people can fine-tune the
whole network on them. The base model is the public network with the private head; forgetting returns to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.data.vector import GRID
from eupg.errors import ParameterError
from eupg.forget.private_head.base import PrivateHead
from eupg.forget.private_trees.noisy_training import NoisyTraining
from eupg.forget.protected_training import without_names
from eupg.forget.unlearner import check_start
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn.heads.model import HeadLearner, HeadModel
from eupg.learn.learner import Learner, Model, check_settings
from eupg.learn.torch.learner import TorchLearner
from eupg.protect.features.encoder import PublicEncoder, encode_records
from eupg.protect.units import unit_claim
from eupg.rng import Randomness


class TrainableEncoder(PublicEncoder, Protocol):
    """An encoder of pictures that gives its network away, such as EfficientNetLite0 or NetworkEncoder."""

    def module(self) -> nn.Module:
        """Return a copy of the network, from pixels of 0 to 255 to one row per picture."""


@dataclass(frozen=True)
class PublicNetwork:
    """A network factory: a public network with its published weights, and a new last layer of zeros.

    With :class:`~eupg.learn.torch.learner.TorchLearner`, training "from scratch" starts from the public weights.

    Parameters
    ----------
    encoder
        The public network.

    Examples
    --------
    >>> from eupg.learn import TorchLearner
    >>> from eupg.protect import EfficientNetLite0
    >>> TorchLearner(PublicNetwork(EfficientNetLite0(size=96)), learning_rate=1e-3).learning_rate
    0.001
    """

    encoder: TrainableEncoder

    def __call__(self, inputs: int, classes: int) -> nn.Module:
        """Build the network for pictures with this many channels."""
        return _Headed(self.encoder.module(), inputs, classes)


class _Headed(nn.Module):
    """Public features of length 1, around a centre, and one last layer: what a private head computes."""

    centre: Tensor

    def __init__(self, body: nn.Module, inputs: int, classes: int) -> None:
        super().__init__()
        self.body = body
        with torch.inference_mode():
            features = body.eval()(torch.zeros(1, inputs, 8, 8)).shape[1]
        self.register_buffer("centre", torch.zeros(features))
        self.last = nn.Linear(features, classes)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.requires_grad_(True)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class; the input is (pixels − 127.5)/63.75, as learners scale pictures."""
        features = functional.normalize(self.body(x * 63.75 + 127.5).float())
        logits: Tensor = self.last(functional.normalize(features - self.centre))
        return logits

    def take(self, model: HeadModel) -> None:
        """Take over centre and weights of a private head."""
        weights = torch.tensor(model.weights, dtype=torch.float32)
        # For two classes the head has the margin of the second alone.
        both = torch.cat([torch.zeros_like(weights), weights], dim=1) if weights.shape[1] == 1 else weights
        centre = np.zeros(len(weights) - 1) if model.centre is None else model.centre / GRID
        with torch.no_grad():
            self.centre.copy_(torch.tensor(centre))
            self.last.bias.copy_(both[0])
            self.last.weight.copy_(both[1:].T)


@dataclass(frozen=True)
class PrivateNetwork(NoisyTraining):
    """Give a public network a private head, so that it can be fine-tuned on the pictures of some people.

    Takes the place of a mechanism in :class:`~eupg.forget.eupg.EUPG`, for pictures, with a learner whose network is
    ``PublicNetwork(encoder)``. The base model satisfies (ε, δ)-differential privacy for the whole picture and its
    label; ``exposure`` says which share of the people is seen raw when it is fine-tuned. The control is
    ``Retrain(learner, effort, exposure)``: from the public weights, on as many people.

    Parameters
    ----------
    epsilon, delta, max_records
        As for :class:`~eupg.forget.private_head.base.PrivateHead`.
    encoder
        The public network.

    Examples
    --------
    >>> from eupg import EUPG
    >>> from eupg.learn import TorchLearner
    >>> from eupg.protect import EfficientNetLite0
    >>> encoder = EfficientNetLite0(size=96)
    >>> learner = TorchLearner(PublicNetwork(encoder), learning_rate=1e-3, batch_size=64)
    >>> EUPG(PrivateNetwork(epsilon=1.0, encoder=encoder), learner, pretrain=1, finetune=2, exposure=0.1).sees_raw
    True
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.PICTURES, instead="PrivateTrees for tables")
    encoder: TrainableEncoder = field(kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self, whole={}, positive=("delta",))
        super().__post_init__()
        if not isinstance(self.encoder, PublicEncoder) or not hasattr(self.encoder, "module"):
            raise ParameterError(f"expected an encoder such as EfficientNetLite0(size=96), got {self.encoder!r}")

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: (ε, δ) for one person, on the whole picture and its label."""
        check_kind(schema, self)
        assert schema.picture is not None
        known = f"{self.encoder!r} (weights {self.encoder.digest[:16]})"
        public = f"the base model is the public network {known}: the claim assumes that its weights depend on no record"
        return unit_claim(self.epsilon, self.delta, schema, (public, *self.caveats))

    def check_learner(self, learner: Learner) -> None:
        """Refuse a learner of other networks."""
        if not isinstance(learner, TorchLearner) or learner.network != PublicNetwork(self.encoder):
            raise ParameterError(
                f"PrivateNetwork continues from {self.encoder!r}, and {type(learner).__name__} trains another network: "
                "use TorchLearner(PublicNetwork(encoder)) with the same encoder"
            )

    def pretrain(
        self, data: Dataset, learner: Learner, *, effort: int, rng: Randomness
    ) -> tuple[Model, DifferentiallyPrivate]:
        """Train the head from noisy answers alone, and put it on the public network."""
        check_start(data, rng)
        self.check_learner(learner)
        assert isinstance(learner, TorchLearner)
        claim = replace(self.guarantee(data.schema), seeded=rng.seeded)
        vectors = encode_records(data, self.encoder, device=learner.device)
        head = PrivateHead(self.epsilon, self.delta, self.max_records)
        fitted, _ = head.pretrain(vectors, HeadLearner(), effort=1, rng=rng)
        assert isinstance(fitted, HeadModel)
        model = learner.untrained(without_names(data.schema), effort=effort)
        assert isinstance(model.network, _Headed)
        model.network.take(fitted)
        return model, claim
