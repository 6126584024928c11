"""What matching blocks of pictures finds in a release, by the size of a block: a file beside the results file.

``block_linkage.json`` is a list with one object a block size. Someone holds an original picture, cuts it into blocks of
``block`` × ``block`` pixels, and looks for the same blocks at the same places in the protected pictures::

    [
      {"block": 1, "unique_blocks": 0.1, "best_match": 2.0, "linked": 3.1, "bound": 3.3},
      {"block": 8, "unique_blocks": 99.9, "best_match": 12.5, "linked": 3.4, "bound": 3.3}
    ]

All but ``block`` are percentages:

``unique_blocks``
    of the picture's blocks, those that occur exactly once in the release: whoever has the original knows where they are
``best_match``
    of the picture's blocks, those in the one released picture that holds most of them, on average over pictures
``linked``
    of the pictures, those whose released record is the one with most of their blocks in common
``bound``
    what ``linked`` may be at most by the claim: 100 / k
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from eupg.errors import DataError

FILE = "block_linkage.json"


class Linkage(NamedTuple):
    """What matching finds at one block size, in percent."""

    unique_blocks: float
    best_match: float
    linked: float
    bound: float


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
