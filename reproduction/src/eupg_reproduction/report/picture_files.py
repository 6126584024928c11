"""Two files about pictures beside the results: what permuted blocks reveal, and the search for a better recipe.

``block_linkage.json`` (``python -m benchmarks.block_linkage``) has one object per block size. One adversary cuts an
original picture into blocks and looks for them in the protected pictures; another joins protected blocks by their
edges. Its fields are those of :class:`Linkage`.

``search_resnet.jsonl`` (``python -m benchmarks.search_resnet``) has one line per run. ``what`` names the base that was
trained, or the start and the changes to the paper's recipe, with a ``variant`` if the paper leaves open how it trained;
``held_out`` is the accuracy on held-out training pictures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from eupg.errors import DataError
from eupg_reproduction.picture_recipes import BETTER, recipe_words
from eupg_reproduction.report.words import MISSING, NONE

LINKAGE, SEARCH = "block_linkage.json", "search_resnet.jsonl"
BASE, SCRATCH, _ALONE = "k=30, blocks 8×8", "from scratch", "alone"


class Linkage(NamedTuple):
    """What two adversaries find at one block size; percentages, with the ends of 95 % intervals.

    ``pictures`` and ``originals`` count the pictures in a release and the originals that were looked for.
    ``unique_blocks``: blocks of the picture that occur exactly once in the release. ``best_match``: blocks in the
    released picture that holds most of them. ``linked``: pictures whose released record is that one; ``bound`` is 100 /
    k. ``edges``: blocks whose right-hand neighbour has the nearest edge in the group. ``rows``: rows of blocks rebuilt
    so.
    """

    pictures: float
    originals: float
    unique_blocks: float
    best_match: float
    linked: float
    linked_low: float
    linked_high: float
    bound: float
    edges: float
    edges_low: float
    edges_high: float
    rows: float


def read_linkage(folder: Path) -> dict[int, Linkage]:
    """Read the results by block size; empty without the file."""
    path = folder / LINKAGE
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {int(row["block"]): Linkage(*(float(row[name]) for name in Linkage._fields)) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        names = ", ".join(("block", *Linkage._fields))
        raise DataError(f"{path} must be a list of objects with {names} ({error!r}): write it again") from error


@dataclass(frozen=True)
class Searched:
    """Accuracy on held-out pictures: of recipes by start, of further bases by recipe, and of variants by start."""

    recipes: dict[str, dict[str, float]] = field(default_factory=dict)
    bases: dict[str, dict[str, float]] = field(default_factory=dict)
    variants: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def read_search(folder: Path) -> Searched:
    """Read the search; empty without the file."""
    path, searched = folder / SEARCH, Searched()
    if not path.is_file():
        return searched
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            what, held_out = (json.loads(line)[name] for name in ("what", "held_out"))
            _put(searched, dict(what), float(held_out))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} must have what and held_out in every line ({error!r}): write it again") from error
    return searched


def _put(searched: Searched, what: dict[str, Any], held_out: float) -> None:
    if "noise" in what:
        return
    base, start, variant = (str(what.pop(name, "")) for name in ("base", "start", "variant"))
    if not base and not start:
        raise KeyError("base or start")
    if variant:
        searched.variants.setdefault(start, {}).setdefault(variant, {})[recipe_words(what)] = held_out
    elif base == BASE:
        # A search that is continued trains its base again and starts from it.
        count = sum(name.startswith("the base alone") for name in searched.recipes)
        name = "the base alone" + (f", training {count + 1}" if count else "")
        searched.recipes[name] = {BASE: held_out}
    elif base:
        searched.bases.setdefault(base, {})[_ALONE] = held_out
    elif start in (BASE, SCRATCH):
        searched.recipes.setdefault(recipe_words(what), {})[start] = held_out
    else:
        searched.bases.setdefault(start, {})[recipe_words(what)] = held_out


def search_tables(searched: Searched) -> dict[str, pd.DataFrame]:
    """Return the tables of recipes, bases and variants."""
    used = recipe_words(BETTER)
    means = _means(searched)
    recipes = [
        {
            "recipe": f"**{words}**" if words == used else words,
            "from the base of 8×8 blocks": _one(by.get(BASE)),
            "from scratch": _one(by.get(SCRATCH)),
            "mean": _one(means.get(words)),
        }
        for words, by in searched.recipes.items()
    ]
    bases = [
        {"base": name, "alone": _one(by.get(_ALONE)), "the paper's recipe": _one(by.get(recipe_words({})))}
        | {"the better recipe": _one(by.get(used))}
        for name, by in searched.bases.items()
        if len(by) > 1 and name not in searched.variants
    ]
    return {"recipes": pd.DataFrame(recipes), "bases": pd.DataFrame(bases), "variants": _variants(searched)}


def search_rank(searched: Searched) -> str:
    """Return the rank of the recipe in use among those tried, by the mean of both starts."""
    means = _means(searched)
    used = means.get(recipe_words(BETTER))
    if used is None:
        return MISSING
    rank = 1 + sum(mean > used for mean in means.values())
    words = "the best" if rank == 1 else f"number {rank}"
    return f"{words} of the {len(means)} recipes tried from both starts"


def _means(searched: Searched) -> dict[str, float]:
    return {words: sum(by.values()) / 2 for words, by in searched.recipes.items() if len(by) == 2}


def _variants(searched: Searched) -> pd.DataFrame:
    """Return what the paper may have done differently: by its recipe and, in brackets, by the better one."""
    columns = list(dict.fromkeys(variant for by in searched.variants.values() for variant in by))
    scratch = {words: by[SCRATCH] for words, by in searched.recipes.items() if SCRATCH in by}
    rows = []
    for start, by in searched.variants.items():
        plain = scratch if start == SCRATCH else searched.bases.get(start, {})
        rows.append({"start": start, "as it is": _both(plain)} | {name: _both(by.get(name, {})) for name in columns})
    return pd.DataFrame(rows)


def _one(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _both(by_recipe: dict[str, float]) -> str:
    better = by_recipe.get(recipe_words(BETTER))
    return _one(by_recipe.get(recipe_words({}))) + ("" if better is None else f" ({better:.1f})")
