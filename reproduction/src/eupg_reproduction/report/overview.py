"""The first page: what was measured, what matters of it, whether the goals were met, and which method to use when."""

from __future__ import annotations

from eupg.learn.recipes import MODELS as LEARNERS
from eupg_reproduction.report.agreement import compared, reached
from eupg_reproduction.report.book import REPEATS, Book, measured
from eupg_reproduction.report.frontier import PLACES, costs, counted, gain, scratch, served, short
from eupg_reproduction.report.goals import goals
from eupg_reproduction.report.origin import origin
from eupg_reproduction.report.picture_places import SET as PICTURES
from eupg_reproduction.report.picture_places import better_methods, better_recipe, block_of, paper_recipe
from eupg_reproduction.report.plots import timed_alone
from eupg_reproduction.report.quality import EUPG, REFRESHED, views
from eupg_reproduction.report.runtime import average, timed
from eupg_reproduction.report.synthetic import ONE, best
from eupg_reproduction.report.versus import Pair, side
from eupg_reproduction.report.view import SHORT, flat
from eupg_reproduction.report.words import MISSING, SETS, listed, most, ratio, span, table


def overview(book: Book) -> dict[str, str]:
    """Return the values of the first page."""
    (mlp,), (trees,) = views(book, "quality_mlp"), views(book, "quality_xgboost")
    where, values = origin(book), dict[str, str]()
    for word, method in (("synthesis", ONE), ("local", "ε=1")):
        values |= {f"{word}_{t}": best(book, t, method) for t in SETS}
    values |= {f"retrain_{t}": best(book, t, None) for t in SETS}
    return values | {
        "cells": where["cells"],
        "missing": where["missing"],
        "repeats": _repeats(),
        "reached": reached(list(compared(book))),
        "goals": table(["goal", "found", "met"], goals(book)),
        "mlp_apart": most(flat([mlp.differences(m, SHORT) for m in EUPG])),
        "xgboost_k": span(trees.differences(SHORT, EUPG[0]), sign=True),
        "xgboost_dp": span(trees.differences(SHORT, EUPG[1]), sign=True),
        "xgboost_refreshed": span(trees.differences(SHORT, REFRESHED[0]), sign=True),
        "refreshed_speed": ratio(average(timed(book)["xgboost"], REFRESHED[0])),
        "k30_below": span((_above_retrain(book, t, m, "k=30") for t, m in PLACES), sign=True),
        "k10_below": span((_above_retrain(book, t, m, "k=10") for t, m in PLACES), sign=True),
        "one_percent": span((gain(book, t, m, "k=30", 0.01) for t, m in PLACES), sign=True),
        **counted(book, "k=30", (0.005, 0.01, 0.02, 0.05), "few"),
        "clock": _clock(book),
        "base_beaten": _base_beaten(book),
        **costs(book),
        **_pictures(book),
    }


def _pictures(book: Book) -> dict[str, str]:
    """Return what pictures give after forgetting by the better recipe, beside the controls."""
    found = {method: better_recipe(book, method).shown(PICTURES, method) for method in better_methods()}
    sizes = {block_of(method): text for method, text in found.items() if block_of(method) > 1}
    return {
        "blocks_after": listed([f"{size}×{size} {text}" for size, text in sizes.items()]),
        "blocks_rows": listed([_rebuilt(book, size) for size in sizes]),
        "blocks_short": found[SHORT],
        "pixels_after": found[EUPG[0]],
        "blocks_full": paper_recipe(book).shown(PICTURES, "Retrain"),
    }


def _rebuilt(book: Book, size: int) -> str:
    """Say how many rows of blocks are put together again by their edges."""
    return f"{book.linkage[size].rows:.0f} % at {size}×{size}" if size in book.linkage else MISSING


def _repeats() -> str:
    """Say how many repetitions there are, and where fewer."""
    fewer = {one.name: min(one.most_repeats or REPEATS, REPEATS) for one in measured()}
    images = {fewer[one.name] for one in measured() if one.gpu}
    others = [f"`{one.name}`: {fewer[one.name]}" for one in measured() if not one.gpu and fewer[one.name] < REPEATS]
    words = [f"images: {listed([str(count) for count in sorted(images)]).replace(' and ', ' or ')}", *others]
    return f"{REPEATS} ({'; '.join(words)})"


def _above_retrain(book: Book, t: str, model: str, method: str) -> float | None:
    base, full = served(book, t, model, method, 0.0), scratch(book, t, model, 1.0)
    return None if base is None or full is None else base.minus(full)


def _base_beaten(book: Book) -> str:
    """Count where a k=30 base that saw nobody raw is beaten by the short retrain, which sees everyone."""
    pairs = [Pair("", served(book, t, m, "k=30", 0.0), short(book, t, m)) for t in SETS for m in LEARNERS]
    known = [pair for pair in pairs if pair.method and pair.control]
    return f"{sum(side(pair) == 'beaten' for pair in known)} of {len(known)}" if known else MISSING


def _clock(book: Book) -> str:
    if timed_alone(book):
        return "one process at a time, one thread"
    return "timed beside other processes, for orientation: the runs alone are not measured yet"
