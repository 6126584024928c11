"""Small made-up pictures with something to learn: each class is brighter in a corner of its own."""

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.pictures.files import image_dataset

CLASSES = ("a", "b", "c", "d")


def toy_pictures(rows: int = 200, seed: int = 0, *, size: int = 8, channels: int = 3) -> Dataset:
    """Return pictures of size × size pixels: noise, and a bright quarter that tells the class, mirrored or not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, rows)
    images = rng.integers(0, 120, (rows, channels, size, size))
    half = size // 2
    for image, label in zip(images, y, strict=True):
        down = slice(0, half) if label % 2 == 0 else slice(half, size)
        # The upper or the lower half, in the first channel or in all: neither changes in a mirror.
        image[: 1 if label < 2 else channels, down] += 130
    return image_dataset(images.clip(0, 255).astype(np.uint8), y, classes=CLASSES)
