"""Draw what a protected picture looks like: ``python -m benchmarks.protected_pictures`` writes the figure of the docs.

The pictures are tiles of the two photographs that ship with scikit-learn, scaled to 32×32 pixels.
"""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images

from eupg.data.dataset import Dataset
from eupg.data.pictures.files import image_dataset
from eupg.protect.mechanism import Mechanism
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation
from eupg.protect.pictures.public_features import PixelFeatures
from eupg.rng import Randomness, Seeded

FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "protected_pictures.png"
SIDE, STRIDE, K = 128, 48, 10
SHOWN = (3, 20, 44, 60, 84, 121, 140)
ROWS: dict[str, Mechanism | None] = {"original": None} | {
    f"permuted, {b}×{b}" if b > 1 else "permuted, pixels": PixelPermutation(K, block=b, features=PixelFeatures())
    for b in (1, 2, 4, 8, 16)
}
ROWS |= {"DP-Pix, pixels, ε=1": PixelDP(1.0), "DP-Pix, picture, ε=1": PixelDP(1.0, unit="picture")}


class InOrder(Seeded):
    """Leaves rows where they are, so that each column of the figure shows one picture; for drawing only."""

    def stage(self, name: str) -> Randomness:
        """Return the stream of that name."""
        return InOrder(self.seed, (*self.path, name))

    def permutation(self, count: int) -> NDArray[np.intp]:
        """Return the order that is there."""
        return np.arange(count)


def tiles() -> Dataset:
    cut, label = [], []
    for number, photo in enumerate(load_sample_images().images):
        for top in range(0, photo.shape[0] - SIDE + 1, STRIDE):
            for left in range(0, photo.shape[1] - SIDE + 1, STRIDE):
                tile = photo[top : top + SIDE, left : left + SIDE].reshape(32, SIDE // 32, 32, SIDE // 32, 3)
                cut.append(tile.mean(axis=(1, 3)).round().astype(np.uint8).transpose(2, 0, 1))
                label.append(number)
    return image_dataset(np.stack(cut), label, classes=("china", "flower"))


def draw() -> None:
    import matplotlib.pyplot as plt
    from PIL import Image

    data = tiles()
    picture = data.schema.picture
    assert picture is not None
    figure, axes = plt.subplots(len(ROWS), len(SHOWN), figsize=(len(SHOWN) * 0.75 + 1.6, len(ROWS) * 0.75))
    for line, (name, mechanism) in zip(axes, ROWS.items(), strict=True):
        X = data.X if mechanism is None else mechanism.protect(data, InOrder(7)).X
        for axis, image in zip(line, picture.images(X)[list(SHOWN)], strict=True):
            axis.imshow(image.transpose(1, 2, 0))
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    figure.subplots_adjust(left=0.2, right=0.995, top=0.995, bottom=0.005, wspace=0.05, hspace=0.05)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(256).save(FIGURE, optimize=True)
    print(f"{FIGURE.name}: {len(data)} pictures, {FIGURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    draw()
