"""How many calls a caller may make per time."""

from __future__ import annotations

from limits import RateLimitItem, parse
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter

from eupg.service.problems import Problem
from eupg.service.settings import LimitSettings


class Rates:
    """Counts calls per caller and purpose: ``call``, ``create``, ``sign-in`` and ``stranger``.

    By default each process counts for itself; name a shared storage, such as Redis, to count across processes.
    """

    def __init__(self, settings: LimitSettings) -> None:
        self._limiter = FixedWindowRateLimiter(storage_from_string(settings.storage))
        self._rates: dict[str, RateLimitItem] = {
            "call": parse(settings.calls),
            "create": parse(settings.creations),
            "sign-in": parse(settings.sign_ins),
            "stranger": parse(settings.strangers),
        }

    def check(self, purpose: str, caller: str) -> None:
        """Count a call, and raise if it is one too many."""
        rate = self._rates[purpose]
        if not self._limiter.hit(rate, purpose, caller):
            wait = str(rate.get_expiry())
            words = f"more than {rate}: wait {wait} seconds at most"
            raise Problem(429, "too-many-calls", "Too many calls", words, {"Retry-After": wait})
