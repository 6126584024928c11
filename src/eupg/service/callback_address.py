"""Which addresses callbacks may be sent to, as far as that can be told from the text."""

from __future__ import annotations

from urllib.parse import urlsplit

from eupg.errors import ParameterError
from eupg.service.settings import CallbackSettings

_LONGEST_HOST = 253


def check_url(url: str, settings: CallbackSettings) -> None:
    """Raise unless a callback may go to this address; whether it is private is checked when it is called."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ParameterError("a callback's address cannot be read: write it as https://host/path") from error
    allowed = ("https", "http") if settings.allow_http else ("https",)
    if parts.scheme not in allowed or not parts.hostname or port == 0:
        raise ParameterError(f"a callback's address begins with {' or '.join(allowed)}:// and a host")
    if not _is_host(parts.hostname):
        raise ParameterError("a callback's host is a name of labels of 1 to 63 characters, or an IP address")
    if parts.username is not None or parts.password is not None or parts.fragment or not url.isprintable():
        raise ParameterError("a callback's address has no user, password or fragment: send the secret as 'secret'")


def _is_host(host: str) -> bool:
    """Tell whether a host can be looked up at all; a resolver raises more than OSError for one that cannot."""
    if ":" in host:
        # Between brackets, which urlsplit has checked.
        return True
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return len(host) <= _LONGEST_HOST and not any(character.isspace() for character in host)
