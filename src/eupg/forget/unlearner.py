"""The protocol every unlearning method follows, and what it hands over.

``forget`` is given the records that may be kept and never the ones to forget: what it cannot see it cannot use.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eupg.data.dataset import Dataset, RecordId, require_dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.lottery import Lottery
from eupg.forget.released import Released
from eupg.guarantees import Exact, Guarantee, Involvement, claim_for_person
from eupg.guarantees.wording import REQUESTS_APART
from eupg.learn.learner import Model
from eupg.rng import Randomness


@dataclass(frozen=True, eq=False)
class Trained:
    """A served model, and what may be said about records it does not hold.

    Parameters
    ----------
    model
        What is served.
    schema
        What the records' columns mean.
    ids
        The records this model was fitted on directly.
    kept
        Every record it may be fitted on; those that are not in ``ids`` were never seen raw.
    released
        Who had a part in the release behind the base model; :class:`~eupg.forget.released.HistoryElsewhere` where that
        is kept by somebody else, who then has to be asked what is claimed for a person.
    claim
        What holds for one record of the release once it is not in ``ids``.
    memory
        Private to the unlearner that wrote it.
    lottery
        Who may be seen raw, where not everyone is.
    """

    model: Model
    schema: Schema
    ids: Set[RecordId]
    kept: Set[RecordId]
    released: Released
    claim: Guarantee
    memory: object
    lottery: Lottery | None = None

    def __post_init__(self) -> None:
        check_history(self.claim, self.released)

    def claim_for(self, records: Dataset) -> Guarantee:
        """Return what will hold for the person these records belong to, once all of them are forgotten.

        Pass all of the person's records: for a part of them less may hold, and the claim says so. Those that were never
        in the release leave nothing behind; each one that was counts for the group, and so do those of the same person
        that were forgotten before.
        """
        if not isinstance(records, Dataset):
            raise ParameterError(f"expected the person's records, such as data.of_subjects(['7']), got {records!r}")
        unknown = frozenset(records.ids.tolist()) - self.kept
        if unknown or not len(records):
            raise UnknownRecord(
                f"{len(unknown)} of {len(records)} records are not kept here: "
                "never there, or already forgotten; ask for the claim before forgetting"
            )
        others = self.released.others(records)
        person = Involvement(
            released=(self.released.count(records),),
            others=others,
            stays=others > 0,
            seen_raw=REQUESTS_APART in self.claim.caveats and self._drawn(records),
        )
        return claim_for_person(person, (self.claim,), caveats=self.claim.caveats)

    def _drawn(self, records: Dataset) -> bool:
        """Tell whether a model may have been fitted on any of these; otherwise it shows no more than the release."""
        return self.lottery is None or bool(self.lottery.drawn(records).any())


@runtime_checkable
class Unlearner(Protocol):
    """Trains a model that can forget."""

    def train(self, data: Dataset, rng: Randomness) -> Trained:
        """Train on all records."""

    def forget(self, trained: Trained, retained: Dataset, rng: Randomness) -> Trained:
        """Return a model for the retained records alone; the forgotten ids are ``trained.ids − retained.ids``.

        Where the served model was fitted on none of the forgotten records, there is nothing to undo and it stays.
        """

    def update(self, trained: Trained, data: Dataset, rng: Randomness) -> Trained:
        """Return a model for these records, some of which may be new since the release."""


def kept_ids(trained: Trained, retained: Dataset) -> frozenset[RecordId]:
    """Return the retained ids; a record that the model never knew is an error, since forgetting adds nothing."""
    ids = retained.id_set
    if not ids <= trained.kept:
        unknown = ids - trained.kept
        raise UnknownRecord(
            f"{len(unknown)} retained records are not known to this model, first {min(unknown)!r}: "
            "to add records call update; to forget pass a part of the records it was trained on"
        )
    return ids


def ids_without(trained: Trained, rows: Dataset) -> Set[RecordId]:
    """Return the ids that are left once these records leave; one that the model does not know is an error."""
    check_same_table(trained, rows)
    unknown = rows.id_set - trained.kept
    if unknown:
        raise UnknownRecord(
            f"{len(unknown)} of {len(rows)} records to erase are not known to this model, first {min(unknown)!r}: "
            "never there, or already erased"
        )
    return trained.kept - rows.id_set


def ids_with(trained: Trained, rows: Dataset) -> Set[RecordId]:
    """Return the ids with those of new records; one that the model knows already is an error."""
    check_same_table(trained, rows)
    taken = rows.id_set & trained.kept
    if taken:
        raise DataError(
            f"{len(taken)} of {len(rows)} new records have ids that are taken, first {min(taken)!r}: every record "
            "needs its own"
        )
    return trained.kept | rows.id_set


def check_history(claim: Guarantee, released: Released) -> None:
    """Refuse a claim without a history: everybody would seem to be new, and be told that nothing of them remains."""
    if released.empty and not isinstance(claim, Exact):
        raise ParameterError(
            f"a claim of {claim.notion} needs the records behind it, got none: "
            "pass Released.of(data) with the records that were released"
        )


def check_same_table(trained: Trained, data: Dataset) -> None:
    """Refuse records under another schema: their codes would mean something else."""
    if (data.schema.features, data.schema.label) != (trained.schema.features, trained.schema.label):
        raise DataError(
            "these records come under another schema than the model's: load them with the one it was trained with"
        )


def check_start(data: Dataset, rng: Randomness) -> None:
    """Refuse an empty table, or randomness that cannot say whether it was seeded."""
    if not isinstance(rng, Randomness):
        raise ParameterError(f"expected Secret(), or Seeded(7) for an experiment, got {rng!r}")
    require_dataset(data, "training")
    if not len(data):
        raise NothingRetained("no record is left to train on: keep at least one, or retire the model")
