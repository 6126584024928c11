"""Other private heads beside the library's: least squares from noisy sums, and descent on features scaled by them.

    python -m benchmarks.private_least_squares cifar10|reviews|news|mails FOLDER [REPETITIONS [EPSILON ...]]

Each is trained on four fifths of the training records and scored on the last; no test record is read. FOLDER is that of
``benchmarks.public_features``. Results are lines of JSON in ``results/private_least_squares.jsonl``.

Least squares needs two noisy answers: the sums of products of two features, and of each feature by class. Vectors have
length 1, so that both have a public bound. Noise makes small eigenvalues of the sums meaningless; they are raised to a
multiple of the noise. *Scaled descent* spends a share of μ² on the same sums, divides features by the roots of these
eigenvalues, and gives the rest to the library's descent. Noise is in floating point here: right for an experiment, not
for a claim.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.public_features import SOURCES
from eupg import Seeded
from eupg.data import Dataset
from eupg.data.score import accuracy, auc
from eupg.data.vector import GRID, on_grid
from eupg.forget import PrivateHead
from eupg.forget.private_head.descent import HeadDescent
from eupg.forget.private_head.noisy_answers import VectorAnswers
from eupg.forget.private_trees.budget import GaussianBudget

RESULTS = Path(__file__).parents[1] / "results" / "private_least_squares.jsonl"
EPSILONS, REPETITIONS = (0.25, 1.0, 4.0), 3
# Shares of μ² for the mean, and of what is left for the sums of products; multiples of the noise.
_CENTRE, _SHARES, _FLOORS = 0.035, (0.3, 0.5, 0.7), (0.5, 1.0, 2.0)
_SCALED_SHARES, _SCALED_FLOORS = (0.1, 0.3), (1.0, 4.0)
_CONSTANT = 0.25


def one_each(data: Dataset) -> Dataset:
    """Return the first record of each person, so that a record is a unit in every data set."""
    _, first = np.unique(data.subjects, return_index=True)
    return data.select(np.isin(np.arange(len(data)), first))


def centred(X: Any, parts: list[Any], ratio: float, rng: np.random.Generator) -> list[Any]:
    """Return vectors around the noisy mean of X, scaled to length 1, with a constant in front."""
    mean = (X.sum(axis=0) + rng.normal(size=X.shape[1]) / ratio) / len(X)
    out = []
    for part in parts:
        rows = part - mean
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        out.append(np.column_stack([np.full(len(rows), _CONSTANT), rows]))
    return out


def products(Z: Any, ratio: float, rng: np.random.Generator) -> tuple[Any, Any, float]:
    """Return eigenvalues and eigenvectors of the noisy sums of products, and the scale of their noise."""
    size = Z.shape[1]
    spread = (1 + _CONSTANT**2) / ratio
    noise = rng.normal(scale=spread, size=(size, size))
    # A pair of features occurs twice in the matrix, and once in the answer.
    upper = np.triu(noise, 1) / math.sqrt(2)
    values, vectors = np.linalg.eigh(Z.T @ Z + upper + upper.T + np.diag(np.diag(noise)))
    return values, vectors, spread * math.sqrt(size)


def targets(y: Any, classes: int) -> tuple[Any, float]:
    """Return what the regression aims at, and the largest norm of a row."""
    if classes == 2:
        return (2.0 * y - 1)[:, None], 1.0
    return np.eye(classes)[y] - 1 / classes, math.sqrt(1 - 1 / classes)


def probabilities(margins: Any) -> Any:
    """Return margins in the form of probabilities, of which the order alone counts."""
    return np.column_stack([-margins, margins]) if margins.shape[1] == 1 else margins


def library(data: Dataset, ratio: float, seed: int) -> Any:
    """Return the library's head, trained within a budget."""
    answers = VectorAnswers(data.X, data.y, None, GaussianBudget(ratio), Seeded(seed))
    return HeadDescent(data.schema, GaussianBudget(ratio)).fit(answers, effort=1)


def compare(train: Dataset, held: Dataset, ratio: float, seed: int) -> dict[str, float]:
    """Return the score of every method on the records held out."""
    classes, rng = train.schema.classes, np.random.default_rng(seed)
    score = auc if classes == 2 else accuracy
    out = {"library": score(library(train, ratio, seed).predict_proba(held.X), held.y)}
    X, H = (np.asarray(part.X, dtype=np.float64) / GRID for part in (train, held))
    Z, T = centred(X, [X, H], ratio * math.sqrt(_CENTRE), rng)
    Y, longest = targets(train.y, classes)
    rest = ratio * math.sqrt(1 - _CENTRE)
    for share in _SHARES:
        values, vectors, noise = products(Z, rest * math.sqrt(share), rng)
        spread = math.sqrt(1 + _CONSTANT**2) * longest / (rest * math.sqrt(1 - share))
        sums = vectors.T @ (Z.T @ Y + rng.normal(scale=spread, size=(Z.shape[1], Y.shape[1])))
        for floor in _FLOORS:
            weights = vectors @ (sums / np.maximum(values, floor * noise)[:, None])
            out[f"least squares, share {share:g}, floor {floor:g}"] = score(probabilities(T @ weights), held.y)
    for share in _SCALED_SHARES:
        values, vectors, noise = products(Z[:, 1:], rest * math.sqrt(share), rng)
        for floor in _SCALED_FLOORS:
            scale = (vectors / np.sqrt(np.maximum(values, floor * noise))) @ vectors.T
            there, here = (
                Dataset(part.schema, on_grid(rows[:, 1:] @ scale), part.y, part.ids, part.subjects)
                for part, rows in ((train, Z), (held, T))
            )
            model = library(there, rest * math.sqrt(1 - share), seed)
            out[f"scaled descent, share {share:g}, floor {floor:g}"] = score(model.predict_proba(here.X), held.y)
    return out


def main() -> None:
    """Compare on one data set."""
    if len(sys.argv) < 3:
        print(__doc__)
        return
    name, folder = sys.argv[1], Path(sys.argv[2])
    repetitions = int(sys.argv[3]) if len(sys.argv) > 3 else REPETITIONS
    data = one_each(SOURCES[name](folder)[0])
    held = np.isin(np.arange(len(data)), np.random.default_rng(11).permutation(len(data))[: len(data) // 5])
    for epsilon in map(float, sys.argv[4:] or EPSILONS):
        budget = PrivateHead(epsilon).budget
        runs = [compare(data.select(~held), data.select(held), budget.ratio, seed) for seed in range(repetitions)]
        for method in runs[0]:
            values = [run[method] for run in runs]
            line = {"source": name, "epsilon": epsilon, "method": method, "values": values, "value": np.mean(values)}
            print(line, flush=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
