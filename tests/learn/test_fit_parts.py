"""XGBoost on examples in parts: a model like any other, and nothing left on the disk."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from eupg.data.dataset import Dataset, Labels, Matrix
from eupg.data.schema import Schema
from eupg.data.score import auc
from eupg.errors import NothingRetained, ParameterError
from eupg.learn import XGBoostLearner
from people import people


@dataclass(frozen=True)
class Parts:
    data: Dataset
    size: int

    @property
    def schema(self) -> Schema:
        return self.data.schema

    def __len__(self) -> int:
        return len(self.data)

    def batches(self) -> Iterator[tuple[Matrix, Labels]]:
        for start in range(0, len(self), self.size):
            yield self.data.X[start : start + self.size], self.data.y[start : start + self.size]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return people(2000)


def test_model_predicts_as_one_that_was_trained_in_memory(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    learner = XGBoostLearner(max_depth=3, threads=1)
    model = learner.fit_parts(Parts(data, 300), effort=8, rng=np.random.default_rng(1))
    assert list(tmp_path.iterdir()) == []
    whole = learner.fit(data, effort=8, rng=np.random.default_rng(1))
    reached = [auc(m.predict_proba(data.X), data.y) for m in (model, whole)]
    assert reached[1] > 55
    assert reached[0] == pytest.approx(reached[1], abs=2)
    learner.save(model, tmp_path / "model")
    assert np.array_equal(learner.load(tmp_path / "model").predict_proba(data.X), model.predict_proba(data.X))
    further = learner.fit(data, effort=2, rng=np.random.default_rng(1), start=model)
    assert further.effort == 10
    assert auc(further.predict_proba(data.X), data.y) > reached[0]


def test_useless_effort_and_no_examples_are_refused(data: Dataset):
    with pytest.raises(ParameterError, match="effort"):
        XGBoostLearner().fit_parts(Parts(data, 300), effort=0, rng=np.random.default_rng(1))
    none = data.select(np.zeros(len(data), bool))
    with pytest.raises(NothingRetained):
        XGBoostLearner().fit_parts(Parts(none, 300), effort=1, rng=np.random.default_rng(1))
