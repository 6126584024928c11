"""What the one who filed a request sees of its state: nothing that depends on whether the person is held.

A workspace that is being changed fails for a person whom it holds, and puts off one whom it does not know. Both are
``processing`` for the owner, whatever the worker has tried in between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from eupg.manage.requests.states import Request, State

# From here on the last reason may be the worker's, and stays when a later try succeeds.
_CARRIED_OUT = (State.PROCESSING, State.FAILED, State.COMPLETED, State.CERTIFIED)


def as_owner_sees(request: Request) -> Request:
    """Return a request as the one who filed it sees it: a failure is work in progress."""
    reason = None if request.state in _CARRIED_OUT else request.reason
    return replace(request, state=_shown(request.state), reason=reason)


def states_behind(states: Collection[State]) -> tuple[State, ...]:
    """Return the states in which a request may be that its owner sees in one of these."""
    return tuple(state for state in State if _shown(state) in states)


def _shown(state: State) -> State:
    return State.PROCESSING if state is State.FAILED else state
