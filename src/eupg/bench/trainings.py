"""Trainings that several methods begin with, made once: a base model, a model of all records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eupg.bench.found import timed
from eupg.data.dataset import Dataset
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.eupg import EUPG
from eupg.forget.released import Released
from eupg.forget.retrain import Retrain
from eupg.forget.unlearner import Trained, Unlearner
from eupg.learn.learner import Model
from eupg.protect.guarantee import Guarantee
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness

Seconds = dict[str, float]


class Trainings:
    """Trains methods on one table with one randomness; what two of them begin with alike is made once.

    Sharing changes no figure: with the same records, learner and randomness the second training would be the first
    again. Its seconds are those of the one time it was made.
    """

    def __init__(self, data: Dataset, rng: Randomness) -> None:
        self.data, self.rng = data, rng
        self._made: dict[str, tuple[Any, Seconds]] = {}

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
            self._made[key] = self._base(method) if isinstance(method, EUPG) else self._plainly(method)
        return self._made[key]

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
