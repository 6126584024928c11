"""Membership inference from end to end: train references, collect signals, attack, report.

The members are the records whose presence is in question (a forget set, say), the non-members records that were never
used. Both are scored by the same references, which are outside of each equally often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eupg.audit.attack import Attack
from eupg.audit.predictions import TUNING_RECORDS, Tuning, audit_predictions, needs_tuning
from eupg.audit.queries import Queries, predictions
from eupg.audit.references import Recipe, References, ReferenceStore, Step, complementary_halves, train_references
from eupg.audit.report import AuditReport
from eupg.audit.rmia import RMIA
from eupg.audit.signals import Kind, Mask
from eupg.audit.verdict import MARGIN
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.learn.learner import Learner, Model
from eupg.rng import Randomness, Seeded


def audit(
    model: Model,
    members: Dataset,
    nonmembers: Dataset,
    *,
    references: int | References = 8,
    attack: Attack | None = None,
    queries: Queries | None = None,
    signal: Kind | None = None,
    others: Dataset | None = None,
    recipe: Recipe | None = None,
    baseline: Model | None = None,
    baseline_name: str = "retraining",
    name: str = "the audited model",
    margin: float = MARGIN,
    seed: int = 0,
    jobs: int | None = None,
    store: ReferenceStore | None = None,
    step: Step | None = None,
) -> AuditReport:
    """Ask how well an attacker can tell which records a model was trained on.

    Parameters
    ----------
    model
        The model under audit.
    members, nonmembers
        Records in question, and records that were never used; no record may be in both.
    references
        How many reference models to train (an even number), or ones that were trained before.
    attack
        By default RMIA, offline, with its ``a`` tuned on the references.
    queries
        Altered copies of each record to ask the models about too, such as ``PictureQueries()``. By default the record
        alone, or what ready ``references`` were asked.
    signal
        What is made of a model's probabilities; by default what suits the attack best. For networks on pictures,
        ``Kind.TAYLOR``.
    others
        Further records of the training data, the retained ones: with them the references learn from as many records as
        the model did, and a model of them alone, retrained without the members, is scored beside it.
    recipe
        How the model was trained: its EUPG or Retrain object. By default its learner, from scratch, at its effort.
    baseline
        A model that surely does not remember the members, in place of one retrained on ``others``.
    baseline_name
        What that model is called in the report.
    name
        What the model is called in the report.
    margin
        How many points of AUC matter for the verdict, "exposed", "not exposed" or "inconclusive": see
        :attr:`eupg.audit.report.AuditReport.outcome`.
    seed, jobs, store, step
        As in :func:`eupg.audit.references.train_references`.
    """
    attack = RMIA() if attack is None else attack
    scored = _together(members, nonmembers)
    if attack.needs_in + attack.needs_out == 0:
        trained = None
    elif isinstance(references, References):
        trained = references
    else:
        recipe = recipe or recipe_of(model)
        trained = references_for(
            recipe,
            members,
            nonmembers,
            others,
            models=references,
            online=attack.needs_in > 0,
            queries=queries,
            seed=seed,
            jobs=jobs,
            store=store,
            step=step,
        )
    queries = _same_queries(queries, trained)
    if baseline is None and others is not None and len(others):
        baseline = (recipe or recipe_of(model)).train(others, Seeded(seed).stage("baseline")).model
    inside, each = (None, None) if trained is None else trained.on(scored.ids)
    return audit_predictions(
        predictions(model, scored, queries),
        scored.y,
        np.arange(len(scored)) < len(members),
        each,
        inside,
        tuning=_tuning(trained, scored) if trained is not None and needs_tuning(attack) else None,
        attack=attack,
        signal=signal,
        baseline=None if baseline is None else predictions(baseline, scored, queries),
        baseline_name=baseline_name,
        name=name,
        people=scored.subjects,
        margin=margin,
    )


def references_for(
    recipe: Recipe,
    members: Dataset,
    nonmembers: Dataset,
    others: Dataset | None = None,
    *,
    models: int = 8,
    online: bool = False,
    queries: Queries | None = None,
    seed: int = 0,
    jobs: int | None = None,
    store: ReferenceStore | None = None,
    step: Step | None = None,
) -> References:
    """Train the reference models of an audit, to be passed to several of them as ``references``."""
    pool, inside = _halves(members, nonmembers, others, models, seed, online=online)
    return train_references(recipe, pool, inside, seed=seed, queries=queries, jobs=jobs, store=store, step=step)


@dataclass(frozen=True)
class FromScratch:
    """The plainest recipe: one learner, one effort, no starting model."""

    learner: Learner
    effort: int

    def train(self, data: Dataset, rng: Randomness) -> Fitted:
        """Fit a model."""
        return Fitted(self.learner.fit(data, effort=self.effort, rng=rng.generator()))


@dataclass(frozen=True)
class Fitted:
    """A model that was fitted for an audit."""

    model: Model


def recipe_of(model: Model) -> FromScratch:
    """Return how a model was made, if it says so: its learner, from scratch, for all the effort that went into it."""
    learner, effort = getattr(model, "learner", None), getattr(model, "effort", 0)
    if not isinstance(learner, Learner) or effort < 1:
        raise ParameterError(
            f"{type(model).__name__} does not say how it was trained: pass recipe=, its EUPG or Retrain object"
        )
    return FromScratch(learner, effort)


def _together(members: Dataset, nonmembers: Dataset) -> Dataset:
    if not len(members) or not len(nonmembers):
        empty = "members" if not len(members) else "non-members"
        raise DataError(f"an audit compares members with non-members, and there are no {empty}: pass at least one")
    both = np.intersect1d(members.ids, nonmembers.ids)
    if len(both):
        raise DataError(
            f"{len(both)} ids are among members and non-members, first {str(both[0])!r}: a record is one or the other; "
            "if two tables number their rows alike, give them ids of their own"
        )
    return members.plus(nonmembers)


def _halves(
    members: Dataset, nonmembers: Dataset, others: Dataset | None, models: int, seed: int, *, online: bool
) -> tuple[Dataset, Mask]:
    """Draw who is inside which reference model; where enough others are known, no scored record is inside any.

    An offline attack needs models trained without a record, and then all of them are: twice as many as in halves of
    everything, at the same cost.
    """
    parts = [members, nonmembers, *([others] if others is not None else [])]
    pool = parts[0]
    for part in parts[1:]:
        pool = pool.plus(part)
    groups = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    inside = complementary_halves(groups, models, Seeded(seed).stage("halves").generator())
    if not online and others is not None and len(others) >= len(members):
        inside[:, groups < 2] = False
    return pool, inside


def _same_queries(asked: Queries | None, trained: References | None) -> Queries | None:
    """Return what to ask the model: what the references were asked."""
    if trained is None or asked == trained.queries:
        return asked
    if asked is not None:
        raise ParameterError(
            f"the references were asked {trained.queries or 'about the records alone'}, and the model is to be asked "
            f"{asked}: train them with the same queries, or leave queries out"
        )
    return trained.queries


def _tuning(trained: References, scored: Dataset) -> Tuning:
    """Return predictions on records that some references saw and some did not, on others than the scored if any are."""
    mixed = trained.inside.any(axis=0) & ~trained.inside.all(axis=0)
    apart = mixed & ~np.isin(trained.pool.ids, scored.ids)
    rows = np.flatnonzero(apart if apart.any() else mixed)[:TUNING_RECORDS]
    return Tuning(trained.probabilities[:, rows], trained.pool.y[rows], trained.inside[:, rows])
