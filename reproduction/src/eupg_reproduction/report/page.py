"""The page: every section's note with its tables and figures, in order, and the pictures beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eupg.errors import DataError, StorageError
from eupg_reproduction.report import (
    agreement,
    audits,
    frontier,
    origin,
    overview,
    pictures,
    quality,
    runtime,
    sweeps,
    synthetic,
)
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.linkage import read_linkage
from eupg_reproduction.report.notes import filled, note
from eupg_reproduction.report.picture_search import read_search
from eupg_reproduction.results import read

PAGE = "results.md"
# In the order of the page: the note's name, and the function that computes what it says.
SECTIONS: dict[str, Callable[[Book], dict[str, str]]] = {
    "overview": overview.overview,
    "agreement": agreement.agreement,
    "quality_mlp": quality.quality_mlp,
    "quality_xgboost": quality.quality_xgboost,
    "audits": audits.after_unlearning,
    "runtime": runtime.runtime,
    "overhead": runtime.overhead,
    "protection": sweeps.protection,
    "epochs": sweeps.epochs,
    "forget_ratio": sweeps.forget_ratio,
    "phases": runtime.phases,
    "images": pictures.images,
    "exposure": frontier.exposure,
    "synthesis": synthetic.synthesis,
    "exposure_audit": audits.exposure_audit,
    "tuned": runtime.tuned,
    "others": quality.quality_others,
    "label_dp": quality.label_dp,
    "origin": origin.origin,
}


def book_of(results: Path) -> Book:
    """Read a results file as a book of figures, and what lies beside it about pictures."""
    contents = read(results)
    found = contents.newest.values()
    if not found:
        raise DataError(f"{results} holds no results: run experiments first (eupg-reproduction run), or name a file")
    beside = results.parent
    return Book(found, linkage=read_linkage(beside), searched=read_search(beside), torn=contents.torn)


def page(book: Book) -> str:
    """Return the whole page as Markdown."""
    parts = [filled(note(name), compute(book)).strip() for name, compute in SECTIONS.items()]
    return "\n\n".join(parts) + "\n"


def write(book: Book, folder: Path) -> list[Path]:
    """Write the page and its figures into a folder; return what was written."""
    from eupg_reproduction.report.figures import FIGURES, draw

    text, target = page(book), folder / PAGE
    try:
        drawn = [draw(name, book, folder / "figures") for name in FIGURES]
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {target} ({error}): name another folder with --out") from error
    return [target, *drawn]
