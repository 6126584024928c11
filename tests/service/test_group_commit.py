"""Calls at the same moment share a transaction: each is on disk when it returns, and none fails for another's sake."""

import threading

import pytest

from eupg.errors import LedgerUnavailable, RequestRefused
from eupg.service.accounts import OPERATOR
from eupg.service.requests import NewRequest, Requests, RequestSearch
from eupg.service.service import Service
from serving import settings_for


@pytest.fixture
def service(tmp_path):
    service = Service.open(settings_for(tmp_path))
    yield service
    service.close()


def at_once(calls):
    """Call functions at the same moment; return what each returned or raised."""
    results: list[object] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(i):
        barrier.wait()
        try:
            results[i] = calls[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_many_callers_share_transactions_and_each_gets_its_own_request(service, monkeypatch):
    batches = []
    create_many = Requests.create_many

    def counted(self, asked):
        batches.append(len(asked))
        return create_many(self, asked)

    monkeypatch.setattr(Requests, "create_many", counted)
    news = [
        NewRequest({"subject": f"person {i % 30}"}, idempotency_key=f"call {i % 30}".replace(" ", "-"))
        for i in range(40)
    ]
    results = at_once([lambda new=new: service.intake.create(OPERATOR, new) for new in news])
    ids = [result.case.request.id for result in results]
    assert sum(batches) == 40
    assert len(batches) < 40
    # The same key is the same request, in one transaction or in two.
    assert ids[:10] == ids[30:]
    assert len(set(ids)) == 30
    listed = service.requests.search(OPERATOR, RequestSearch(limit=200)).cases
    assert {case.request.id for case in listed} == set(ids)
    service.trail.verify(OPERATOR)
    for name in ids[:3]:
        assert [entry.kind for entry in service.database.trail(name)] == ["request.received", "act.filed"]


def test_a_refused_call_leaves_the_others(service):
    one, other = (NewRequest({"subject": name}, idempotency_key="same") for name in ("one", "other"))
    results = service.requests.create_many(
        [(OPERATOR, one), (OPERATOR, other), (OPERATOR, NewRequest({"subject": "x"}))]
    )
    assert isinstance(results[1], RequestRefused)
    assert results[0].case.request.id != results[2].case.request.id
    again = service.requests.create_many([(OPERATOR, other), (OPERATOR, one)])
    assert isinstance(again[0], RequestRefused)
    assert again[1].replayed


def test_the_same_person_twice_in_one_transaction_is_one_request_that_was_asked_for_again(service):
    new = NewRequest({"subject": "one"})
    first, second = service.requests.create_many([(OPERATOR, new), (OPERATOR, new)])
    assert first.case.request.id == second.case.request.id
    kinds = [entry.kind for entry in service.database.trail(first.case.request.id)]
    assert kinds == ["request.received", "request.repeated", "act.filed", "act.asked-again"]


def test_a_database_that_fails_is_told_to_everyone_who_waits(service, monkeypatch):
    def fail(*_):
        raise LedgerUnavailable("the disk is full")

    monkeypatch.setattr(Requests, "create_many", fail)
    news = [NewRequest({"subject": str(i)}) for i in range(5)]
    results = at_once([lambda new=new: service.intake.create(OPERATOR, new) for new in news])
    assert all(isinstance(result, LedgerUnavailable) for result in results)
    monkeypatch.undo()
    assert service.intake.create(OPERATOR, news[0]).case.request.id
