"""Texts and pictures on the command line: train, forget, certify, add, predict."""

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest

from commands import eupg, words

pytestmark = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="needs the extra text")
TRAIN = ("train", "--data", "mails.csv", "--label", "kind", "--subject", "sender", "--workspace", "ws")
TEXTS = ("--encoder", "wordllama", "--text", "mail")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    ham, spam = ("lunch", "meeting", "report", "garden", "thanks"), ("free", "win", "money", "offer", "click")
    kinds = rng.integers(0, 2, 160)
    mails = [" ".join(rng.choice(spam if kind else ham, 6)) for kind in kinds]
    table = pd.DataFrame({"sender": [f"p{i // 2}" for i in range(160)], "mail": mails, "kind": kinds})
    table.iloc[:150].to_csv(tmp_path / "mails.csv", index=False)
    table.iloc[150:].to_csv(tmp_path / "more.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("choice", "claim"),
    [
        (("--method", "exact-head"), "Exact: the model was trained without the forgotten records"),
        (("--guarantee", "private-head", "--epsilon", "4", "--max-records", "2"), "Differential privacy (ε=4"),
    ],
    ids=["exact", "private"],
)
def test_from_texts_to_a_certificate_and_back_to_new_texts(folder, choice, claim):
    done = eupg(*TRAIN, *TEXTS, *choice, "--hold-out", "0", cwd=folder)
    assert claim in words(done)
    assert "256 public features of WordLlama(longest=1024)" in words(done)
    assert eupg("request", "--workspace", "ws", "--subject", "p3", cwd=folder).returncode == 0
    assert "2 records erased" in words(eupg("forget", "--workspace", "ws", cwd=folder))
    assert eupg("certify", "--workspace", "ws", "--out", "c.json", cwd=folder).returncode == 0
    assert "weights 4d243a4b2daee658" in (folder / "c.json").read_text(encoding="utf-8")
    assert "10 records added" in words(eupg("add", "--workspace", "ws", "--data", "more.csv", cwd=folder))
    predict = ("predict", "--workspace", "ws", "--data", "more.csv", "--out", "out.csv", "--drop", "kind", "--json")
    assert json.loads(eupg(*predict, cwd=folder).stdout)["rows"] == 10
    answers, truth = pd.read_csv(folder / "out.csv"), pd.read_csv(folder / "more.csv")
    assert (answers["kind"] == truth["kind"]).mean() > 0.7
    assert answers["sender"].tolist() == truth["sender"].tolist()
    for path in (folder / "ws").rglob("*"):
        assert not path.is_file() or b"meeting" not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*TRAIN, "--method", "exact-head"), "works on public features"),
        ((*TRAIN, *TEXTS, "--method", "exact-trees"), "pass --method exact-head or --guarantee private-head"),
        ((*TRAIN, "--text", "mail", "--method", "exact-trees"), "--text names a column of texts"),
        ((*TRAIN, *TEXTS, "--method", "exact-head", "--drop", "x"), "--drop has no meaning with --encoder"),
        ((*TRAIN, *TEXTS, "--guarantee", "private-head", "--learner", "mlp"), "so --learner would be ignored"),
        ((*TRAIN, *TEXTS, "--guarantee", "private-head", "--k", "3"), "--k belongs to --guarantee kanonymity"),
        ((*TRAIN, "--encoder", "efficientnet-lite0", "--method", "exact-head"), "reads a folder of pictures"),
        ((*TRAIN, "--encoder", "wordllama", "--method", "exact-head"), "pass --text and --label"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, options, said):
    done = eupg(*options, cwd=folder)
    assert done.returncode != 0
    assert said in " ".join((done.stdout + done.stderr).split())
    assert not (folder / "ws" / "current.json").exists()


def test_authors_are_asked_for(folder):
    options = ("train", "--data", "mails.csv", "--label", "kind", "--workspace", "ws", *TEXTS, "--method", "exact-head")
    assert "who wrote the texts?" in " ".join(eupg(*options, cwd=folder).stdout.split())


def test_a_folder_of_texts_needs_no_columns(folder):
    for kind, text in (("ham", "lunch in the garden"), ("spam", "win free money")):
        (folder / "mails" / kind).mkdir(parents=True)
        for i in range(15):
            (folder / "mails" / kind / f"{i}.txt").write_text(f"{text} {i}", encoding="utf-8")
    options = ("train", "--data", "mails", "--workspace", "ws", "--encoder", "wordllama", "--method", "exact-head")
    assert "Trained on" in words(eupg(*options, cwd=folder))
    assert eupg("request", "--workspace", "ws", "--record", "ham/3.txt", cwd=folder).returncode == 0
    refused = eupg(*options, "--label", "kind", cwd=folder)
    assert refused.returncode != 0


def test_a_plan_of_texts_recommends_what_train_deploys(folder):
    described = ("--data", "mails.csv", "--label", "kind", "--subject", "sender", *TEXTS)
    options = ("--epsilon", "2", "--require", "dp", "--tolerance", "50", "--picture", "p.svg", "--out", "plan.json")
    assert eupg("plan", *described, *options, cwd=folder).returncode == 0
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert {"Retrain", "Exact head", "private head ε=2"} <= {point["name"] for point in plan["points"]}
    done = eupg("train", "--plan", "plan.json", *described, "--workspace", "ws", cwd=folder)
    assert "Differential privacy (ε=2" in words(done)
    for extra in (("--guarantee", "kanonymity"), ("--k", "3")):
        assert "leave --guarantee and --k out" in words(eupg("plan", *described, *extra, cwd=folder))


def test_a_plan_of_a_folder_says_what_the_private_head_gives_instead_of_protected_pixels(folder):
    (folder / "photos").mkdir()
    said = words(eupg("plan", "--data", "photos", cwd=folder))
    assert "pass --encoder efficientnet-lite0" in said
    assert "Instead of noisy averages or permuted pixels" in said


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2"])
def test_a_plan_of_pictures_says_so_too_beside_its_figures(folder, monkeypatch, name):
    from PIL import Image

    from eupg.cli import encoded
    from eupg.protect import PixelFeatures

    monkeypatch.setattr(encoded, "encoder", lambda name: PixelFeatures(size=4))
    rng = np.random.default_rng(0)
    for kind, light in (("day", 80), ("night", 0)):
        (folder / "photos" / kind).mkdir(parents=True)
        for i in range(40):
            pixels = rng.integers(0, 170, (8, 8, 3)) + light
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "photos" / kind / f"{i}.png")
    options = ("--epsilon", "4", "--tolerance", "50", "--picture", "p.svg")
    said = words(eupg("plan", "--data", "photos", "--encoder", name, *options, cwd=folder))
    assert "private head ε=4" in said
    assert "the private head protects the whole picture and its label" in said
    assert "Instead of noisy averages or permuted pixels (PixelDP, PixelPermutation)" in said
