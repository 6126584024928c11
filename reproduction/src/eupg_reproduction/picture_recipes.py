"""A better recipe for pictures than the paper's, as changes to it, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Chosen on held-out training pictures by `python -m benchmarks.search_resnet` for the few epochs on raw pictures: the
# best of the recipes tried, by the mean of starting from a base and from scratch.
BETTER: dict[str, Any] = {
    "learning_rate": 0.1,
    "nesterov": True,
    "label_smoothing": 0.1,
    "weight_decay": 0.002,
    "batch_size": 128,
    "padding": 2,
    "border": "reflect",
    "warm_up": 0.2,
}
# For the base, before any request: changes to the paper's training from scratch, and its epochs.
BASE: dict[str, Any] = {
    "schedule": "one-cycle",
    "learning_rate": 0.2,
    "nesterov": True,
    "weight_decay": 0.001,
    "scale": 0.4,
}
BASE_EPOCHS = 30
# Settings of the public network that groups pictures, other than the library's defaults.
FEATURES: dict[str, Any] = {"size": 160, "unit": True}
# The paper's values of the settings that the better recipe changes.
PAPER: dict[str, Any] = {
    "learning_rate": 0.05,
    "weight_decay": 0.0005,
    "batch_size": 256,
    "padding": 4,
    "warm_up": 0.3,
}
_WORDS = {
    "schedule": "{}",
    "learning_rate": "learning rate {:g}",
    "momentum": "momentum {:g}",
    "nesterov": "Nesterov",
    "label_smoothing": "labels smoothed by {:g}",
    "weight_decay": "weight decay {:g}",
    "warm_up": "warm-up {:g}",
    "batch_size": "batches of {:g}",
    "padding": "shifts of {:g} pixels",
    "border": "borders that {}",
    "scale": "first weights × {:g}",
    "mirror": "mirrored too",
}


def recipe_words(change: Mapping[str, Any]) -> str:
    """Return the changes of a recipe to the paper's in words.

    Examples
    --------
    >>> recipe_words({"learning_rate": 0.2, "nesterov": True}), recipe_words({})
    ('learning rate 0.2, Nesterov', "the paper's")
    """
    return ", ".join(_WORDS[name].format(value) for name, value in change.items()) or "the paper's"
