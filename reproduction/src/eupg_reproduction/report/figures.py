"""The figures by name: what draws each, and how large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from eupg.audit.plot import save_figure
from eupg_reproduction.report import picture_plots, plots, sweep_plots
from eupg_reproduction.report.book import Book


class Picture(NamedTuple):
    """What draws a figure on axes of this size, in inches."""

    draw: Callable[[Any, Book], None]
    size: tuple[float, float]


FIGURES = {
    "exposure": Picture(plots.exposure, (9.6, 6.2)),
    "synthesis": Picture(plots.synthesis, (9.6, 6.2)),
    "time": Picture(plots.time, (9.6, 6.4)),
    "time_others": Picture(plots.time_others, (9.6, 6.4)),
    "protection": Picture(sweep_plots.protection, (8.4, 5.4)),
    "epochs": Picture(sweep_plots.epochs, (9.6, 3.6)),
    "forget_ratio": Picture(sweep_plots.forget_ratio, (9.6, 3.8)),
    "phases": Picture(sweep_plots.phases, (9.6, 2.9)),
    "images_epochs": Picture(picture_plots.epochs, (9.6, 4.0)),
    "images_blocks": Picture(picture_plots.blocks, (9.6, 3.8)),
}


def draw(name: str, book: Book, folder: Path, *, suffix: str = ".svg") -> Path:
    """Draw a figure and return its path; the same results and matplotlib give the same file."""
    picture = FIGURES[name]
    return save_figure(folder / f"{name}{suffix}", picture.size, lambda axes: picture.draw(axes, book))
