"""Tables of time on images: a forget against Retrain, and EUPG's phases, on one GPU."""

from __future__ import annotations

from eupg_reproduction.report.book import Book
from eupg_reproduction.report.picture_places import (
    METHODS,
    MODEL,
    SET,
    better_methods,
    better_recipe,
    block_of,
    paper_recipe,
)
from eupg_reproduction.report.quality import EUPG
from eupg_reproduction.report.runtime import (
    PHASES_HEAD,
    forget_row,
    phase_row,
    published_speed_up,
    speed_up,
    spent_once,
)
from eupg_reproduction.report.view import SHORT
from eupg_reproduction.report.words import ratio, span, table


def times(book: Book) -> dict[str, str]:
    """Return the tables of forgets and phases beside the paper's ratios."""
    view = paper_recipe(book)
    head = ["method", "seconds of a forget", "speed-up", "paper", "difference", "inside"]
    phases = [phase_row(view, SET, method) for method in (*EUPG, SHORT)]
    for method in (m for m in better_methods() if block_of(m) > 1):
        phases.append(phase_row(better_recipe(book, method), SET, method))
    values = {
        "forget_table": table(head, [forget_row(view, SET, method) for method in METHODS]),
        "phases_table": table(PHASES_HEAD, phases),
        "once": span((spent_once(view, SET, method) for method in EUPG), 0),
    }
    for word, method in (("eupg", EUPG[0]), ("short", SHORT), ("sisa", "SISA")):
        ours, paper = speed_up(view, SET, method), published_speed_up(SET, MODEL, method)
        values[f"faster_{word}"] = ratio(None if ours is None else ours.mean)
        values[f"faster_{word}_paper"] = ratio(None if paper is None else paper.mean)
    return values
