"""PyTorch networks for tables and pictures (:mod:`eupg.learn.torch_steps` and others hold the loops)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from eupg.data.dataset import Examples
from eupg.data.encode import Encoder
from eupg.errors import DataError, ParameterError
from eupg.learn.augment import Augment
from eupg.learn.learner import Model, check_fit, check_settings, own, own_start, total_effort
from eupg.learn.networks import MLP
from eupg.learn.noisy import NoisySteps
from eupg.learn.pictures import Lens, Pictures, laid_out
from eupg.learn.rule import Rule
from eupg.learn.torch_model import TorchModel, copy_weights, read_network, write_network
from eupg.learn.torch_steps import Bounds, Inputs, Moments, seeded, single_rows, steps_in, threads_for, train_noisily
from eupg.learn.torch_together import train_together
from eupg.learn.training import train_on

NetworkFactory = Callable[[int, int], nn.Module]


@dataclass(frozen=True, repr=False)
class TorchLearner:
    """Train a network, by default with Adam and a cosine schedule; effort counts epochs.

    Parameters
    ----------
    network
        Any callable from (inputs, classes) to an ``nn.Module``; by default the paper's MLP. What it draws at random,
        such as dropout, follows from the generator given to ``fit``. For pictures ``inputs`` is the number of channels
        and the module takes (pictures, channels, height, width), unless the callable says that it ``flattens`` them.
    learning_rate, batch_size, weight_decay
        As in the paper's Table of hyper-parameters for Adult. A last batch of one row joins the one before it.
    anchor
        When going on from a model, how strongly its weights pull back: an L2 penalty on the distance to them.
    head_only
        When going on from a model, whether only its last layer moves.
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    optimiser, momentum, nesterov
        "adam", or "sgd" with this momentum.
    schedule, warm_up
        "cosine" falls from the learning rate to 0; "one-cycle" rises to it over this share of the training first, as
        PyTorch's ``OneCycleLR`` does (momentum stays as it is).
    augment
        How pictures are shifted and mirrored at random; by default they are shown as they are.
    precision
        "float32", or "bfloat16" for the layers in training; weights and predictions stay in single precision.
    label_smoothing
        The share of the truth that is spread evenly over all classes.
    mirror
        Whether a prediction is the mean of what the network says of a picture and of its mirror image, which takes
        twice as long.
    compile
        Whether to fuse the network's kernels with ``torch.compile``, for pictures on a GPU: pays in long trainings.
    """

    network: NetworkFactory = field(default_factory=MLP)
    learning_rate: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 1e-4
    anchor: float = 0.0
    head_only: bool = False
    device: str = "cpu"
    optimiser: str = field(default="adam", kw_only=True)
    momentum: float = field(default=0.9, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)
    schedule: str = field(default="cosine", kw_only=True)
    warm_up: float = field(default=0.3, kw_only=True)
    augment: Augment | None = field(default=None, kw_only=True)
    precision: str = field(default="float32", kw_only=True)
    label_smoothing: float = field(default=0.0, kw_only=True)
    mirror: bool = field(default=False, kw_only=True)
    compile: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(
            self, whole={"batch_size": 1}, positive=("learning_rate",), not_negative=("weight_decay", "anchor")
        )
        self._rule.check()
        _check_factory(self.network)
        if self.augment is not None and not isinstance(self.augment, Augment):
            raise ParameterError(f"augment must be an Augment or None, got {self.augment!r}")
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError) as error:
            raise ParameterError(
                f'device must be one PyTorch knows, such as "cpu" or "cuda", got {self.device!r}'
            ) from error

    def __repr__(self) -> str:
        """Show the first settings, and of the others those that were changed: stores know learners by this text."""
        shown = [f for f in fields(self) if not f.kw_only or getattr(self, f.name) != f.default]
        return f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    @property
    def warm_starts(self) -> bool:
        """A network goes on from the weights it has."""
        return True

    @property
    def batches(self) -> bool:
        """Whether several networks are faster trained together than one by one: perceptrons on a GPU are."""
        return self.in_process and self._flattens

    @property
    def in_process(self) -> bool:
        """Whether further processes gain nothing: they would share one GPU, and each would load its own libraries."""
        return torch.device(self.device).type != "cpu"

    @property
    def _flattens(self) -> bool:
        return bool(getattr(self.network, "flattens", False))

    def fit_many(
        self, tables: Sequence[Examples], *, effort: int, rngs: Sequence[np.random.Generator]
    ) -> list[TorchModel]:
        """Train one network a table, all of them in the same steps; tables may differ in length by a few rows.

        Each epoch leaves out, at random, the rows by which a table is longer than the shortest.
        """
        for examples in tables:
            check_fit(examples, effort)
        if any(examples.schema.picture is not None for examples in tables):
            # One picture network keeps a GPU busy.
            return [self.fit(t, effort=effort, rng=rng) for t, rng in zip(tables, rngs, strict=True)]
        encoders = [Encoder.fit(examples) for examples in tables]
        seeds = [int(rng.integers(2**63)) for rng in rngs]
        classes = tables[0].schema.classes
        networks = [self._network(e, classes, s) for e, s in zip(encoders, seeds, strict=True)]
        inputs = [self._rows(e, t) for e, t in zip(encoders, tables, strict=True)]
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
        return self._fit(examples, effort, rng, start, bounds=bounds)

    def fit_part(
        self,
        examples: Examples,
        *,
        effort: int,
        rng: np.random.Generator,
        part: tuple[float, float],
        start: Model | None = None,
    ) -> TorchModel:
        """Train for ``effort`` epochs over a part of the schedule, from 0.0 to 1.0; the optimiser goes on too.

        At the end of the schedule there is nothing to go on to, so the optimiser's moments are not kept.
        """
        before = getattr(start, "moments", None)
        return self._fit(examples, effort, rng, start, part=part, moments=before, keep=part[1] < 1.0)

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
        keep: bool = False,
    ) -> TorchModel:
        check_fit(examples, effort)
        base = own_start(start, TorchModel, examples)
        encoder = Encoder.fit(examples, start=base.encoder if base else None)
        seed = int(rng.integers(2**63))
        network = self._network(encoder, examples.schema.classes, seed)
        if base:
            copy_weights(base.network.state_dict(), network)
        X, y = self._tensors(encoder, examples)
        with threads_for(network), seeded(self.device, seed ^ 1), single_rows(len(X), self.batch_size):
            after = train_on(
                network,
                X,
                y,
                self._rule,
                factory=self.network,
                steps=steps_in(len(X), self.batch_size, effort),
                generator=torch.Generator().manual_seed(seed),
                part=part,
                moments=moments,
                bounds=bounds,
                keep=keep,
            )
        return TorchModel(network.eval(), encoder, examples.schema, self, total_effort(effort, start), after)

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

        Scales are those of the schema; buffers, running statistics of batch normalisation among them, begin anew.
        """
        check_fit(examples, effort)
        self.check_noisy(examples, effort=effort, noise=noise)
        base = own_start(start, TorchModel, examples)
        assert base is not None
        steps = steps_in(len(examples.y), self.batch_size, effort)
        encoder = Encoder.fit(examples)
        seed = int(rng.integers(2**63))
        network = self._network(encoder, examples.schema.classes, seed)
        copy_weights(network.state_dict() | dict(base.network.named_parameters()), network)
        X, y = self._tensors(encoder, examples)
        with threads_for(network), seeded(self.device, seed ^ 1), single_rows(len(X), self.batch_size):
            generator = torch.Generator().manual_seed(seed)
            train_noisily(
                network,
                X,
                y,
                noise=noise,
                sigma=sigma,
                batch_size=self.batch_size,
                generator=generator,
                rng=rng,
                rule=self._rule,
            )
            network = laid_out(network, self.lens(encoder))
            if steps > noise.steps:
                rest = steps - noise.steps
                train_on(network, X, y, self._rule, factory=self.network, steps=rest, generator=generator)
        return TorchModel(network.eval(), encoder, examples.schema, self, effort)

    def check_noisy(self, examples: Examples, *, effort: int, noise: NoisySteps) -> None:
        """Refuse weights that do not train, as noise would not cover what they hold, and steps that do not fit."""
        network = self._network(Encoder.fit(examples), examples.schema.classes, 0)
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
        return Rule(**{f.name: getattr(self, f.name) for f in fields(Rule)})

    def lens(self, encoder: Encoder) -> Lens | None:
        """Return how the network reads pictures, or None for a table."""
        return Lens.of(encoder, flat=self._flattens)

    def _tensors(self, encoder: Encoder, examples: Examples) -> tuple[Inputs, Tensor]:
        lens = self.lens(encoder)
        if lens is None:
            return self._rows(encoder, examples)
        pixels = lens.upload(examples.X, self.device)
        return Pictures.of(pixels, lens, self.augment), torch.tensor(examples.y, device=self.device)

    def _rows(self, encoder: Encoder, examples: Examples) -> tuple[Tensor, Tensor]:
        if self.augment is not None:
            raise ParameterError("augment shifts and mirrors pictures, and these records are a table: leave it out")
        inputs = torch.from_numpy(encoder(examples.X)).to(self.device)
        return inputs, torch.tensor(examples.y, device=self.device)

    def _network(self, encoder: Encoder, classes: int, seed: int) -> nn.Module:
        lens = self.lens(encoder)
        with seeded(self.device, seed):
            network = self.network(encoder.width if lens is None else lens.inputs, classes)
        if not isinstance(network, nn.Module):
            raise ParameterError(
                f"network must build a torch.nn.Module, and {self.network!r} returned {type(network).__name__}: let it "
                "return the module"
            )
        return laid_out(network.to(self.device), lens)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the weights as safetensors, and the optimiser's moments where the model carries them."""
        write_network(own(model, TorchModel), path)

    def load(self, path: str | Path) -> TorchModel:
        """Read weights into a network built by this learner's factory."""
        return read_network(path, self, lambda encoder, classes: self._network(encoder, classes, 0))


def _check_factory(network: object) -> None:
    """Refuse what does not build a network from (inputs, classes), such as a network that is built already."""
    name = type(network).__name__
    if isinstance(network, nn.Module):
        raise ParameterError(
            f"network must be a callable from (inputs, classes) to an nn.Module, got an instance of {name}: each "
            f"training begins with a fresh network, so pass the class, TorchLearner({name}), or a function such as "
            f"lambda inputs, classes: {name}(…)"
        )
    if not callable(network):
        raise ParameterError(
            f"network must be a callable from (inputs, classes) to an nn.Module, got {network!r}: pass a class or a "
            "function that builds the network"
        )
    try:
        signature = inspect.signature(network)
    except ValueError:
        # Some callables that are written in C do not tell what they take.
        return
    try:
        signature.bind(1, 2)
    except TypeError as error:
        raise ParameterError(
            f"network must take two arguments, the numbers of inputs and of classes, and {network!r} does not "
            f"({error}): pass a class or a function that takes both"
        ) from error
