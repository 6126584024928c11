"""How tests read a table of the report: one row, and a figure of it beside the paper's, in the words of the page."""

from typing import Any

import pandas as pd

from eupg_reproduction.report.findings import figure, only
from eupg_reproduction.report.page import tables
from eupg_reproduction.report.words import MISSING, NONE, signed
from eupg_reproduction.results import Result
from made_up import measurements


def made(*groups: list[Result]) -> dict[str, pd.DataFrame]:
    return tables(measurements(*groups))


def row(table: pd.DataFrame, **where: Any) -> dict[str, Any]:
    return dict(only(table, **where))


def known(value: Any) -> bool:
    return not pd.isna(value)


def beside(found: dict[str, Any], name: str, decimals: int = 2) -> list[str]:
    """Ours, the paper's, the difference, and whether it lies inside the two spreads."""
    paper, apart, inside = (found.get(f"{name}, {word}") for word in ("paper", "difference", "inside"))
    words = [f"{paper:.2f} ± {found[f'{name}, paper ±']:.2f}" if known(paper) else NONE]
    return [
        figure(found, name, decimals),
        *words,
        signed(apart) if known(apart) else NONE,
        inside if known(inside) else NONE,
    ]


def cells(markdown: str, *begin: str) -> list[str]:
    """The one row of a Markdown table that begins like this, without its beginning."""
    found = [[c.strip() for c in line.strip("| ").split("|")] for line in markdown.splitlines()]
    (mine,) = [some[len(begin) :] for some in found if tuple(some[: len(begin)]) == begin]
    return mine


__all__ = ["MISSING", "NONE", "beside", "cells", "known", "made", "row"]
