"""What it means to forget some rows: which records go, what is claimed for whom, and what can be measured about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
from eupg.manage.storage.state import AnsweredAlike, WorkspaceState
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
    """The rows to erase: the subject index before the erasure, the requests, and the rows of all of them.

    ``which`` says for each row, by position, which request it is of; a row may be of several.
    """

    index: SubjectIndex
    requests: tuple[str, ...]
    rows: Numbers
    which: Numbers

    @classmethod
    def of(cls, index: SubjectIndex, requests: Sequence[Request]) -> Erasure:
        """Find the rows that requests are about.

        Rows that are gone already are not counted again, unless all are. In that case another request, answered
        meanwhile, has erased them, and this one is answered with what became of them.
        """
        rows, which = index.rows_asked_for(requests)
        gone = index.gone_at(rows)
        some_left = np.bincount(which[~gone], minlength=len(requests)) > 0
        counted = ~gone | ~some_left[which]
        return cls(index, tuple(request.id for request in requests), rows[counted], which[counted])

    @cached_property
    def gone(self) -> Numbers:
        """All rows that are erased now, in order."""
        return np.unique(self.rows[self._now])

    @cached_property
    def _now(self) -> Rows:
        """Which of the rows are erased now; another request has erased the others."""
        return ~self.index.gone_at(self.rows)

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
    ) -> tuple[AnsweredAlike, ...]:
        """Return what is claimed for each request, and what was counted about its own records.

        Requests for which all of that is the same are answered together.
        """
        apart, of_method = assumes_requests_apart(method), tuple(getattr(method, "caveats", ()))
        # The base model's claim says so too, unless an earlier version made it.
        nameless = schema.subject is None and self.index.nameless
        claims = [guarantee_from_json(release.claim) for release in state.releases]
        left = self.index.left_behind(
            self.gone, self.rows, self.which, len(self.requests), grouped=[r.k is not None for r in state.releases]
        )
        counts, batch, compared = self._counts(), self._together(), self._compared(twins)
        pairs = zip(left.mates, left.released, strict=True)
        mates = [None if each is None else _MatesOfRequests.of(each, numbers) for each, numbers in pairs]
        figures = [*counts.values(), batch, *compared.values(), *left.released, left.others, left.stays, left.seen]
        figures += [column for each in mates if each is not None for column in (each.minimum, each.median, each.alone)]
        known: dict[Involvement, Json] = {}
        answers = []
        for members in _alike(figures, len(self.requests)):
            i = int(members[0])
            person = Involvement(
                released=tuple(left.released[:, i].tolist()),
                others=0 if nameless else int(left.others[i]),
                stays=bool(left.stays[i]),
                # A model shows nothing of people whom no model ever saw.
                seen_raw=apart and bool(left.seen[i]),
            )
            if person not in known:
                claim = claim_for_person(person, claims, caveats=schema.caveats, of_method=of_method)
                known[person] = (claim.narrowed(NO_PERSON) if nameless else claim).to_json()
            details: dict[str, Json] = {name: int(column[i]) for name, column in counts.items()}
            details["claim"] = known[person]
            for release, each, took_part in zip(state.releases, mates, person.released, strict=True):
                if release.k is not None and each is not None and took_part:
                    # There is one such release: after a second nothing would be claimed, so none is made.
                    effective = EffectiveK(int(each.minimum[i]), float(each.median[i]), float(each.alone[i]))
                    shown = {"minimum": effective.minimum, "median": effective.median, "alone": effective.alone}
                    details["effective_k"] = {**shown, "k": release.k, "words": _in_words(effective)}
            if batch[i]:
                details["together"] = int(batch[i])
            if twins is not None and compared["forgotten"][i]:
                details["duplicates"] = twins.to_json() | {name: int(column[i]) for name, column in compared.items()}
            answers.append(AnsweredAlike(tuple(self.requests[j] for j in members.tolist()), details))
        return tuple(answers)

    def _counts(self) -> dict[str, NDArray[np.int64]]:
        """Count, for each request, its rows: all, those held out, and those that models were fitted on."""
        index = self.index
        flags = {"held_out": index.held_out_at, "exposed": index.exposed_at, "seen": index.seen_at}
        return {"records": self._count()} | {name: self._count(flag(self.rows)) for name, flag in flags.items()}

    def _count(self, chosen: Rows | None = None) -> NDArray[np.int64]:
        """Count, for each request, its rows, or those of them that are chosen."""
        return np.bincount(self.which if chosen is None else self.which[chosen], minlength=len(self.requests))

    def _together(self) -> NDArray[np.int64]:
        """Return, for each request, how many people are erased with it; 0 where another request has erased its rows.

        A comparison of the models before and after shows the difference of all whom the earlier one had seen.
        """
        exposed = self.gone[self.index.exposed_at(self.gone)]
        people, exposed_people = self.index.count_people(self.gone), self.index.count_people(exposed)
        among_exposed = self._count(self._now & self.index.exposed_at(self.rows)) > 0
        return np.where(self._count(self._now) > 0, np.where(among_exposed, exposed_people, people), 0)

    def _compared(self, twins: DuplicateReport | None) -> dict[str, NDArray[np.int64]]:
        """Count, for each request, those of its rows in training that are erased now and have a twin of each kind."""
        if twins is None:
            return {}
        mine = np.flatnonzero(self._now & ~self.index.held_out_at(self.rows))
        # The place of each row among the rows that were in training and are erased.
        place, which = np.searchsorted(self.in_training, self.rows[mine]), self.which[mine]
        flags = {"forgotten": np.ones(len(self.in_training), dtype=bool), **twins.flags}
        return {name: np.bincount(which[flag[place]], minlength=len(self.requests)) for name, flag in flags.items()}


@dataclass(frozen=True, eq=False)
class _MatesOfRequests:
    """For each request, among how many forgotten people its records hide: the least, the median, and how many alone."""

    minimum: NDArray[np.int64]
    median: NDArray[np.float64]
    alone: NDArray[np.float64]

    @classmethod
    def of(cls, mates: NDArray[np.int64], numbers: NDArray[np.int64]) -> _MatesOfRequests:
        """Summarise the figures of all requests, which have these numbers of them; 0 where one has none."""
        which = np.repeat(np.arange(len(numbers)), numbers)
        ordered = np.append(mates[np.lexsort((mates, which))], 0)
        first = np.cumsum(numbers) - numbers
        none, last = numbers == 0, np.maximum(numbers, 1) - 1
        minimum = np.where(none, 0, ordered[first])
        median = np.where(none, 0.0, (ordered[first + last // 2] + ordered[first + (last + 1) // 2]) / 2)
        alone = np.bincount(which[mates == 1], minlength=len(numbers)) / np.maximum(numbers, 1)
        return cls(minimum, median, alone)


def _alike(columns: Sequence[NDArray[Any]], number: int) -> list[Numbers]:
    """Return the places at which all columns have the same values, in the order of the first of each."""
    codes = np.zeros(number, np.int64)
    for column in columns:
        if number and (column != column[0]).any():
            values, code = np.unique(column, return_inverse=True)
            codes = np.unique(codes * len(values) + code, return_inverse=True)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    places = np.argsort(rank[codes], kind="stable")
    return np.split(places, np.cumsum(np.bincount(codes, minlength=len(order))[order])[:-1]) if number else []


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

    def _of_row(self, row: int, hashed: np.uint32) -> list[tuple[Matrix, NDArray[np.int64]]]:
        """Return, from as few files as possible, a twin of each kind that this row has."""
        label, equal, near = self.forgotten.y[row], {}, {}
        for file, sketch in self.sketches.items():
            rows = self._near(row, sketch)
            if not len(rows):
                continue
            near[file] = rows
            # Equal values have equal codes.
            same = rows[sketch.hashes[rows] == hashed]
            if len(same):
                equal[file] = same[np.argsort(sketch.labels[same] != label, kind="stable")]
        labelled = {f: rows for f, rows in equal.items() if self.sketches[f].labels[rows[0]] == label}
        parts = []
        # Equal hashes of similar rows are equal rows but for a few in 10^9, so the first file nearly always decides.
        for file, rows in {**labelled, **equal}.items():
            X, y = self.files.records_in(file, rows)
            parts.append((X, y))
            twins, mine = near_duplicates_among(self._one(row), X, y, retained=1, spread=self.spread), file in labelled
            if twins.identical and (twins.same_label or not mine):
                return parts
        for file, rows in near.items():
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
