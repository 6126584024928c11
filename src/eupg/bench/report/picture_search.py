"""How the better recipe for fine-tuning pictures was found: a table of the search, from a file beside the results file.

``search_resnet.jsonl`` is written by ``python -m benchmarks.search_resnet``: one line a run, with the start and what
was changed of the paper's recipe in ``what``, and the accuracy on held-out training pictures in ``held_out``.
"""

from __future__ import annotations

import json
from pathlib import Path

from eupg.bench.picture_recipes import BETTER, PAPER, recipe_words
from eupg.bench.report.words import MISSING, NONE, listed, table
from eupg.errors import DataError

FILE = "search_resnet.jsonl"
BASE, SCRATCH = "k=30, blocks 8×8", "from scratch"
# Accuracy on held-out pictures by recipe, then by start.
Searched = dict[str, dict[str, float]]


def read_search(folder: Path) -> Searched:
    """Read what was found of the base alone and from the two starts; nothing where there is no file."""
    path, found = folder / FILE, Searched()
    if not path.is_file():
        return found
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            what, held_out = (json.loads(line)[name] for name in ("what", "held_out"))
            if what.get("base") == BASE:
                found[_base_alone(found)] = {BASE: float(held_out)}
            elif what.get("start") in (BASE, SCRATCH):
                recipe = recipe_words({name: value for name, value in what.items() if name != "start"})
                found.setdefault(recipe, {})[what["start"]] = float(held_out)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} must have what and held_out in every line ({error!r}): write it again") from error
    return found


def _base_alone(found: Searched) -> str:
    """Name the base among the recipes; a search that goes on later trains it again, and what follows starts there."""
    count = sum(name.startswith("the base alone") for name in found)
    return "the base alone" if count == 0 else f"the base alone, training {count + 1}"


def search_table(searched: Searched) -> dict[str, str]:
    """Return the table of recipes, and where the one that was used stands among those tried from both starts."""
    used, head = recipe_words(BETTER), ["recipe", "from the base of 8×8 blocks", "from scratch", "mean"]
    means = {words: sum(by.values()) / 2 for words, by in searched.items() if len(by) == 2}
    rows = []
    for words, by in searched.items():
        cells = [f"{by[start]:.1f}" if start in by else NONE for start in (BASE, SCRATCH)]
        mean = f"{means[words]:.1f}" if words in means else NONE
        rows.append([f"**{words}**" if words == used else words, *cells, mean])
    rank = 1 + sum(mean > means[used] for mean in means.values()) if used in means else None
    best = NONE if rank is None else "the best" if rank == 1 else f"number {rank}"
    return {
        "search_table": table(head, rows) if rows else MISSING,
        "search_used": used,
        "search_paper": listed([recipe_words({name: value}) for name, value in PAPER.items()]),
        "search_rank": MISSING if rank is None else f"{best} of the {len(means)} recipes that were tried from both",
    }
