"""Trainings that several methods begin with, and requests that several kinds of measurement look at, made once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eupg.data.dataset import Dataset
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.eupg import EUPG
from eupg.forget.released import Released
from eupg.forget.retrain import Retrain
from eupg.forget.storage import Storage, storage
from eupg.forget.unlearner import Trained, Unlearner
from eupg.guarantees import Guarantee
from eupg.learn.learner import Model
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness
from eupg_reproduction.found import timed
from eupg_reproduction.kept import Kept, name_of

Seconds = dict[str, float]


@dataclass(frozen=True, eq=False)
class Honoured:
    """A request that was honoured: the models before and after, what holds, what was kept, and the seconds.

    ``shared`` names phases that other methods use too.
    """

    before: Model
    after: Model
    claim: Guarantee
    storage: Storage
    seconds: Seconds
    shared: tuple[str, ...]


class Trainings:
    """Trains methods on one table with one randomness; what two of them begin with alike is made once.

    Sharing changes no figure: with the same records, learner and randomness the second training would be the first
    again. Its seconds are those of the one time it was made.

    Parameters
    ----------
    data, rng
        The records and the randomness.
    kept
        What other processes of the run have made; by default nothing.
    """

    def __init__(self, data: Dataset, rng: Randomness, kept: Kept | None = None) -> None:
        self.data, self.rng = data, rng
        self._kept = kept or Kept(None)
        self._made: dict[str, tuple[Any, Seconds]] = {}
        self._name = name_of(str(rng.stage("name").words(2)), data.X, data.y, data.ids)

    def honour(self, method: Unlearner, retained: Dataset) -> Honoured:
        """Train a method, let it forget all but these records, and note the time of each phase."""

        def work() -> Honoured:
            trained, seconds, shared = self.train(method)
            costs = storage(trained)
            after = timed(seconds, "forget", lambda: method.forget(trained, retained, self.rng))
            return Honoured(trained.model, after.model, after.claim, costs, seconds, shared)

        return self._kept.get(name_of(f"{self._name} {method!r}", retained.ids), work)

    def train(self, method: Unlearner) -> tuple[Trained, Seconds, tuple[str, ...]]:
        """Return a trained method, the seconds of each phase, and which phases other methods may share."""
        if isinstance(method, EUPG):
            return self._eupg(method)
        if isinstance(method, (CertifiedSP, Retrain)):
            plain = Retrain(method.learner, method.effort)
            trained, spent = self._once(f"{plain.learner} {plain.effort}", plain)
            if isinstance(method, CertifiedSP):
                # Both train alike, without noise; Certified-SP also notes whom its model has seen.
                trained = replace(trained, released=Released.of(self.data))
            return trained, dict(spent), ("train",)
        # SISA deletes checkpoints when it forgets, so its training serves one request alone.
        trained, spent = self._plainly(method)
        return trained, spent, ()

    def _eupg(self, method: EUPG) -> tuple[Trained, Seconds, tuple[str, ...]]:
        (base, claim), made = self._once(f"{method.mechanism} {method.learner} {method.pretrain}", method)
        seconds = dict(made)
        trained = timed(seconds, "finetune", lambda: method.resume(base, claim, self.data, self.rng))
        return trained, seconds, tuple(made)

    def _once(self, key: str, method: Unlearner) -> tuple[Any, Seconds]:
        if key not in self._made:
            self._made[key] = self._kept.get(name_of(f"{self._name} {key}"), lambda: self._first(method))
        return self._made[key]

    def _first(self, method: Unlearner) -> tuple[Any, Seconds]:
        return self._base(method) if isinstance(method, EUPG) else self._plainly(method)

    def _plainly(self, method: Unlearner) -> tuple[Trained, Seconds]:
        spent: Seconds = {}
        return timed(spent, "train", lambda: method.train(self.data, self.rng)), spent

    def _base(self, method: EUPG) -> tuple[tuple[Model, Guarantee], Seconds]:
        """Make a base model as ``method.base`` does, phase by phase."""
        mechanism, spent = method.mechanism, Seconds()
        if not isinstance(mechanism, Mechanism):
            return timed(spent, "pretrain", lambda: method.base(self.data, self.rng)), spent
        release = timed(spent, "protect", lambda: mechanism.protect(self.data, self.rng.stage("protect")))
        stream = self.rng.stage("pretrain").generator()
        base = timed(spent, "pretrain", lambda: method.learner.fit(release, effort=method.pretrain, rng=stream))
        return (base, release.guarantee), spent
