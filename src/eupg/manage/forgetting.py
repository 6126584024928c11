"""What it means to forget some rows: which records go, what is claimed for whom, and what can be measured about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from eupg.audit.duplicates import TOLERANCE, DuplicateReport, near_duplicates, near_duplicates_among
from eupg.audit.membership.audit import audit
from eupg.audit.membership.loss import LossAttack
from eupg.data.attribute import Categorical
from eupg.data.dataset import Dataset, Matrix
from eupg.data.schema import Schema
from eupg.errors import WorkspaceDamaged
from eupg.forget.durable import assumes_requests_apart
from eupg.guarantees import Involvement, claim_for_person, guarantee_from_json
from eupg.guarantees.wording import NO_PERSON
from eupg.learn.learner import Model
from eupg.manage.ledger.events import Json
from eupg.manage.requests.states import Request
from eupg.manage.storage.records import RecordFiles
from eupg.manage.storage.sketches import ColumnMoments, Sketch, code_ranges, hashes
from eupg.manage.storage.state import Answered, WorkspaceState
from eupg.manage.storage.subjects import Numbers, Rows, SubjectIndex
from eupg.protect.kanonymity import EffectiveK

# Fewer held-out people than this say nothing about chance.
_ENOUGH_HELD_OUT = 20
# The result of an attack on one record is that record's rank: it would reveal its label, and outlive the erasure.
FEWEST_AUDITED = 20
# More than this hardly narrow the interval where few people are forgotten: every second, third… is used.
_MANY_HELD_OUT = 2_000


@dataclass(frozen=True, eq=False)
class Erasure:
    """The rows to erase: the subject index before the erasure, and for each request the numbers of its rows."""

    index: SubjectIndex
    rows: Mapping[str, Numbers]

    @classmethod
    def of(cls, index: SubjectIndex, requests: Sequence[Request]) -> Erasure:
        """Find the rows that requests are about.

        Rows that are gone already are not counted again, unless all are. In that case another request, answered
        meanwhile, has erased them, and this one is answered with what became of them.
        """
        asked = index.asked_for(requests)
        flat = _joined(rows for _, rows in asked)
        ends = np.cumsum([len(rows) for _, rows in asked]) if asked else np.empty(0, np.intp)
        gone = np.split(index.gone_at(flat), ends[:-1])
        each = {}
        for (request, rows), left in zip(asked, gone, strict=False):
            each[request.id] = rows if left.all() else rows[~left]
        return cls(index, each)

    @cached_property
    def gone(self) -> Numbers:
        """All rows that are erased now, in order."""
        rows = np.unique(_joined(self.rows.values()))
        return rows[~self.index.gone_at(rows)]

    @cached_property
    def in_training(self) -> Numbers:
        """The rows that are erased from training now, in order."""
        return self.gone[~self.index.held_out_at(self.gone)]

    @cached_property
    def held_out(self) -> Numbers:
        """The rows that are erased now of those held out, in order."""
        return self.gone[self.index.held_out_at(self.gone)]

    @property
    def touches_model(self) -> bool:
        """Whether the served model was fitted on one of the rows."""
        return bool(self.index.exposed_at(self.in_training).any())

    def part(self, data: Dataset, *, held_out: bool) -> Rows:
        """Return which of the records that are left now are erased."""
        mask = np.zeros(len(self.index), dtype=bool)
        mask[self.gone] = True
        chosen = self.index.part(mask, held_out=held_out)
        if len(chosen) != len(data):
            raise WorkspaceDamaged(
                f"the index of people lists {len(chosen)} records and the files hold {len(data)}: restore both from "
                "one backup"
            )
        return chosen

    def answers(
        self, state: WorkspaceState, schema: Schema, twins: DuplicateReport | None, *, method: object
    ) -> tuple[Answered, ...]:
        """Return for each request what is claimed, and what was counted about its own records."""
        apart, of_method = assumes_requests_apart(method), tuple(getattr(method, "caveats", ()))
        # The base model's claim says so too, unless an earlier version made it.
        nameless = schema.subject is None and self.index.nameless
        claims = [guarantee_from_json(release.claim) for release in state.releases]
        grouped = [release.k is not None for release in state.releases]
        known: dict[Involvement, Json] = {}
        answers = []
        left_behind = self.index.left_behind(self.gone, list(self.rows.values()), grouped=grouped)
        for (name, own), left in zip(self._own(twins).items(), left_behind, strict=True):
            person = Involvement(
                released=left.released,
                others=0 if nameless else left.others,
                stays=left.stays,
                # A model shows nothing of people whom no model ever saw.
                seen_raw=apart and left.seen,
            )
            if person not in known:
                claim = claim_for_person(person, claims, caveats=schema.caveats, of_method=of_method)
                known[person] = (claim.narrowed(NO_PERSON) if nameless else claim).to_json()
            details: dict[str, Json] = {**own.counts, "claim": known[person]}
            for release, mates in zip(state.releases, left.mates, strict=True):
                if release.k is not None and mates:
                    # There is one such release: after a second nothing would be claimed, so none is made.
                    effective = EffectiveK(min(mates), float(median(mates)), mates.count(1) / len(mates))
                    figures = {"minimum": effective.minimum, "median": effective.median, "alone": effective.alone}
                    details["effective_k"] = {**figures, "k": release.k, "words": _in_words(effective)}
            answers.append(Answered(name, details | own.batch))
        return tuple(answers)

    def _own(self, twins: DuplicateReport | None) -> dict[str, _Own]:
        """Return for each request what was counted about its own rows, and about the people erased with them."""
        flat = _joined(self.rows.values())
        held_out, exposed, seen = (
            f(flat).tolist() for f in (self.index.held_out_at, self.index.exposed_at, self.index.seen_at)
        )
        going = np.isin(flat, self.gone).tolist()
        # The place of each row among the rows that were in training and are erased.
        place = np.searchsorted(self.in_training, flat).tolist()
        people, exposed_people = self._people
        own, parts, start = dict[str, _Own](), dict[str, list[int]](), 0
        for name, rows in self.rows.items():
            mine = range(start, start + len(rows))
            start += len(rows)
            counts: dict[str, Json] = {
                "records": len(rows),
                "held_out": sum(held_out[i] for i in mine),
                "exposed": sum(exposed[i] for i in mine),
                "seen": sum(seen[i] for i in mine),
            }
            batch: dict[str, Json] = {}
            now = [i for i in mine if going[i]]
            # Otherwise another request has erased them.
            if now:
                # A comparison of the models before and after shows the difference of all whom the earlier one had seen.
                batch["together"] = exposed_people if any(exposed[i] for i in now) else people
                parts[name] = [place[i] for i in now if not held_out[i]]
            own[name] = _Own(counts, batch)
        compared = {} if twins is None else {name: rows for name, rows in parts.items() if rows}
        if twins is not None:
            for name, counted in zip(compared, twins.of_each(list(compared.values())), strict=True):
                own[name].batch["duplicates"] = counted
        return own

    @cached_property
    def _people(self) -> tuple[int, int]:
        """How many people are forgotten, and on how many of them the model that is replaced was fitted."""
        exposed = self.gone[self.index.exposed_at(self.gone)]
        return self.index.count_people(self.gone), self.index.count_people(exposed)


@dataclass(frozen=True)
class _Own:
    """What was counted about the rows of one request."""

    counts: dict[str, Json]
    batch: dict[str, Json]


def _joined(rows: Iterable[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.intp), *rows])


def _in_words(effective: EffectiveK) -> str:
    """Say among how many people the erased records of one person, or one record, hide."""
    if effective.alone == 1:
        return str(effective)
    return (
        "against someone who knows all retained records, each of these erased records hides among the "
        f"forgotten people of its group: {effective.median:g} (median; minimum {effective.minimum}), and "
        f"{effective.alone:.0%} of the records stand alone"
    )


def enough_to_audit(forgotten: Dataset) -> bool:
    """Return whether so many people were forgotten that a figure about all of them is not about any one of them."""
    return len(np.unique(forgotten.subjects)) >= FEWEST_AUDITED


def twins_among(forgotten: Dataset, sketches: Mapping[str, Sketch], files: RecordFiles) -> DuplicateReport | None:
    """Look for twins of a few records by sketches of the files of all retained ones; few of the files are read."""
    retained = sum(len(sketch.rows) for sketch in sketches.values())
    if not len(forgotten) or not retained:
        return None
    spread = ColumnMoments.together(sketch.moments for sketch in sketches.values()).spread
    search = _TwinSearch(forgotten, sketches, files, spread)
    X, y = search.candidates()
    return near_duplicates_among(forgotten, X, y, retained=retained, spread=spread)


@dataclass(frozen=True, eq=False)
class _TwinSearch:
    """Finds retained records that decide which twins a few forgotten records have."""

    forgotten: Dataset
    sketches: Mapping[str, Sketch]
    files: RecordFiles
    spread: NDArray[np.float64]

    def candidates(self) -> tuple[Matrix, NDArray[np.int64]]:
        """Return the features and labels of records among which every kind of twin is that there is."""
        hashed = hashes(np.asarray(self.forgotten.X))
        parts = [self._of_row(i, hashed[i]) for i in range(len(self.forgotten))]
        found = [part for of_row in parts for part in of_row]
        if not found:
            return np.empty((0, self.forgotten.X.shape[1])), np.empty(0, np.int64)
        return np.concatenate([X for X, _ in found]), np.concatenate([y for _, y in found])

    def _of_row(self, row: int, hashed: np.uint64) -> list[tuple[Matrix, NDArray[np.int64]]]:
        """Return, from as few files as possible, a twin of each kind that this row has."""
        label, equal = self.forgotten.y[row], {}
        for file, sketch in self.sketches.items():
            same = np.flatnonzero(sketch.hashes == hashed)
            if len(same):
                equal[file] = same[np.argsort(sketch.labels[same] != label, kind="stable")]
        labelled = {f: rows for f, rows in equal.items() if self.sketches[f].labels[rows[0]] == label}
        parts = []
        # Equal hashes are equal rows but for one case in 10^19, so the first file nearly always decides.
        for file, rows in {**labelled, **equal}.items():
            X, y = self.files.records_in(file, rows)
            parts.append((X, y))
            twins, mine = near_duplicates_among(self._one(row), X, y, retained=1, spread=self.spread), file in labelled
            if twins.identical and (twins.same_label or not mine):
                return parts
        for file, sketch in self.sketches.items():
            rows = self._near(row, sketch)
            if len(rows):
                X, y = self.files.records_in(file, rows)
                parts.append((X, y))
                if near_duplicates_among(self._one(row), X, y, retained=1, spread=self.spread).near:
                    break
        return parts

    def _one(self, row: int) -> Dataset:
        return self.forgotten.select(np.arange(len(self.forgotten)) == row)

    def _near(self, row: int, sketch: Sketch) -> NDArray[np.intp]:
        """Return the rows of a file that can be within the tolerance, by their rounded values."""
        rows: NDArray[np.intp] | None = None
        for line in self._order(row):
            low, high = self._ranges[row][line]
            codes = sketch.codes[line] if rows is None else sketch.codes[line][rows]
            inside = codes == low if low == high else (codes >= low) & (codes <= high)
            rows = np.flatnonzero(inside) if rows is None else rows[inside]
            if not len(rows):
                break
        return np.arange(len(sketch.rows)) if rows is None else rows

    @cached_property
    def _ranges(self) -> list[list[tuple[int, int]]]:
        schema = self.forgotten.schema
        categorical = np.array([isinstance(a, Categorical) for a in schema.features])
        reach = np.where(categorical, 0.0, TOLERANCE * self.spread)
        return [code_ranges(schema, row, reach) for row in self.forgotten.X]

    def _order(self, row: int) -> list[int]:
        """Return the columns in the order in which they leave out most rows, judged by the largest file."""
        if row not in self._orders:
            largest = max(self.sketches.values(), key=lambda sketch: len(sketch.rows))
            ranges = self._ranges[row]
            inside = [
                int(((codes >= low) & (codes <= high)).sum())
                for codes, (low, high) in zip(largest.codes, ranges, strict=True)
            ]
            self._orders[row] = sorted(range(len(inside)), key=inside.__getitem__)
        return self._orders[row]

    @cached_property
    def _orders(self) -> dict[int, list[int]]:
        return {}


def twins_of(forgotten: Dataset, retained: Dataset) -> DuplicateReport | None:
    """Look for twins while the forgotten records are still in memory; None where there is nothing to compare."""
    return near_duplicates(forgotten, retained) if len(forgotten) and len(retained) else None


def measured(
    after: Model | None,
    base: Model | None,
    forgotten: Dataset,
    held_out: Dataset | None,
    twins: DuplicateReport | None,
) -> dict[str, Json]:
    """Measure what can be measured at once about the whole run: twins, and one attack, or why there was none.

    Models and the records held out are needed only where :func:`enough_to_audit` says so.
    """
    results: dict[str, Json] = {}
    if twins is not None:
        results["duplicates"] = {"report": twins.to_json(), "words": twins.sentence()}
    if after is None or held_out is None or not enough_to_audit(forgotten):
        results["no_audit"] = f"a figure about fewer than {FEWEST_AUDITED} people would be about each of them"
    elif len(held_out) < _ENOUGH_HELD_OUT:
        results["no_audit"] = (
            f"the attack needs at least {_ENOUGH_HELD_OUT} held-out records, and there are {len(held_out)}"
        )
    else:
        step = -(-len(held_out) // _MANY_HELD_OUT)
        report = audit(
            after,
            forgotten,
            held_out.select(np.arange(len(held_out)) % step == 0),
            attack=LossAttack(),
            baseline=base,
            baseline_name="the base model",
            name="the model after forgetting",
        )
        results["audits"] = [{"report": report.to_json(), "words": report.sentence()}]
    return results
