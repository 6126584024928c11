"""Tables of sweeps on images: the size of a permuted block, and the epochs of fine-tuning."""

from __future__ import annotations

from eupg_reproduction.published import published
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.linkage import Linkage
from eupg_reproduction.report.picture_places import (
    CERTIFIED,
    EPOCHS,
    MODEL,
    RMIA,
    SET,
    better_recipe,
    blocks,
    by_block,
    curve,
    declared,
    paper_recipe,
    tuned_epochs,
)
from eupg_reproduction.report.quality import EUPG
from eupg_reproduction.report.view import SHORT, UTILITY, View, above
from eupg_reproduction.report.words import MISSING, NONE, listed, signed, span, table
from eupg_reproduction.spread import Spread

_METRICS = {"utility": UTILITY, "mia_auc": RMIA}


def block_table(book: Book) -> dict[str, str]:
    """Return the table of block sizes, and what a larger block changes."""
    count = tuned_epochs()
    base, tuned = by_block(book, 0), by_block(book, count)
    short, sizes, rows = better_recipe(book, SHORT), blocks(), list[list[str]]()
    for block, method in sizes.items():
        over = above(tuned.spread(SET, method), short.spread(SET, SHORT))
        rows.append(
            [
                _name(block),
                base.shown(SET, method),
                tuned.shown(SET, method),
                NONE if over is None else signed(over),
                base.shown(SET, method, RMIA, 1),
                tuned.shown(SET, method, RMIA, 1),
            ]
        )
    control = [short.shown(SET, SHORT), NONE, NONE, short.shown(SET, SHORT, RMIA, 1)]
    rows.append(["short retrain", NONE, *control])
    after = f"after {count} epochs"
    head = ["block", "base alone", after, "above the short retrain", "RMIA AUC, base alone", f"RMIA AUC, {after}"]
    return {
        "blocks_table": table(head, rows),
        "blocks_gain": _gain(tuned, [sizes[min(sizes)], sizes[max(sizes)]]),
        "blocks_base": _gain(base, [sizes[min(sizes)], sizes[max(sizes)]]),
        "blocks_rmia": span(_mean(tuned.spread(SET, method, RMIA)) for method in sizes.values()),
        "blocks_first": _name(min(sizes)),
        "blocks_last": _name(max(sizes)),
    }


def shown_table(book: Book) -> dict[str, str]:
    """Return the table of what blocks show to two adversaries, and on how many pictures that was found."""
    head = ["block", "unique blocks", "best match", "linked", "bound", "edges", "whole rows"]
    rows = [[_name(block), *_found(book.linkage.get(block))] for block in blocks()]
    known = [book.linkage[block] for block in blocks() if block in book.linkage]
    return {
        "shown_table": table(head, rows),
        "shown_pictures": listed(sorted({f"{one.pictures:,.0f}" for one in known}), MISSING),
        "shown_originals": listed(sorted({f"{one.originals:,.0f}" for one in known}), MISSING),
    }


def _found(found: Linkage | None) -> list[str]:
    if found is None:
        return [MISSING] * 6
    return [
        f"{found.unique_blocks:.1f} %",
        f"{found.best_match:.1f} %",
        f"{found.linked:.1f} % ({found.linked_low:.1f} to {found.linked_high:.1f})",
        f"{found.bound:.1f} %",
        f"{found.edges:.1f} % ({found.edges_low:.1f} to {found.edges_high:.1f})",
        f"{found.rows:.1f} %",
    ]


def _gain(view: View, ends: list[str]) -> str:
    found = above(*(view.spread(SET, method) for method in reversed(ends)))
    return MISSING if found is None else signed(found, 1)


def _name(block: int) -> str:
    return "single pixels" if block == 1 else f"{block}×{block}"


def _mean(found: Spread | None) -> float | None:
    return None if found is None else found.mean


def epochs_tables(book: Book) -> dict[str, str]:
    """Return utility and RMIA by epochs of fine-tuning, beside the paper's and beside as many epochs from scratch."""
    values = {f"epochs_{metric}": _by_epochs(book, metric) for metric in _METRICS}
    curves = {method: curve(book, method, UTILITY) for method in (SHORT, EUPG[1], CERTIFIED)}
    for word, method in (("eupg", EUPG[1]), ("certified", CERTIFIED)):
        apart = {n: above(curves[method].get(n), curves[SHORT].get(n)) for n in EPOCHS if n}
        known = [n for n, found in apart.items() if found is not None]
        values[f"epochs_{word}_apart"] = span(apart.values(), 2, sign=True)
        values[f"epochs_{word}_at"] = span(known, 0)
    return values


def _by_epochs(book: Book, metric: str) -> str:
    rows = []
    for count in EPOCHS:
        view = paper_recipe(book, count)
        cells = [declared(view, SHORT, _METRICS[metric])]
        for method in (EUPG[1], CERTIFIED):
            paper = published("ft_epochs", SET, MODEL, method, metric, epochs=count)
            apart = above(view.spread(SET, method, _METRICS[metric]), paper)
            cells.append(declared(view, method, _METRICS[metric]))
            cells += [str(paper) if paper else NONE, NONE if apart is None else signed(apart)]
        rows.append([str(count), *cells])
    return table(["epochs", SHORT, EUPG[1], "paper", "difference", CERTIFIED, "paper", "difference"], rows)
