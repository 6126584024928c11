"""Who issues the certificates of a workspace: named once, and remembered in the ledger."""

from __future__ import annotations

from dataclasses import replace

from eupg.certify.issuer import Issuer
from eupg.errors import ParameterError
from eupg.manage.storage.workspace import Workspace

ISSUER = "issuer"


def issuer_of(space: Workspace) -> Issuer | None:
    """Return the issuer that was named last, without a reference."""
    with space.ledger.snapshot() as snapshot:
        entry = snapshot.last(ISSUER)
    return None if entry is None else Issuer.from_json(entry.body, where="issuer")


def name_issuer(space: Workspace, issuer: Issuer | None, reference: str | None) -> Issuer | None:
    """Return the issuer of one certificate; one that is new is remembered, except for the reference."""
    if not isinstance(issuer, Issuer | None):
        raise ParameterError(f"expected an issuer, got {type(issuer).__name__}: pass Issuer(name=…, contact=…)")
    known = issuer_of(space)
    named = known if issuer is None else replace(issuer, reference=None)
    if named is None:
        if reference is not None:
            raise ParameterError("a reference belongs to an issuer, and none is named: name the issuer, too")
        return None
    if named != known:
        space.ledger.append(ISSUER, named.to_json())
    return replace(named, reference=reference or (issuer.reference if issuer else None))
