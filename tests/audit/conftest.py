"""Signals of models that do not exist: margins lie round a record's own ease, higher where it was trained on."""

import numpy as np
import pytest

from eupg.audit.membership.signals import SignalKind, Signals


def simulated(
    seed,
    *,
    records=400,
    models=8,
    remembers=1.0,
    queries=1,
    population=0,
    kind=SignalKind.MARGIN,
    inside=None,
    noise=0.5,
):
    """Return signals and the members: the first half. The target remembers them by so much, reference models by one."""
    rng = np.random.default_rng(seed)
    total = records + population
    ease, members = rng.normal(0.5, 1.5, (total, 1)), np.arange(total) < records // 2
    if inside is None:
        halves = rng.random((models // 2, total)) < 0.5
        inside = np.stack([halves, ~halves], axis=1).reshape(models, total)
    target = ease + rng.normal(0, noise, (total, queries)) + remembers * members[:, None]
    references = ease + rng.normal(0, noise, (len(inside), total, queries)) + inside[:, :, None]
    if kind is SignalKind.PROBABILITY:
        target, references = 1 / (1 + np.exp(-target)), 1 / (1 + np.exp(-references))

    def part(rows, **more):
        return Signals(target[rows], references[:, rows], inside[:, rows], kind=kind, **more)

    others = part(slice(records, None)) if population else None
    return part(slice(records), population=others), members[:records]


@pytest.fixture(scope="session")
def simulate():
    return simulated
