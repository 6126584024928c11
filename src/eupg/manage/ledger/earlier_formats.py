"""Ledger entries of earlier versions, read as this version writes them.

A ledger is never rewritten, so its entries keep their form. What an entry of an earlier version leaves out is filled in
here from what was true at that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eupg.manage.ledger.events import Entry, Json
from eupg.manage.ledger.transaction import Snapshot


def answer_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was noted when a request was completed.

    Before exposure was recorded, models were fitted on every record in training. Then it was noted what the served
    model had seen, but not what an earlier one had.
    """
    exposed = {"exposed": details["records"] - details["held_out"], **details}
    return {"seen": exposed["exposed"], **exposed}


def forget_entry(entry: Entry, snapshot: Snapshot) -> Entry:
    """Return the entry of a forget with its base model, its release, and the model after it.

    The first versions noted base model and release only when they were made, and did not note how long a forget took; a
    later one noted the model only where it was deployed.
    """
    if entry.body.keys() >= {"base", "served"}:
        return entry
    made: dict[str, Json] = {"base": None, "release": None, "served": None, "trained": True, "elapsed_ms": None}
    change = int(str(entry.body["change"]))
    for earlier in snapshot.entries(kinds=["protect", "pretrain", "deploy"]):
        if int(str(earlier.body.get("change", 0))) <= change:
            made |= {name: earlier.body[name] for name in ("base", "release", "served") if name in earlier.body}
    return replace(entry, body={**made, **entry.body})
