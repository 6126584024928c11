"""Who may do what: permissions, the roles that bundle them, and the actor who acts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from eupg.errors import AccessDenied


class Permission(StrEnum):
    """One thing that an actor may do. An API key lists those that it carries, as its scopes."""

    CREATE = "requests:create"
    READ_OWN = "requests:read-own"
    READ = "requests:read"
    IDENTITY = "requests:identity"
    DECIDE = "requests:decide"
    RETRY = "requests:retry"
    CERTIFICATES = "certificates:read"
    MODELS = "models:read"
    PREDICT = "models:predict"
    AUDIT = "audit:read"
    MANAGE = "access:manage"


class ServiceRole(StrEnum):
    """What a person or system does here."""

    INTAKE = "intake"
    REVIEW = "review"
    OPERATION = "operation"
    AUDIT = "audit"
    ADMINISTRATION = "administration"


_P = Permission
PERMISSIONS: dict[ServiceRole, frozenset[Permission]] = {
    ServiceRole.INTAKE: frozenset({_P.CREATE, _P.READ_OWN}),
    ServiceRole.REVIEW: frozenset(
        {_P.CREATE, _P.READ_OWN, _P.READ, _P.IDENTITY, _P.DECIDE, _P.CERTIFICATES, _P.MODELS},
    ),
    ServiceRole.OPERATION: frozenset({_P.READ, _P.RETRY, _P.CERTIFICATES, _P.MODELS, _P.PREDICT}),
    ServiceRole.AUDIT: frozenset({_P.READ, _P.CERTIFICATES, _P.MODELS, _P.AUDIT}),
    ServiceRole.ADMINISTRATION: frozenset({_P.MANAGE, _P.MODELS, _P.AUDIT}),
}


@dataclass(frozen=True)
class Actor:
    """Who acts: a person, another system, or a data subject with a status link.

    Parameters
    ----------
    id
        The id of the account, drawn at random. It is what the ledger notes.
    name
        For people to read. It is never noted in the ledger or in a log.
    permissions
        What the actor may do.
    roles
        The roles behind the permissions, for pages to show.
    key
        The id of the API key that was used, if one was.
    """

    id: str
    name: str
    permissions: frozenset[Permission]
    roles: tuple[ServiceRole, ...] = ()
    key: str | None = None

    def may(self, permission: Permission) -> bool:
        """Return whether the actor may do this."""
        return permission in self.permissions

    def require(self, *permissions: Permission) -> None:
        """Raise unless the actor has one of these permissions."""
        if not self.permissions.intersection(permissions):
            needed = " or ".join(permissions)
            raise AccessDenied(f"this needs the permission {needed}: ask an administrator for a role that has it")


def permissions_of(roles: Iterable[ServiceRole]) -> frozenset[Permission]:
    """Return what the roles allow together."""
    return frozenset().union(*(PERMISSIONS[role] for role in roles))
