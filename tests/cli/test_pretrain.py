"""``eupg pretrain``: a private model of a table in files, and what is said when that is not possible."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import eupg, words
from eupg import PrivateTrees, Seeded
from eupg.data import Dataset
from eupg.guarantees.reading import guarantee_from_json
from eupg.learn import LeafLearner
from eupg.learn.learner import own
from eupg.learn.leaves.learner import LeafModel
from large import SCHEMA, people


@pytest.fixture
def folder(tmp_path):
    frame = people(300)
    frame["person"] = [f"P{i % 120}" for i in range(300)]
    frame.to_parquet(tmp_path / "people.parquet")
    SCHEMA.save(tmp_path / "people.toml")
    return tmp_path


def pretrain(folder, *more, data="people.parquet", out="base"):
    arguments = ("--data", data, "--schema", "people.toml", "--out", out, "--max-records", "2", "--jobs", "1")
    return eupg("pretrain", *arguments, *more, cwd=folder)


def test_writes_the_model_and_its_claim(folder):
    done = pretrain(folder, "--seed", "7", "--json")
    assert done.returncode == 0
    model = own(LeafLearner().load(folder / "base" / "base.eupg"), LeafModel)
    method = PrivateTrees(1.0, max_records=2)
    data = Dataset.read(folder / "people.parquet", SCHEMA)
    expected, claim = method.pretrain(data, LeafLearner(), effort=1, rng=Seeded(7))
    np.testing.assert_array_equal(model.scores, own(expected, LeafModel).scores)
    assert guarantee_from_json(json.loads((folder / "base" / "claim.json").read_text(encoding="utf-8"))) == claim
    assert json.loads(done.stdout)["claim"] == claim.to_json()
    assert sorted(path.name for path in (folder / "base").iterdir()) == ["base.eupg", "claim.json"]
    again = pretrain(folder)
    assert again.returncode == 2
    assert "base holds a model already: name another folder" in words(again)


def test_says_what_is_claimed(folder):
    done = pretrain(folder, "--epsilon", "0.5", "--delta", "0", out="pure")
    assert done.returncode == 0
    assert "Base model: pure/base.eupg" in words(done)
    assert "Differential privacy (ε=0.5)" in words(done)


def test_wrong_use_leaves_nothing(folder):
    pd.read_parquet(folder / "people.parquet").assign(age=500).to_parquet(folder / "wrong.parquet")
    done = pretrain(folder, data="wrong.parquet")
    assert done.returncode == 2
    assert "column 'age'" in words(done)
    assert list((folder / "base").iterdir()) == []
    done = pretrain(folder, "--epsilon", "0")
    assert done.returncode == 2
    assert "epsilon" in words(done)
