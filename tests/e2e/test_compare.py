"""``eupg compare`` as a person runs it: a named set, a file, wrong use."""

import json

import numpy as np
import pytest

from commands import eupg, words
from eupg.learn.recipes import paper_recipe
from people import learnable, people


@pytest.fixture
def file(tmp_path):
    data = people(300)
    table = data.to_pandas()
    table.insert(0, "who", data.subjects)
    table.to_csv(tmp_path / "people.csv", index=False)
    return "people.csv"


def test_a_short_retrain_is_not_held_back_by_steps_for_a_long_training():
    given = paper_recipe("lightgbm")
    seen, asked = learnable()
    losses = []
    for learner in (given.short, given.learner):
        found = learner.fit(seen, effort=given.short_effort, rng=np.random.default_rng(0)).predict_proba(asked.X)
        losses.append(-np.log(np.clip(found[np.arange(len(asked)), asked.y], 1e-6, 1)).mean())
    assert losses[0] < losses[1]


def test_a_users_file_without_a_schema(file, tmp_path, monkeypatch):
    # Starting processes would take longer than the training.
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    label = people(3).schema.label.name
    done = eupg(
        *("compare", "--data", file, "--label", label, "--subject", "who", "--learner", "logistic", "--k", "5"),
        *("--effort", "3", "--finetune", "1", "--references", "4", "--json", "--methods", "sisa,kanonymity"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [m["method"] for m in found["methods"]] == ["Retrain", "Short retrain", "SISA", "k=5, 1 exposed"]
    assert any("read from the data" in c for c in found["methods"][3]["claim"]["caveats"])
    assert (tmp_path / "comparison.svg").stat().st_size > 5_000
    assert "Short retrain" in done.stderr
    assert "ε" not in done.stderr


def test_all_methods_on_a_network(file, tmp_path):
    label = people(3).schema.label.name
    done = eupg(
        *("compare", "--data", file, "--label", label, "--subject", "who", "--learner", "mlp", "--k", "5"),
        *("--effort", "30", "--finetune", "20", "--references", "0", "--json", "--out", "here.png"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["methods"]
    names = ["Exact trees", "SISA", "Certified-SP ε=1", "private trees ε=1", "k=5, 1 exposed", "ε=1, 1 exposed"]
    assert [m["method"] for m in methods][2:] == names
    assert methods[4]["claim"]["epsilon"] == 1.0
    assert (tmp_path / "here.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name one data set"),
        (("adult", "--data", "x.csv"), "name one data set"),
        (("moon",), "no data set 'moon'"),
        (("rand_hie", "--methods", "magic"), "no method 'magic'"),
        (("rand_hie", "--methods", "certified-sp"), "certified-sp needs --learner mlp"),
        (("rand_hie", "--out", "picture.pdf"), ".svg or .png"),
        (("--data", "nowhere.csv", "--label", "y"), "no file nowhere.csv"),
        (("--data", "nowhere.csv"), "pass --label"),
    ],
)
def test_wrong_use_says_what_to_do(arguments, message, tmp_path):
    done = eupg("compare", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in words(done)
