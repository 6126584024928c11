"""The worker: one at a time, shut out when it was taken for dead, and able to repeat every step."""

import pytest
from sqlalchemy import select

from eupg import Manager, Schema
from eupg.data.dataset import Dataset
from eupg.errors import LeaseLost, RequestRefused
from eupg.service.access import Actor, Permission, ServiceRole
from eupg.service.accounts import OPERATOR
from eupg.service.database import PARTS, ServiceDatabase
from eupg.service.requests import RequestSearch
from eupg.service.worker import erasure
from eupg.service.worker.erasure import ErasurePass
from eupg.service.worker.lease import Lease
from eupg.service.worker.loop import Worker
from managed import HELD_OUT, METHOD, RECORDS, person, record
from serving import running, settings_for


class Crash(BaseException):
    """What a test raises in place of a kill: nothing catches it."""


def test_a_lease_has_one_holder_and_each_new_holder_a_higher_number(tmp_path, database):
    clock = [100.0]
    opened = ServiceDatabase(database or tmp_path / "service.db")
    first, second = (Lease(opened, "worker", seconds=10, clock=lambda: clock[0]) for _ in range(2))
    assert first.take()
    assert not second.take()
    clock[0] += 6
    assert first.take()
    assert first.token == 1
    clock[0] += 6
    assert not second.take()
    clock[0] += 5
    assert second.take()
    assert second.token == 2
    # The first one wakes up: it can neither renew its lease nor note anything.
    assert not first.take()
    with pytest.raises(LeaseLost), first.writing():
        raise AssertionError("a worker that was taken for dead wrote")
    second.release()
    assert first.take()
    assert first.token == 3
    with pytest.raises(LeaseLost), second.writing():
        pass
    opened.close()


def test_a_worker_that_lost_its_lease_notes_nothing(live, monkeypatch):
    request = live.file(person(1))
    live.act(request, "accept")
    honour = ErasurePass._honour

    def overtaken(self, workspace, requests):
        # Another worker takes over while this one forgets.
        self.lease._holder = "somebody who was here before"
        return honour(self, workspace, requests)

    with monkeypatch.context() as patched:
        patched.setattr(ErasurePass, "_honour", overtaken)
        with pytest.raises(LeaseLost):
            live.work()
    assert {part["state"] for part in live.read(request)["workspaces"]} == {"waiting"}


@pytest.mark.parametrize("step", ["_note", "_answer", "_certify", "_complete"])
def test_a_worker_that_dies_at_a_step_is_continued_by_the_next(folder, database, monkeypatch, step):
    for live in running(settings_for(folder, database=database)):
        request = live.file(person(2))
        live.act(request, "accept")

        def die(*_, **__):
            raise Crash

        with monkeypatch.context() as patched:
            patched.setattr(ErasurePass, step, die)
            with pytest.raises(Crash):
                live.work()
        live.work()
        found = live.read(request)
        # Without its reference, the second attempt would find nobody, and say so.
        assert [part["state"] for part in found["workspaces"]] == ["erased", "erased"]
        assert found["state"] == "certified"
        live.service.trail.verify(OPERATOR)


def test_two_workers_share_the_work_without_doing_any_of_it_twice(live):
    requests = [live.file(person(i)) for i in (3, 4)]
    first, second = Worker(live.service), Worker(live.service)
    live.act(requests[0], "accept")
    done = first.run_once()
    assert done is not None
    assert done.completed == 1
    live.act(requests[1], "accept")
    assert second.run_once() is None
    first._lease.release()
    done = second.run_once()
    assert done is not None
    assert done.completed == 1
    assert first.run_once() is None


def test_everybody_in_a_pass_is_answered_in_one_transaction(live):
    known, unknown = live.file(person(5)), live.file("nobody has this name")
    for request in (known, unknown):
        live.act(request, "accept")
    live.work()
    at = {
        request: next(e.at for e in live.service.database.trail(request) if e.kind == "request.completed")
        for request in (known, unknown)
    }
    assert at[known] == at[unknown]


def test_a_cancelled_request_is_not_carried_out(live):
    request = live.file(person(6))
    live.act(request, "accept")
    live.act(request, "cancel", ServiceRole.INTAKE, reason="filed by mistake")
    assert live.work().taken_up == 0
    with live.service.database.reading() as snapshot:
        assert snapshot.connection.execute(select(PARTS)).all() == []
    assert live.service.requests.search(OPERATOR, RequestSearch()).cases[0].request.state == "cancelled"


def test_a_workspace_that_is_missing_fails_and_is_asked_again_when_it_is_back(live, folder):
    live.act(first := live.file(person(7)), "accept")
    live.work()
    assert live.read(first)["state"] == "certified"
    (folder / "half").rename(folder.parent / "half")
    live.act(request := live.file(person(8)), "accept")
    assert live.work().completed == 0
    found = live.read(request)
    assert found["state"] == "failed"
    assert {p["workspace"]: (p["state"], p["reason"]) for p in found["workspaces"]} == {
        "all": ("erased", None),
        "half": ("failed", "UnknownModel"),
    }
    (folder.parent / "half").rename(folder / "half")
    # Whoever may retry need not be able to read why.
    live.service.requests.retry(Actor("a-retries", "Retries", frozenset({Permission.RETRY})), request)
    assert live.work().completed == 1
    assert [p["state"] for p in live.read(request)["workspaces"]] == ["erased", "erased"]


def test_a_request_that_no_workspace_was_asked_about_is_not_completed(live, folder):
    for name in ("all", "half"):
        (folder / name).rename(folder.parent / name)
    live.act(request := live.file(person(8)), "accept")
    assert (live.work().completed, live.read(request)["state"]) == (0, "failed")
    for name in ("all", "half"):
        (folder.parent / name).rename(folder / name)
    live.act(request, "retry", ServiceRole.OPERATION)
    assert live.work().completed == 1
    assert [p["state"] for p in live.read(request)["workspaces"]] == ["erased", "erased"]


def test_a_workspace_that_was_removed_for_good_is_not_waited_for(folder):
    for live in running(settings_for(folder)):
        live.act(live.file(person(7)), "accept")
        live.work()
        (folder / "half").rename(folder.parent / "half")
        live.act(request := live.file(person(8)), "accept")
        assert live.work().completed == 0
        live.act(request, "retry", ServiceRole.OPERATION)
        live.worker.release()
    for live in running(settings_for(folder, retired=("half", "all"))):
        assert live.work().completed == 1
        # One that is there is asked, whatever the settings say.
        assert {p["workspace"]: p["state"] for p in live.read(request)["workspaces"]} == {"all": "erased"}


def test_an_unknown_name_keeps_nobody_else_from_being_erased_where_no_column_names_people(tmp_path):
    def nameless(data: Dataset) -> Dataset:
        schema = Schema(tuple(a for a in data.schema.attributes if a is not data.schema.subject))
        return Dataset(schema, data.X, data.y, data.ids, data.ids)

    manager = Manager(tmp_path / "records", METHOD)
    manager.train(nameless(RECORDS), hold_out=nameless(HELD_OUT))
    manager.close()
    for live in running(settings_for(tmp_path)):
        held, unknown = live.file(record(9)), live.file("nobody has this name")
        for request in (held, unknown):
            live.act(request, "accept")
        live.work()
        parts = [live.read(request)["workspaces"][0] for request in (held, unknown)]
        assert [part["state"] for part in parts] == ["erased", "not searchable"]
        assert parts[1]["reason"] == "no column of this workspace names people"


def test_any_other_refusal_is_a_failure(live, monkeypatch):
    live.act(request := live.file(person(9)), "accept")
    with monkeypatch.context() as patched:
        patched.setattr(erasure, "accept", lambda *_: (_ for _ in ()).throw(RequestRefused("of another kind")))
        assert live.work().completed == 0
    parts = live.read(request)["workspaces"]
    assert {(part["state"], part["reason"]) for part in parts} == {("failed", "RequestRefused")}


@pytest.mark.parametrize("error", [ValueError, MemoryError, UnicodeError])
def test_an_error_of_any_kind_fails_one_workspace_and_not_the_worker(live, monkeypatch, error):
    live.act(request := live.file(person(40)), "accept")
    honour = ErasurePass._honour

    def broken(self, workspace, requests):
        if workspace == "all":
            raise error("about a person")
        return honour(self, workspace, requests)

    with monkeypatch.context() as patched:
        patched.setattr(ErasurePass, "_honour", broken)
        assert live.work().failed == 1
    parts = {part["workspace"]: (part["state"], part["reason"]) for part in live.read(request)["workspaces"]}
    assert parts == {"all": ("failed", error.__name__), "half": ("nothing held", None)}
    live.act(request, "retry", ServiceRole.OPERATION)
    assert live.work().completed == 1


def test_a_bundle_that_cannot_be_issued_keeps_back_no_other(live, monkeypatch):
    first, second = live.file(person(10)), live.file(person(11))
    for request in (first, second):
        live.act(request, "accept")
    issue = ErasurePass._issue

    def broken(self, request):
        if request == first:
            raise ValueError("about a person")
        issue(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(ErasurePass, "_issue", broken)
        with pytest.raises(ValueError, match="about a person"):
            live.work()
    assert [live.read(request)["state"] for request in (first, second)] == ["completed", "certified"]
    live.work()
    assert live.read(first)["state"] == "certified"


def test_a_pass_that_fails_for_any_reason_is_followed_by_another(live, monkeypatch, caplog):
    passes = []

    def broken(self):
        passes.append(self)
        if len(passes) == 3:
            self.stop()
        raise ValueError("about a person")

    monkeypatch.setattr(Worker, "run_once", broken)
    live.worker.run()
    assert len(passes) == 3
    assert [record.error for record in caplog.records if record.msg == "pass failed"] == ["ValueError"] * 3
    assert "about a person" not in caplog.text


def test_a_workspace_that_is_missing_before_it_was_ever_asked_fails_too(live, folder):
    assert live.work().taken_up == 0
    (folder / "half").rename(folder.parent / "half")
    live.act(request := live.file(person(8)), "accept")
    assert live.work().completed == 0
    assert {p["workspace"]: p["state"] for p in live.read(request)["workspaces"]} == {"all": "erased", "half": "failed"}
