"""Contract suites: what every mechanism, learner and unlearner must do, both this library's and your own.

Each function runs the implementation on your records and raises :class:`ContractViolation` with a sentence on what is
wrong. Use them to test plug-ins::

    from eupg.checks import check_learner
    check_learner(MyLearner(), data, tmp_path)
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eupg.data.dataset import Dataset, Examples, Matrix
from eupg.data.kind import DataKind
from eupg.errors import DataError, ModelFileError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.durable import Durable, KeptState
from eupg.forget.unlearner import Trained, Unlearner
from eupg.guarantees import Neighbours
from eupg.learn.learner import Learner, Model
from eupg.protect.mechanism import Mechanism
from eupg.protect.release import Release
from eupg.rng import Secret, Seeded


class ContractViolation(AssertionError):
    """An implementation does not keep the contract of its protocol."""


def check_mechanism(mechanism: Mechanism, data: Dataset) -> None:
    """Check claim, shape, shuffling, repeatability and honesty about seeds; ``data`` needs 100 rows, both classes."""
    before = _fingerprint(data)
    claim = mechanism.guarantee(data.schema)
    _require(claim == mechanism.guarantee(data.schema), "the guarantee of a schema must always be the same")
    first, second = (mechanism.protect(data, Seeded(1)) for _ in range(2))
    _require(_fingerprint(data) == before, "protect must leave the records untouched")
    _require(_same(first.X, second.X) and _same(first.y, second.y), "the same seed must give the same release")
    _require(first.guarantee == replace(claim, seeded=True), "a seeded release must carry the claim, marked seeded")
    other = mechanism.protect(data, Seeded(2))
    _require(not (_same(first.X, other.X) and _same(first.y, other.y)), "another seed must give another release")
    real = [mechanism.protect(data, Secret()) for _ in range(2)]
    _require(not _same(real[0].X, real[1].X), "without a seed two releases must differ")
    _require(all(r.guarantee == claim for r in real), "an unseeded release must carry the claim as stated before")
    _check_release(first, data)
    _check_empty(mechanism, data.select(np.zeros(len(data), dtype=bool)))
    one = np.arange(len(data)) < 1
    with contextlib.suppress(DataError):
        _check_release(mechanism.protect(data.select(one), Seeded(1)), None)


def _check_empty(mechanism: Mechanism, empty: Dataset) -> None:
    """Check that a table without rows is refused, unless the refusal would reveal what the claim covers."""
    if getattr(mechanism.guarantee(empty.schema), "neighbours", None) is not Neighbours.ADD_OR_REMOVE:
        _expect_refusal(lambda: mechanism.protect(empty, Seeded(1)), DataError)
        return
    try:
        _check_release(mechanism.protect(empty, Seeded(1)), None)
    except DataError as refusal:
        sentence = "by its claim the mechanism must not reveal whether a table is empty, and it refused an empty table"
        raise ContractViolation(sentence) from refusal


def _check_release(release: Release, data: Dataset | None) -> None:
    _require(not hasattr(release, "ids") and not hasattr(release, "subjects"), "a release must not name anyone")
    _require(not release.schema.identifiers and release.schema.subject is None, "a release's schema must name nobody")
    _require(release.X.dtype == release.schema.dtype, "a release must hold numbers for tables and bytes for pictures")
    for j, attribute in enumerate(release.schema.features if release.schema.kind is DataKind.TABLE else ()):
        values = release.X[~np.isnan(release.X[:, j]), j]
        inside = bool(attribute.fits(values).all())
        _require(inside, f"released values of {attribute.name!r} must lie inside the schema")
    if data is not None and len(release) == len(data):
        _require(not _same(release.y, data.y), "rows must be shuffled: the labels are still in the records' order")


def check_learner(learner: Learner, examples: Examples, folder: Path, *, effort: int = 2) -> None:
    """Check probabilities, repeatability, warm starts and files; ``examples`` needs a few hundred rows."""
    X, y = examples.X.copy(), examples.y.copy()

    def fit(seed: int, start: Model | None = None) -> Model:
        return learner.fit(examples, effort=effort, rng=np.random.default_rng(seed), start=start)

    model = fit(1)
    first = model.predict_proba(X)
    _require(first.shape == (len(X), examples.schema.classes), "there must be one probability per row and class")
    _require(bool(np.allclose(first.sum(axis=1), 1, atol=1e-9)), "probabilities of a row must sum to one")
    _require(bool((first >= 0).all()), "probabilities must not be negative")
    _require(_same(first, fit(1).predict_proba(X)), "the same seed must give the same model")
    _require(model.predict_proba(X[:0]).shape == (0, examples.schema.classes), "no rows must give no predictions")
    _require(_same(X, examples.X) and _same(y, examples.y), "fit must leave the examples untouched")
    _check_file(learner, model, X, folder)
    if learner.warm_starts:
        later = fit(2, start=model)
        further = later.predict_proba(X)
        _require(_same(first, model.predict_proba(X)), "going on from a model must leave that model untouched")
        # A learner may find that going on does not help. It then returns the very model it was given.
        unchanged = later is model
        cold = fit(2).predict_proba(X)
        _require(unchanged or not _same(further, cold), "a warm start must differ from a fit from scratch")
        _require(unchanged or not _same(further, first), "more effort must change the model")
    else:
        _expect_refusal(lambda: fit(2, start=model), ParameterError)
    for wrong in (0, -1, True):
        _expect_refusal(lambda: learner.fit(examples, effort=wrong, rng=np.random.default_rng(1)), ParameterError)  # noqa: B023
    _expect_refusal(
        lambda: learner.fit(_Rows(examples, 0), effort=effort, rng=np.random.default_rng(1)), NothingRetained
    )
    try:
        one = learner.fit(_Rows(examples, 1), effort=effort, rng=np.random.default_rng(1))
        _require(bool(np.isfinite(one.predict_proba(X)).all()), "a model of one row must still predict")
    except DataError:
        pass


def _check_file(learner: Learner, model: Model, X: Matrix, folder: Path) -> None:
    path = folder / "model"
    learner.save(model, path)
    again = learner.load(path).predict_proba(X)
    _require(_same(model.predict_proba(X), again), "a loaded model must predict exactly what the saved one did")
    content = path.read_bytes()
    for damaged in (b"", b"not a model", content[: len(content) // 2]):
        path.write_bytes(damaged)
        _expect_refusal(lambda: learner.load(path), ModelFileError)
    path.write_bytes(b"\x80\x04\x95" + content)
    _expect_refusal(lambda: learner.load(path), ModelFileError)


def check_unlearner(unlearner: Unlearner, data: Dataset) -> None:
    """Check that forgotten records are gone, that requests accumulate, and that odd requests are refused."""
    # Ids that no category or column can be mistaken for.
    data = replace(data, ids=np.char.add("record ", data.ids))
    before, rng = _fingerprint(data), Seeded(1)
    trained = unlearner.train(data, rng)
    a, b = data.ids[:5].tolist(), data.ids[5:12].tolist()
    without_a, without_both = data.without(a), data.without([*a, *b])
    after = unlearner.forget(trained, without_a, rng)
    _require(_fingerprint(data) == before, "training and forgetting must leave the records untouched")
    _require(after.ids <= set(without_a.ids.tolist()), "the new model must be fitted on retained records alone")
    _require(not set(a) & names_reachable_from(after), "no forgotten id may be reachable from the result")
    one_by_one = unlearner.forget(after, without_both, rng).model.predict_proba(data.X)
    at_once = unlearner.forget(trained, without_both, rng).model.predict_proba(data.X)
    depends = bool(getattr(unlearner, "depends_on_history", False))
    same = _same(one_by_one, at_once)
    _require(same != depends, "forgetting A, then B must equal forgetting both, unless depends_on_history is true")
    again = unlearner.forget(unlearner.train(data, rng), without_a, rng)
    same = _same(after.model.predict_proba(data.X), again.model.predict_proba(data.X))
    _require(same, "the same seed must give the same result")
    _require(unlearner.forget(trained, data, rng).model is trained.model, "forgetting nothing must change nothing")
    _expect_refusal(lambda: unlearner.forget(after, data, rng), UnknownRecord)
    _expect_refusal(lambda: after.claim_for(data.select(data.where(a))), UnknownRecord)
    nobody = data.select(np.zeros(len(data), dtype=bool))
    _expect_refusal(lambda: trained.claim_for(nobody), UnknownRecord)
    try:
        empty = unlearner.forget(trained, nobody, rng)
        _require(not empty.ids and not empty.kept and not empty.released.kept, "forgetting everyone must leave no id")
    except NothingRetained:
        pass
    if after.claim.notion == "exact":
        labels = np.where(data.where(a), (data.y + 1) % data.schema.classes, data.y)
        changed = unlearner.forget(unlearner.train(replace(data, y=labels), rng), without_a, rng)
        same = _same(after.model.predict_proba(data.X), changed.model.predict_proba(data.X))
        _require(same, "if the claim is exact, the new model must not depend on the content of the forgotten records")
    if not depends:
        _check_added(unlearner, after, without_a, data)


def check_durable(method: Durable, data: Dataset, folder: Path) -> None:
    """Check that a method goes on from its files as if it had not stopped; ``folder`` must be empty."""
    trained = method.train(data, Seeded(1))
    served, parts = folder / "served", {name: folder / f"part {i}" for i, name in enumerate(method.parts(trained))}
    method.save(trained.model, served)
    for name, part in method.parts(trained).items():
        part.write(parts[name])
    _require(
        _same(method.load(served).predict_proba(data.X), trained.model.predict_proba(data.X)),
        "a loaded model must predict exactly what the saved one did",
    )
    kept = KeptState(data, frozenset(trained.ids), trained.claim, trained.lottery)
    restored = method.restore(served, parts, kept)
    _require(restored.ids == trained.ids, "a restored model must know which records it was fitted on")
    rest = data.without(data.ids[:5].tolist())
    once, again = (method.forget(t, rest, Seeded(1)).model.predict_proba(data.X) for t in (trained, restored))
    _require(_same(once, again), "forgetting from files must give what forgetting in memory does")
    _require(len(method.repair) > 10, "repair must say what forgetting does to the model")
    content = b"".join(path.read_bytes() for path in (served, *parts.values()))
    names = [n for n in (*data.ids.tolist(), *data.subjects.tolist()) if len(n) > 6]
    _require(not any(name.encode() in content for name in names), "files must not name anyone")


def _check_added(unlearner: Unlearner, trained: Trained, known: Dataset, data: Dataset) -> None:
    names = np.array(["new-1", "new-2", "new-3"])
    new = replace(data.select(np.arange(len(data)) < 3), ids=names, subjects=names)
    grown = unlearner.update(trained, known.plus(new), Seeded(1))
    _require(grown.claim_for(new).notion == "exact", "forgetting records added later must be exact")
    shrunk = unlearner.forget(grown, known, Seeded(1))
    same = _same(shrunk.model.predict_proba(data.X), trained.model.predict_proba(data.X))
    _require(same, "adding records and forgetting them again must lead back to the same model")


def names_reachable_from(thing: object) -> set[str]:
    """Return every text that can be reached from an object, through containers, attributes and arrays."""
    seen: set[int] = set()
    texts: set[str] = set()
    pending: list[Any] = [thing]
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, type) or type(item).__name__ in ("module", "function"):
            continue
        seen.add(id(item))
        if isinstance(item, str):
            texts.add(item)
        elif isinstance(item, np.ndarray) and item.dtype.kind in "UO":
            texts.update(map(str, item.ravel().tolist()))
        else:
            pending.extend(_parts(item))
    return texts


def _parts(item: object) -> Iterator[Any]:
    if isinstance(item, dict):
        # The garbage collector skips keys that are text: they cannot be part of a cycle.
        yield from item
    yield from gc.get_referents(item)
    yield from getattr(item, "__dict__", {}).values()


class _Rows:
    """The first rows of some examples."""

    def __init__(self, examples: Examples, rows: int) -> None:
        self.schema, self.X, self.y = examples.schema, examples.X[:rows], examples.y[:rows]


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ContractViolation(sentence)


def _expect_refusal(call: Any, error: type[Exception]) -> None:
    try:
        call()
    except error as refusal:
        _require(len(str(refusal)) > 20, f"{error.__name__} must say what to do, got {str(refusal)!r}")
        return
    raise ContractViolation(f"expected {error.__name__}, nothing was raised")


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _fingerprint(data: Dataset) -> tuple[bytes, ...]:
    return (data.X.tobytes(), data.y.tobytes(), data.ids.tobytes(), data.subjects.tobytes())
