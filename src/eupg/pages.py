"""HTML from the templates of this package: every value is escaped, and a missing one is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template of ``eupg/templates``; only ``markupsafe.Markup`` is taken as HTML."""
    return _environment().get_template(template).render(values)


def card(title: str, rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """Return a title, a small table and notes below it, as notebooks show an object."""
    return render("card.html", {"title": title, "rows": rows, "header": header, "notes": notes})


@cache
def _environment() -> Environment:
    # Imported when something is shown: whatever can be shown in a notebook imports this module.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("eupg"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
