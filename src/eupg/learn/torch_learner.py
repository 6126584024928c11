"""PyTorch networks: tensors stay on the device, no DataLoader, no worker processes.

On tables the cost of a step is overhead, not arithmetic, so each epoch shuffles the resident tensors once and slices
them, the optimiser is fused, and small networks run on one thread (two are slower there; see ``benchmarks/``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit
from eupg.learn.networks import MLP

NetworkFactory = Callable[[int, int], nn.Module]
_FORMAT = "eupg-torch-1"
_ROWS_AT_ONCE = 65_536
# Below this many weights a step is dominated by overhead, and a second thread only adds to it.
_SMALL = 2_000_000


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A network and the encoder it was trained with."""

    network: nn.Module
    encoder: Encoder
    schema: Schema
    device: str

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the softmax of the network's logits."""
        self.network.eval()
        parts = []
        with torch.inference_mode(), threads_for(self.network):
            for at in range(0, len(X), _ROWS_AT_ONCE):
                inputs = torch.from_numpy(self.encoder(X[at : at + _ROWS_AT_ONCE])).to(self.device)
                parts.append(torch.softmax(self.network(inputs).double(), dim=1).cpu().numpy())
        return np.concatenate(parts) if parts else np.empty((0, self.schema.classes))


@dataclass(frozen=True)
class TorchLearner:
    """Train a network with Adam and a cosine schedule; effort counts epochs.

    Parameters
    ----------
    network
        Any callable from (inputs, classes) to an ``nn.Module``; by default the paper's MLP.
    learning_rate, batch_size, weight_decay
        As in the paper's Table of hyper-parameters for Adult.
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    """

    network: NetworkFactory = field(default_factory=MLP)
    learning_rate: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 1e-4
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.learning_rate <= 0 or self.batch_size < 1 or self.weight_decay < 0:
            raise ParameterError("learning_rate and batch_size must be positive, weight_decay not negative")

    @property
    def warm_starts(self) -> bool:
        """A network goes on from the weights it has."""
        return True

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> TorchModel:
        """Train for ``effort`` epochs with a fresh optimiser and schedule."""
        check_fit(examples, effort)
        schema = examples.schema
        encoder = Encoder.fit(examples, start=_own(start).encoder if start is not None else None)
        seed = int(rng.integers(2**63))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.network(encoder.width, schema.classes)
        if start is not None:
            network.load_state_dict(_own(start).network.state_dict())
        network = network.to(self.device)
        X = torch.from_numpy(encoder(examples.X)).to(self.device)
        y = torch.tensor(examples.y, device=self.device)
        with threads_for(network):
            self._train(network, X, y, effort, torch.Generator().manual_seed(seed))
        return TorchModel(network.eval(), encoder, schema, self.device)

    def _train(self, network: nn.Module, X: Tensor, y: Tensor, epochs: int, generator: torch.Generator) -> None:
        network.train()
        optimiser = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        loss = nn.CrossEntropyLoss()
        steps, step = epochs * math.ceil(len(X) / self.batch_size), 0
        for _ in range(epochs):
            order = torch.randperm(len(X), generator=generator).to(self.device)
            inputs, labels = X[order], y[order]
            for at in range(0, len(X), self.batch_size):
                batch = slice(at, at + self.batch_size)
                optimiser.param_groups[0]["lr"] = self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
                optimiser.zero_grad(set_to_none=True)
                loss(network(inputs[batch]), labels[batch]).backward()
                optimiser.step()
                step += 1

    def save(self, model: Model, path: Path) -> None:
        """Write the weights as safetensors."""
        own = _own(model)
        weights = {name: value.contiguous().cpu() for name, value in own.network.state_dict().items()}
        write_model(path, _FORMAT, own.schema, safetensors.torch.save(weights), encoder=own.encoder.to_json())

    def load(self, path: Path) -> TorchModel:
        """Read weights into a network built by this learner's factory."""
        schema, about, payload = read_model(path, _FORMAT)
        encoder = Encoder.from_json(schema.features, about["encoder"])
        network = self.network(encoder.width, schema.classes)
        try:
            network.load_state_dict(safetensors.torch.load(payload))
        except (RuntimeError, SafetensorError) as error:
            raise ModelFileError(f"{path} holds another network: load it with the factory it was made by") from error
        return TorchModel(network.to(self.device).eval(), encoder, schema, self.device)


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


def _own(model: Model) -> TorchModel:
    if not isinstance(model, TorchModel):
        raise ParameterError(
            f"expected a model of TorchLearner, got {type(model).__name__}: use one learner throughout"
        )
    return model
