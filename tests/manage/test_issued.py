"""Only what was issued verifies, and a certificate issued late tells of the records as they were."""

import dataclasses

import pytest

from eupg.certify.certificate import sign
from eupg.errors import CertificateInvalid, WrongState
from eupg.manage.requests.states import REISSUED, State
from eupg.manage.storage.state import digest_of_all
from managed import NEWCOMERS, person, trained


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        yield manager


def done(manager, number=3):
    request = manager.request_erasure(subject=person(number))
    manager.forget()
    return request


CHANGES = {
    "date": lambda body: dataclasses.replace(body, issued="2020-01-01T00:00:00Z"),
    "deletions": lambda body: dataclasses.replace(body, deleted=()),
    "identity": lambda body: dataclasses.replace(
        body, request=dataclasses.replace(body.request, identity_verified=True)
    ),
    "retained": lambda body: dataclasses.replace(
        body, provenance=dataclasses.replace(body.provenance, retained="0" * 64)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_signed_again_with_other_words_is_refused(manager, change):
    paper = manager.certify(done(manager).id)
    forged = sign(change(paper.body), manager.space.signing)
    with pytest.raises(CertificateInvalid, match="does not know that it was ever issued"):
        manager.verify(forged)
    manager.verify(paper)


def test_every_issue_is_noted_and_verifies(manager):
    request = done(manager)
    papers = [manager.certify(request.id) for _ in range(3)]
    assert len({paper.digest for paper in papers}) == 3
    for paper in papers:
        manager.verify(paper)
    again = [e.body["certificate"] for e in manager.space.ledger.entries(kinds=[REISSUED])]
    assert again == [paper.digest for paper in papers[1:]]
    assert manager.space.book.get(request.id).state is State.CERTIFIED


def test_late_certificate_has_the_records_retained_at_its_erasure(manager):
    request = done(manager)
    then = digest_of_all(manager.space.state().records)
    manager.add(NEWCOMERS)
    done(manager, 4)
    late = manager.certify(request.id)
    assert late.body.provenance.retained == then != digest_of_all(manager.space.state().records)
    manager.verify(late)


def test_refusal_names_the_step_that_helps(manager):
    states = {"nobody": (True, "nothing was erased"), person(5): (False, "decide on it first")}
    for subject, (accept, words) in states.items():
        request = manager.request_erasure(subject=subject, accept=accept)
        with pytest.raises(WrongState, match=words) as told:
            manager.certify(request.id)
        assert "run forget first" not in str(told.value)
