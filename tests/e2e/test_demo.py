"""The demonstration, as a person runs it: the command, the page, the JSON, wrong use."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from eupg.cli import main

CHOICE = (
    "The learner's settings were chosen by looking at held-out people of this table; the claim does not cover what "
    "that choice reveals."
)
# Elements of HTML that have no end tag.
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Tags(HTMLParser):
    """Keeps the elements that are open, and refuses an end tag of any other than the last."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> at {self.getpos()} closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()} closes another element"

    def handle_data(self, data):
        self.text.append(data)


def read(page: str) -> str:
    """Return the text of a page whose elements are all closed in the right order."""
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open, f"never closed: {tags.open}"
    return " ".join(" ".join(tags.text).split())


def eupg(*arguments: str, cwd) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has imported the libraries already."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "eupg.cli", "demo", "--json", "--seed", "7"]
    return folder, subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)


def test_demo_tells_the_story(demo):
    _, result = demo
    assert result.returncode == 0, result.stderr
    told = " ".join(result.stderr.replace("│", " ").split())
    stages = ("protect: permute", "pretrain on the release alone", "forget: back to the base", "Short retrain")
    claim = ("The claim for this person", "Reproducible run, not private", "the effective k is 1", CHOICE)
    for words in (*stages, *claim):
        assert words in told


def test_demo_figures_are_plausible_and_the_controls_stand_beside(demo):
    figures = json.loads(demo[1].stdout)
    assert [m["name"] for m in figures["methods"]] == [
        *("Private trees, ε=1", "Exact trees", "EUPG, k=30", "Retrain", "Short retrain"),
    ]
    assert all(70 < m["after"] < 77 for m in figures["methods"])
    assert 67 < figures["base_utility"] < figures["methods"][2]["after"]
    # With the steps of the long training, the short one ends below 74.5.
    assert figures["methods"][4]["before"] > 74.7
    assert figures["claim"]["records"] == figures["records"] == 5
    assert set(figures["seconds"]) == {"protect", "pretrain", "finetune", "forget"}


def test_demo_ends_with_a_certificate_that_verifies_offline_and_against_its_workspace(demo):
    folder, report = demo[0], "demo-report"
    key = f"{report}/workspace/keys/signing.pub"
    for options in (("--integrity-only",), ("--key", key), ("--key", key, "--workspace", f"{report}/workspace")):
        verified = eupg("verify", f"{report}/certificate.json", *options, cwd=folder)
        assert verified.returncode == 0, verified.stdout
    figures = json.loads(demo[1].stdout)
    assert figures["certificate"] == json.loads((folder / report / "certificate.json").read_text(encoding="utf-8"))
    assert CHOICE in figures["certificate"]["body"]["not_covered"]
    assert "Certificate of erasure" in read((folder / report / "certificate.html").read_text(encoding="utf-8"))
    assert "1 certified" in eupg("status", "--workspace", f"{report}/workspace", cwd=folder).stdout


def test_demo_runs_again_in_the_same_place_with_the_same_figures(demo, tmp_path):
    shutil.copytree(demo[0] / "demo-report", tmp_path / "demo-report")
    again = eupg("demo", "--json", "--seed", "7", cwd=tmp_path)
    assert again.returncode == 0
    first, second = (json.loads(result.stdout)["methods"] for result in (demo[1], again))
    for method in (*first, *second):
        method.pop("forget_s")
    assert first == second


def test_demo_leaves_other_files_alone(tmp_path):
    mine = tmp_path / "other" / "workspace" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("keep me")
    refused = eupg("demo", "--out", "other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "holds other files" in " ".join(refused.stdout.split())
    assert mine.exists()


def test_terminal_gives_the_time_of_each_stage_in_hundredths_of_a_second(demo):
    told = " ".join(demo[1].stderr.split())
    seconds = json.loads(demo[1].stdout)["seconds"]
    assert "Time: " + ", ".join(f"{stage} {seconds[stage]:.2f} s" for stage in seconds) in told
    assert list(seconds) == ["protect", "pretrain", "finetune", "forget"]


@pytest.fixture
def page(demo):
    return (demo[0] / "demo-report" / "index.html").read_text(encoding="utf-8")


def test_page_closes_every_element_and_leaves_no_placeholder(page):
    assert not re.search(r"\{\{|\{%|\$[a-z]+", read(page))


@pytest.mark.parametrize("broken", ["<p>one", "<p><b>one</p></b>", "one</p>"])
def test_page_that_is_not_well_formed_would_be_noticed(broken):
    with pytest.raises(AssertionError, match="close"):
        read(f"<body>{broken}</body>")


def test_pictures_are_well_formed(page):
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(pictures) == 3
    for picture in pictures:
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_page_shows_the_figures_and_what_they_do_not_cover(page, demo):
    figures, text = json.loads(demo[1].stdout), read(page)
    for method in figures["methods"]:
        row = (method["name"], f"{method['before']:.1f}", f"{method['after']:.1f}", f"{method['forget_s']:.2f} s")
        assert " ".join(row) in text
    assert f"protected data only, reaches {figures['base_utility']:.1f}" in text
    for stage in figures["seconds"].values():
        assert f"{stage:.2f} s" in text
    assert f"Person {figures['subject']}, forgotten" in text
    assert CHOICE in text


def test_page_needs_nothing_from_elsewhere(page):
    assert "https://" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--k", "1"), "k must be a whole number of at least 2"),
        (("--subject", "nobody"), "never among the records, or already forgotten"),
        (("--subject", "[/]"), "first person '[/]': never among the records"),
        (("--seed", "-1"), "a seed is a non-negative integer"),
        (("--out", "taken"), "expected a folder for the page, got the file taken: name another with --out"),
        (("--out", "taken/below"), "the page cannot be written in taken/below (Not a directory): name another folder"),
        (("--out", "/proc/none"), "the page cannot be written in /proc/none"),
        (("--out", "odd"), "the page cannot be written in odd (Is a directory): name another folder"),
    ],
)
def test_wrong_use_exits_with_two_and_says_why(arguments, message, tmp_path):
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "odd" / "index.html").mkdir(parents=True)
    result = eupg("demo", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in " ".join(result.stdout.split())
    assert "Traceback" not in result.stderr


def test_place_of_the_page_is_checked_before_the_run(tmp_path):
    (tmp_path / "taken").write_text("a file")
    assert "load the records" not in eupg("demo", "--out", "taken", cwd=tmp_path).stdout


@pytest.mark.parametrize("package", ["xgboost", "matplotlib"])
def test_package_that_the_demonstration_needs_is_named_with_its_extra(package, tmp_path):
    code = f"import sys; sys.modules['{package}'] = None\nfrom eupg.cli import main\nsys.exit(main(['demo']))"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert result.returncode == 2
    assert "pip install 'eupg[demo]'" in " ".join(result.stdout.split())
