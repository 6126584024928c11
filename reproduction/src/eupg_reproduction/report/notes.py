"""The notes: what is said in words under each table, with places for figures that only code may fill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from eupg.errors import DataError

_PLACE = re.compile(r"\{(\w+)\}")


def note(name: str) -> str:
    """Return the text of a note as it was written, with its open places."""
    return files("eupg_reproduction").joinpath(f"notes/{name}.md").read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put the values in their places.

    Examples
    --------
    >>> filled("Retrain gives {retrain}.", {"retrain": "85.2"})
    'Retrain gives 85.2.'
    """
    unknown = sorted(set(_PLACE.findall(text)) - set(values))
    if unknown:
        raise DataError(
            f"a note asks for {unknown[0]!r}, which its section does not compute: it has {', '.join(sorted(values))}"
        )
    return _PLACE.sub(lambda found: values[found[1]], text)
