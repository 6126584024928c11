"""One ledger entry for the same event of many requests, and what it says about each of them.

Such an entry has a kind such as ``requests.completed``, and a body of groups. A group lists its ``requests`` and, once,
what holds for all of them, such as the ``details`` of the step; where the requests are received, it also lists their
``digests`` in the same order. For each request it says exactly what an entry of its own would say, so a request's state
is the fold of its events in either form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eupg.manage.ledger.events import Entry, Json
from eupg.manage.requests.states import State

_SINGLE, _BATCH = "request.", "requests."
BATCH_KINDS = frozenset(f"{_BATCH}{state}" for state in State)


@dataclass(frozen=True, eq=False)
class Group:
    """Requests of which one event says the same: their ids, and what it says; digests if they are received."""

    requests: Sequence[str]
    shared: Mapping[str, Json]
    digests: Sequence[str] | None = None


def batch_event(state: State, groups: Iterable[Group]) -> tuple[str, dict[str, Json]]:
    """Return the kind and body of one entry for all requests of some groups.

    Examples
    --------
    >>> batch_event(State.REJECTED, [Group(["r-1", "r-2"], {"reason": "unknown"})])
    ('requests.rejected', {'groups': [{'reason': 'unknown', 'requests': ['r-1', 'r-2']}]})
    """
    listed: list[Json] = []
    for group in groups:
        own: dict[str, Json] = {**group.shared, "requests": list(group.requests)}
        listed.append(own if group.digests is None else own | {"digests": list(group.digests)})
    return f"{_BATCH}{state}", {"groups": listed}


def each_event(entry: Entry) -> Iterator[Entry]:
    """Yield what an entry says about each of its requests, as an entry about that one; any other entry as it is.

    Raises :class:`ValueError` or :class:`KeyError` where the body is not one that :func:`batch_event` makes.

    Examples
    --------
    >>> kind, body = batch_event(State.ACCEPTED, [Group(["r-1", "r-2"], {})])
    >>> [(e.kind, e.body) for e in each_event(Entry(7, "", kind, body, "", ""))]
    [('request.accepted', {'request': 'r-1'}), ('request.accepted', {'request': 'r-2'})]
    """
    if entry.kind not in BATCH_KINDS:
        yield entry
        return
    kind = _SINGLE + entry.kind.removeprefix(_BATCH)
    groups = entry.body["groups"]
    if not isinstance(groups, list):
        raise ValueError("its groups are not a list")
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group["requests"], list):
            raise ValueError("a group of requests is not a list")
        shared = {name: value for name, value in group.items() if name not in ("requests", "digests")}
        digests = group.get("digests")
        if digests is not None and (not isinstance(digests, list) or len(digests) != len(group["requests"])):
            raise ValueError("a group has another number of digests than of requests")
        for i, name in enumerate(group["requests"]):
            own: dict[str, Json] = {"request": name, **shared}
            yield replace(entry, kind=kind, body=own if digests is None else own | {"digest": digests[i]})


def event_about(entry: Entry, request: str) -> Entry:
    """Return what an entry for many requests says about one of them."""
    return next(event for event in each_event(entry) if event.body["request"] == request)


def requests_in(entry: Entry) -> list[str]:
    """Return the ids of the requests that an entry is about."""
    return [str(event.body["request"]) for event in each_event(entry)]
