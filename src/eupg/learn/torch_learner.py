"""PyTorch networks: tensors stay on the device, no DataLoader, no worker processes.

On tables the cost of a step is overhead, not arithmetic, so each epoch shuffles the resident tensors once and slices
them, the optimiser is fused, and small networks run on one thread (two are slower there; see ``benchmarks/``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit, check_settings, own, own_start, total_effort
from eupg.learn.mlp_gradient import Gradient, plain_gradient
from eupg.learn.networks import MLP

NetworkFactory = Callable[[int, int], nn.Module]
_FORMAT = "eupg-torch-1"
_ROWS_AT_ONCE = 65_536
# Below this many weights a step is dominated by overhead, and a second thread only adds to it.
_SMALL = 2_000_000


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A network, the encoder it was trained with, and how: by which learner, for how many epochs in all."""

    network: nn.Module
    encoder: Encoder
    schema: Schema
    learner: TorchLearner
    effort: int

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the softmax of the network's logits."""
        self.network.eval()
        parts = []
        with torch.inference_mode(), threads_for(self.network):
            for at in range(0, len(X), _ROWS_AT_ONCE):
                inputs = torch.from_numpy(self.encoder(X[at : at + _ROWS_AT_ONCE])).to(self.learner.device)
                parts.append(torch.softmax(self.network(inputs).double(), dim=1).cpu().numpy())
        return np.concatenate(parts) if parts else np.empty((0, self.schema.classes))


@dataclass(frozen=True)
class TorchLearner:
    """Train a network with Adam and a cosine schedule; effort counts epochs.

    Parameters
    ----------
    network
        Any callable from (inputs, classes) to an ``nn.Module``; by default the paper's MLP. What it draws at random,
        such as dropout, follows from the generator given to ``fit``.
    learning_rate, batch_size, weight_decay
        As in the paper's Table of hyper-parameters for Adult. A last batch of one row joins the one before it.
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    """

    # What PyTorch itself imports at the first optimiser step; a server of processes loads it once for all.
    preload: ClassVar[tuple[str, ...]] = ("torch._dynamo",)
    network: NetworkFactory = field(default_factory=MLP)
    learning_rate: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 1e-4
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_settings(self, whole={"batch_size": 1}, positive=("learning_rate",), not_negative=("weight_decay",))
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError) as error:
            raise ParameterError(
                f'device must be one PyTorch knows, such as "cpu" or "cuda", got {self.device!r}'
            ) from error

    @property
    def warm_starts(self) -> bool:
        """A network goes on from the weights it has."""
        return True

    @property
    def batches(self) -> bool:
        """Whether several networks are faster trained together than one after another: on a GPU, not on a CPU."""
        return torch.device(self.device).type != "cpu"

    def fit_many(
        self, tables: Sequence[Examples], *, effort: int, rngs: Sequence[np.random.Generator]
    ) -> list[TorchModel]:
        """Train one network a table, all of them in the same steps; tables may differ in length by a few rows.

        Each epoch leaves out, at random, the rows by which a table is longer than the shortest.
        """
        for examples in tables:
            check_fit(examples, effort)
        encoders = [Encoder.fit(examples) for examples in tables]
        seeds = [int(rng.integers(2**63)) for rng in rngs]
        classes = tables[0].schema.classes
        networks = [self._network(e.width, classes, s) for e, s in zip(encoders, seeds, strict=True)]
        inputs = [
            (torch.from_numpy(e(t.X)).to(self.device), torch.tensor(t.y, device=self.device))
            for e, t in zip(encoders, tables, strict=True)
        ]
        # Another stream than that of the initial weights.
        with _seeded(self.device, seeds[0] ^ 1), _single_rows(min(len(t.y) for t in tables), self.batch_size):
            self._train_together(networks, inputs, effort, [torch.Generator().manual_seed(s) for s in seeds])
        return [
            TorchModel(network.eval(), encoder, examples.schema, self, int(effort))
            for network, encoder, examples in zip(networks, encoders, tables, strict=True)
        ]

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> TorchModel:
        """Train for ``effort`` epochs with a fresh optimiser and schedule."""
        check_fit(examples, effort)
        schema = examples.schema
        base = own_start(start, TorchModel, examples)
        encoder = Encoder.fit(examples, start=base.encoder if base else None)
        seed = int(rng.integers(2**63))
        network = self._network(encoder.width, schema.classes, seed)
        if base:
            _copy(base.network, network)
        X = torch.from_numpy(encoder(examples.X)).to(self.device)
        y = torch.tensor(examples.y, device=self.device)
        with threads_for(network), _seeded(self.device, seed ^ 1), _single_rows(len(X), self.batch_size):
            self._train(network, X, y, effort, torch.Generator().manual_seed(seed))
        return TorchModel(network.eval(), encoder, schema, self, total_effort(effort, start))

    def _network(self, inputs: int, classes: int, seed: int) -> nn.Module:
        with _seeded(self.device, seed):
            return self.network(inputs, classes).to(self.device)

    def _train_together(
        self,
        networks: list[nn.Module],
        tables: list[tuple[Tensor, Tensor]],
        epochs: int,
        generators: list[torch.Generator],
    ) -> None:
        """Train stacked weights: Adam works on each number by itself, so the networks never meet."""
        for network in networks:
            network.train()
        weights, buffers = stack_module_state(networks)
        optimiser = self._adam(weights.values())
        rows = min(len(y) for _, y in tables)
        batches = _batches(rows, self.batch_size)
        steps, step = epochs * len(batches), 0

        def losses(weights: Any, buffers: Any, inputs: Tensor, labels: Tensor) -> Tensor:
            outputs = functional_call(networks[0], (weights, buffers), (inputs,))
            return nn.functional.cross_entropy(outputs, labels)

        together = torch.vmap(losses, randomness="different")
        for _ in range(epochs):
            orders = [
                torch.randperm(len(y), generator=g)[:rows].to(self.device)
                for (_, y), g in zip(tables, generators, strict=True)
            ]
            inputs = torch.stack([X[o] for (X, _), o in zip(tables, orders, strict=True)])
            labels = torch.stack([y[o] for (_, y), o in zip(tables, orders, strict=True)])
            for batch in batches:
                self._set_rate(optimiser, step, steps)
                optimiser.zero_grad(set_to_none=True)
                total: Tensor = together(weights, buffers, inputs[:, batch], labels[:, batch]).sum()
                total.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                step += 1
        for i, network in enumerate(networks):
            network.load_state_dict({name: value[i].detach() for name, value in (weights | buffers).items()})

    def _adam(self, parameters: Iterable[Tensor]) -> torch.optim.Adam:
        return torch.optim.Adam(list(parameters), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)

    def _set_rate(self, optimiser: torch.optim.Adam, step: int, steps: int) -> None:
        optimiser.param_groups[0]["lr"] = self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))

    def _train(self, network: nn.Module, X: Tensor, y: Tensor, epochs: int, generator: torch.Generator) -> None:
        network.train()
        optimiser = self._adam(network.parameters())
        set_gradients = plain_gradient(network) or _automatic(network, optimiser)
        batches = _batches(len(X), self.batch_size)
        steps, step = epochs * len(batches), 0
        for _ in range(epochs):
            order = torch.randperm(len(X), generator=generator).to(self.device)
            inputs, labels = X.index_select(0, order), y.index_select(0, order)
            for batch in batches:
                self._set_rate(optimiser, step, steps)
                set_gradients(inputs[batch], labels[batch])
                optimiser.step()
                step += 1

    def save(self, model: Model, path: str | Path) -> None:
        """Write the weights as safetensors."""
        mine = own(model, TorchModel)
        weights = {name: value.contiguous().cpu() for name, value in mine.network.state_dict().items()}
        about = {"encoder": mine.encoder.to_json(), "effort": mine.effort}
        write_model(path, _FORMAT, mine.schema, safetensors.torch.save(weights), **about)

    def load(self, path: str | Path) -> TorchModel:
        """Read weights into a network built by this learner's factory."""
        file = read_model(path, _FORMAT)
        encoder = file.encoder()
        network = self._network(encoder.width, file.schema.classes, 0)
        try:
            network.load_state_dict(safetensors.torch.load(file.payload))
        except (RuntimeError, SafetensorError) as error:
            raise ModelFileError(f"{path} holds another network: load it with the factory it was made by") from error
        return TorchModel(network.eval(), encoder, file.schema, self, file.effort)


def _automatic(network: nn.Module, optimiser: torch.optim.Optimizer) -> Gradient:
    loss = nn.CrossEntropyLoss()

    def set_gradients(inputs: Tensor, labels: Tensor) -> None:
        optimiser.zero_grad(set_to_none=True)
        loss(network(inputs), labels).backward()

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
def _seeded(device: str, seed: int) -> Iterator[None]:
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


def _batches(rows: int, size: int) -> list[slice]:
    """Cut rows into batches; a single last row joins the batch before, as batch normalisation cannot learn from one."""
    starts = list(range(0, rows, size))
    if size > 1 and len(starts) > 1 and rows - starts[-1] == 1:
        starts.pop()
    return [slice(at, end) for at, end in pairwise([*starts, rows])]


@contextmanager
def _single_rows(rows: int, size: int) -> Iterator[None]:
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


def _copy(base: nn.Module, network: nn.Module) -> None:
    try:
        network.load_state_dict(base.state_dict())
    except RuntimeError as error:
        raise ParameterError(
            "the model to go on from is another network: use the learner with the factory it was made by"
        ) from error
