"""``eupg key``: API keys of the service."""

from __future__ import annotations

from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, option
from eupg.cli.serve import DatabaseUrl, ServiceFolder
from eupg.cli.terminal import Terminal
from eupg.errors import ParameterError


@command('eupg key models --name "customer database" --role intake --days 90')
def key(
    folder: ServiceFolder,
    name: Annotated[str | None, option("--name TEXT", "The system that the key is for.")] = None,
    role: Annotated[
        list[str] | None,
        option("--role NAME", "A role: intake, review, operation, audit or administration. May be repeated."),
    ] = None,
    scope: Annotated[
        list[str] | None, option("--scope NAME", "A single permission, such as requests:create. May be repeated.")
    ] = None,
    days: Annotated[int, option("--days N", "Days until the key expires.")] = 90,
    revoke: Annotated[str | None, option("--revoke ID", "End this key instead.")] = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> int:
    """Issue or revoke an API key of the service. It is shown once; only a hash of it is stored."""
    from eupg.service.access import Permission, ServiceRole, permissions_of
    from eupg.service.accounts import OPERATOR
    from eupg.service.service import Service
    from eupg.service.settings import ServiceSettings

    terminal = Terminal(as_json=as_json)
    if (name is None) == (revoke is None):
        raise ParameterError("expected either --name, for a new key, or --revoke: pass exactly one of them")
    try:
        scopes = permissions_of(ServiceRole(r) for r in role or ()) | {Permission(s) for s in scope or ()}
    except ValueError as error:
        roles, permissions = ", ".join(ServiceRole), ", ".join(Permission)
        raise ParameterError(f"{error}: roles are {roles}; scopes are {permissions}") from None
    service = Service.open(ServiceSettings.load(folder, database=database))
    try:
        if revoke is not None:
            ended = service.accounts.revoke_key(OPERATOR, revoke)
            terminal.show(f"Key {revoke} {'is revoked' if ended else 'was not in use'}.", {"revoked": ended})
            return 0 if ended else 1
        issued, secret = service.accounts.issue_key(OPERATOR, name=name or "", scopes=scopes, days=days)
    finally:
        service.close()
    words = f"{secret}\n\nKey {issued.id} for {issued.name}, until {issued.expires_at}. It is not shown again."
    terminal.show(words, {"id": issued.id, "key": secret, "expires_at": issued.expires_at}, wrap=False)
    return 0
