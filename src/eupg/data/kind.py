"""The kinds of data the library works on, and the one refusal of data that a component does not work on.

A component (mechanism, protected training, learner, audit) that works on one kind only declares it as ``accepts``. A
component without a declaration works on every kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from eupg.errors import DataError

if TYPE_CHECKING:
    from eupg.data.schema import Schema


class DataKind(StrEnum):
    """What the records of a schema are."""

    TABLE = "tables"
    PICTURES = "pictures"
    VECTORS = "vectors of public features"


# Whatever works on tables or pictures alone has the same alternatives for vectors.
_FOR_VECTORS = "ExactHead, or EUPG with PrivateHead"


@dataclass(frozen=True)
class Accepts:
    """The one kind of data a component works on, and what to use for the other kinds."""

    kind: DataKind
    instead: str

    def check(self, schema: Schema, component: str) -> None:
        """Refuse a schema of another kind."""
        if schema.kind is not self.kind:
            instead = _FOR_VECTORS if schema.kind is DataKind.VECTORS else self.instead
            raise DataError(f"{component} works on {self.kind}, and this schema describes {schema.kind}: use {instead}")


def check_kind(schema: Schema, *components: object) -> None:
    """Refuse a schema whose kind one of the components does not accept.

    Examples
    --------
    >>> from eupg.data.pictures.files import picture_schema
    >>> from eupg.protect import LocalDP
    >>> check_kind(picture_schema((3, 8, 8), ("cat", "dog")), LocalDP(epsilon=1.0))
    Traceback (most recent call last):
    eupg.errors.DataError: LocalDP works on tables, and this schema describes pictures: use PixelDP
    """
    for component in components:
        accepts = getattr(component, "accepts", None)
        if isinstance(accepts, Accepts):
            accepts.check(schema, type(component).__name__)
