"""Page, tables and figures are made from the results file and the template alone, and the committed ones are that."""

import json
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

from eupg.errors import DataError
from eupg_reproduction.cli import main
from eupg_reproduction.report.figures import FIGURES, draw
from eupg_reproduction.report.findings import misses, reasons
from eupg_reproduction.report.page import csv, filled, page, tables, template
from eupg_reproduction.report.tidy import REPEATS, Measurements
from eupg_reproduction.report.words import MISSING
from eupg_reproduction.results import read
from lines import text
from made_up import exposed, measurements, quality

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "reproduction" / "results" / "bench.jsonl", ROOT / "docs"
# Decimals that the template may hold: settings, and shares of people. All others are computed.
FACTS = {"0.5", "0.3", "0.1"}


@pytest.fixture(scope="module")
def committed() -> Measurements:
    return Measurements.read(RESULTS)


@pytest.fixture(scope="module")
def made(committed):
    return tables(committed)


def test_the_committed_page_is_what_the_committed_results_give(committed, made):
    assert (DOCS / "results.md").read_text(encoding="utf-8") == page(committed, made), "run eupg-reproduction report"


def test_the_committed_tables_are_what_the_committed_results_give(made):
    kept = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "results").iterdir()}
    assert kept == {name: csv(table) for name, table in made.items()}, "run eupg-reproduction report"


def test_the_page_is_short():
    assert len((DOCS / "results.md").read_text(encoding="utf-8").replace("|", " ").split()) < 3_300


@pytest.mark.parametrize("name", FIGURES)
def test_the_committed_figures_are_what_the_committed_results_give(name, committed, tmp_path):
    kept = (DOCS / "figures" / f"{name}.svg").read_bytes()
    pinned = re.search(rb"Matplotlib v([\d.]+)", kept)
    assert pinned
    if pinned[1].decode() != version("matplotlib"):
        pytest.skip(f"drawn with matplotlib {pinned[1].decode()}, here is {version('matplotlib')}: shapes may differ")
    assert draw(name, committed, tmp_path).read_bytes() == kept, "run eupg-reproduction report"


def test_the_results_file_holds_no_cell_twice():
    found = read(RESULTS)
    assert (found.lines, found.repeated, found.torn) == (len(found.newest), 0, 0)


@pytest.mark.parametrize(
    ("row", "table", "model", "recipe"),
    [
        (f"{table.title()}, {words}", table, model, "paper")
        for words, model in (("MLP", "mlp"), ("XGBoost", "xgboost"))
        for table in ("adult", "heart", "credit")
    ]
    + [
        ("CIFAR-10, ResNet-18 (3 runs)", "cifar10", "resnet18", "paper"),
        ("the same, a better recipe", "cifar10", "resnet18", "better"),
    ],
)
@pytest.mark.parametrize("page", ["README.md", "docs/concepts/how-it-works.md"])
def test_pages_written_by_hand_say_what_the_committed_results_say(page, row, table, model, recipe, committed):
    lines = [one for one in (ROOT / page).read_text(encoding="utf-8").splitlines() if f"| {row} |" in one]
    if page == "README.md" and not lines:
        # The README shows some of the rows; the test below counts them.
        return
    (line,) = lines
    # The paper's own figures stand in brackets.
    said = [re.findall(r"\d+\.\d", re.sub(r"\(.*?\)", "", column)) for column in line.split("|")[2:-1]]
    better = "EUPG k=30, blocks 8×8" if model == "resnet18" else "EUPG k=30, leaves refreshed"
    methods = [("EUPG k=30", better), ("EUPG ε=1",), ("Retrain",), ("Short retrain",)]
    for figures, names in zip(said, methods, strict=True):
        for figure, name in zip(figures, names, strict=False):
            assert figure == _after(committed, table, model, recipe, name), name


def test_the_readme_shows_our_methods_beside_their_controls(committed):
    """Its figures are those of the committed results, and of the records of decisions."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in text.splitlines() if re.search(r"\| \d+\.\d", line)]
    rows = {cells[1].strip(): [cell.strip() for cell in cells[2:5]] for cells in lines}
    paper = rows.pop("EUPG, k=30, the paper's XGBoost")
    tables = ("adult", "heart", "credit")
    assert paper == [_after(committed, table, "xgboost", "paper", "EUPG k=30") for table in tables]
    recorded = {
        "Private trees, ε=1": ("private-peers", "PrivateTrees (ours)"),
        "Exact trees": ("exact-trees", "ExactTrees, test"),
        "EUPG, k=30, by subtraction": ("exact-trees", "LeafRidge on it, test"),
        "Retrain, XGBoost": ("private-peers", "full retraining, not private"),
        "Short retrain": ("private-peers", "short retrain, not private"),
    }
    assert rows.keys() == recorded.keys()
    for name, (record, row) in recorded.items():
        page = (ROOT / "docs" / "decisions" / f"{record}.md").read_text(encoding="utf-8")
        (line,) = (one for one in page.splitlines() if one.startswith(f"| {row} |"))
        # Where there are three figures, they are those of ε = 0.25, 1 and 4.
        cells = [re.findall(r"\d+\.\d+", re.sub(r"± \d+\.\d+", "", cell)) for cell in line.split("|")[2:5]]
        found = [float(cell[len(cell) // 2]) for cell in cells]
        assert found == pytest.approx([float(figure) for figure in rows[name]], abs=0.051), name


def _after(measurements, table, model, recipe, method):
    """Return the mean utility after forgetting 5 %, with one decimal."""
    wanted = {"set": table, "model": model, "recipe": recipe, "method": method}
    wanted |= {"forget": 0.05, "finetune": 5, "references": 8}
    found = [
        r.metrics["after"]["utility"] for r in measurements.results.values() if wanted.items() <= r.cell.config.items()
    ]
    assert len(found) == (3 if model == "resnet18" else 5)
    return f"{sum(found) / len(found):.1f}"


def test_every_miss_of_the_committed_results_is_explained(made):
    table = misses(made["agreement"])
    assert len(table)
    assert set(zip(table["set"], table["model"], table["method"], strict=True)) <= set(reasons())
    assert "not explained yet" not in set(table["why"])


def test_links_inside_the_page_lead_to_a_heading_and_links_to_tables_to_a_table(committed, made):
    text = page(committed, made)
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert links
    assert set(links) <= headings
    linked = re.findall(r"\]\(results/(\w+)\.csv\)", text)
    assert set(linked) == set(made)


def test_every_place_of_the_template_is_filled_even_where_nothing_was_measured():
    text = page(measurements())
    assert not re.search(r"\{[{%]|[}%]\}", text)
    assert not re.search(r"\bNone\b|\bnan\b", text)


def test_a_place_that_nothing_fills_is_an_error():
    with pytest.raises(DataError, match=r"the template asks for a name that is not computed .*'wrong' is undefined"):
        filled("{{ right }} and {{ wrong }}", {"right": "1"})


def test_the_template_states_no_figure_that_was_not_computed():
    words = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`|ε ?= ?[\d.]+", "", template())
    assert set(re.findall(r"\d+\.\d+", words)) <= FACTS


def test_nothing_measured_gives_a_page_without_figures_of_ours():
    text = page(Measurements([]))
    assert MISSING in text
    # Whatever stands as a mean with its spread is the paper's.
    kept = files("eupg_reproduction").joinpath("published.csv").read_text(encoding="utf-8")
    pairs = {f"{float(r[-2]):.2f} ± {float(r[-1]):.2f}" for r in (line.split(",") for line in kept.splitlines()[1:])}
    assert set(re.findall(r"\d+\.\d\d ± \d+\.\d\d", text)) <= pairs


def test_a_figure_says_so_where_nothing_was_measured(tmp_path):
    drawn = draw("exposure", measurements(exposed("k=30", 0.0, [85.0] * REPEATS)), tmp_path).read_text(encoding="utf-8")
    assert drawn.count(MISSING) == 5
    assert "Adult, XGBoost" in drawn


def test_the_same_results_draw_the_same_file(tmp_path):
    made = measurements(exposed("k=30", 0.0, [85.0, 85.2]), exposed("From scratch", 1.0, [86.0]))
    one, two = (draw("exposure", made, tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_command_writes_page_tables_and_figures(tmp_path, capsys):
    results, out = tmp_path / "r.jsonl", tmp_path / "docs"
    results.write_text(text(*(r.line for r in quality("Retrain", [85.1, 85.3]))), encoding="utf-8")
    assert main(["report", "--results", str(results), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["cells"] == 2
    assert said["missing"] > 1000
    written = [out / "results.md", *(out / "figures").iterdir(), *(out / "results").iterdir()]
    assert sorted(map(str, written)) == sorted(said["written"])
    assert "85.20 ± 0.10 (2 of 5)" in (out / "results.md").read_text(encoding="utf-8")


def test_no_results_give_no_page(tmp_path, capsys):
    assert main(["report", "--results", str(tmp_path / "none"), "--out", str(tmp_path / "docs")]) == 2
    assert "holds no results" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "docs").exists()
