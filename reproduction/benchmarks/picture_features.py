"""Public features of CIFAR-10 by EfficientNet-Lite, computed on a CPU in shards that a later run continues.

The network is the library's, exported to ONNX and computed by ONNX Runtime, which takes about a third of the time of
PyTorch on one core and differs by rounding alone (at most 1e-5 of values up to 6).

    python -m benchmarks.picture_features FOLDER [--network lite0] [--size 224] [--mirrored]

A shard of 2,000 pictures takes about 17 s of one core with Lite0 at 224 pixels. A folder holds the features of one
network.
"""

from __future__ import annotations

import argparse
import fcntl
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from eupg.data.sources import cifar10
from eupg.protect.pictures.efficientnet_lite import load_lite_network
from eupg.protect.pictures.lite_variants import LITE0, LITE1, LITE2, LiteVariant

_SHARD, _BATCH = 2_000, 4
_NETWORKS = {"lite0": LITE0, "lite1": LITE1, "lite2": LITE2}


def session(size: int, variant: LiteVariant = LITE0) -> Any:
    """Return the network as a session of ONNX Runtime on one core."""
    import onnxruntime

    network = load_lite_network(variant).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "network.onnx"
        example = torch.zeros(1, 3, size, size)
        torch.onnx.export(
            network, (example,), path, dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}}
        )
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def extract(network: Any, images: Any, size: int, *, mirrored: bool) -> Any:
    """Return 1,280 features per picture."""
    parts = []
    for start in range(0, len(images), _BATCH):
        pixels = torch.tensor(images[start : start + _BATCH]).float()
        pixels = pixels.flip(3) if mirrored else pixels
        scaled = functional.interpolate(pixels, size=(size, size), mode="bilinear", align_corners=False)
        parts.append(network.run(None, {"x": ((scaled - 127) / 128).numpy()})[0])
    return np.concatenate(parts)


def shard_path(folder: Path, part: str, size: int, number: int, *, mirrored: bool) -> Path:
    """Return where a shard is kept."""
    return folder / f"{part}-{size}{'-mirrored' if mirrored else ''}-{number:03d}.npy"


def load(folder: Path, part: str, size: int, *, mirrored: bool = False) -> Any:
    """Return all features of a part, ``train`` or ``test``."""
    count = {"train": 50_000, "test": 10_000}[part] // _SHARD
    return np.concatenate([np.load(shard_path(folder, part, size, i, mirrored=mirrored)) for i in range(count)])


def main() -> None:
    """Compute the shards that are missing; with a lock file, one heavy process at a time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", choices=_NETWORKS, default="lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--mirrored", action="store_true")
    parser.add_argument("--lock", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    source, network = cifar10(), None
    for part, data in (("test", source.test), ("train", source.train)):
        picture = data.schema.picture
        assert picture is not None
        images = picture.images(data.X)
        for number in range(len(images) // _SHARD):
            path = shard_path(options.folder, part, options.size, number, mirrored=options.mirrored)
            if path.is_file():
                continue
            network = network or session(options.size, _NETWORKS[options.network])
            with open(options.lock or path.with_suffix(".lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                start = time.process_time()
                shard = images[number * _SHARD : (number + 1) * _SHARD]
                features = extract(network, shard, options.size, mirrored=options.mirrored)
                np.save(path.with_suffix(".tmp.npy"), features)
                path.with_suffix(".tmp.npy").rename(path)
            print(f"{path.name}: {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
