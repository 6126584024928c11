"""Trainings and requests that several methods or kinds of measurement share, made once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eupg.data.dataset import Dataset
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.eupg import EUPG, Base
from eupg.forget.released import Released
from eupg.forget.retrain import Retrain
from eupg.forget.storage import Storage, storage
from eupg.forget.unlearner import Trained, Unlearner
from eupg.guarantees import Guarantee
from eupg.learn.learner import Model
from eupg.rng import Randomness
from eupg_reproduction.cell_figures import Phases, timed
from eupg_reproduction.run_cache import RunCache, name_of

Seconds = dict[str, float]


@dataclass(frozen=True, eq=False)
class CompletedRequest:
    """A completed request: the models before and after, the claim, the storage, and the seconds of each phase.

    ``shared`` names phases that other methods also use.
    """

    before: Model
    after: Model
    claim: Guarantee
    storage: Storage
    seconds: Seconds
    shared: tuple[str, ...]


class Trainings:
    """Trains methods on one table with one randomness, and makes steps that two of them share once.

    Sharing changes no figure: with the same records, learner and randomness the second training would repeat the first.
    Its seconds are those of the one time it was made. ``cache`` holds what other processes of the run have made.
    """

    def __init__(self, data: Dataset, rng: Randomness, cache: RunCache | None = None) -> None:
        self.data, self.rng = data, rng
        self._cache = cache or RunCache(None)
        self._made: dict[str, tuple[Any, Seconds]] = {}
        self._name = name_of(str(rng.stage("name").words(2)), data.X, data.y, data.ids)

    def honour(self, method: Unlearner, retained: Dataset) -> CompletedRequest:
        """Train a method, forget all records but these, and record the time of each phase."""

        def work() -> CompletedRequest:
            trained, seconds, shared = self.train(method)
            costs = storage(trained)
            after = timed(seconds, "forget", lambda: method.forget(trained, retained, self.rng))
            return CompletedRequest(trained.model, after.model, after.claim, costs, seconds, shared)

        return self._cache.get(name_of(f"{self._name} {method!r}", retained.ids), work)

    def train(self, method: Unlearner) -> tuple[Trained, Seconds, tuple[str, ...]]:
        """Return a trained method, the seconds of each phase, and the phases that other methods may share."""
        if isinstance(method, EUPG):
            return self._eupg(method)
        if isinstance(method, (CertifiedSP, Retrain)):
            plain = Retrain(method.learner, method.effort)
            trained, spent = self._once(f"{plain.learner} {plain.effort}", plain)
            if isinstance(method, CertifiedSP):
                # Both train without noise; Certified-SP also records which records its model has seen.
                trained = replace(trained, released=Released.of(self.data))
            return trained, dict(spent), ("train",)
        # SISA deletes checkpoints when it forgets, so its training serves one request only.
        trained, spent = self._train_plainly(method)
        return trained, spent, ()

    def _eupg(self, method: EUPG) -> tuple[Trained, Seconds, tuple[str, ...]]:
        base, made = self._once(f"{method.mechanism} {method.learner} {method.pretrain}", method)
        seconds = dict(made)
        trained = timed(seconds, "finetune", lambda: method.resume(base, self.data, self.rng))
        return trained, seconds, tuple(made)

    def _once(self, key: str, method: Unlearner) -> tuple[Any, Seconds]:
        if key not in self._made:
            self._made[key] = self._cache.get(name_of(f"{self._name} {key}"), lambda: self._first(method))
        return self._made[key]

    def _first(self, method: Unlearner) -> tuple[Any, Seconds]:
        return self._base(method) if isinstance(method, EUPG) else self._train_plainly(method)

    def _train_plainly(self, method: Unlearner) -> tuple[Trained, Seconds]:
        spent: Seconds = {}
        return timed(spent, "train", lambda: method.train(self.data, self.rng)), spent

    def _base(self, method: EUPG) -> tuple[Base, Seconds]:
        phases = Phases()
        return method.base(self.data, self.rng, progress=phases), phases.seconds
