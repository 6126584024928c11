"""Reference models that all repetitions share, and all experiments of a run with the same set and recipe.

Each sees a random half of all records, training and test alike, in pairs of a half and its complement. So every record
that is ever scored, asked to be forgotten or never seen, is outside of exactly half of them, whoever asks and however
many do. Of each only the predictions are kept.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from eupg.audit.references import Recipe, References, complementary_halves
from eupg.data.sources import Source
from eupg.rng import Seeded
from eupg_reproduction.kept import Kept, name_of

SEED = 11


def halves(source: Source, models: int) -> NDArray[np.bool_]:
    """Return which reference sees which record, those of the test set last."""
    groups = np.repeat([0, 1], [len(source.train), len(source.test)])
    return complementary_halves(groups, models, Seeded(SEED).stage("halves").generator())


def shared_references(recipe: Recipe, source: Source, outside: int) -> References:
    """Return reference models of a set, so many of them without each record, hence twice as many in all.

    Processes that need the same ones divide the work.

    Parameters
    ----------
    recipe
        How they are trained.
    source
        The data set.
    outside
        How many of them never saw a given record.
    """
    models, pool, kept = 2 * outside, source.train.plus(source.test), Kept.of_run()
    inside = halves(source, models)

    def predictions(i: int) -> NDArray[np.float32]:
        served = recipe.train(pool.select(inside[i]), Seeded(SEED).stage(f"reference {i}"))
        return served.model.predict_proba(pool.X).astype(np.float32)

    records = name_of("pool", pool.X, pool.y, pool.ids)
    names = [name_of(f"reference {i} {recipe!r} {records}", inside[i]) for i in range(models)]
    found = {}
    for i in range(models):
        if kept.claims(names[i]):
            found[i] = kept.get(names[i], partial(predictions, i))
    # What others have begun is there by now, but for the last ones: made again, that takes no longer than to wait.
    for i in range(models):
        if i not in found:
            found[i] = kept.get(names[i], partial(predictions, i))
    return References(pool, inside, np.stack([found[i] for i in range(models)]).astype(np.float64))
