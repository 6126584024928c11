"""Figures of images: utility against epochs of fine-tuning, and what the size of a permuted block changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eupg_reproduction.published import published
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.drawing import LOOKS, Look, legend, level, line, panels, ticks, tidy
from eupg_reproduction.report.picture_places import (
    CERTIFIED,
    EPOCHS,
    MODEL,
    RMIA,
    SET,
    better_recipe,
    by_block,
    curve,
    paper_recipe,
    tuned_epochs,
)
from eupg_reproduction.report.picture_places import blocks as sizes
from eupg_reproduction.report.quality import EUPG
from eupg_reproduction.report.view import SHORT, UTILITY, View
from eupg_reproduction.spread import Spread

_METHODS = (SHORT, *EUPG, CERTIFIED)
# How far below the least and above the best the upper part of a picture reaches.
_MARGIN = 1.0
_GUESS = Look("#999999", "", "-")


def epochs(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against epochs on the retained pictures; on the right the upper part alone."""
    whole, upper = panels(axes, 1, 2, sharex=False)[0]
    ours = {method: curve(book, method, UTILITY) for method in _METHODS}
    # Scales first: the limits of an axis are found by its scale.
    whole.set_xscale("symlog", linthresh=3)
    upper.set_xscale("log")
    _curves(whole, book, ours, EPOCHS)
    whole.set_ylabel("accuracy after forgetting, %")
    known = [one.mean for m in (SHORT, *EUPG) for count, one in ours[m].items() if one is not None and count]
    if known:
        full = paper_recipe(book).spread(SET, "Retrain")
        _curves(upper, book, ours, EPOCHS[1:])
        upper.set_ylim(min(known) - _MARGIN, max(known + ([full.mean] if full else [])) + _MARGIN)
    for one, counts, words in ((whole, EPOCHS, "CIFAR-10, ResNet-18"), (upper, EPOCHS[1:], "the same, upper part")):
        ticks(one, counts, [str(count) for count in counts])
        one.set_xlabel("epochs on the retained pictures")
        one.set_title(words, fontsize=10)
        tidy(one)
    legend(whole.figure, columns=4)


def _curves(axes: Any, book: Book, ours: Mapping[str, Mapping[int, Spread | None]], counts: Sequence[int]) -> None:
    """Draw all methods, what the paper printed beside ours with hollow markers."""
    for method in _METHODS:
        line(axes, {float(n): ours[method].get(n) for n in counts}, LOOKS[method], method)
        printed = {float(n): published("ft_epochs", SET, MODEL, method, "utility", epochs=n) for n in counts}
        line(axes, printed, replace(LOOKS[method], hollow=True, line=":"), f"{method}, paper")
    view = paper_recipe(book)
    level(axes, view.spread(SET, "Retrain"), LOOKS["Retrain"], f"Retrain, {view.grid.settings['effort']} epochs")


def blocks(axes: Any, book: Book) -> None:
    """Draw utility and what an attack finds against the size of a permuted block, the base alone and fine-tuned."""
    grid = panels(axes, 1, 2)
    base, tuned, short = by_block(book, 0), by_block(book, tuned_epochs()), better_recipe(book, SHORT)
    look = LOOKS[EUPG[0]]
    for one, (figure, label) in zip(
        grid[0], ((UTILITY, "accuracy, %"), (RMIA, "RMIA AUC after forgetting, %")), strict=True
    ):
        one.set_xscale("log", base=2)
        # A little apart, so that intervals do not lie on each other.
        for view, style, words, aside in (
            (tuned, look, f"k=30, after {tuned_epochs()} epochs", 1.03),
            (base, replace(look, hollow=True, line=":"), "k=30, base alone", 0.97),
        ):
            line(one, {aside * b: _spread(view, m, figure) for b, m in sizes().items()}, style, words)
        level(one, short.spread(SET, SHORT, figure), LOOKS[SHORT], "short retrain, the same recipe")
        level(one, paper_recipe(book).spread(SET, "Retrain", figure), LOOKS["Retrain"], "Retrain")
        if figure == RMIA and one.has_data():
            level(one, Spread(50.0, 0.0, 1), _GUESS, "a guess")
        ticks(one, list(sizes()), [f"{block}×{block}" for block in sizes()])
        one.set_xlabel("block of pixels that is permuted")
        one.set_ylabel(label)
        tidy(one)
    legend(grid[0, 0].figure, columns=5)


def _spread(view: View, method: str, figure: str) -> Spread | None:
    """Return a figure; of an audit with half its 95 % interval, since runs are few and each knows its own."""
    found = view.spread(SET, method, figure)
    ends = [view.spread(SET, method, figure.replace(".auc", end)) for end in (".low", ".high")]
    if found is None or figure != RMIA or ends[0] is None or ends[1] is None:
        return found
    return Spread(found.mean, ends[1].minus(ends[0]) / 2, found.count)
