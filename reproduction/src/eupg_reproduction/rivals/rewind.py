"""Rewind-to-Delete: go back to an earlier step of the training, and go on without the records (Mu and Klabjan 2025).

Written from the paper, for the one model for which its bound says something on tables of this size: a logistic
regression with an L2 penalty, trained by gradient descent on all records at once. The paper's bound for any network
grows exponentially with the number of steps.

The bound. Rows are scaled to norm 1 at most, so the gradient of one record's loss has norm 1 at most, and the loss with
penalty λ is λ-strongly convex and (1/4 + λ)-smooth. One step of size η = 1/(1/4 + λ) brings two models closer by the
factor 1 − ηλ if both take it on the same records. If m of n records are missing for one of them, the two mean gradients
differ by 2m/n at most. So after T − K steps with and without the records, and K more steps without them for both, the
models are apart by at most::

    (2m / nλ) · (1 − (1 − ηλ)^(T − K)) · (1 − ηλ)^K

Gaussian noise on the weights that are served turns this distance into (ε, δ).
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset, Matrix
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ParameterError
from eupg.forget.released import Released
from eupg.forget.storage import Storage
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import CertifiedUnlearning
from eupg.guarantees.gaussian import gaussian_epsilon, gaussian_ratio
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn.learner import check_settings
from eupg.rng import Randomness
from eupg.validation import check_below_one

_NOISE = "the noise is pseudo-random and in floating point, and the claim takes it for true Gaussian noise"
_MOST = "the largest number of records of one person was read from the data"
# No ε above this is told apart from none.
_VACUOUS = 1e6
Weights = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A logistic regression on rows scaled to norm 1 at most."""

    schema: Schema
    weights: Weights

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the logistic function of the weighted sum."""
        second = 1 / (1 + np.exp(-np.clip(scaled(self.schema, X) @ self.weights, -500, 500)))
        return np.column_stack([1 - second, second]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The memory of :class:`RewindToDelete`: the weights K steps before the end, and how many records made them."""

    weights: Weights
    records: int
    most: int

    def storage(self) -> Storage:
        """Return the size of the checkpoint and of the served weights, which are as many."""
        return Storage(2, 2 * len(pickle.dumps(self.weights)))


@dataclass(frozen=True)
class RewindToDelete:
    """Forget by going back some steps of the training, and taking them again without the records; two classes.

    Parameters
    ----------
    penalty
        λ of the L2 penalty: more brings models closer together, so that they need less noise.
    steps
        T, the steps of the training.
    rewound
        K, how many of them an erasure takes again.
    epsilon, delta, records
        The noise is as much as ε needs if all records of one person leave, up to so many. The claim states the ε that
        holds for those who left since the training and whoever leaves next, however many records they have.

    Examples
    --------
    >>> method = RewindToDelete(0.01, steps=300, rewound=100)
    >>> round(method.distance(5, 10_000), 4), round(method.sigma(5, 10_000), 3)
    (0.002, 0.007)
    """

    penalty: float = 0.01
    steps: int = 300
    rewound: int = 100
    epsilon: float = 1.0
    delta: float = 1e-5
    records: int = 5

    def __post_init__(self) -> None:
        whole = {"steps": 1, "rewound": 1, "records": 1}
        check_settings(self, whole=whole, positive=("penalty", "epsilon", "delta"), not_negative=())
        check_below_one("delta", self.delta)
        if self.rewound > self.steps:
            raise ParameterError(f"at most {self.steps} steps can be taken again, got {self.rewound}")

    @property
    def step_size(self) -> float:
        """η, the inverse of the smoothness."""
        return 1 / (0.25 + self.penalty)

    def distance(self, leaving: int, records: int) -> float:
        """Return how far the weights after an erasure can be from those of a training without the records."""
        keeps = 1 - self.step_size * self.penalty
        apart = 2 * leaving / (records * self.penalty) * (1 - keeps ** (self.steps - self.rewound))
        return float(apart * keeps**self.rewound)

    def sigma(self, most: int, records: int) -> float:
        """Return the spread of the noise on each weight, where nobody has more than ``most`` of the records."""
        return self.distance(min(self.records, most), records) / gaussian_ratio(self.epsilon, self.delta)

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Train on all records, keep a checkpoint, and serve the last weights with noise."""
        check_start(data, rng)
        if data.schema.classes != 2:
            raise ParameterError(f"Rewind-to-Delete is for two classes here, got {data.schema.classes}")
        rows = scaled(data.schema, data.X)
        weights = self._descended(np.zeros(rows.shape[1]), rows, data.y, self.steps - self.rewound)
        most = int(np.unique(data.subjects, return_counts=True)[1].max())
        memory = Checkpoint(weights, len(data), most)
        return self._served(memory, data, rows, Released.of(data), rng, gone=0)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Go on from the checkpoint with the retained records."""
        kept = kept_ids(trained, retained)
        return trained if trained.ids <= kept else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Go on from the checkpoint with these records."""
        check_start(data, rng)
        check_same_table(trained, data)
        memory, released = _memory(trained), trained.released.retaining(data.id_set)
        rows = scaled(data.schema, data.X)
        return self._served(memory, data, rows, released, rng, gone=memory.records - len(released.kept))

    def _served(
        self, memory: Checkpoint, data: Dataset, rows: Matrix, released: Released, rng: Randomness, *, gone: int
    ) -> Trained:
        weights = self._descended(memory.weights, rows, data.y, self.rewound)
        sigma = self.sigma(memory.most, memory.records)
        noisy = weights + sigma * rng.stage("finetune").generator().standard_normal(len(weights))
        ratio = self.distance(gone + memory.most, memory.records) / sigma
        claim = CertifiedUnlearning(
            epsilon=min(_VACUOUS, gaussian_epsilon(ratio, self.delta)),
            delta=self.delta,
            caveats=(*data.schema.caveats, _NOISE, _MOST, REQUESTS_APART),
            seeded=rng.seeded,
        )
        ids = data.id_set
        model = LinearModel(data.schema, noisy)
        return Trained(model, data.schema, ids, ids, released, claim, replace(memory))

    def _descended(self, weights: Weights, rows: Matrix, y: NDArray[np.int64], steps: int) -> Weights:
        """Take steps of gradient descent on the mean logistic loss."""
        now, wanted = weights.astype(np.float64), y.astype(np.float32)
        share, keeps = self.step_size / len(rows), 1 - self.step_size * self.penalty
        for _ in range(steps):
            # Single precision where all rows take part.
            chance = 1 / (1 + np.exp(-(rows @ now.astype(np.float32))))
            now = keeps * now - share * ((chance - wanted) @ rows)
        return now


def scaled(schema: Schema, X: Matrix) -> Matrix:
    """Return inputs of public scale with a constant, divided so that no row is longer than 1."""
    inputs = np.asarray(Encoder.of_bounds(schema)(X), dtype=np.float32)
    # A number of public scale lies within √3 of its centre, a category within 1.
    inputs = np.clip(inputs, -1.8, 1.8)
    rows = np.column_stack([inputs, np.ones(len(inputs), dtype=np.float32)])
    longest = np.sqrt(1 + 3.24 * len(schema.features))
    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    # A little shorter than 1, since numbers are rounded.
    return np.asarray(rows / (1.00001 * np.maximum(longest / 2, length)), dtype=np.float32)


def _memory(trained: Trained) -> Checkpoint:
    if not isinstance(trained.memory, Checkpoint):
        raise ParameterError("this model was not trained by RewindToDelete: forget with the method that trained it")
    return trained.memory
