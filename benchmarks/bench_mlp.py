"""The paper's MLP on Adult's size: resident tensors against the same network fed by a DataLoader, at equal loss."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.timing import Result, median_s
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.learn.networks import MLP
from eupg.learn.torch_learner import TorchLearner

ROWS, COLUMNS, EPOCHS = 32_561, 90, 2


def table() -> Dataset:
    """Return a table of Adult's size after encoding, with something to learn."""
    label = Categorical(name="label", role=Role.LABEL, categories=("no", "yes"))
    numbers = tuple(Numeric(name=f"v{j}", lower=-10, upper=10) for j in range(COLUMNS))
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, COLUMNS)).clip(-10, 10)
    y = (X[:, :5].sum(axis=1) + rng.normal(size=ROWS) > 1).astype(int)
    names = np.arange(ROWS).astype(str)
    return Dataset(Schema((*numbers, label)), X, y, names, names)


def _with_loader(inputs: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """Train as a tutorial would: DataLoader, shuffled batches, Adam, cosine per epoch."""
    network = MLP()(inputs.shape[1], 2)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    loss = nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=256, shuffle=True)
    for _ in range(EPOCHS):
        for batch, truth in loader:
            optimiser.zero_grad()
            loss(network(batch), truth).backward()
            optimiser.step()
        schedule.step()
    return network.eval()


def run() -> list[Result]:
    data, learner = table(), TorchLearner()
    inputs = torch.from_numpy(Encoder.fit(data)(data.X))
    labels = torch.tensor(data.y)
    fitted = learner.fit(data, effort=EPOCHS, rng=np.random.default_rng(1))
    ours = median_s(lambda: learner.fit(data, effort=EPOCHS, rng=np.random.default_rng(1)))
    default = torch.get_num_threads()
    times = {}
    for threads in {1, default}:
        torch.set_num_threads(threads)
        times[threads] = median_s(lambda: _with_loader(inputs, labels))
    torch.set_num_threads(default)
    theirs = times[default]
    loss, networks = nn.CrossEntropyLoss(), (fitted.network, _with_loader(inputs, labels))
    with torch.inference_mode():
        losses = [float(loss(network(inputs), labels)) for network in networks]
    return [
        Result(
            "MLP epoch, DataLoader over TorchLearner",
            theirs / ours,
            "≥ 2.5 at equal loss",
            theirs >= 2.5 * ours and abs(losses[0] - losses[1]) < 0.02,
            f"{theirs / EPOCHS:.3f} s an epoch ({default} threads) against {ours / EPOCHS:.3f} s (1 thread); "
            f"the DataLoader on 1 thread takes {times[1] / EPOCHS:.3f} s, {times[1] / ours:.1f}×; "
            f"final training loss {losses[1]:.3f} and {losses[0]:.3f}",
        )
    ]
