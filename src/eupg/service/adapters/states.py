"""The states of a request in the words of other protocols.

None of them says whether a person was held: a request about nobody ends like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from eupg.manage.requests.states import Request, State

DRP: Mapping[State, str] = {
    State.RECEIVED: "in_progress",
    State.VERIFIED: "in_progress",
    State.ACCEPTED: "in_progress",
    State.PROCESSING: "in_progress",
    State.FAILED: "in_progress",
    State.COMPLETED: "fulfilled",
    State.CERTIFIED: "fulfilled",
    State.CANCELLED: "revoked",
    State.REJECTED: "denied",
}
OPENDSR: Mapping[State, str] = {
    State.RECEIVED: "pending",
    State.VERIFIED: "in_progress",
    State.ACCEPTED: "in_progress",
    State.PROCESSING: "in_progress",
    State.FAILED: "in_progress",
    State.COMPLETED: "completed",
    State.CERTIFIED: "completed",
    State.CANCELLED: "cancelled",
    # OpenDSR has no word for a request that was refused.
    State.REJECTED: "cancelled",
}


def drp_status(request: Request) -> dict[str, str]:
    """Return the status of a request, as the Data Rights Protocol has it."""
    values = {
        "request_id": request.id,
        "status": DRP[request.state],
        "received_at": request.received_at,
        "expected_by": request.due.isoformat(),
    }
    if request.state is State.REJECTED:
        values |= {"reason": "other", "processing_details": str(request.reason)}
    return values


def completion_time(request: Request) -> str:
    """Return when a request is to be answered, as OpenDSR writes it."""
    return f"{request.due.isoformat()}T23:59:59Z"
