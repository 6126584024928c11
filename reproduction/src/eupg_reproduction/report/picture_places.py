"""Where the figures of pictures are: one set and model, two recipes, sizes of blocks, epochs of fine-tuning."""

from __future__ import annotations

import re

from eupg_reproduction.cell import Value
from eupg_reproduction.experiment import Grid
from eupg_reproduction.experiments import EXPERIMENTS, experiment
from eupg_reproduction.report.book import Book, asked
from eupg_reproduction.report.quality import EUPG
from eupg_reproduction.report.view import SHORT, View
from eupg_reproduction.report.words import NONE
from eupg_reproduction.spread import Spread

SET, MODEL = "cifar10", "resnet18"
# In the order of the paper's table, with the control that it lacks.
METHODS = ("Retrain", SHORT, "SISA", "Certified-SP", *EUPG)
CERTIFIED = "Certified-SP"
EPOCHS = (0, 3, 5, 10, 20, 30, 50)
RMIA = "after.audit.auc"
_BLOCK = re.compile(r"blocks (\d+)×")


def paper_recipe(book: Book, epochs: int = 5) -> View:
    """Return the figures by the paper's recipe, at these epochs of fine-tuning."""
    return View(book, experiment("quality_resnet18").grids[0], MODEL, {"finetune": epochs})


def better_recipe(book: Book, method: str) -> View:
    """Return the figures of a method by the better recipe for fine-tuning."""
    return View(book, _grid("better_resnet18", method), MODEL)


def better_methods() -> list[str]:
    """Return the methods that were fine-tuned by the better recipe, the control first."""
    return list(dict.fromkeys(method for grid in experiment("better_resnet18").grids for method in grid.methods))


def blocks() -> dict[int, str]:
    """Return the methods by the size of a permuted block; 1 is a single pixel."""
    return {block_of(method): method for method in experiment("blocks_resnet18").grids[0].methods}


def block_of(method: str) -> int:
    """Return the size of the blocks that a method permutes.

    Examples
    --------
    >>> block_of("EUPG k=30, blocks 8×8"), block_of("EUPG k=30")
    (8, 1)
    """
    found = _BLOCK.search(method)
    return int(found[1]) if found else 1


def by_block(book: Book, epochs: int) -> View:
    """Return the figures of all sizes of blocks, the base alone (0 epochs) or after fine-tuning."""
    return View(book, experiment("blocks_resnet18").grids[0], MODEL, {"finetune": epochs})


def tuned_epochs() -> int:
    """Return for how many epochs bases of all sizes of blocks are fine-tuned."""
    found = experiment("blocks_resnet18").grids[0].settings["finetune"]
    return int(max(found) if isinstance(found, tuple) else found)


def curve(book: Book, method: str, figure: str) -> dict[int, Spread | None]:
    """Return a figure by epochs of fine-tuning, the paper's recipe; epochs that no experiment has are left out."""
    views = {count: paper_recipe(book, count) for count in EPOCHS}
    return {n: v.spread(SET, method, figure) for n, v in views.items() if asked(v.where(SET, method))}


def declared(view: View, method: str, figure: str) -> str:
    """Show a figure; a dash where no experiment asks for it."""
    return view.shown(SET, method, figure) if asked(view.where(SET, method)) else NONE


def base_epochs(where: dict[str, Value]) -> str:
    """Say for how many epochs the base of a configuration is trained; a short retrain has none."""
    return str(where.get("pretrain", where["effort"])) if str(where["method"]).startswith("EUPG") else "no base"


def everywhere() -> list[dict[str, Value]]:
    """Return every configuration of pictures once, without its repetition."""
    cells = {cell.key: cell for one in EXPERIMENTS if one.gpu for cell in one.cells(1)}
    return [{name: value for name, value in cell.config.items() if name != "repetition"} for cell in cells.values()]


def _grid(name: str, method: str) -> Grid:
    return next(grid for grid in experiment(name).grids if method in grid.methods)
