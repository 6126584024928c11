"""PyTorch networks, trained with Adam and a cosine schedule (:mod:`eupg.learn.torch_steps` holds the loops)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import Model, check_fit, check_settings, own, own_start, total_effort
from eupg.learn.networks import MLP
from eupg.learn.noisy import NoisySteps
from eupg.learn.torch_steps import (
    Bounds,
    Moments,
    Rule,
    moments_of,
    seeded,
    single_rows,
    steps_in,
    threads_for,
    train,
    train_noisily,
)
from eupg.learn.torch_together import train_together

NetworkFactory = Callable[[int, int], nn.Module]
_FORMAT = "eupg-torch-1"
_ROWS_AT_ONCE = 65_536
_MOMENT = "optimiser."


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A network, the encoder it was trained with, and how: by which learner, for how many epochs in all.

    ``moments`` is what the optimiser remembers, where training is to go on as if it had not stopped.
    """

    network: nn.Module
    encoder: Encoder
    schema: Schema
    learner: TorchLearner
    effort: int
    moments: Moments | None = None

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
    anchor
        When going on from a model, how strongly its weights pull back: an L2 penalty on the distance to them.
    head_only
        When going on from a model, whether only its last layer moves.
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    """

    # What PyTorch itself imports at the first optimiser step; a server of processes loads it once for all.
    preload: ClassVar[tuple[str, ...]] = ("torch._dynamo",)
    network: NetworkFactory = field(default_factory=MLP)
    learning_rate: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 1e-4
    anchor: float = 0.0
    head_only: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_settings(
            self, whole={"batch_size": 1}, positive=("learning_rate",), not_negative=("weight_decay", "anchor")
        )
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
        inputs = [self._tensors(e, t) for e, t in zip(encoders, tables, strict=True)]
        # Another stream than that of the initial weights.
        with seeded(self.device, seeds[0] ^ 1), single_rows(min(len(t.y) for t in tables), self.batch_size):
            generators = [torch.Generator().manual_seed(s) for s in seeds]
            train_together(networks, inputs, self._rule, epochs=effort, generators=generators)
        return [
            TorchModel(network.eval(), encoder, examples.schema, self, int(effort))
            for network, encoder, examples in zip(networks, encoders, tables, strict=True)
        ]

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> TorchModel:
        """Train for ``effort`` epochs with a fresh optimiser and schedule."""
        bounds = None if start is None else Bounds(self.anchor, self.head_only)
        model, _ = self._fit(examples, effort, rng, start, bounds=bounds)
        return model

    def fit_part(
        self,
        examples: Examples,
        *,
        effort: int,
        rng: np.random.Generator,
        part: tuple[float, float],
        start: Model | None = None,
    ) -> TorchModel:
        """Train for ``effort`` epochs over a part of the schedule, from 0.0 to 1.0; the optimiser goes on too."""
        before = getattr(start, "moments", None)
        model, optimiser = self._fit(examples, effort, rng, start, part=part, moments=before)
        return replace(model, moments=moments_of(optimiser, model.network))

    def _fit(
        self,
        examples: Examples,
        effort: int,
        rng: np.random.Generator,
        start: Model | None,
        *,
        part: tuple[float, float] = (0.0, 1.0),
        moments: Moments | None = None,
        bounds: Bounds | None = None,
    ) -> tuple[TorchModel, torch.optim.Adam]:
        check_fit(examples, effort)
        base = own_start(start, TorchModel, examples)
        encoder = Encoder.fit(examples, start=base.encoder if base else None)
        seed = int(rng.integers(2**63))
        network = self._network(encoder.width, examples.schema.classes, seed)
        if base:
            _copy(base.network.state_dict(), network)
        X, y = self._tensors(encoder, examples)
        with threads_for(network), seeded(self.device, seed ^ 1), single_rows(len(X), self.batch_size):
            optimiser = train(
                network,
                X,
                y,
                self._rule,
                steps=steps_in(len(X), self.batch_size, effort),
                generator=torch.Generator().manual_seed(seed),
                part=part,
                moments=moments,
                bounds=bounds,
            )
        return TorchModel(network.eval(), encoder, examples.schema, self, total_effort(effort, start)), optimiser

    def fit_noisy(
        self,
        examples: Examples,
        *,
        effort: int,
        noise: NoisySteps,
        sigma: float,
        rng: np.random.Generator,
        start: Model,
    ) -> TorchModel:
        """Take noisy steps from the clipped weights of ``start``, then train for the rest of ``effort`` epochs.

        Scales and buffers, running statistics of batch normalisation among them, begin anew on the examples.
        """
        check_fit(examples, effort)
        self.check_noisy(examples, effort=effort, noise=noise)
        base = own_start(start, TorchModel, examples)
        assert base is not None
        steps = steps_in(len(examples.y), self.batch_size, effort)
        encoder = Encoder.fit(examples)
        seed = int(rng.integers(2**63))
        network = self._network(encoder.width, examples.schema.classes, seed)
        _copy(network.state_dict() | dict(base.network.named_parameters()), network)
        X, y = self._tensors(encoder, examples)
        with threads_for(network), seeded(self.device, seed ^ 1), single_rows(len(X), self.batch_size):
            generator = torch.Generator().manual_seed(seed)
            train_noisily(
                network, X, y, noise=noise, sigma=sigma, batch_size=self.batch_size, generator=generator, rng=rng
            )
            if steps > noise.steps:
                train(network, X, y, self._rule, steps=steps - noise.steps, generator=generator)
        return TorchModel(network.eval(), encoder, examples.schema, self, effort)

    def check_noisy(self, examples: Examples, *, effort: int, noise: NoisySteps) -> None:
        """Refuse weights that do not train, as noise would not cover what they hold, and steps that do not fit."""
        network = self._network(Encoder.fit(examples).width, examples.schema.classes, 0)
        frozen = [name for name, p in network.named_parameters() if not p.requires_grad]
        if frozen:
            raise ParameterError(
                f"{len(frozen)} weights of the network do not train, first {frozen[0]!r}: noisy steps would leave what "
                "they hold of the forgotten records; make them buffers with fixed values, or let them train"
            )
        steps = steps_in(len(examples.y), self.batch_size, effort)
        if noise.steps > steps:
            raise DataError(
                f"{noise.steps} noisy steps do not fit into {effort} epochs of {len(examples.y)} records, which are "
                f"{steps} steps: take fewer, or raise the effort"
            )

    @property
    def _rule(self) -> Rule:
        return Rule(self.learning_rate, self.weight_decay, self.batch_size)

    def _tensors(self, encoder: Encoder, examples: Examples) -> tuple[Tensor, Tensor]:
        inputs = torch.from_numpy(encoder(examples.X)).to(self.device)
        return inputs, torch.tensor(examples.y, device=self.device)

    def _network(self, inputs: int, classes: int, seed: int) -> nn.Module:
        with seeded(self.device, seed):
            return self.network(inputs, classes).to(self.device)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the weights as safetensors, and the optimiser's moments where the model carries them."""
        mine = own(model, TorchModel)
        tensors = dict(mine.network.state_dict())
        tensors |= {_MOMENT + name: value for name, value in (mine.moments or {}).items()}
        about = {"encoder": mine.encoder.to_json(), "effort": mine.effort}
        payload = safetensors.torch.save({name: value.contiguous().cpu() for name, value in tensors.items()})
        write_model(path, _FORMAT, mine.schema, payload, **about)

    def load(self, path: str | Path) -> TorchModel:
        """Read weights into a network built by this learner's factory."""
        file = read_model(path, _FORMAT)
        encoder = file.encoder()
        network = self._network(encoder.width, file.schema.classes, 0)
        try:
            tensors = safetensors.torch.load(file.payload)
            moments = {n.removeprefix(_MOMENT): v for n, v in tensors.items() if n.startswith(_MOMENT)}
            network.load_state_dict({n: v for n, v in tensors.items() if not n.startswith(_MOMENT)})
        except (RuntimeError, SafetensorError) as error:
            raise ModelFileError(f"{path} holds another network: load it with the factory it was made by") from error
        return TorchModel(network.eval(), encoder, file.schema, self, file.effort, moments or None)


def _copy(state: Mapping[str, Tensor], network: nn.Module) -> None:
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise ParameterError(
            "the model to go on from is another network: use the learner with the factory it was made by"
        ) from error
