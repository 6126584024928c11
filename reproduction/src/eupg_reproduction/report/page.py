"""The page, its tables as CSV files and its figures, made from the results file and the template alone."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from eupg.errors import DataError, StorageError
from eupg_reproduction import picture_recipes
from eupg_reproduction.report import audits, base_files, findings, picture_files, words
from eupg_reproduction.report.goals import goals
from eupg_reproduction.report.tables import long_tables
from eupg_reproduction.report.tidy import Measurements


def tables(measurements: Measurements) -> dict[str, pd.DataFrame]:
    """Return all tables by name."""
    made = long_tables(measurements)
    cells = made["agreement"]
    counts = findings.agreement_table(cells)
    return made | {"agreement_counts": counts, "misses": findings.misses(cells), "goals": goals(made)}


def filled(text: str, values: dict[str, Any]) -> str:
    """Fill in a template; everything it asks for must be there.

    Examples
    --------
    >>> filled("Retrain gives {{ retrain }}.", {"retrain": "85.2"})
    'Retrain gives 85.2.'
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        return environment.from_string(text).render(values)
    except jinja2.UndefinedError as error:
        raise DataError(f"the template asks for a name that is not computed ({error}): correct it") from error


def template() -> str:
    """Return the template of the page."""
    return files("eupg_reproduction").joinpath("templates/results.md.j2").read_text(encoding="utf-8")


def page(measurements: Measurements, made: findings.Tables | None = None) -> str:
    """Return the whole page as Markdown."""
    modules = (findings, words, audits, base_files, picture_files, picture_recipes)
    names = {name: part for module in modules for name, part in vars(module).items() if not name.startswith("_")}
    values = names | {"measurements": measurements, "tables": tables(measurements) if made is None else made}
    return filled(template(), values).strip() + "\n"


def csv(table: pd.DataFrame) -> str:
    """Return a table as CSV with five significant digits; columns without a value are left out."""
    return table.dropna(axis=1, how="all").to_csv(index=False, float_format="%.5g", lineterminator="\n")


def write(measurements: Measurements, folder: Path) -> list[Path]:
    """Write the page, its tables and its figures into a folder; return the paths."""
    from eupg_reproduction.report.figures import FIGURES, draw

    made = tables(measurements)
    texts = {folder / "results.md": page(measurements, made)}
    texts |= {folder / "results" / f"{name}.csv": csv(table) for name, table in made.items()}
    try:
        drawn = [draw(name, measurements, folder / "figures") for name in FIGURES]
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write to {folder} ({error}): name another folder with --out") from error
    return [*texts, *drawn]
