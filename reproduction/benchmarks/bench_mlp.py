"""The paper's MLP on Adult's size: resident tensors against the same network fed by a DataLoader, at equal loss."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.timing import Result, median_s
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import MLP

ROWS, COLUMNS = 32_561, 90


def table() -> Dataset:
    """Return a table of Adult's size after encoding, with something to learn."""
    label = Categorical(name="label", role=Role.LABEL, categories=("no", "yes"))
    numbers = tuple(Numeric(name=f"v{j}", lower=-10, upper=10) for j in range(COLUMNS))
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, COLUMNS)).clip(-10, 10)
    y = (X[:, :5].sum(axis=1) + rng.normal(size=ROWS) > 1).astype(int)
    names = np.arange(ROWS).astype(str)
    return Dataset(Schema((*numbers, label)), X, y, names, names)


def _with_loader(inputs: torch.Tensor, labels: torch.Tensor, epochs: int) -> nn.Module:
    """Train as a tutorial would: DataLoader, shuffled batches, Adam, cosine per epoch."""
    network = MLP()(inputs.shape[1], 2)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    loss = nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=256, shuffle=True)
    for _ in range(epochs):
        for batch, truth in loader:
            optimiser.zero_grad()
            loss(network(batch), truth).backward()
            optimiser.step()
        schedule.step()
    return network.eval()


def per_epoch_s(train: Callable[[int], object]) -> float:
    """Return the time of one more epoch, without what is done once (encoding, building the network)."""
    few, many = (median_s(lambda n=n: train(n)) for n in (2, 7))
    return (many - few) / 5


def run() -> list[Result]:
    data, learner = table(), TorchLearner()
    inputs = torch.from_numpy(Encoder.fit(data)(data.X))
    labels = torch.tensor(data.y)
    ours = per_epoch_s(lambda epochs: learner.fit(data, effort=epochs, rng=np.random.default_rng(1)))
    default = torch.get_num_threads()
    times = {}
    for threads in sorted({1, default}):
        torch.set_num_threads(threads)
        times[threads] = per_epoch_s(lambda epochs: _with_loader(inputs, labels, epochs))
    torch.set_num_threads(default)
    theirs = times[default]
    networks = (learner.fit(data, effort=2, rng=np.random.default_rng(1)).network, _with_loader(inputs, labels, 2))
    loss = nn.CrossEntropyLoss()
    with torch.inference_mode():
        losses = [float(loss(network(inputs), labels)) for network in networks]
    return [
        Result(
            "MLP epoch, DataLoader over TorchLearner",
            theirs / ours,
            "≥ 2.5 at equal loss",
            theirs >= 2.5 * ours and abs(losses[0] - losses[1]) < 0.02,
            f"{theirs:.3f} s an epoch ({default} threads) against {ours:.3f} s (1 thread); the DataLoader on 1 thread "
            f"takes {times[1]:.3f} s, {times[1] / ours:.1f}×; training loss after 2 epochs {losses[1]:.3f} and "
            f"{losses[0]:.3f}",
        )
    ]
