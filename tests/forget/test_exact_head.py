"""The exact head: erasing by subtraction leaves the model of records that never held the person."""

from collections.abc import Set
from typing import Any

import numpy as np
import pytest

from eupg import Dataset, Manager, Seeded
from eupg.checks import check_unlearner, names_reachable_from
from eupg.data.score import accuracy
from eupg.errors import DataError, ModelFileError, NothingRetained, ParameterError
from eupg.forget import ExactHead, ExactTrees
from eupg.forget.durable import KeptState
from eupg.forget.exact_head import SummedHead
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained
from eupg.guarantees import Exact
from eupg.learn.heads.model import HeadModel
from eupg.learn.heads.sums import FeatureSums
from people import people
from pictures import pictures
from traces import traces
from vectors import vectors

RNG = Seeded(3)
HEAD = ExactHead()


def part(data: Dataset, ids: list[str]) -> Dataset:
    return data.select(data.where(ids))


def state(trained: Trained) -> tuple[bytes, FeatureSums, Set[str]]:
    model, memory = trained.model, trained.memory
    assert isinstance(model, HeadModel)
    assert isinstance(memory, SummedHead)
    return model.weights.tobytes(), memory.sums, trained.ids


@pytest.mark.parametrize("classes", [2, 3])
class TestErasing:
    def test_contract_of_unlearners_is_kept(self, classes):
        check_unlearner(HEAD, vectors(120, classes=classes))

    def test_any_sequence_of_erasures_and_additions_equals_never_having_been_there(self, classes):
        data, rng = vectors(60, classes=classes), np.random.default_rng(classes)
        for _ in range(20):
            present = sorted(rng.choice(data.ids, 30, replace=False).tolist())
            trained = HEAD.train(part(data, present), RNG)
            for _ in range(6):
                some = rng.choice(data.ids, rng.integers(1, 5), replace=False).tolist()
                leaving, coming = sorted(set(some) & set(present)), sorted(set(some) - set(present))
                if leaving:
                    trained = HEAD.erase(trained, part(data, leaving))
                    present = sorted(set(present) - set(leaving))
                if coming:
                    trained = HEAD.add(trained, part(data, coming))
                    present = sorted({*present, *coming})
            never_there = HEAD.train(part(data, present), Seeded(99))
            assert state(trained) == state(never_there)

    def test_subtraction_equals_recomputation_with_hundreds_of_features(self, classes):
        data = vectors(700, 300, classes)
        trained = HEAD.train(data, RNG)
        gone = data.ids[10:40].tolist()
        erased = HEAD.erase(trained, part(data, gone))
        assert state(erased) == state(HEAD.forget(trained, data.without(gone), RNG))
        assert state(erased) != state(trained)

    def test_order_of_the_records_makes_no_difference(self, classes):
        data = vectors(5000, classes=classes)
        turned = Dataset(data.schema, *(getattr(data, name)[::-1] for name in ("X", "y", "ids", "subjects")))
        assert state(HEAD.train(data, RNG)) == state(HEAD.train(turned, RNG))

    def test_state_survives_files(self, classes, tmp_path):
        data = vectors(90, classes=classes)
        trained = HEAD.train(data, RNG)
        HEAD.save(trained.model, tmp_path / "model")
        (content,) = HEAD.parts(trained).values()
        content.write(tmp_path / "sums")
        kept = KeptState(data, data.id_set, trained.claim)
        again = HEAD.restore(tmp_path / "model", {"sums": tmp_path / "sums"}, kept)
        gone = part(data, ["r7", "r8"])
        assert state(HEAD.erase(again, gone)) == state(HEAD.erase(trained, gone))
        fewer = KeptState(data.without(["r3"]), data.id_set, trained.claim)
        with pytest.raises(ParameterError, match="expected sums of 89 records and 8 features, got 90 and 8"):
            HEAD.restore(tmp_path / "model", {"sums": tmp_path / "sums"}, fewer)

    def test_it_learns(self, classes):
        train, test = vectors(600, classes=classes), vectors(600, classes=classes, seed=1)
        assert accuracy(HEAD.train(train, RNG).model.predict_proba(test.X), test.y) > 90


def test_sums_are_those_of_python_integers():
    data = vectors(50, 5, 3)
    sums = FeatureSums.of(data.X, data.y, classes=3)
    rows = [[4096, *map(int, row)] for row in data.X]
    for i in range(6):
        for j in range(i, 6):
            assert sums.pairs[0, i, j] == sum(row[i] * row[j] for row in rows)
        for c in range(3):
            assert sums.labels[i, c] == sum(row[i] for row, y in zip(rows, data.y, strict=True) if y == c)


def test_the_longest_vectors_are_added_up_exactly():
    """A million products of 2^24 with an odd one among them: single precision would lose it."""
    X: Any = np.zeros((1_000_000, 2), dtype=np.int16)
    X[:, 0], X[0] = 4096, (4095, 90)
    sums = FeatureSums.of(X, np.zeros(len(X), dtype=np.int64), classes=3)
    assert sums.pairs[0, 1, 1] == 999_999 * 4096**2 + 4095**2
    assert sums.pairs[0, 1, 2] == 4095 * 90


def test_records_that_were_never_there_are_refused_where_that_shows():
    data, other = vectors(30), vectors(30, seed=4)
    sums = FeatureSums.of(data.X, data.y, classes=2)
    with pytest.raises(DataError, match="30 records were to be subtracted that are not all among the 30 added here"):
        sums.minus(FeatureSums.of(other.X, other.y, classes=2))


def test_nobody_left_is_an_error():
    data = vectors(3)
    with pytest.raises(NothingRetained):
        HEAD.erase(HEAD.train(data, RNG), data)


def test_claim_is_exact_and_names_the_encoder():
    data = vectors(60)
    trained = HEAD.train(data, RNG)
    assert isinstance(trained.claim, Exact)
    assert "8 public features of toy (weights abababababababab)" in trained.claim_for(part(data, ["r7"])).sentence()


def test_memory_names_nobody_and_has_a_size():
    trained = HEAD.train(vectors(30), RNG)
    assert not [name for name in names_reachable_from(trained.memory) if name[:1] in ("r", "p") and name[1:].isdigit()]
    assert storage(trained).files == 2


@pytest.mark.parametrize(
    ("method", "data", "said"),
    [
        (HEAD, people(30), "ExactHead works on vectors of public features, and .* tables: use ExactTrees"),
        (HEAD, pictures(30), "this schema describes pictures: use .*encode_records"),
        (ExactTrees(), vectors(30), "works on tables, .* vectors of public features: use ExactHead"),
    ],
)
def test_other_kinds_of_data_are_refused(method, data, said):
    with pytest.raises(DataError, match=said):
        method.train(data, RNG)


def test_damaged_files_are_refused(tmp_path):
    trained = HEAD.train(vectors(30), RNG)
    HEAD.save(trained.model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="has the format"):
        FeatureSums.load(tmp_path / "model")
    content = bytearray((tmp_path / "model").read_bytes())
    content[-3] ^= 1
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        HEAD.load(tmp_path / "model")


def test_manager_erases_by_subtraction_and_no_byte_of_the_features_outlives_it(tmp_path):
    """The features of the forgotten stand in no file of the workspace, and neither do sums over them alone."""
    data, others = vectors(150, 40), vectors(30, 40, seed=5)
    names = (np.char.add("h", array) for array in (others.ids, others.subjects))
    held_out = Dataset(others.schema, others.X, others.y, *names)
    gone, rest = data.of_subjects(["p7"]), data.select(~data.where_subjects(["p7"]))
    sums = FeatureSums.of(gone.X, gone.y, classes=2)
    wanted = {f"row {i}": {"int16": row.astype("<i2").tobytes()} for i, row in enumerate(gone.X)}
    wanted["sums"] = {"int64": sums.labels.astype("<i8").tobytes()}

    manager = Manager(tmp_path / "ws", HEAD, rng=RNG)
    manager.train(data, hold_out=held_out)
    assert {what for _, what, _ in traces(tmp_path, wanted)} == {"row 0", "row 1", "row 2"}
    manager.request_erasure(subject="p7")
    assert manager.forget().records == 3
    assert not traces(tmp_path, wanted)
    never_there = HEAD.train(rest, RNG)
    assert (manager.predict(held_out.X) == never_there.model.predict_proba(held_out.X)).all()
    assert "public features of toy" in str(manager.certify().to_json())
    manager.verify()
    manager.close()
