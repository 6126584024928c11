"""References: the names that other systems have for requests, so that a message that comes twice counts once.

A reference stands for one request for good. It may be personal, so the ledger holds a keyed digest of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from sqlalchemy import select

from eupg.manage.ledger.transaction import ENTRIES, Snapshot, Transaction, entry_of

NOTED = "reference"
# Up to so many, each is searched for; beyond, all references are read once.
_FEW = 20


def reference_digest(key: bytes, reference: str) -> str:
    """Return the keyed digest of a reference."""
    return hashlib.blake2b(reference.encode(), key=key, digest_size=16, person=b"eupg reference").hexdigest()


def noted_references(snapshot: Snapshot, references: Collection[str]) -> dict[str, str]:
    """Return the ids of the requests that references stand for, by digest; unknown ones are left out."""
    if not references:
        return {}
    if len(references) <= _FEW:
        entries = [entry for digest in references for entry in snapshot.naming("reference", digest, [NOTED])]
    else:
        query = select(ENTRIES).where(ENTRIES.c.kind == NOTED).order_by(ENTRIES.c.number)
        entries = list(map(entry_of, snapshot.connection.execute(query)))
    wanted, known = set(references), dict[str, str]()
    for entry in entries:
        digest = str(entry.body.get("reference"))
        if digest in wanted:
            known.setdefault(digest, str(entry.body["request"]))
    return known


def note_references(transaction: Transaction, requests: Mapping[str, str]) -> None:
    """Note which requests references stand for, by digest."""
    transaction.append_many((NOTED, {"reference": digest, "request": r}) for digest, r in requests.items())
