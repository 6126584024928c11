"""Seconds an epoch of ResNet-18 takes on pictures of CIFAR-10's size: a plain loop, ours, and ours compiled.

``python -m benchmarks.resnet_speed`` on a GPU; ``--device cpu --rows 256 --width 4`` to try it anywhere. The plain loop
is what one writes at first, kept fair: pictures live on the GPU, layers run in bfloat16, batches are augmented there.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from eupg.data.pictures.files import image_dataset
from eupg.learn.torch.captured import drop_captured
from eupg.learn.torch.inputs import shuffled, steps_in
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import ResNet18
from eupg.learn.torch.training import train
from eupg_reproduction.picture_methods import resnet18_learner

CLASSES = tuple(f"class {i}" for i in range(10))


def synchronised(device: str) -> float:
    """Return the time once the device has done all it was asked."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def augmented(images: Tensor) -> Tensor:
    """Shift each picture by up to 4 pixels and mirror every second one."""
    count, _, height, width = images.shape
    wide = pad(images, (4, 4, 4, 4))
    down, right = torch.randint(9, (2, count, 1), device=images.device)
    rows = (down + torch.arange(height, device=images.device))[:, None, :, None]
    columns = (right + torch.arange(width, device=images.device))[:, None, None, :]
    each = torch.arange(count, device=images.device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    cut = wide[each, channels, rows, columns]
    return torch.where(torch.rand(count, 1, 1, 1, device=images.device) < 0.5, cut.flip(3), cut)


def plain_epochs(X: Tensor, y: Tensor, *, batch: int, width: int, steps: int) -> Iterator[None]:
    """Train for ever, one pass at a time, as one writes it at first."""
    network = ResNet18(width)(X.shape[1], len(CLASSES)).to(X.device).train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    while True:
        for rows in torch.randperm(len(X), device=X.device).split(batch):
            optimiser.zero_grad()
            with torch.autocast(X.device.type, dtype=torch.bfloat16):
                loss = cross_entropy(network(augmented(X[rows])), y[rows])
            loss.backward()
            optimiser.step()
            schedule.step()
        yield


def seconds_plain(images: np.ndarray, labels: np.ndarray, *, batch: int, width: int, epochs: int, device: str) -> float:
    """Return the seconds a pass takes after a first one."""
    X = torch.tensor(images, device=device).float().sub(127.5).div(63.75)
    passes = plain_epochs(X, torch.tensor(labels, device=device), batch=batch, width=width, steps=10**6)
    next(passes)
    started = synchronised(device)
    for _ in range(epochs):
        next(passes)
    return (synchronised(device) - started) / epochs


def seconds_ours(learner: TorchLearner, data: Dataset, *, epochs: int) -> dict[str, float]:
    """Return the seconds of a first pass, which captures the step, of a pass after it, and of laying one pass out."""
    encoder = Encoder.fit(data)
    network = learner._network(encoder, len(CLASSES), 0)
    X, y = learner._tensors(encoder, data)

    def fit(passes: int) -> float:
        steps = steps_in(len(X), learner.batch_size, passes)
        started = synchronised(learner.device)
        generator = torch.Generator().manual_seed(1)
        train(network, X, y, learner._rule, factory=learner.network, steps=steps, generator=generator)
        return synchronised(learner.device) - started

    times = {"first": fit(1), "epoch": fit(epochs) / epochs}
    started = synchronised(learner.device)
    next(shuffled(X, y, learner.batch_size, torch.Generator().manual_seed(1)))
    times["layout"] = synchronised(learner.device) - started
    drop_captured()
    return times


def main() -> None:
    """Measure and print; the last line is JSON."""
    ask = argparse.ArgumentParser(description="Seconds an epoch of ResNet-18 takes on pictures of CIFAR-10's size.")
    ask.add_argument("--rows", type=int, default=50_000)
    ask.add_argument("--width", type=int, default=64)
    ask.add_argument("--epochs", type=int, default=2)
    ask.add_argument("--batches", type=int, nargs="+", default=[256, 512])
    ask.add_argument("--device", default="cuda")
    ask.add_argument("--compile-within", type=float, default=45.0, help="seconds after which no compiling is begun")
    asked = ask.parse_args()
    begun, rng = time.perf_counter(), np.random.default_rng(0)
    images = rng.integers(0, 256, (asked.rows, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, asked.rows)
    data = image_dataset(images, labels, classes=CLASSES)
    found: dict[str, object] = {"rows": asked.rows, "width": asked.width, "torch": torch.__version__}
    if torch.device(asked.device).type == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    plain: dict[int, float] = {}

    def tell(name: str, batch: int, seconds: float) -> None:
        ratio = plain[batch] / seconds
        found.update({f"{name} {batch}": round(seconds, 4), f"{name} {batch} speed-up": round(ratio, 2)})
        print(f"batch {batch}: {name} {seconds:.3f} s an epoch, {ratio:.2f} times the plain loop", flush=True)

    recipe = replace(resnet18_learner(device=asked.device, width=asked.width), precision="bfloat16")
    for batch in asked.batches:
        plain[batch] = seconds_plain(
            images, labels, batch=batch, width=asked.width, epochs=asked.epochs, device=asked.device
        )
        tell("plain", batch, plain[batch])
    for name, compiled in (("ours", False), ("compiled", True)):
        for batch in asked.batches:
            if compiled and time.perf_counter() - begun > asked.compile_within:
                print(f"batch {batch}: not compiled, as the time is up", flush=True)
                continue
            times = seconds_ours(replace(recipe, batch_size=batch, compile=compiled), data, epochs=asked.epochs)
            tell(name, batch, times["epoch"])
            found.update({f"{name} {batch} {what}": round(times[what], 3) for what in ("first", "layout")})
    found["seconds"] = round(time.perf_counter() - begun, 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
