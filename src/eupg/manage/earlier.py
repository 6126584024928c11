"""What earlier versions wrote into a ledger, read as this version writes it.

A ledger is never rewritten, so its entries keep the form they had. Whatever an entry of an earlier version leaves out
is filled in here from what was true at that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eupg.manage.events import Entry, Json
from eupg.manage.transaction import Snapshot


def answer_details(noted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was noted when a request was completed.

    Before exposure was recorded, models were fitted on every record in training. Then only what the served model had
    seen was noted, not what an earlier one had.
    """
    exposed = {"exposed": noted["records"] - noted["held_out"], **noted}
    return {"seen": exposed["exposed"], **exposed}


def forget_entry(entry: Entry, snapshot: Snapshot) -> Entry:
    """Return the entry of a forget with the base model and the release it went back to, and the model after it.

    The first versions noted base model and release once, when they were made, and did not note how long a forget took;
    a later one noted the model only where it was deployed.
    """
    if entry.body.keys() >= {"base", "served"}:
        return entry
    made: dict[str, Json] = {"base": None, "release": None, "served": None, "trained": True, "elapsed_ms": None}
    change = int(str(entry.body["change"]))
    for noted in snapshot.entries(kinds=["protect", "pretrain", "deploy"]):
        if int(str(noted.body.get("change", 0))) <= change:
            made |= {name: noted.body[name] for name in ("base", "release", "served") if name in noted.body}
    return replace(entry, body={**made, **entry.body})
