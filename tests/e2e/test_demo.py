"""The demonstration, as a person runs it: the command, the page, the JSON, wrong use."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest


def eupg(*arguments: str, cwd) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eupg.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, eupg("demo", "--json", "--seed", "7", cwd=folder)


def test_demo_tells_the_story(demo):
    _, result = demo
    assert result.returncode == 0, result.stderr
    told = " ".join(result.stderr.replace("│", " ").split())
    stages = ("protect: permute", "pretrain on the release alone", "forget: back to the base", "Short retrain")
    claim = ("What is claimed for this person", "Reproducible run, not private", "the effective k is 1")
    for words in (*stages, *claim):
        assert words in told


def test_demo_figures_are_plausible_and_the_controls_stand_beside(demo):
    figures = json.loads(demo[1].stdout)
    assert [m["name"] for m in figures["methods"]] == ["EUPG, k=30", "Retrain", "Short retrain"]
    assert all(72 < m["after"] < 77 for m in figures["methods"])
    assert 67 < figures["base_utility"] < figures["methods"][0]["after"]
    assert figures["claim"]["records"] == figures["records"] == 5
    assert set(figures["seconds"]) == {"protect", "pretrain", "finetune", "forget"}


def test_same_seed_same_figures(demo, tmp_path):
    again = json.loads(eupg("demo", "--json", "--seed", "7", cwd=tmp_path).stdout)
    first = json.loads(demo[1].stdout)
    for m in (*first["methods"], *again["methods"]):
        m.pop("forget_s")
    assert first["methods"] == again["methods"]


def test_page_is_well_formed_and_complete(demo):
    folder, _ = demo
    page = (folder / "demo-report" / "index.html").read_text(encoding="utf-8")
    HTMLParser().feed(page)
    assert page.count("<svg") == 3
    assert not re.search(r"\$[a-z]+", page)
    assert "https://" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--k", "1"), "k must be a whole number of at least 2"),
        (("--subject", "nobody"), "never among the records, or already forgotten"),
        (("--seed", "-1"), "a seed is a non-negative integer"),
    ],
)
def test_wrong_use_exits_with_two_and_says_why(arguments, message, tmp_path):
    result = eupg("demo", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in " ".join(result.stdout.split())
    assert "Traceback" not in result.stderr
