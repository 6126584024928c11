"""Certified-SP (stochastic post-processing): forget by noisy fine-tuning with a true (ε, δ); Koloskova et al. 2025."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from eupg.data.dataset import Dataset
from eupg.errors import ParameterError
from eupg.forget.durable import KeptState, ServedAlone
from eupg.forget.released import HistoryElsewhere, Released
from eupg.forget.unlearner import Trained, check_same_table, check_start, kept_ids
from eupg.guarantees import CertifiedUnlearning
from eupg.guarantees.gaussian import gaussian_epsilon
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn.learner import Learner, Model, check_learner, check_settings
from eupg.learn.noisy_finetuning import GradientClipping, ModelClipping, NoisyLearner, NoisySteps
from eupg.rng import Randomness
from eupg.validation import check_below_one

_NOISE = "the noise is pseudo-random and in floating point, and the claim takes it for true Gaussian noise"
# Chosen by `python -m benchmarks.search_certified_sp`, on held-out training records (docs/results.md).
DEFAULT_STEPS = GradientClipping(start=0.1, gradient=0.01, decay=2.0, step_size=0.1, steps=20)


@dataclass(frozen=True)
class CertifiedSP(ServedAlone):
    """Forget by noisy steps on the retained records, from the clipped weights of the served model.

    Each step adds fresh Gaussian noise, as much as the claim needs; plain fine-tuning with a new optimiser fills the
    rest of the budget. Two such runs, from a model that knew the forgotten records and from one that did not, are
    (ε, δ)-indistinguishable, whatever was forgotten and however much.

    Parameters
    ----------
    learner
        Fits models; it must have gradients.
    effort
        Epochs of the first training.
    finetune
        Epochs on the retained records after a request, noisy steps included.
    noise
        How the noisy steps are bounded: :class:`GradientClipping` or :class:`ModelClipping`.
    epsilon, delta
        The claim.
    published_calibration
        Use as little noise as the authors' published code, which leaves the Rényi order out of its conversion. The
        claim then states the ε that really holds at ``delta``. (That code also reuses one draw of noise at every step,
        for which no bound is known; here each step draws anew.)

    Examples
    --------
    >>> from eupg.learn import TorchLearner
    >>> CertifiedSP(TorchLearner()).claimed_epsilon
    1.0
    >>> round(CertifiedSP(TorchLearner(), published_calibration=True).claimed_epsilon, 2)
    6.57
    """

    repair: ClassVar[str] = "the model was changed by noisy steps on the records that are left"
    learner: Learner
    effort: int = 50
    finetune: int = 5
    noise: NoisySteps = DEFAULT_STEPS
    epsilon: float = 1.0
    delta: float = 1e-5
    published_calibration: bool = False

    def __post_init__(self) -> None:
        check_learner(self.learner, "TorchLearner()")
        if not isinstance(self.learner, NoisyLearner):
            raise ParameterError(
                f"{type(self.learner).__name__} has no gradients, which Certified-SP adds noise to: use TorchLearner, "
                "or another method"
            )
        if not isinstance(self.noise, (GradientClipping, ModelClipping)):
            raise ParameterError(f"noise must be a GradientClipping or a ModelClipping, got {self.noise!r}")
        check_settings(self, whole={"effort": 1, "finetune": 1}, positive=("epsilon", "delta"))
        check_below_one("delta", self.delta)
        if self.published_calibration and not isinstance(self.noise, GradientClipping):
            raise ParameterError("the published calibration is that of gradient clipping: pass a GradientClipping")

    @property
    def depends_on_history(self) -> bool:
        """Forgetting continues from the served model, so the order of requests matters."""
        return True

    @property
    def sigma(self) -> float:
        """The spread of the noise added to each weight at each step."""
        if self.published_calibration and isinstance(self.noise, GradientClipping):
            # The code sets the Rényi divergence of order α to ε where it should be αε: μ²/2 = ε.
            return self.noise.ratio(1.0) / math.sqrt(2 * self.epsilon)
        return self.noise.sigma(self.epsilon, self.delta)

    @property
    def claimed_epsilon(self) -> float:
        """The ε that holds at ``delta``."""
        if self.published_calibration and isinstance(self.noise, GradientClipping):
            return gaussian_epsilon(self.noise.ratio(self.sigma), self.delta)
        return self.epsilon

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Train on all records, without noise."""
        check_start(data, rng)
        self._noisy.check_noisy(data, effort=self.finetune, noise=self.noise)
        model = self.learner.fit(data, effort=self.effort, rng=rng.stage("pretrain").generator())
        return self._trained(model, data, Released.of(data), rng.seeded)

    def restore(self, served: Path, parts: Mapping[str, Path], kept: KeptState) -> Trained:
        """Return the trained model from its file; whose records touched it is known elsewhere."""
        ids = kept.data.id_set
        return Trained(self.load(served), kept.data.schema, ids, ids, HistoryElsewhere(), kept.claim, None)

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Take noisy steps on the retained records, then fine-tune."""
        nothing_to_undo = trained.ids <= kept_ids(trained, retained)
        return trained if nothing_to_undo else self.update(trained, retained, rng)

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Fine-tune on these records, with noisy steps first if records have left."""
        check_same_table(trained, data)
        check_start(data, rng)
        now = data.id_set
        stream = rng.stage("finetune").generator()
        seeded = rng.seeded
        if trained.ids <= now:
            model = self.learner.fit(data, effort=self.finetune, rng=stream, start=trained.model)
            # No new noise is added: earlier noise alone still hides what was forgotten before.
            seeded = seeded or trained.claim.seeded
        else:
            model = self._noisy.fit_noisy(
                data, effort=self.finetune, noise=self.noise, sigma=self.sigma, rng=stream, start=trained.model
            )
        released = trained.released.retaining(now)
        new = Released.of(data, key=released.key)
        return self._trained(model, data, replace(released, kept=new.kept.joined(released.kept)), seeded)

    @property
    def _noisy(self) -> NoisyLearner:
        assert isinstance(self.learner, NoisyLearner)
        return self.learner

    def _trained(self, model: Model, data: Dataset, touched: Released, seeded: bool) -> Trained:
        caveats = (*data.schema.caveats, _NOISE, REQUESTS_APART)
        if self.published_calibration:
            caveats = (*caveats, f"calibrated as in published code, which reports this as ε={self.epsilon:g}")
        claim = CertifiedUnlearning(epsilon=self.claimed_epsilon, delta=self.delta, caveats=caveats, seeded=seeded)
        ids = data.id_set
        return Trained(model, data.schema, ids, ids, touched, claim, None)
