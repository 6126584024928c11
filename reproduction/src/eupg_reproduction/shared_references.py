"""Reference models that all repetitions share, and all experiments of a run with the same set and recipe.

Each sees a random half of all records, training and test, in pairs of a half and its complement. So every scored
record, forgotten or never seen, is outside exactly half of them, whatever the requests are. Only the predictions are
kept.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from eupg.audit.membership.references import ReferenceRecipe, References, complementary_halves
from eupg.data.sources import Source
from eupg.rng import Seeded
from eupg_reproduction.run_cache import RunCache, name_of

SEED = 11


def halves(source: Source, models: int) -> NDArray[np.bool_]:
    """Return which reference model sees which record; records of the test set come last."""
    groups = np.repeat([0, 1], [len(source.train), len(source.test)])
    return complementary_halves(groups, models, Seeded(SEED).stage("halves").generator())


def shared_references(recipe: ReferenceRecipe, source: Source, outside: int) -> References:
    """Return 2 · ``outside`` reference models of a set, so that ``outside`` of them never saw a given record.

    Processes that need the same ones divide the work.
    """
    models, pool, cache = 2 * outside, source.train.plus(source.test), RunCache.of_run()
    inside = halves(source, models)

    def predictions(i: int) -> NDArray[np.float32]:
        trained = recipe.train(pool.select(inside[i]), Seeded(SEED).stage(f"reference {i}"))
        return trained.model.predict_proba(pool.X).astype(np.float32)

    records = name_of("pool", pool.X, pool.y, pool.ids)
    names = [name_of(f"reference {i} {recipe!r} {records}", inside[i]) for i in range(models)]
    done = {i: cache.get(names[i], partial(predictions, i)) for i in range(models) if cache.claims(names[i])}
    # Other processes have finished theirs by now, except for the last ones: making these again takes no longer.
    for i in range(models):
        if i not in done:
            done[i] = cache.get(names[i], partial(predictions, i))
    return References(pool, inside, np.stack([done[i] for i in range(models)]).astype(np.float64))
