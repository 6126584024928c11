"""Messages of other systems: answered once however often they come, and never with what they held."""

import json
import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eupg import EUPG, Certificate, Manager, Seeded
from eupg.errors import LedgerBusy, LedgerCorrupt
from eupg.learn import SklearnLearner
from eupg.manage.integrations.webhook import handle
from eupg.manage.requests import references
from eupg.manage.requests.states import State
from eupg.protect import LocalDP
from people import people

METHOD = EUPG(LocalDP(5.0), SklearnLearner(), pretrain=1, finetune=1)
FIDES = {
    "privacy_request_id": "pri_029832ba-3b84-40f7-8946-82aec6f95448",
    "privacy_request_status": "in_processing",
    "direction": "two_way",
    "callback_type": "pre",
    "identity": {"phone_number": None, "email": "ann@example.org", "external_id": "p3"},
    "policy_action": "erasure",
    "privacy_request": {"id": "pri_029832ba-3b84-40f7-8946-82aec6f95448"},
    "timestamp": "2027-01-15T12:00:00Z",
}


@pytest.fixture
def manager(tmp_path, clock):
    made = Manager(tmp_path / "workspace", METHOD, rng=Seeded(1), clock=clock)
    made.train(people(90))
    yield made
    made.close()


def erase(subject="p3", reference=None, **more):
    message = {"action": "erase", "identity": {"subject": subject}}
    return message | ({} if reference is None else {"reference": reference}) | more


def entries(manager) -> int:
    return manager.space.ledger.head().number


def everything(manager) -> str:
    """Return all that the ledger holds, as text."""
    return json.dumps([[e.kind, dict(e.body)] for e in manager.space.ledger.entries()], ensure_ascii=False)


def test_an_erasure_is_accepted_with_its_deadline(manager):
    answer = handle(manager, erase(reference="T-1"))
    found = manager.space.book.get(answer["request"])
    assert (answer["state"], answer["due"], found.state) == ("accepted", "2027-02-15", State.ACCEPTED)
    assert (found.unit, found.channel) == ("person", "webhook")
    assert json.loads(json.dumps(answer)) == answer


def test_one_record_can_be_named_and_ids_may_be_whole_numbers(manager):
    record = handle(manager, {"action": "erase", "identity": {"record": "r7"}})
    assert manager.space.book.get(record["request"]).unit == "record"
    number, text = (manager.space.book.get(handle(manager, erase(subject=s))["request"]) for s in (125024, "125024"))
    assert number.digest == text.digest


def test_someone_unknown_is_rejected_and_told_why(manager):
    answer = handle(manager, erase(subject="nobody", reference="T-1"))
    assert (answer["state"], answer["reason"]) == ("rejected", "no record of this person is held here")
    assert handle(manager, erase(subject="nobody", reference="T-1")) == answer


def test_a_message_that_comes_twice_changes_nothing(manager):
    first = handle(manager, erase(reference="T-1"))
    before = entries(manager)
    assert handle(manager, erase(reference="T-1")) == first
    assert entries(manager) == before


def test_a_reference_stands_for_its_request_after_it_was_completed(manager):
    name = handle(manager, erase(reference="T-1"))["request"]
    manager.forget()
    before = entries(manager)
    again = handle(manager, erase(reference="T-1"))
    assert (again["request"], again["state"], entries(manager)) == (name, "completed", before)
    manager.certify(name)
    assert handle(manager, erase(reference="T-1"))["state"] == "certified"


def test_without_a_reference_only_an_open_request_is_recognised(manager):
    first, second = handle(manager, erase()), handle(manager, erase())
    assert first == second
    manager.forget()
    later = handle(manager, erase())
    assert (later["request"] != first["request"], later["state"]) == (True, "rejected")


def test_a_second_system_is_given_the_open_request_and_may_ask_by_its_own_reference(manager):
    first = handle(manager, erase(reference="T-1"))
    second = handle(manager, erase(reference="T-2"))
    assert second["request"] == first["request"]
    assert second["reference"] != first["reference"]
    manager.forget()
    for reference in ("T-1", "T-2"):
        assert handle(manager, {"action": "status", "reference": reference})["state"] == "completed"


def test_a_reference_for_someone_else_is_refused(manager):
    name = handle(manager, erase(reference="T-1"))["request"]
    before = entries(manager)
    for identity in ({"subject": "p4"}, {"record": "p3"}):
        found = handle(manager, erase(reference="T-1") | {"identity": identity})["error"]
        assert found["code"] == "reference_reused"
        assert name in found["message"]
    assert entries(manager) == before


def test_two_processes_that_deliver_the_same_message_get_one_request(manager):
    code = (
        "import sys, json\n"
        "from eupg import Manager\n"
        "from eupg.manage.integrations.webhook import handle\n"
        "manager = Manager(sys.argv[1])\n"
        "message = {'action': 'erase', 'identity': {'subject': sys.argv[2]}, 'reference': sys.argv[3]}\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for _ in range(5):\n"
        "    print(json.dumps(handle(manager, message)))\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", code, str(manager.space.folder), "p3", "T-1"]
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [line for process in both for line in process.communicate(timeout=60)[0].splitlines()]
    assert (len(told), len(set(told))) == (10, 1)
    kinds = [e.kind for e in manager.space.ledger.entries() if e.kind.startswith(("request", "reference"))]
    assert kinds == ["request.received", "request.accepted", "reference"]


def test_status_tells_where_a_request_stands(manager):
    asked = handle(manager, erase())
    assert handle(manager, {"action": "status", "request": asked["request"]}) == asked
    manager.forget()
    assert handle(manager, {"action": "status", "request": asked["request"]})["state"] == "completed"


def test_cancelling_twice_is_cancelling_once(manager):
    handle(manager, erase(reference="T-1"))
    message = {"action": "cancel", "reference": "T-1"}
    answer = handle(manager, message)
    before = entries(manager)
    assert (answer["state"], handle(manager, message), entries(manager)) == ("cancelled", answer, before)
    assert handle(manager, erase(reference="T-1"))["state"] == "cancelled"


def test_what_is_done_cannot_be_cancelled(manager):
    name = handle(manager, erase())["request"]
    manager.forget()
    before = entries(manager)
    found = handle(manager, {"action": "cancel", "request": name})["error"]
    assert (found["code"], entries(manager)) == ("refused", before)


def test_one_caller_cannot_cancel_what_another_was_promised(manager):
    handle(manager, erase(reference="T-1"))
    handle(manager, erase(reference="T-2"))
    found = handle(manager, {"action": "cancel", "reference": "T-1"})["error"]
    assert (found["code"], "more than once" in found["message"]) == ("refused", True)
    assert handle(manager, {"action": "status", "reference": "T-2"})["state"] == "accepted"


def test_a_certificate_is_handed_out_once_the_request_is_completed(manager):
    name = handle(manager, erase(reference="T-1"))["request"]
    message = {"action": "certificate", "reference": "T-1"}
    before = entries(manager)
    found = handle(manager, message)["error"]
    assert (found["code"], "accepted" in found["message"], entries(manager)) == ("not_done", True, before)
    manager.forget()
    certificate = Certificate.from_json(json.loads(json.dumps(handle(manager, message))))
    manager.verify(certificate)
    assert certificate.body.request.id == name
    assert handle(manager, {"action": "status", "request": name})["state"] == "certified"
    manager.verify(Certificate.from_json(handle(manager, {"action": "certificate", "request": name})))


@pytest.mark.parametrize("action", ["status", "cancel", "certificate"])
@pytest.mark.parametrize(
    "named", [{"request": "r-0123456789abcdef"}, {"reference": "T-9"}], ids=["request", "reference"]
)
def test_an_unknown_request_is_said_to_be_unknown(manager, action, named):
    before = entries(manager)
    assert handle(manager, {"action": action, **named})["error"]["code"] == "unknown_request"
    assert entries(manager) == before


CANARY = "Ann-Müller-1970"
BAD = {
    "no object": [CANARY],
    "nothing": {},
    "another action": {"action": CANARY},
    "an action that is no text": {"action": {CANARY: 1}},
    "nobody": {"action": "erase"},
    "an empty name": erase(subject=""),
    "two identities": {"action": "erase", "identity": {"subject": CANARY, "record": CANARY}},
    "an identity of another kind": {"action": "erase", "identity": {"email": CANARY}},
    "a list of people": erase(subject=[CANARY, "p3"]),
    "true for a name": erase(subject=True),
    "a number with a fraction": erase(subject=1.5),
    "a very long name": erase(subject=CANARY * 100),
    "half a character": erase(subject=CANARY + "\ud800"),
    "a misspelled reference": erase(refrence=CANARY),
    "a request to erase": erase(request="r-0123456789abcdef"),
    "an empty reference": erase(reference=""),
    "a reference of another kind": erase(reference={"id": CANARY}),
    "no request": {"action": "status"},
    "request and reference": {"action": "status", "request": "r-0123456789abcdef", "reference": CANARY},
    "a name for a request": {"action": "status", "request": CANARY},
    "a pattern for a request": {"action": "cancel", "request": "r-%"},
    "an identity to cancel": {"action": "cancel", "identity": {"subject": CANARY}},
    "fides: a name for the callback": FIDES | {"callback_type": CANARY},
    "fides: no action": {k: v for k, v in FIDES.items() if k != "policy_action"},
    "fides: an unknown action": FIDES | {"policy_action": CANARY},
    "fides: no identity": FIDES | {"identity": None},
    "fides: another identity": FIDES | {"identity": {"email": CANARY}},
    "fides: several values": FIDES | {"identity": {"external_id": {"label": "Id", "value": ["p3", CANARY]}}},
    "fides: an id of another kind": FIDES | {"privacy_request_id": [CANARY]},
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD.keys())
def test_a_bad_message_changes_nothing_and_is_not_repeated(manager, message):
    before = entries(manager)
    answer = handle(manager, message)
    assert list(answer) == ["error"]
    assert (answer["error"]["code"], entries(manager)) == ("invalid", before)
    assert "Ann" not in json.dumps(answer, ensure_ascii=False)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
plain_keys = st.sampled_from(["action", "identity", "reference", "request", "other"])
plain_values = json_values | st.sampled_from(["erase", "status", "cancel", "certificate", {"subject": "p5"}, "T-1"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(plain_keys, plain_values, max_size=4) | json_values)
def test_whatever_comes_is_answered_with_json(manager, message):
    answer = handle(manager, message)
    assert ("error" in answer) != ("request" in answer)
    json.dumps(answer)


subjects = st.sampled_from([f"p{i}" for i in range(30)]) | st.text(min_size=1, max_size=20)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(subjects, st.text(min_size=1, max_size=20)), min_size=1, max_size=4))
@example([("p5", "%_\\\"'\x00"), ("p6", "%"), ("p7", "%_")])
def test_messages_with_a_reference_can_be_delivered_again_in_any_order(manager, pairs):
    messages = [erase(subject, reference) for subject, reference in pairs]
    first = [handle(manager, message) for message in messages]
    before = entries(manager)
    again = [handle(manager, message) for message in reversed(messages)][::-1]
    assert (again, entries(manager)) == (first, before)
    by_reference: dict[str, tuple[str, object]] = {}
    for (subject, reference), answer in zip(pairs, first, strict=True):
        if "error" not in answer:
            assert by_reference.setdefault(reference, (subject, answer)) == (subject, answer)


def test_neither_answers_nor_ledger_hold_a_name_or_a_reference(manager):
    told = [
        handle(manager, erase(reference="ann@example.org/1")),
        handle(manager, erase(subject="nobody-such", reference="ann@example.org/2")),
        handle(manager, {"action": "status", "reference": "ann@example.org/1"}),
        handle(manager, FIDES | {"privacy_request_id": "pri-of-ann"}),
    ]
    held = everything(manager) + json.dumps(told)
    for value in ("ann@", "-ann", "nobody-such", '"p3"', "pri-of"):
        assert value not in held
    assert re.fullmatch("[0-9a-f]{32}", told[0]["reference"])
    assert told[0]["reference"] == told[2]["reference"]


def test_the_digest_of_a_reference_depends_on_the_workspace(manager, tmp_path):
    other = Manager(tmp_path / "other", METHOD, rng=Seeded(1))
    other.train(people(90))
    here, there = (handle(m, erase(reference="T-1"))["reference"] for m in (manager, other))
    other.close()
    assert here != there


def test_fides_is_told_to_go_on(manager):
    answer = handle(manager, FIDES)
    assert (answer["halt"], answer["state"]) == (False, "accepted")
    assert manager.space.book.get(answer["request"]).channel == "fides"


def test_fides_before_and_after_execution_is_one_request(manager):
    before = handle(manager, FIDES)
    assert handle(manager, FIDES | {"callback_type": "post", "direction": "one_way"}) == before


@pytest.mark.parametrize(
    "changes", [{"callback_type": "pre_approval"}, {"policy_action": "access"}, {"policy_action": "consent"}]
)
def test_what_is_not_an_approved_erasure_is_left_alone(manager, changes):
    before = entries(manager)
    answer = handle(manager, FIDES | changes)
    assert (answer["halt"], set(answer), entries(manager)) == (False, {"halt", "ignored"}, before)


@pytest.mark.parametrize("value", ["p3", {"label": "Customer number", "value": "p3"}], ids=["plain", "labelled"])
def test_the_operator_says_which_identity_names_people(manager, value):
    identity = {"email": "ann@example.org", "customer": value}
    answer = handle(manager, FIDES | {"identity": identity}, person="customer")
    assert answer["state"] == "accepted"
    assert handle(manager, erase())["request"] == answer["request"]


def test_before_training_a_caller_is_told_to_come_back(tmp_path):
    empty = Manager(tmp_path / "somewhere-private", METHOD)
    found = handle(empty, erase(reference="T-1"))["error"]
    assert (found["code"], "somewhere-private" in found["message"]) == ("not_ready", False)
    empty.close()


def test_a_busy_ledger_is_no_fault_and_nothing_is_left_half_done(manager, monkeypatch):
    before = entries(manager)

    def busy(*arguments, **options):
        raise LedgerBusy("in /a/private/path")

    with monkeypatch.context() as patch:
        patch.setattr(manager.space.book, "receive_many", busy)
        found = handle(manager, erase(reference="T-1"))["error"]
    assert (found["code"], "private" in found["message"], entries(manager)) == ("busy", False, before)


def test_request_and_reference_are_written_together_or_not_at_all(manager, monkeypatch):
    before = entries(manager)
    monkeypatch.setattr(references, "NOTED", "No Kind")
    with pytest.raises(ValueError, match="kind"):
        handle(manager, erase(reference="T-1"))
    assert entries(manager) == before


def test_faults_of_the_workspace_are_raised(manager, monkeypatch):
    def corrupt(*arguments, **options):
        raise LedgerCorrupt("entry 3 was changed")

    monkeypatch.setattr(manager.space.book, "receive_many", corrupt)
    with pytest.raises(LedgerCorrupt):
        handle(manager, erase())
