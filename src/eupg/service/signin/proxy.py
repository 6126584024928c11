"""Sign-in by a reverse proxy that has authenticated the caller.

Its headers count only on a connection from one of the named networks, with the secret that proxy and service share. On
any other connection they are ignored, so nobody can write themselves a role.
"""

from __future__ import annotations

import hmac
import ipaddress

from fastapi import Request

from eupg.errors import AccessDenied, KeyFileError
from eupg.service.access import Actor, ServiceRole, permissions_of
from eupg.service.service import Service
from eupg.service.settings import ProxySettings, ServiceSettings


class TrustedProxy:
    """Reads the headers of a proxy that is trusted."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._networks = [ipaddress.ip_network(network) for network in settings.networks]
        try:
            self._secret = settings.secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"{settings.secret_file}: the proxy's secret cannot be read: {error}") from error
        if len(self._secret) < 32:
            raise KeyFileError(
                f"{settings.secret_file}: expected a secret of at least 32 characters: draw a longer one"
            )

    def actor(self, service: Service, request: Request) -> Actor | None:
        """Return whom the proxy has authenticated; None if this did not come through it."""
        headers, client = request.headers, request.client
        user = headers.get(self._settings.user_header)
        if user is None or client is None or not self._is_near(client.host):
            return None
        sent = headers.get(self._settings.secret_header, "")
        if not hmac.compare_digest(sent.encode(), self._secret.encode()):
            return None
        # A browser that is signed in at the proxy sends its cookie along with what another site makes it send.
        site = headers.get("sec-fetch-site", "same-origin")
        if request.method not in ("GET", "HEAD", "OPTIONS") and site not in ("same-origin", "none"):
            raise AccessDenied("this was sent by a page of another site")
        groups = [group.strip() for group in headers.get(self._settings.groups_header, "").split(",")]
        roles = roles_of(service.settings, groups)
        return Actor(service.accounts.named("proxy", user, user), user, permissions_of(roles), roles)

    def _is_near(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def roles_of(settings: ServiceSettings, groups: list[str]) -> tuple[ServiceRole, ...]:
    """Return the roles of the members of these groups."""
    return tuple(sorted({role for group in groups for role in settings.groups.get(group, ())}))
