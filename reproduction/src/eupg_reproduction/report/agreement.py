"""How often the paper's utility is reached: every cell of its tables, and an explanation of each that is missed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from eupg_reproduction.experiments import experiment
from eupg_reproduction.published import published
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.picture_places import METHODS, MODEL, SET, curve, paper_recipe
from eupg_reproduction.report.quality import views
from eupg_reproduction.report.sweeps import swept
from eupg_reproduction.report.view import UTILITY, View
from eupg_reproduction.report.words import MISSING, MODELS, NAMES, listed, percent, signed, span, table
from eupg_reproduction.spread import Spread

WITHIN = 0.5
_NAMES = {
    "quality_mlp": "quality, MLP",
    "quality_xgboost": "quality, XGBoost",
    "sensitivity_forget_ratio": "forget ratios",
}
_PICTURES = {"quality_resnet18": "quality, ResNet-18", "ft_epochs": "fine-tuning epochs, ResNet-18"}


class Compared(NamedTuple):
    """One utility of the paper, and ours."""

    source: str
    table: str
    model: str
    method: str
    when: str
    ours: Spread | None
    paper: Spread

    @property
    def difference(self) -> float | None:
        """How far ours lies above the paper's."""
        return None if self.ours is None else self.ours.minus(self.paper)

    @property
    def missed(self) -> bool:
        """Whether ours is worse by more than half a point."""
        return self.difference is not None and self.difference < -WITHIN


def compared(book: Book) -> Iterator[Compared]:
    """Yield every utility of the paper's tables of tabular sets; what two of its tables print alike counts once."""
    for name in ("quality_mlp", "quality_xgboost"):
        (view,) = views(book, name)
        for t in view.grid.sets:
            for method in view.grid.methods:
                for phase in ("before", "after"):
                    paper = published(name, t, view.model, method, "utility", phase)
                    if paper is not None:
                        ours = view.spread(t, method, f"{phase}.utility")
                        yield Compared(name, t, view.model, method, phase, ours, paper)
    grid = experiment("forget_ratio").grids[0]
    for share in (s for s in swept(grid, "forget") if s != 0.05):
        for method in grid.methods:
            paper = published("sensitivity_forget_ratio", "adult", "mlp", method, "utility", forget=float(share))
            if paper is not None:
                ours = View(book, grid, "mlp", {"forget": share}).spread("adult", method)
                when = f"{percent(float(share))} forgotten"
                yield Compared("sensitivity_forget_ratio", "adult", "mlp", method, when, ours, paper)


def compared_pictures(book: Book) -> Iterator[Compared]:
    """Yield every utility of the paper's tables of images that an experiment asks for, once."""
    for method in METHODS:
        for phase in ("before", "after"):
            paper = published("quality_resnet18", SET, MODEL, method, "utility", phase)
            if paper is not None:
                ours = paper_recipe(book).spread(SET, method, f"{phase}.utility")
                yield Compared("quality_resnet18", SET, MODEL, method, phase, ours, paper)
    for method in METHODS:
        for count, ours in curve(book, method, UTILITY).items():
            paper = published("ft_epochs", SET, MODEL, method, "utility", epochs=count)
            if paper is not None and count != 5:
                yield Compared("ft_epochs", SET, MODEL, method, f"after {count} epochs", ours, paper)


def agreement(book: Book) -> dict[str, str]:
    """Return the values of the section on agreement with the paper."""
    cells, pictures = list(compared(book)), list(compared_pictures(book))
    rows = [_row(_NAMES[name], [cell for cell in cells if cell.source == name]) for name in _NAMES]
    rows.append(_row("**all tables of people**", cells))
    rows += [_row(_PICTURES[name], [cell for cell in pictures if cell.source == name]) for name in _PICTURES]
    head = ["table of the paper", "utility cells", "within 0.5", "better by more", "worse by more", "not measured yet"]
    head.append("inside the two spreads")
    better = [cell for cell in cells if cell.difference is not None and cell.difference > WITHIN]
    better_images = [cell for cell in pictures if cell.difference is not None and cell.difference > WITHIN]
    missed = [cell for cell in (*cells, *pictures) if cell.missed]
    return {
        "table": table(head, rows),
        "reached": reached(cells),
        "reached_images": reached(pictures),
        "missed": str(len(missed)),
        "missed_list": "\n".join(_explained(missed)) or "- none",
        "better": _better(better),
        "better_images": _better(better_images),
    }


def reached(cells: list[Compared]) -> str:
    """Say how many cells are within half a point of the paper's or better."""
    known = [cell for cell in cells if cell.ours is not None]
    if not known:
        return MISSING
    good = sum(not cell.missed for cell in known)
    return f"{good} of {len(known)} ({100 * good / len(known):.0f} %)"


def _row(name: str, cells: list[Compared]) -> list[str]:
    known = [cell for cell in cells if cell.difference is not None]
    worse = sum(cell.missed for cell in known)
    better = sum(cell.difference is not None and cell.difference > WITHIN for cell in known)
    inside = sum(cell.ours is not None and cell.ours.agrees(cell.paper) for cell in known)
    counts = [len(cells), len(known) - worse - better, better, worse, len(cells) - len(known), inside]
    return [name, *map(str, counts)]


def _explained(missed: list[Compared]) -> Iterator[str]:
    """Yield a line for each set, model and method that misses, with its reason from the notes."""
    for place in dict.fromkeys((c.table, c.model, c.method) for c in missed):
        mine = [cell for cell in missed if (cell.table, cell.model, cell.method) == place]
        figures = [f"{signed(c.difference or 0.0)} {c.when}" for c in mine]
        t, model, method = place
        why = reasons().get(place, "not explained yet")
        yield f"- **{NAMES[t]}, {MODELS[model]}, {method}** ({listed(figures)}): {why}"


def _better(cells: list[Compared]) -> str:
    places = dict.fromkeys((c.table, c.model) for c in cells)
    words = []
    for t, model in places:
        gains = [c.difference for c in cells if (c.table, c.model) == (t, model)]
        words.append(f"{NAMES[t]} {MODELS[model]}: {len(gains)} cells, {span(gains, sign=True)}")
    return "; ".join(words) or "none"


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why a cell misses the paper's figure, by set, model and method."""
    text = files("eupg_reproduction").joinpath("notes/misses.toml").read_text(encoding="utf-8")
    return {
        (one["set"], one["model"], one["method"]): " ".join(one["why"].split()) for one in tomllib.loads(text)["miss"]
    }
