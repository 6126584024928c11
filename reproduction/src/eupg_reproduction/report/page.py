"""The page, its tables as CSV files and its figures: made from the results file and the template, and nothing else."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from eupg.errors import DataError, StorageError
from eupg_reproduction import picture_recipes
from eupg_reproduction.report import audits, beside, findings, words
from eupg_reproduction.report.goals import goals
from eupg_reproduction.report.tables import tables as long_tables
from eupg_reproduction.report.tidy import Book

PAGE, TABLES = "results.md", "results"


def tables(book: Book) -> dict[str, pd.DataFrame]:
    """Return all tables by name."""
    made = long_tables(book)
    cells = made["agreement"]
    counts = findings.agreement_table(cells)
    return made | {"agreement_counts": counts, "misses": findings.misses(cells), "goals": goals(made)}


def vocabulary(book: Book, made: findings.Tables) -> dict[str, Any]:
    """Return what a template may ask: the tables, the functions that look into them, and those that show figures."""
    asked = (findings, words, audits, beside, picture_recipes)
    functions = {name: part for module in asked for name, part in vars(module).items() if not name.startswith("_")}
    return functions | {"book": book, "tables": made}


def filled(text: str, values: dict[str, Any]) -> str:
    """Fill in a template; what it asks for must be there.

    Examples
    --------
    >>> filled("Retrain gives {{ retrain }}.", {"retrain": "85.2"})
    'Retrain gives 85.2.'
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        return environment.from_string(text).render(values)
    except jinja2.UndefinedError as error:
        raise DataError(f"the template asks for what is not computed ({error}): correct its name") from error


def template() -> str:
    """Return the template of the page."""
    return files("eupg_reproduction").joinpath("templates/results.md.j2").read_text(encoding="utf-8")


def page(book: Book, made: findings.Tables | None = None) -> str:
    """Return the whole page as Markdown."""
    return filled(template(), vocabulary(book, tables(book) if made is None else made)).strip() + "\n"


def csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, with five figures of every number; columns that hold nothing are left out."""
    return table.dropna(axis=1, how="all").to_csv(index=False, float_format="%.5g", lineterminator="\n")


def write(book: Book, folder: Path) -> list[Path]:
    """Write the page, its tables and its figures into a folder; return what was written."""
    from eupg_reproduction.report.figures import FIGURES, draw

    made = tables(book)
    texts = {folder / PAGE: page(book, made)} | {folder / TABLES / f"{name}.csv": csv(t) for name, t in made.items()}
    try:
        drawn = [draw(name, book, folder / "figures") for name in FIGURES]
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write to {folder} ({error}): name another folder with --out") from error
    return [*texts, *drawn]
