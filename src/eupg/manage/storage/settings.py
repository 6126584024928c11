"""The settings of a workspace, ``workspace.toml``: schema, method, and what no claim covers.

They are fixed at the first training. The ledger keeps their digest, so a later change is noticed.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import Any

import tomli_w
from sqlalchemy import make_url

from eupg.data.schema import Schema
from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.manage.ledger.events import Json

_FORMAT = "eupg-workspace-1"


@dataclass(frozen=True)
class Settings:
    """What a workspace is about: its schema, the description of its method, and sentences on what no claim covers.

    ``ledger`` is the URL of the ledger's database, without a password; None for a SQLite file in the folder.
    """

    schema: Schema
    method: Json
    not_covered: tuple[str, ...] = ()
    ledger: str | None = None

    def __post_init__(self) -> None:
        if self.ledger and make_url(self.ledger).password is not None:
            raise ParameterError("the ledger's URL contains a password: put it into ~/.pgpass or PGPASSFILE instead")

    def to_bytes(self) -> bytes:
        """Return the content of ``workspace.toml``."""
        values: dict[str, Any] = {"format": _FORMAT, "method": json.dumps(self.method)}
        values |= {"schema": self.schema.to_toml(), "not_covered": list(self.not_covered)}
        values |= {"ledger": self.ledger} if self.ledger else {}
        return tomli_w.dumps(values, multiline_strings=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Settings:
        """Read the settings back."""
        try:
            values = tomllib.loads(content.decode())
        except ValueError as error:
            raise WorkspaceDamaged(f"workspace.toml cannot be read ({error}): restore it from a backup") from error
        if values.get("format") != _FORMAT:
            raise WorkspaceDamaged(
                f"workspace.toml has the format {values.get('format')!r}, expected {_FORMAT!r}: open the workspace "
                "with the version of eupg that made it, or update eupg"
            )
        try:
            method, schema = json.loads(values["method"]), Schema.from_toml(values["schema"])
        except (KeyError, ValueError, TypeError) as error:
            raise WorkspaceDamaged(f"workspace.toml cannot be read ({error}): restore it from a backup") from error
        return cls(schema, method, tuple(values.get("not_covered", ())), values.get("ledger"))
