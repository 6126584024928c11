"""What blocks of permuted pictures show, by the size of a block: a file beside the results file.

``block_linkage.json`` is a list with one object a block size, written by ``python -m benchmarks.block_linkage``. One
adversary holds an original picture, cuts it into blocks of ``block`` × ``block`` pixels, and looks for the same blocks
at the same places in the protected pictures; another holds these alone and puts blocks together by their edges::

    [
      {"block": 8, "pictures": 6000, "originals": 3000, "unique_blocks": 99.9, "best_match": 12.5,
       "linked": 3.4, "linked_low": 2.8, "linked_high": 4.1, "bound": 3.3,
       "edges": 81.1, "edges_low": 80.3, "edges_high": 82.0, "rows": 57.0}
    ]

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
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from eupg.errors import DataError

FILE = "block_linkage.json"


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
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {int(row["block"]): Linkage(*(float(row[name]) for name in Linkage._fields)) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        names = ", ".join(("block", *Linkage._fields))
        raise DataError(f"{path} must be a list of objects with {names} ({error!r}): write it again") from error
