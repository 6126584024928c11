"""TorchLearner: PyTorch networks for tables and pictures. The loops are in :mod:`eupg.learn.torch.training`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from eupg.data.dataset import Examples, Matrix
from eupg.data.encode import Encoder
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.learner import (
    Model,
    Scores,
    check_fit,
    check_scores,
    check_settings,
    own,
    own_start,
    total_effort,
)
from eupg.learn.noisy_finetuning import NoisySteps
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.inputs import Inputs, PictureReader, Pictures, steps_in
from eupg.learn.torch.networks import MLP, Corrected
from eupg.learn.torch.noisy import train_noisily
from eupg.learn.torch.optimiser import Moments, TrainingRule
from eupg.learn.torch.training import FREE, Bounds, head, seeded, single_rows, threads_for, train, train_together

NetworkFactory = Callable[[int, int], nn.Module]
_FORMAT = "eupg-torch-1"
_ROWS_AT_ONCE = 65_536
_PICTURES_AT_ONCE = 4_096
_MOMENT = "optimiser."
_BATCHES = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A network, the encoder it was trained with, its learner, and its epochs in all.

    ``moments`` is what the optimiser remembers if training is to continue as if it had not stopped.
    """

    network: nn.Module
    encoder: Encoder
    schema: Schema
    learner: TorchLearner
    effort: int
    moments: Moments | None = None

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the softmax of the network's logits, averaged over a picture and its mirror image if asked to."""
        X = as_matrix(self.schema, X)
        self.network.eval()
        parts = []
        reader = self.learner.reader(self.encoder)
        size = _ROWS_AT_ONCE if reader is None else _PICTURES_AT_ONCE
        with torch.inference_mode(), threads_for(self.network):
            for at in range(0, len(X), size):
                views = self._views(reader, X[at : at + size])
                chances = torch.stack([torch.softmax(self.network(view).double(), dim=1) for view in views])
                parts.append(chances.mean(dim=0).cpu().numpy())
        return np.concatenate(parts) if parts else np.empty((0, self.schema.classes))

    def margins(self, X: Matrix) -> Scores:
        """Return the network's logits for rows of a table; for two classes, that of the second less the first."""
        X = as_matrix(self.schema, X)
        self.network.eval()
        with torch.inference_mode(), threads_for(self.network):
            parts = [
                self.network(self._views(None, X[at : at + _ROWS_AT_ONCE])[0]) for at in range(0, len(X), _ROWS_AT_ONCE)
            ]
        logits = torch.cat(parts).cpu().numpy() if parts else np.empty((0, self.schema.classes), dtype=np.float32)
        return np.asarray(logits[:, 1] - logits[:, 0] if self.schema.classes == 2 else logits, dtype=np.float32)

    def _views(self, reader: PictureReader | None, X: Matrix) -> list[Tensor]:
        """Return the network's inputs: the records, and their mirror images if the learner says so."""
        if reader is None:
            return [torch.from_numpy(self.encoder(X)).to(self.learner.device)]
        pixels = reader.upload(X, self.learner.device)
        return [reader.read(pixels), *([reader.read(pixels.flip(2))] if self.learner.mirror else [])]


@dataclass(frozen=True, repr=False)
class TorchLearner:
    """Train a network, by default with Adam and a cosine schedule; effort counts epochs.

    Parameters
    ----------
    network
        Any callable from (inputs, classes) to an ``nn.Module``; by default the paper's MLP. Its random draws, such as
        dropout, follow from the generator passed to ``fit``. For pictures ``inputs`` is the number of channels and the
        module takes (pictures, channels, height, width), unless the callable has a true attribute ``flattens``.
    learning_rate, batch_size, weight_decay
        As in the paper's table of hyper-parameters for Adult. A last batch of one row joins the one before it.
    anchor
        When continuing from a model, how strongly its weights pull back: an L2 penalty on the distance to them.
    head_only
        When continuing from a model, whether only its last layer moves.
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    optimiser, momentum, nesterov
        "adam", or "sgd" with this momentum.
    schedule, warm_up
        "cosine" falls from the learning rate to 0; "one-cycle" first rises to it over this share of the training, as
        PyTorch's ``OneCycleLR`` does (momentum is constant).
    augment
        How pictures are shifted and mirrored at random; by default they are not.
    precision
        "float32", or "bfloat16" for the layers in training; weights and predictions stay in single precision.
    label_smoothing
        The share of the truth that is spread evenly over all classes.
    mirror
        Whether a prediction averages over a picture and its mirror image, which takes twice as long.
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
        """Show keyword-only settings only if they were changed: stores identify learners by this text."""
        shown = [f for f in fields(self) if not f.kw_only or getattr(self, f.name) != f.default]
        return f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    @property
    def warm_starts(self) -> bool:
        """A network continues from its weights."""
        return True

    @property
    def batches(self) -> bool:
        """Whether several networks train faster together than one by one, as perceptrons on a GPU do."""
        return self.in_process and self._flattens

    @property
    def in_process(self) -> bool:
        """Whether further processes gain nothing: they would share one GPU, and each would load its own libraries."""
        return torch.device(self.device).type != "cpu"

    @property
    def _flattens(self) -> bool:
        return bool(getattr(self.network, "flattens", False))

    @property
    def _rule(self) -> TrainingRule:
        return TrainingRule(**{f.name: getattr(self, f.name) for f in fields(TrainingRule)})

    def fit(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, start: Model | None = None
    ) -> TorchModel:
        """Train for ``effort`` epochs with a new optimiser and schedule."""
        bounds = FREE if start is None else Bounds(self.anchor, self.head_only)
        return self._fit(examples, effort, rng, start, bounds=bounds)

    def untrained(self, schema: Schema, *, effort: int) -> TorchModel:
        """Return the network as its factory builds it, for pictures of a schema; no record is needed."""
        encoder = Encoder.of_pictures(schema)
        return TorchModel(self._network(encoder, schema.classes, 0).eval(), encoder, schema, self, effort)

    def fit_part(
        self,
        examples: Examples,
        *,
        effort: int,
        rng: np.random.Generator,
        part: tuple[float, float],
        start: Model | None = None,
    ) -> TorchModel:
        """Train for ``effort`` epochs over a part of the schedule, from 0.0 to 1.0, and continue the optimiser too.

        At the end of the schedule the optimiser's moments are dropped: nothing can follow.
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
        bounds: Bounds = FREE,
        keep: bool = False,
    ) -> TorchModel:
        check_fit(examples, effort)
        base = own_start(start, TorchModel, examples)
        encoder = Encoder.fit(examples, start=base.encoder if base else None)
        seed = int(rng.integers(2**63))
        network = self._network(encoder, examples.schema.classes, seed)
        if base:
            _copy_weights(base.network.state_dict(), network)
        X, y = self._tensors(encoder, examples)
        with self._training(network, len(X), seed) as generator:
            after = train(
                network,
                X,
                y,
                self._rule,
                factory=self.network,
                steps=steps_in(len(X), self.batch_size, effort),
                generator=generator,
                part=part,
                moments=moments,
                bounds=bounds,
                keep=keep,
            )
        return TorchModel(network.eval(), encoder, examples.schema, self, total_effort(effort, start), after)

    def fit_correction(
        self, examples: Examples, *, effort: int, rng: np.random.Generator, scores: Scores
    ) -> TorchModel:
        """Train a network whose logits are added to the margins of any model of a table; at first it adds zeros."""
        check_fit(examples, effort)
        check_scores(examples, scores)
        encoder, seed = Encoder.fit(examples), int(rng.integers(2**63))
        network = self._network(encoder, examples.schema.classes, seed)
        with torch.no_grad():
            for weights in head(network):
                weights.zero_()
        rows, y = self._rows(encoder, examples)
        added = np.column_stack([np.zeros_like(scores), scores]) if examples.schema.classes == 2 else scores
        inputs = torch.cat([rows, torch.from_numpy(added).to(rows)], dim=1)
        with self._training(network, len(rows), seed) as generator:
            steps, bounds = steps_in(len(rows), self.batch_size, effort), Bounds(self.anchor, self.head_only)
            wrapped = Corrected(network, examples.schema.classes)
            train(wrapped, inputs, y, self._rule, steps=steps, generator=generator, bounds=bounds)
        return TorchModel(network.eval(), encoder, examples.schema, self, effort)

    def fit_many(
        self, tables: Sequence[Examples], *, effort: int, rngs: Sequence[np.random.Generator]
    ) -> list[TorchModel]:
        """Train one network per table, all in the same steps; tables may differ in length by a few rows.

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
        rows = [self._rows(e, t) for e, t in zip(encoders, tables, strict=True)]
        with seeded(self.device, seeds[0] ^ 1), single_rows(min(len(t.y) for t in tables), self.batch_size):
            generators = [torch.Generator().manual_seed(s) for s in seeds]
            train_together(networks, rows, self._rule, epochs=effort, generators=generators)
        return [
            TorchModel(network.eval(), encoder, examples.schema, self, int(effort))
            for network, encoder, examples in zip(networks, encoders, tables, strict=True)
        ]

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

        Scales are those of the schema; buffers, running statistics of batch normalisation among them, start anew.
        """
        check_fit(examples, effort)
        self.check_noisy(examples, effort=effort, noise=noise)
        base = own_start(start, TorchModel, examples)
        assert base is not None
        encoder = Encoder.fit(examples)
        seed = int(rng.integers(2**63))
        network = self._network(encoder, examples.schema.classes, seed)
        _copy_weights(network.state_dict() | dict(base.network.named_parameters()), network)
        X, y = self._tensors(encoder, examples)
        rest = steps_in(len(X), self.batch_size, effort) - noise.steps
        with self._training(network, len(X), seed) as generator:
            train_noisily(network, X, y, self._rule, noise=noise, sigma=sigma, generator=generator, rng=rng)
            network = self._laid_out(network, encoder)
            if rest:
                train(network, X, y, self._rule, factory=self.network, steps=rest, generator=generator)
        return TorchModel(network.eval(), encoder, examples.schema, self, effort)

    def check_noisy(self, examples: Examples, *, effort: int, noise: NoisySteps) -> None:
        """Refuse frozen weights, which noise would not cover, and more noisy steps than the effort has."""
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

    @contextmanager
    def _training(self, network: nn.Module, rows: int, seed: int) -> Iterator[torch.Generator]:
        """Prepare threads and random streams for one training; yield the generator that shuffles."""
        # Another stream than that of the initial weights.
        with threads_for(network), seeded(self.device, seed ^ 1), single_rows(rows, self.batch_size):
            yield torch.Generator().manual_seed(seed)

    def reader(self, encoder: Encoder) -> PictureReader | None:
        """Return how the network reads pictures, or None for a table."""
        return PictureReader.of(encoder, flat=self._flattens)

    def _tensors(self, encoder: Encoder, examples: Examples) -> tuple[Inputs, Tensor]:
        reader = self.reader(encoder)
        if reader is None:
            return self._rows(encoder, examples)
        pixels = reader.upload(examples.X, self.device)
        return Pictures.of(pixels, reader, self.augment), torch.tensor(examples.y, device=self.device)

    def _rows(self, encoder: Encoder, examples: Examples) -> tuple[Tensor, Tensor]:
        if self.augment is not None:
            raise ParameterError("augment shifts and mirrors pictures, and these records are a table: leave it out")
        inputs = torch.from_numpy(encoder(examples.X)).to(self.device)
        return inputs, torch.tensor(examples.y, device=self.device)

    def _network(self, encoder: Encoder, classes: int, seed: int) -> nn.Module:
        reader = self.reader(encoder)
        with seeded(self.device, seed):
            network = self.network(encoder.width if reader is None else reader.inputs, classes)
        if not isinstance(network, nn.Module):
            raise ParameterError(
                f"network must build a torch.nn.Module, and {self.network!r} returned {type(network).__name__}: let it "
                "return the module"
            )
        return self._laid_out(network.to(self.device), encoder)

    def _laid_out(self, network: nn.Module, encoder: Encoder) -> nn.Module:
        reader = self.reader(encoder)
        return network if reader is None else reader.lay_out(network)

    def save(self, model: Model, path: str | Path) -> None:
        """Write the weights as safetensors, and the optimiser's moments if the model carries them."""
        mine = own(model, TorchModel)
        tensors = dict(mine.network.state_dict())
        if mine.moments is None:
            tensors |= _uncounted(mine.network)
        tensors |= {_MOMENT + name: value for name, value in (mine.moments or {}).items()}
        payload = safetensors.torch.save({name: value.contiguous().cpu() for name, value in tensors.items()})
        write_model(path, _FORMAT, mine.schema, payload, effort=mine.effort, encoder=mine.encoder.to_json())

    def load(self, path: str | Path) -> TorchModel:
        """Read weights into a network built by this learner's factory."""
        file = read_model(path, _FORMAT)
        encoder = file.encoder()
        network = self._network(encoder, file.schema.classes, 0)
        try:
            tensors = safetensors.torch.load(file.payload)
            moments = {n.removeprefix(_MOMENT): v for n, v in tensors.items() if n.startswith(_MOMENT)}
            network.load_state_dict({n: v for n, v in tensors.items() if not n.startswith(_MOMENT)})
        except (RuntimeError, SafetensorError) as error:
            raise ModelFileError(f"{path} holds another network: load it with the factory that built it") from error
        return TorchModel(network.eval(), encoder, file.schema, self, file.effort, moments or None)


def _uncounted(network: nn.Module) -> dict[str, Tensor]:
    """Return zeros for the numbers of batches that normalisation counts but does not use to predict."""
    counts = {}
    for name, layer in network.named_modules():
        count = getattr(layer, _BATCHES, None)
        # Without a momentum the running statistics are plain means, and the count is their weight.
        if isinstance(count, Tensor) and getattr(layer, "momentum", None) is not None:
            counts[f"{name}.{_BATCHES}".removeprefix(".")] = torch.zeros_like(count)
    return counts


def _copy_weights(state: Mapping[str, Tensor], network: nn.Module) -> None:
    """Give a network the weights and buffers of another; a different shape is an error."""
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise ParameterError(
            "the model to continue from is another network: use the learner with the factory that built it"
        ) from error


def _check_factory(network: object) -> None:
    """Refuse anything that does not build a network from (inputs, classes), such as a network itself."""
    expected = "network must be a callable from (inputs, classes) to an nn.Module"
    name = type(network).__name__
    if isinstance(network, nn.Module):
        raise ParameterError(
            f"{expected}, got an instance of {name}: each training starts with a new network, so pass the class, "
            f"TorchLearner({name}), or a function such as lambda inputs, classes: {name}(…)"
        )
    if not callable(network):
        raise ParameterError(f"{expected}, got {network!r}: pass a class or a function that builds the network")
    try:
        signature = inspect.signature(network)
    except ValueError:
        # Some callables that are written in C do not tell their parameters.
        return
    try:
        signature.bind(1, 2)
    except TypeError as error:
        raise ParameterError(
            f"network must take two arguments, the numbers of inputs and of classes, and {network!r} does not "
            f"({error}): pass a class or a function that takes both"
        ) from error
