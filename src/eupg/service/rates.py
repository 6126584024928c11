"""How many calls a caller may make per time."""

from __future__ import annotations

import ipaddress

from fastapi import Request
from limits import RateLimitItem, parse
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter

from eupg.service.problems import Problem
from eupg.service.settings import LimitSettings


class Rates:
    """Counts calls per caller and purpose: ``call``, ``create``, ``sign-in``, ``stranger`` and ``mail``.

    By default each process counts for itself; name a shared storage, such as Redis, to count across processes.
    """

    def __init__(self, settings: LimitSettings) -> None:
        self._limiter = FixedWindowRateLimiter(storage_from_string(settings.storage))
        self._rates: dict[str, RateLimitItem] = {
            "call": parse(settings.calls),
            "create": parse(settings.creations),
            "sign-in": parse(settings.sign_ins),
            "stranger": parse(settings.strangers),
            "mail": parse(settings.mails),
        }
        self._proxies = [ipaddress.ip_network(network) for network in settings.forwarded_by]

    def check(self, purpose: str, caller: str) -> None:
        """Count a call, and raise if it is one too many."""
        rate = self._rates[purpose]
        if not self._limiter.hit(rate, purpose, caller):
            wait = str(rate.get_expiry())
            words = f"more than {rate}: wait {wait} seconds at most"
            raise Problem(429, "too-many-calls", "Too many calls", words, {"Retry-After": wait})

    def address(self, request: Request) -> str:
        """Return the address of a caller; behind a proxy that the settings name, the one that it was called from.

        Each proxy adds the address that it was called from at the end of the list, so a caller can only write what
        stands before.
        """
        if request.client is None:
            return "unknown"
        forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
        chain = [*(text.strip() for text in forwarded.split(",") if text.strip()), request.client.host]
        while len(chain) > 1 and self._is_proxy(chain[-1]):
            chain.pop()
        return chain[-1]

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)
