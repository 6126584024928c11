"""No number was lost when the long page became a short one with tables beside it.

``golden/results_before.md.gz`` is the page of 26,000 words, made from the same results. A number of it must be on the
new page or in a table beside it, exactly or in more decimals; a number of a table must stand in a row that names the
same set, model and method.
"""

import csv
import gzip
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
OLD = gzip.decompress((HERE / "golden" / "results_before.md.gz").read_bytes()).decode()
NUMBER = re.compile(r"(?<![\w.,×])[−+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
SETS, MODELS = ("Adult", "Heart", "Credit"), ("MLP", "XGBoost", "LightGBM", "logistic regression")
METHODS = (
    *("Short retrain", "Retrain", "SISA", "Certified-SP, published calibration", "Certified-SP"),
    *("EUPG k=30, leaves refreshed", "EUPG ε=1, leaves refreshed", "EUPG k=30, blocks 8×8", "EUPG k=30, blocks 16×16"),
    *("EUPG ε=0.5, label ε=0.5", "EUPG ε=1, label ε=1", "EUPG k=30", "EUPG ε=1"),
)
SECTIONS = {title.strip(): body for title, body in re.findall(r"^#+ (.*)\n((?:(?!^#).*\n)*)", OLD, re.M)}
# Code, links and figures say nothing about results.
NOT_PROSE = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)")


def numbers(text: str) -> list[tuple[float, float]]:
    """Return the numbers of a text, each with half of its last digit."""
    found = []
    for word in NUMBER.findall(text.replace("\u2212", "-")):
        plain = word.replace(",", "").lstrip("+")
        decimals = len(plain.partition(".")[2])
        found.append((float(plain), 0.5 * 10**-decimals * 1.001 + 1e-9))
    return found


class Row:
    """A row of a new table: its labels and its numbers; with MB and percent of what the old page rounded otherwise."""

    def __init__(self, name: str, cells: dict[str, str]) -> None:
        self.name, self.labels = name, tuple(cells.get(key, "") for key in ("set", "model", "method"))
        self.values = [value for cell in cells.values() for value, _ in numbers(f" {cell} ")]
        self.text = " ".join(cells.values())

    def holds(self, value: float, within: float) -> bool:
        return any(abs(abs(value) - abs(mine)) <= within + 1e-5 * abs(mine) for mine in self.values)


@cache
def rows() -> tuple[Row, ...]:
    found = []
    for path in sorted((DOCS / "results").glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            found += [Row(path.stem, dict(line)) for line in csv.DictReader(file)]
    for line in (DOCS / "results.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            found.append(Row("page", dict(enumerate(line.strip("| ").split("|")))))  # type: ignore[arg-type]
    return tuple(found)


@cache
def everything() -> Row:
    whole = Row("all", {})
    whole.values = sorted({abs(v) for row in rows() for v in row.values})
    whole.values += [value for value, _ in numbers((DOCS / "results.md").read_text(encoding="utf-8"))]
    whole.values += [v for v, _ in numbers((HERE.parent / "NOTES.md").read_text(encoding="utf-8"))]
    return whole


def labels(line: str) -> list[str]:
    """Return the set, model and method that a row of an old table names."""
    cells = [cell.strip(" *") for cell in line.strip("| ").split("|")]
    words = [word for cell in cells[:3] for word in re.split(r", (?=MLP|XGB|Light|log)", cell)]
    return [word for word in words if word in (*SETS, *MODELS, *METHODS)]


def old_rows() -> list[tuple[str, str]]:
    found = []
    for title, body in SECTIONS.items():
        if title != "Which method to use when":
            lines = body.splitlines()
            heads = {i - 1 for i, line in enumerate(lines) if line.startswith("| ---")}
            found += [(title, line) for i, line in enumerate(lines) if line.startswith("|") and i not in heads]
    return found


def test_the_old_page_is_the_one_that_was_replaced():
    assert len(OLD.split()) > 26_000
    assert len(old_rows()) > 600


@pytest.mark.parametrize("title", dict.fromkeys(title for title, _ in old_rows()))
def test_every_number_of_an_old_table_stands_in_a_row_about_the_same_place(title):
    lost = []
    for line in (line for name, line in old_rows() if name == title):
        wanted = labels(line)
        mine = [row for row in rows() if all(word in row.labels or word in row.text for word in wanted)]
        for cell in line.strip("| ").split("|"):
            for value, within in numbers(f" {cell} "):
                # Shares of people are written as such in the new tables.
                share = (value / 100, 1e-9) if cell.strip().endswith("%") else (value, within)
                if not any(row.holds(value, within) or row.holds(*share) for row in mine):
                    lost.append((line[:60], cell.strip(), value))
    assert not lost


# Sentences about code and machines name commits and libraries; the notes and machines.csv have them.
@pytest.mark.parametrize("title", [title for title in SECTIONS if title != "Code and machines"])
def test_every_number_of_the_old_sentences_is_on_the_page_or_in_a_table(title):
    prose = "\n".join(line for line in SECTIONS[title].splitlines() if not line.startswith("|"))
    some = numbers(NOT_PROSE.sub(" ", prose))
    assert [value for value, within in some if not everything().holds(value, within)] == []
