"""Small made-up pictures: noise, brighter where the class is the second."""

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.pictures.files import image_dataset


def pictures(rows: int = 60, seed: int = 0, *, height: int = 8, width: int = 8, word: str = "p") -> Dataset:
    """Return colour pictures of two classes; their names start with the word."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    images = rng.integers(0, 180, (rows, 3, height, width)) + 60 * y[:, None, None, None]
    ids = [f"{word}{i}" for i in range(rows)]
    return image_dataset(images.astype(np.uint8), y, classes=("dark", "light"), ids=ids)
