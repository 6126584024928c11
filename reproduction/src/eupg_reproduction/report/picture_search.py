"""How the better recipe for pictures was found: tables of the search, from a file beside the results file.

``search_resnet.jsonl`` is written by ``python -m benchmarks.search_resnet``: one line a run. ``what`` has the base that
was trained, or the start and what was changed of the paper's recipe, with a ``variant`` where the paper leaves open how
it trained; ``held_out`` is the accuracy on held-out training pictures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from eupg.errors import DataError
from eupg_reproduction.picture_recipes import BASE as PRETRAINING
from eupg_reproduction.picture_recipes import BASE_EPOCHS, BETTER, FEATURES, PAPER, recipe_words
from eupg_reproduction.report.words import MISSING, NONE, listed, table

FILE = "search_resnet.jsonl"
BASE, SCRATCH = "k=30, blocks 8×8", "from scratch"
_ALONE = "alone"


@dataclass(frozen=True)
class Searched:
    """Accuracy on held-out pictures: of recipes by start, of further bases alone and by recipe, and of variants."""

    recipes: dict[str, dict[str, float]] = field(default_factory=dict)
    bases: dict[str, dict[str, float]] = field(default_factory=dict)
    variants: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def read_search(folder: Path) -> Searched:
    """Read what was found; nothing where there is no file."""
    path, found = folder / FILE, Searched()
    if not path.is_file():
        return found
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            what, held_out = (json.loads(line)[name] for name in ("what", "held_out"))
            _put(found, dict(what), float(held_out))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} must have what and held_out in every line ({error!r}): write it again") from error
    return found


def _put(found: Searched, what: dict[str, object], held_out: float) -> None:
    if "noise" in what:
        return
    base, start, variant = (str(what.pop(name, "")) for name in ("base", "start", "variant"))
    if not base and not start:
        raise KeyError("base or start")
    if variant:
        found.variants.setdefault(start, {}).setdefault(variant, {})[recipe_words(what)] = held_out
    elif base == BASE:
        found.recipes[_base_alone(found)] = {BASE: held_out}
    elif base:
        found.bases.setdefault(base, {})[_ALONE] = held_out
    elif start in (BASE, SCRATCH):
        found.recipes.setdefault(recipe_words(what), {})[start] = held_out
    else:
        found.bases.setdefault(start, {})[recipe_words(what)] = held_out


def _base_alone(found: Searched) -> str:
    """Name the base among the recipes; a search that goes on later trains it again, and what follows starts there."""
    count = sum(name.startswith("the base alone") for name in found.recipes)
    return "the base alone" if count == 0 else f"the base alone, training {count + 1}"


def search_table(searched: Searched) -> dict[str, str]:
    """Return the tables of recipes and of bases, and where the recipe that was used stands among those tried."""
    used, head = recipe_words(BETTER), ["recipe", "from the base of 8×8 blocks", "from scratch", "mean"]
    means = {words: sum(by.values()) / 2 for words, by in searched.recipes.items() if len(by) == 2}
    rows = []
    for words, by in searched.recipes.items():
        cells = [f"{by[start]:.1f}" if start in by else NONE for start in (BASE, SCRATCH)]
        mean = f"{means[words]:.1f}" if words in means else NONE
        rows.append([f"**{words}**" if words == used else words, *cells, mean])
    rank = 1 + sum(mean > means[used] for mean in means.values()) if used in means else None
    best = NONE if rank is None else "the best" if rank == 1 else f"number {rank}"
    return {
        "search_table": table(head, rows) if rows else MISSING,
        "search_bases": _bases(searched),
        "search_variants": _variants(searched),
        "search_used": used,
        "search_base": f"{BASE_EPOCHS} epochs, {recipe_words(PRETRAINING)}",
        "search_features": ", ".join(f"`{name}={value}`" for name, value in FEATURES.items()),
        "search_paper": listed([recipe_words({name: value}) for name, value in PAPER.items()]),
        "search_rank": MISSING if rank is None else f"{best} of the {len(means)} recipes that were tried from both",
    }


def _bases(searched: Searched) -> str:
    """Return the table of bases that were trained in other ways, or on other releases."""
    columns = (_ALONE, recipe_words({}), recipe_words(BETTER))
    found = {name: by for name, by in searched.bases.items() if len(by) > 1 and name not in searched.variants}
    rows = [[name, *(f"{by[c]:.1f}" if c in by else NONE for c in columns)] for name, by in found.items()]
    return table(["base", "alone", "the paper's recipe", "the better recipe"], rows) if rows else MISSING


def _variants(searched: Searched) -> str:
    """Return the table of what the paper may have done otherwise: by its recipe and, in brackets, by the better one."""
    columns = list(dict.fromkeys(variant for by in searched.variants.values() for variant in by))
    rows = []
    for start, by in searched.variants.items():
        plain = {words: found[SCRATCH] for words, found in searched.recipes.items() if SCRATCH in found}
        plain = plain if start == SCRATCH else searched.bases.get(start, {})
        cells = [_both(found) for found in (plain, *(by.get(variant, {}) for variant in columns))]
        rows.append([start, *cells])
    return table(["start", "as it is", *columns], rows) if rows else MISSING


def _both(found: dict[str, float]) -> str:
    paper, better = (found.get(recipe_words(change)) for change in ({}, BETTER))
    words = NONE if paper is None else f"{paper:.1f}"
    return words if better is None else f"{words} ({better:.1f})"
