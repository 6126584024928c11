"""A request that a workspace puts off is taken up again, even if whoever changed the records was killed."""

import json
import re

import pytest
from sqlalchemy import select

from eupg.manage.requests.states import State, Step
from eupg.manage.storage.lock import WorkspaceLock
from eupg.service.access import Actor, ServiceRole, permissions_of
from eupg.service.database import MESSAGES
from eupg.service.outbox import Subscription
from eupg.service.requests import NewRequest
from eupg.service.worker.callbacks import Delivery
from managed import person
from serving import Running

OFFICER = Actor("a-officer", "An officer", permissions_of([ServiceRole.REVIEW]))


def test_request_that_was_put_off_is_carried_out_once_nobody_changes_the_records(live, folder):
    # Person 40 is in one of the two workspaces. The other puts the request off while its records are changed.
    request = live.service.requests.create(OFFICER, NewRequest({"subject": person(40)})).case.request.id
    live.service.requests.accept(OFFICER, request)
    with WorkspaceLock(folder / "half" / "lock", doing="add"):
        assert live.work().completed == 0
        states = {part.workspace: part.state for part in live.service.requests.read(OFFICER, request).parts}
        assert states == {"all": "erased", "half": "waiting"}
    assert live.work().completed == 1
    states = {part.workspace: part.state for part in live.service.requests.read(OFFICER, request).parts}
    assert states == {"all": "erased", "half": "nothing held"}


def test_request_that_was_put_off_and_rejected_by_somebody_does_not_count_as_nothing_held(live, folder):
    request = live.service.requests.create(OFFICER, NewRequest({"subject": person(40)})).case.request.id
    live.service.requests.accept(OFFICER, request)
    with WorkspaceLock(folder / "half" / "lock", doing="add"):
        live.work()
        with live.service.models.opened("half") as manager:
            (deferred,) = manager.space.book.deferred()
            manager.space.book.advance_many([Step(deferred.id, State.REJECTED, "not our customer")])
    assert live.work().completed == 0
    parts = {p.workspace: (p.state, p.reason) for p in live.service.requests.read(OFFICER, request).parts}
    assert parts["half"] == ("failed", "it was rejected in the workspace")


def owner_sees(live: Running, request: str, subject: str) -> object:
    """Return all that the API tells the one who filed a request, without its id and times."""
    headers, key = live.as_role(ServiceRole.INTAKE), {"Idempotency-Key": f"for-{subject.split()[0]}"}
    lists = [
        [r["state"] for r in live.client.get("/v1/requests", params={"state": s}, headers=headers).json()["requests"]]
        for s in ("processing", "failed")
    ]
    again = {"identities": {"subject": subject}, "channel": "letter"}
    answers = [
        live.client.get(f"/v1/requests/{request}", headers=headers),
        live.client.post("/v1/requests", json=again, headers=headers | key),
        live.client.post("/v1/requests", json=again, headers=headers),
        live.client.post(f"/v1/requests/{request}/cancel", headers=headers),
    ]
    words = [json.loads(re.sub("r-[0-9a-f]{16}", "the request", a.text)) for a in answers]
    return lists, [{k: v for k, v in word.items() if k != "received_at"} for word in words]


def test_owner_of_a_request_cannot_tell_who_is_held_while_a_workspace_is_changed(live, folder):
    seen = []
    for subject in (person(20), "nobody has this name"):
        with WorkspaceLock(folder / "all" / "lock", doing="add"):
            request = live.file(subject, **{"Idempotency-Key": f"for-{subject.split()[0]}"})
            live.act(request, "extend", months=1, reason="many requests")
            live.act(request, "accept")
            live.work()
            staff = live.read(request)["state"]
            meanwhile = owner_sees(live, request, subject)
        live.act(request, "retry", ServiceRole.OPERATION)
        live.work()
        assert live.read(request)["state"] == "certified"
        seen.append((staff, meanwhile, owner_sees(live, request, subject)))
    held, unknown = seen
    assert (held[0], unknown[0]) == ("failed", "processing")
    assert held[1:] == unknown[1:]


@pytest.mark.parametrize("subject", [person(20), "nobody has this name"])
def test_callbacks_do_not_tell_who_is_held_while_a_workspace_is_changed(live, folder, subject, monkeypatch):
    # The messages wait.
    monkeypatch.setattr(Delivery, "run", lambda self: None)
    told = Subscription("https://example.org/hook", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    asked = NewRequest({"subject": subject}, subscriptions=(told,))
    request = live.service.requests.create(OFFICER, asked).case.request.id
    live.service.requests.accept(OFFICER, request)
    with WorkspaceLock(folder / "all" / "lock", doing="add"):
        live.work()
    live.act(request, "retry", ServiceRole.OPERATION)
    live.work()
    with live.service.database.reading() as snapshot:
        bodies = snapshot.connection.execute(select(MESSAGES.c.body)).scalars()
        assert sorted(json.loads(body)["type"] for body in bodies) == [
            *("request.accepted", "request.certified", "request.processing")
        ]
