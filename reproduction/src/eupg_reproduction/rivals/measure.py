"""One cell of the comparison: one method on one table, once; utility, cost of erasures, attacks, claim and memory.

A cell trains, erases ten people one after another, then the rest of a twentieth of all people at once. Processor
seconds count the erasure itself: removing the records from the table is the same for everyone and is left out. The
membership attack (RMIA) has reference models trained by the same method on random halves of the people, so that
nobody's records are divided. The attack on two versions compares the models before and after each erasure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from eupg.audit.membership.audit import audit
from eupg.audit.membership.references import References
from eupg.audit.membership.rmia import RMIA
from eupg.audit.versions import VersionsReport, compare_versions
from eupg.data.dataset import Dataset
from eupg.data.sources import Source
from eupg.forget.durable import forget_rows
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained, Unlearner
from eupg.learn.learner import Model
from eupg.rng import Randomness, Seeded
from eupg_reproduction.cell_figures import audited, repetition, utility
from eupg_reproduction.people.tables import load
from eupg_reproduction.rivals.methods import Settings, rival
from eupg_reproduction.version import code_version, peak_memory_mb

ONE_BY_ONE, SHARE, REFERENCES = 10, 0.05, 4
# Enough people for the attacks; the first of the test people in a random order.
MOST_ATTACKED = 20_000
_WARM_UP = 2_000
T = TypeVar("T")


def choose(table: str, method: str) -> dict[str, Any]:
    """Try every setting on a held-out fifth of the training people; return the tries and the best."""
    source, mine, tries = load(table), rival(method), list[dict[str, Any]]()
    people = np.unique(source.train.subjects)
    held_out = source.train.where_subjects(np.random.default_rng(0).permutation(people)[: len(people) // 5])
    seen, judged = source.train.select(~held_out), source.train.select(held_out)
    for settings in mine.choices:
        started = time.process_time()
        model = mine.make(**settings).train(seen, Seeded(0)).model
        score = source.utility(model.predict_proba(judged.X), judged.y)
        tries.append({"settings": dict(settings), "utility": score, "cpu_s": time.process_time() - started})
    best = max(tries, key=lambda one: one["utility"])
    return {"chosen": best["settings"], "tries": tries, "version": code_version()}


def measure(table: str, method: str, number: int, settings: Settings) -> dict[str, Any]:
    """Measure one cell."""
    source, unlearner, rng = load(table), rival(method).make(**settings), repetition(number)
    _warm_up(unlearner, source.train)
    train_s, before = _spent(lambda: unlearner.train(source.train, rng))
    people = np.unique(source.train.subjects)
    asked = rng.stage("requests").generator().permutation(people)[: max(ONE_BY_ONE + 1, round(SHARE * len(people)))]
    leaving = source.train.of_subjects(asked)
    # A short list for all: the claim of whoever has the most records among those who leave.
    names, counts = np.unique(leaving.subjects, return_counts=True)
    claim = before.claim_for(leaving.of_subjects([names[np.argmax(counts)]]))
    figures: dict[str, Any] = {"train_s": train_s, "storage": _storage(before)}
    after, one_s, singles = _one_by_one(unlearner, before, source.train, asked[:ONE_BY_ONE].tolist(), rng)
    rest, kept = _parted(source.train, asked[ONE_BY_ONE:].tolist(), gone=asked[:ONE_BY_ONE].tolist())
    many_s, last = _spent(lambda: forget_rows(unlearner, after, rest, kept, rng.stage("last erasure")))
    figures |= {"one_s": one_s, "many_s": many_s, "many_people": len(asked) - ONE_BY_ONE, "peak_mb": peak_memory_mb()}
    both = compare_versions(before.model, last.model, leaving, kept)
    figures |= {
        "before": _attacked(source, before.model),
        "after": _attacked(source, last.model),
        "versions_one": VersionsReport.over(singles).to_json(),
        "versions_many": both.to_json(),
        "claim": {"label": claim.label, "notion": claim.notion, **_budget(claim), "most_records": int(counts.max())},
        "claim_after": {"label": last.claim.label, "notion": last.claim.notion, **_budget(last.claim)},
        "records": len(source.train),
        "people": len(people),
        "forgotten": len(leaving),
        "settings": dict(settings),
        "version": code_version(),
    }
    references = _references(unlearner, source, Seeded(11))
    outsiders = _some_people(source.test)
    attack: RMIA | None = None
    for name, model in (("before", before.model), ("after", last.model)):
        report = audit(model, leaving, outsiders, references=references, attack=attack)
        attack = attack or RMIA(a=float(report.parameters["a"]))
        figures[name]["rmia"] = audited(report)
    return figures


def _one_by_one(
    unlearner: Unlearner, trained: Trained, data: Dataset, people: list[str], rng: Randomness
) -> tuple[Trained, list[float], list[VersionsReport]]:
    seconds, reports, gone = list[float](), list[VersionsReport](), list[str]()
    for number, person in enumerate(people):
        rows, kept = _parted(data, [person], gone=gone)
        earlier = trained
        # Each erasure has randomness of its own, as in a workspace: two versions with the same noise would tell more.
        work = partial(forget_rows, unlearner, earlier, rows, kept, rng.stage(f"erasure {number}"))
        spent, trained = _spent(work)
        reports.append(compare_versions(earlier.model, trained.model, rows, kept))
        seconds.append(spent)
        gone.append(person)
    return trained, seconds, reports


def _parted(data: Dataset, leaving: list[str], *, gone: list[str]) -> tuple[Dataset, Dataset]:
    """Return the records of people who leave now, and those of everyone who then stays."""
    out = data.where_subjects(leaving)
    return data.select(out), data.select(~(out | data.where_subjects(gone)) if gone else ~out)


def _references(unlearner: Unlearner, source: Source, rng: Randomness) -> References:
    """Train the reference models on halves of the people, a half and its complement in turn."""
    pool = source.train.plus(source.test)
    groups = [np.unique(part.subjects) for part in (source.train, source.test)]
    draws, inside, answers = rng.stage("halves").generator(), [], []
    for _ in range(REFERENCES // 2):
        half = np.concatenate([draws.permutation(names)[: len(names) // 2] for names in groups])
        drawn = pool.where_subjects(half.tolist())
        inside += [drawn, ~drawn]
    for i, seen in enumerate(inside):
        model = unlearner.train(pool.select(seen), rng.stage(f"reference {i}")).model
        answers.append(model.predict_proba(pool.X))
    return References(pool, np.stack(inside), np.stack(answers).astype(np.float64))


def _some_people(data: Dataset) -> Dataset:
    """Return all records, or those of some people where there are many."""
    people = np.unique(data.subjects)
    share = MOST_ATTACKED / len(data)
    if share >= 1:
        return data
    return data.of_subjects(np.random.default_rng(0).permutation(people)[: round(share * len(people))])


def _attacked(source: Source, model: Model) -> dict[str, Any]:
    return {"utility": utility(source, model)}


def _warm_up(unlearner: Unlearner, data: Dataset) -> None:
    """Train and forget once on few records, so that no compilation or import is measured."""
    few = data.select(np.arange(len(data)) < _WARM_UP)
    people = np.unique(few.subjects)
    trained = unlearner.train(few, Seeded(3))
    rows, kept = _parted(few, people[:1].tolist(), gone=[])
    trained.claim_for(rows)
    forget_rows(unlearner, trained, rows, kept, Seeded(3)).model.predict_proba(few.X)


def _storage(trained: Trained) -> dict[str, int]:
    size = storage(trained)
    return {"files": size.files, "bytes": size.size_bytes, "models": size.models_a_prediction}


def _budget(claim: object) -> dict[str, Any]:
    values = {name: getattr(claim, name, None) for name in ("epsilon", "delta", "k", "unit")}
    return {name: str(value) if name == "unit" else value for name, value in values.items() if value is not None}


def _spent(work: Callable[[], T]) -> tuple[float, T]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result
