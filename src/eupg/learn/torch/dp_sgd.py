"""DP-SGD: train a network that hardly depends on any one unit (Abadi et al. 2016), with Opacus.

A unit is a record, or all records of a person. Each step draws every unit independently with the same probability. The
summed gradient of a drawn unit's records is clipped, and noise is added to the total. The result is divided by the
*expected* number of units, since the drawn number is not public. A step that drew nobody is taken like any other.

Opacus computes and clips the gradients per unit. The noise is NumPy's: PyTorch's generator on a CPU takes only 32 bits
of a seed, which can be guessed by search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.validators import ModuleValidator
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.dropout import _DropoutNd

from eupg.data.dataset import Examples
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.learn.torch.learner import TorchLearner, TorchModel
from eupg.learn.torch.training import seeded, threads_for

# Gradients of this many units are held at once; more at a time is not faster, and needs more memory.
_AT_ONCE = 64
# Norms are computed in single precision: this much more noise than accounted for is far above their rounding.
_ROUNDING = 1 + 1e-4
# How often a network predicts the same inputs, to see whether it draws at random.
_REPEATS = 8
Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PrivateSteps:
    """How a private training moves.

    Parameters
    ----------
    rate, count
        The probability with which a step draws each unit, and the number of steps.
    batch
        The expected number of units per step, by which the sum of gradients is divided.
    clip, noise
        The largest norm of a unit's gradient, and the spread of the noise as a multiple of it.
    learning_rate, momentum
        Those of gradient descent; the rate falls to zero along a cosine.
    """

    rate: float
    count: int
    batch: float
    clip: float
    noise: float
    learning_rate: float
    momentum: float


def fit_privately(
    learner: TorchLearner,
    examples: Examples,
    rows: Rows,
    *,
    effort: int,
    steps: PrivateSteps,
    weights: np.random.Generator,
    noise: np.random.Generator,
) -> TorchModel:
    """Train the learner's network with DP-SGD, on inputs that are scaled by the schema's bounds alone.

    Parameters
    ----------
    learner
        Its network and device are used; its training settings are not.
    examples, rows
        The records, and one line per unit: the positions of its records, then −1 up to the full length.
    effort
        Passes over the records, noted with the model.
    steps
        How to move.
    weights, noise
        Draw the initial weights, and the units and the noise of every step.
    """
    check_network(learner, examples.schema, records=rows.shape[1])
    encoder, classes = Encoder.of_bounds(examples.schema), examples.schema.classes
    seed = int(weights.integers(2**63))
    network, trained = (_network(learner, encoder.width, classes, seed) for _ in range(2))
    X = torch.from_numpy(encoder(examples.X)).to(learner.device)
    y = torch.tensor(examples.y, device=learner.device)
    with threads_for(network), seeded(learner.device, seed ^ 1):
        train_privately(network, X, y, rows, steps=steps, rng=noise)
    # The trained network carries gradients of single units: only its weights are kept.
    trained.load_state_dict(network.state_dict())
    return TorchModel(trained.eval(), encoder, examples.schema, learner, int(effort))


def train_privately(
    network: nn.Module, X: Tensor, y: Tensor, rows: Rows, *, steps: PrivateSteps, rng: np.random.Generator
) -> None:
    """Take the steps; draws and noise come from ``rng``."""
    network.train()
    hooked = GradSampleModule(network, loss_reduction="sum")
    inner = torch.optim.SGD(network.parameters(), lr=steps.learning_rate, momentum=steps.momentum)
    optimiser = _Noisy(inner, steps=steps, rng=rng)
    for step in range(steps.count):
        inner.param_groups[0]["lr"] = steps.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps.count))
        drawn = rows[rng.random(len(rows)) < steps.rate]
        parts = [drawn[at : at + _AT_ONCE] for at in range(0, len(drawn), _AT_ONCE)]
        for part in parts[:-1]:
            _set_gradients(hooked, X, y, part)
            optimiser.signal_skip_step(do_skip=True)
            optimiser.step()
            optimiser.zero_grad()
        _set_gradients(hooked, X, y, parts[-1] if parts else drawn)
        optimiser.step()
        optimiser.zero_grad()
    hooked.remove_hooks()


def _set_gradients(network: GradSampleModule, X: Tensor, y: Tensor, rows: Rows) -> None:
    """Set each weight's gradient for each unit: the sum over the unit's records."""
    if not len(rows):
        for weight in network.parameters():
            weight.grad_sample = weight.new_zeros((0, *weight.shape))
        return
    there = torch.from_numpy(rows >= 0).to(X.device)
    places = torch.from_numpy(np.maximum(rows, 0)).to(X.device)
    inputs, labels = X[places], y[places]
    if rows.shape[1] == 1:
        inputs, labels, there = inputs[:, 0], labels[:, 0], there[:, 0]
    # Opacus' hooks need a gradient that passes through the whole network.
    logits = network(inputs.requires_grad_())
    losses = cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
    # A place without a record has no part in the loss, so its gradient is zero whatever its values.
    torch.autograd.backward((losses * there.flatten()).sum())


class _Noisy(DPOptimizer):  # type: ignore[misc]
    """Opacus' optimiser, with noise from NumPy and without gradients that are not finite."""

    def __init__(self, inner: torch.optim.Optimizer, *, steps: PrivateSteps, rng: np.random.Generator) -> None:
        super().__init__(inner, noise_multiplier=steps.noise, max_grad_norm=steps.clip, expected_batch_size=steps.batch)
        self._rng = rng

    def clip_and_accumulate(self) -> None:
        """Clip and add up; a unit whose gradient is not finite counts nothing, as it would reveal its presence."""
        bad = torch.stack([~torch.isfinite(g.sum(dim=tuple(range(1, g.dim())))) for g in self.grad_samples]).any(dim=0)
        if bad.any():
            for gradient in self.grad_samples:
                gradient[bad] = 0.0
        super().clip_and_accumulate()

    def add_noise(self) -> None:
        """Add noise in double precision; rounding the sum to single precision then hides how it was drawn."""
        spread = self.noise_multiplier * self.max_grad_norm * _ROUNDING
        for weight in self.params:
            drawn = torch.from_numpy(self._rng.standard_normal(tuple(weight.shape))).to(weight.device)
            weight.grad = (weight.summed_grad.double() + spread * drawn).to(weight.dtype)


def check_network(learner: TorchLearner, schema: Schema, *, records: int) -> None:
    """Refuse a network in which one unit's records could reach another's gradient; no record is read."""
    width = Encoder.of_bounds(schema).width
    network = _network(learner, width, schema.classes, 0)
    wrong = [*ModuleValidator.validate(network), *GradSampleModule.validate(network)]
    if wrong or not any(p.requires_grad for p in network.parameters()):
        why = wrong[0] if wrong else "it has no weight that trains"
        raise ParameterError(
            f"this network cannot be trained privately ({why}): use one such as MLP(), with LayerNorm or GroupNorm in "
            "place of batch normalisation"
        )
    inputs = torch.rand((3, records, width), generator=torch.Generator().manual_seed(0)).to(learner.device)
    inputs = inputs[:, 0] if records == 1 else inputs
    try:
        mixes = any(_mixes(network.train(mode), inputs, schema.classes) for mode in (False, True))
        idle = _idle(network.train(), inputs)
    except (RuntimeError, ValueError) as error:
        raise ParameterError(
            f"this network cannot be trained privately, as it does not accept a single record ({error}): use one such "
            "as MLP()"
        ) from error
    if mixes:
        raise ParameterError(
            "this network mixes the records of a batch: private training needs one that reads each record by itself, "
            "such as MLP(); with max_records above 1 it must take (people, records, inputs)"
        )
    if idle:
        raise ParameterError(f"{idle[0]!r} and maybe others never train, as the network does not use them: freeze them")


def _mixes(network: nn.Module, inputs: Tensor, classes: int) -> bool:
    """Tell whether the output for a record depends on the other records, dropout aside.

    A network that draws at random in other ways cannot be compared. Draws may coincide by chance, so it predicts
    several times.
    """
    for layer in network.modules():
        if isinstance(layer, _DropoutNd):
            layer.eval()
    with torch.inference_mode():
        together = network(inputs)
        if together.shape != (*inputs.shape[:-1], classes):
            return True
        if not all(torch.equal(together, network(inputs)) for _ in range(_REPEATS)):
            return False
        alone = torch.cat([network(one[None]) for one in inputs])
        single = network(inputs.reshape(-1, inputs.shape[-1])).reshape(together.shape)
    return not all(torch.allclose(together, other, atol=1e-4) for other in (alone, single))


def _idle(network: nn.Module, inputs: Tensor) -> list[str]:
    """Name the weights that should train and get no gradient per unit."""
    hooked = GradSampleModule(network, loss_reduction="sum")
    torch.autograd.backward(hooked(inputs.requires_grad_()).sum())
    idle = [
        name for name, p in network.named_parameters() if p.requires_grad and getattr(p, "grad_sample", None) is None
    ]
    hooked.remove_hooks()
    return idle


def _network(learner: TorchLearner, inputs: int, classes: int, seed: int) -> nn.Module:
    with seeded(learner.device, seed):
        return learner.network(inputs, classes).to(learner.device)
