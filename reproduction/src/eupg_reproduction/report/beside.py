"""What lies beside the results file about pictures: what blocks show, and how the better recipe was found.

``block_linkage.json``, by ``python -m benchmarks.block_linkage``, is a list with one object per size of a block. One
adversary holds an original picture, cuts it into blocks of ``block`` × ``block`` pixels, and looks for the same blocks
at the same places in the protected pictures; another holds these alone and puts blocks together by their edges.
``pictures`` and ``originals`` are counts: pictures in a release, and originals that were looked for, over all releases.
The others are percentages, ``_low`` and ``_high`` the ends of 95 % intervals:

``unique_blocks``
    of the picture's blocks, those that occur exactly once in the release: whoever has the original knows where they are
``best_match``
    of the picture's blocks, those in the one released picture that holds most of them, on average over pictures
``linked``
    of the pictures, those whose released record is the one with most of their blocks in common
``bound``
    what ``linked`` may be at most by the claim: 100 / k
``edges``
    of the blocks, those whose true right-hand neighbour is the candidate of the group with the nearest edge; to guess
    gives ``bound`` here too
``rows``
    of the rows of blocks, those that are put together from end to end that way

``search_resnet.jsonl``, by ``python -m benchmarks.search_resnet``, has one line per run. ``what`` has the base that was
trained, or the start and what was changed of the paper's recipe, with a ``variant`` where the paper leaves open how it
trained; ``held_out`` is the accuracy on held-out training pictures.
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
    """What two adversaries find at one block size: two counts, then percentages."""

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
    """Read what was found by size of a block; nothing where there is no such file in the folder."""
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
    """Accuracy on held-out pictures: of recipes by start, of further bases alone and by recipe, and of variants."""

    recipes: dict[str, dict[str, float]] = field(default_factory=dict)
    bases: dict[str, dict[str, float]] = field(default_factory=dict)
    variants: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def read_search(folder: Path) -> Searched:
    """Read what was found; nothing where there is no file."""
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
        # A search that goes on later trains its base again, and what follows starts there.
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
    means = {words: sum(by.values()) / 2 for words, by in searched.recipes.items() if len(by) == 2}
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
    """Say where the recipe that was used stands among those tried, by the mean of both starts."""
    means = {words: sum(by.values()) / 2 for words, by in searched.recipes.items() if len(by) == 2}
    used = means.get(recipe_words(BETTER))
    if used is None:
        return MISSING
    rank = 1 + sum(mean > used for mean in means.values())
    words = "the best" if rank == 1 else f"number {rank}"
    return f"{words} of the {len(means)} recipes that were tried from both"


def _variants(searched: Searched) -> pd.DataFrame:
    """Return the table of what the paper may have done otherwise: by its recipe and, in brackets, by the better one."""
    columns = list(dict.fromkeys(variant for by in searched.variants.values() for variant in by))
    scratch = {words: by[SCRATCH] for words, by in searched.recipes.items() if SCRATCH in by}
    rows = []
    for start, by in searched.variants.items():
        plain = scratch if start == SCRATCH else searched.bases.get(start, {})
        rows.append({"start": start, "as it is": _both(plain)} | {name: _both(by.get(name, {})) for name in columns})
    return pd.DataFrame(rows)


def _one(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _both(found: dict[str, float]) -> str:
    better = found.get(recipe_words(BETTER))
    return _one(found.get(recipe_words({}))) + ("" if better is None else f" ({better:.1f})")
