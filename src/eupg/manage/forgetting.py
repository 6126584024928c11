"""What forgetting some rows means: which records go, what is claimed for whom, and what can be measured about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from eupg.audit.duplicates import DuplicateReport, near_duplicates
from eupg.audit.loss import LossAttack
from eupg.audit.membership import audit
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import WorkspaceDamaged
from eupg.guarantees import Guarantee, Involvement, claim_for_person, guarantee_from_json
from eupg.guarantees.wording import NO_PERSON
from eupg.learn.learner import Model
from eupg.manage.current import Answered, Current, Release
from eupg.manage.events import Json
from eupg.manage.request_states import Request
from eupg.manage.roll import Roll, Standing
from eupg.protect.kanonymity import EffectiveK

# Fewer held-out people than this say nothing about chance.
_ENOUGH_HELD_OUT = 20
# What an attack finds about one record is that record's rank: it would tell its label, and outlive the erasure.
FEWEST_AUDITED = 20
# More than this make the interval hardly narrower where few people are forgotten: every second, third… is asked.
_MANY_HELD_OUT = 2_000


@dataclass(frozen=True, eq=False)
class Erasure:
    """The rows that go, request by request.

    Parameters
    ----------
    roll
        The roll before.
    rows
        For each request, the numbers of its rows.
    """

    roll: Roll
    rows: Mapping[str, NDArray[np.intp]]

    @classmethod
    def of(cls, roll: Roll, requests: Sequence[Request]) -> Erasure:
        """Find the rows that requests are about.

        Those that are gone already are not counted again, unless all are: another request, answered meanwhile, took
        them along, and this one is answered with what became of them.
        """
        found = {}
        for request, rows in roll.asked_for(requests):
            left = rows[~roll.gone[rows]]
            found[request.id] = left if len(left) else rows
        return cls(roll, found)

    @property
    def gone(self) -> NDArray[np.bool_]:
        """All rows that go now."""
        mask = np.zeros(len(self.roll.gone), dtype=bool)
        mask[np.concatenate([np.empty(0, np.intp), *self.rows.values()])] = True
        return mask & ~self.roll.gone

    def part(self, data: Dataset, *, held_out: bool) -> NDArray[np.bool_]:
        """Return which of the records that are left now are to go."""
        chosen = self.roll.part(self.gone, held_out=held_out)
        if len(chosen) != len(data):
            raise WorkspaceDamaged(
                f"the roll knows {len(chosen)} records and the files hold {len(data)}: restore both from one backup"
            )
        return chosen

    def answers(
        self, current: Current, schema: Schema, twins: DuplicateReport | None, *, of_method: tuple[str, ...] = ()
    ) -> tuple[Answered, ...]:
        """Say for each request what is claimed, and what was counted about its own records.

        ``of_method`` are caveats that narrow every claim.
        """
        standing, run = self.roll.standing(self.gone), _Run.of(self.roll, self.gone, twins)
        # The base model's claim says so too, unless an earlier version made it.
        nameless = schema.subject is None and self.roll.nameless
        claims = [guarantee_from_json(release.claim) for release in current.releases]
        found = []
        for name, rows in self.rows.items():
            behind = [standing.left_behind(rows, i) for i in range(len(claims))]
            person = self._involvement(rows, behind, standing, nameless=nameless)
            claim = claim_for_person(person, claims, caveats=schema.caveats, of_method=of_method)
            claim = claim.narrowed(NO_PERSON) if nameless else claim
            details = self._details(rows, behind, standing, current.releases, claim)
            found.append(Answered(name, details | run.about(rows)))
        return tuple(found)

    def _involvement(
        self, rows: NDArray[np.intp], behind: Sequence[NDArray[np.intp]], standing: Standing, *, nameless: bool
    ) -> Involvement:
        """Return how the people whom these rows belong to took part, with the rows behind each release."""
        return Involvement(
            released=tuple(len(b) for b in behind),
            others=0 if nameless else standing.others(rows),
            stays=standing.stays(rows),
            # Whom no model ever saw, no model can have shown.
            seen_raw=bool(self.roll.seen[standing.of_the_same(rows)].any()),
        )

    def _details(
        self,
        rows: NDArray[np.intp],
        behind: Sequence[NDArray[np.intp]],
        standing: Standing,
        releases: Sequence[Release],
        claim: Guarantee,
    ) -> dict[str, Json]:
        details: dict[str, Json] = {
            "records": len(rows),
            "held_out": int(self.roll.held_out[rows].sum()),
            "exposed": int(self.roll.exposed[rows].sum()),
            "seen": int(self.roll.seen[rows].sum()),
            "claim": claim.to_json(),
        }
        for i, release in enumerate(releases):
            found = standing.hides_among(behind[i], i) if release.k is not None else None
            if found is not None:
                # There is one such release: after a second nothing would be claimed, so none is made.
                details["effective_k"] = asdict(found) | {"k": release.k, "words": _hidden(found)}
        return details


@dataclass(frozen=True, eq=False)
class _Run:
    """What one run of forgetting knows about all of its requests together, to tell each about its own.

    Parameters
    ----------
    roll
        The roll before.
    gone
        The rows that go.
    twins
        What was found about those of them that were in training; None where nothing was compared.
    place
        Where a row stands among those.
    people, seen_raw
        How many people the rows belong to, and how many of these the model that is replaced was fitted on.
    """

    roll: Roll
    gone: NDArray[np.bool_]
    twins: DuplicateReport | None
    place: NDArray[np.intp]
    people: int
    seen_raw: int

    @classmethod
    def of(cls, roll: Roll, gone: NDArray[np.bool_], twins: DuplicateReport | None) -> _Run:
        place = np.cumsum(gone & ~roll.held_out) - 1
        return cls(roll, gone, twins, place, roll.count_people(gone), roll.count_people(gone & roll.exposed))

    def about(self, rows: NDArray[np.intp]) -> dict[str, Json]:
        """Return what is noted about some rows: their own twins, and how many people were forgotten with them."""
        rows = rows[self.gone[rows]]
        if not len(rows):
            # Another request had taken them along.
            return {}
        # Whoever compares the models before and after sees the difference of all whom the earlier one had seen.
        noted: dict[str, Json] = {"together": self.seen_raw if self.roll.exposed[rows].any() else self.people}
        mine = rows[~self.roll.held_out[rows]]
        if self.twins is not None and len(mine):
            noted["duplicates"] = self.twins.of(self.place[mine]).to_json()
        return noted


def _hidden(found: EffectiveK) -> str:
    """Say among how many people the erased records of one person, or one record, hide."""
    if found.alone == 1:
        return str(found)
    return (
        "against someone who knows all retained records, each of these erased records hides among the "
        f"forgotten people of its group: {found.median:g} (median; minimum {found.minimum}), and "
        f"{found.alone:.0%} of the records stand alone"
    )


def enough_to_audit(forgotten: Dataset) -> bool:
    """Tell whether so many people were forgotten that a figure about them all is about none of them."""
    return len(np.unique(forgotten.subjects)) >= FEWEST_AUDITED


def twins_of(forgotten: Dataset, retained: Dataset) -> DuplicateReport | None:
    """Look for twins while the forgotten records are still in memory; None where there is nothing to compare."""
    return near_duplicates(forgotten, retained) if len(forgotten) and len(retained) else None


def measured(
    after: Model, base: Model, forgotten: Dataset, held: Dataset, twins: DuplicateReport | None
) -> dict[str, Json]:
    """Measure about the whole run what can be measured at once: twins, and one attack, or why there was none."""
    found: dict[str, Json] = {}
    if twins is not None:
        found["duplicates"] = {"report": twins.to_json(), "words": twins.sentence()}
    if not enough_to_audit(forgotten):
        found["no_audit"] = f"a figure about fewer than {FEWEST_AUDITED} people would be about each of them"
    elif len(held) < _ENOUGH_HELD_OUT:
        found["no_audit"] = f"the attack needs at least {_ENOUGH_HELD_OUT} held-out records, and there are {len(held)}"
    else:
        held = held.select(np.arange(len(held)) % -(-len(held) // _MANY_HELD_OUT) == 0)
        report = audit(
            after,
            forgotten,
            held,
            attack=LossAttack(),
            baseline=base,
            baseline_name="the base model",
            name="the model after forgetting",
        )
        found["audits"] = [{"report": report.to_json(), "words": report.sentence()}]
    return found
