"""Other protocols: the Data Rights Protocol and OpenDSR, over the same requests."""

import base64
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from sqlalchemy import select

from eupg.service.access import ServiceRole
from eupg.service.database import MESSAGES
from managed import person
from protocols import AGENT, DRP, OTHER, envelope, exercised, opendsr_body, opendsr_settings, signed, token
from serving import running, settings_for

SUBJECT = {"identity_type": "subject", "identity_format": "raw"}


@pytest.fixture
def business(folder):
    yield from running(settings_for(folder, drp=DRP))


def test_an_agent_files_follows_and_sees_a_request_fulfilled(business):
    headers = token(business)
    assert business.client.get("/v1/agent/AGENT", headers=headers).json() == {}
    assert business.client.get("/v1/agent/OTHER", headers=headers).status_code == 403
    answer = exercised(business, headers)
    assert answer.status_code == 200, answer.text
    request, status = answer.json()["request_id"], answer.json()["status"]
    assert status == "in_progress"
    assert {"received_at", "expected_by"} <= set(answer.json())
    business.act(request, "accept")
    business.work()
    path = f"/v1/data-rights-request/{request}"
    assert business.client.get(path, headers=headers).json()["status"] == "fulfilled"
    # Another agent's request is refused, whether it exists or not.
    other = token(business, "OTHER", OTHER)
    assert business.client.get(path, headers=other).status_code == 403
    assert business.client.get("/v1/data-rights-request/r-0123456789abcdef", headers=other).status_code == 403


def test_an_agent_revokes_its_own_request(business):
    headers = token(business)
    request = exercised(business, headers).json()["request_id"]
    path = f"/v1/data-rights-request/{request}"
    unsigned = base64.b64encode(b"\0" * 64 + b"{}")
    assert business.client.request("DELETE", path, content=unsigned, headers=headers).status_code == 403
    for wrong in (
        {"reason": "I changed my mind"},
        envelope(reason="x", **{"business-id": "ANOTHER"}),
        envelope(request_id="r-0123456789abcdef"),
        envelope(exercise="deletion"),
    ):
        answer = business.client.request("DELETE", path, content=signed(AGENT, **wrong), headers=headers)
        assert answer.status_code in (400, 403), wrong
    assert business.client.get(path, headers=headers).json()["status"] == "in_progress"
    body = signed(AGENT, **envelope(reason="I changed my mind"))
    answer = business.client.request("DELETE", path, content=body, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (200, "revoked")
    # The same message revokes nothing else.
    second = exercised(business, headers, subject=person(5)).json()["request_id"]
    again = f"/v1/data-rights-request/{second}"
    assert business.client.request("DELETE", again, content=body, headers=headers).status_code == 403
    rejected = exercised(business, headers, subject=person(4)).json()["request_id"]
    business.act(rejected, "reject", reason="identity could not be verified")
    status = business.client.get(f"/v1/data-rights-request/{rejected}", headers=headers).json()
    assert (status["status"], status["reason"]) == ("denied", "other")


def test_a_message_that_is_sent_twice_is_one_request(business):
    headers, fixed = token(business), envelope()
    times = {name: fixed[name] for name in ("issued-at", "expires-at")}
    ids = {exercised(business, headers, **times).json()["request_id"] for _ in range(2)}
    assert len(ids) == 1


def test_a_message_gives_one_token_and_only_if_it_was_signed_for_that(business):
    body = signed(AGENT, **envelope())
    assert [business.client.post("/v1/agent/AGENT", content=body).status_code for _ in range(2)] == [200, 403]
    for purpose in ({"exercise": "deletion"}, {"reason": "x"}):
        body = signed(AGENT, **envelope(**purpose))
        assert business.client.post("/v1/agent/AGENT", content=body).status_code == 403
    body = signed(AGENT, **envelope(**{"expires-at": "2999-01-01T00:00:00+00:00"}))
    assert business.client.post("/v1/agent/AGENT", content=body).status_code == 403


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"agent-id": "OTHER"}, 403),
        ({"business-id": "ANOTHER"}, 403),
        ({"expires-at": "2020-01-01T00:00:00+00:00"}, 403),
        ({"issued-at": "2999-01-01T00:00:00+00:00"}, 403),
        ({"expires-at": "2999-01-01T00:00:00+00:00"}, 403),
        ({"issued-at": "yesterday"}, 400),
        ({"expires-at": "2999-01-01T00:00:00"}, 400),
        ({"exercise": "access"}, 400),
        ({"subject": None, "email": None}, 422),
        ({"status_callback": "http://127.0.0.1/"}, 422),
    ],
)
def test_a_message_that_does_not_hold_is_refused(business, changes, status):
    answer = exercised(business, token(business), **changes)
    assert answer.status_code == status, answer.text


def test_a_message_by_another_key_is_refused(business):
    headers = token(business)
    body = signed(OTHER, **envelope(exercise="deletion", subject=person(1)))
    assert business.client.post("/v1/data-rights-request", content=body, headers=headers).status_code == 403
    assert business.client.post("/v1/agent/AGENT", content=signed(OTHER, **envelope())).status_code == 403
    assert business.client.post("/v1/agent/NOBODY", content=signed(AGENT, **envelope("NOBODY"))).status_code == 403
    # A key that is not an agent's cannot speak this protocol.
    assert exercised(business, business.as_role(ServiceRole.INTAKE)).status_code == 403


def test_protocols_that_are_not_set_up_are_not_there(empty):
    intake = empty.as_role(ServiceRole.INTAKE)
    assert empty.client.get("/v1/agent/AGENT", headers=intake).status_code == 404
    assert empty.client.get("/opendsr/discovery").status_code == 404


@pytest.fixture
def processor(folder, tmp_path):
    yield from running(settings_for(folder, opendsr=opendsr_settings(tmp_path)))


def check_signature(live, answer):
    pem = live.client.get("/opendsr/certificate").content
    key = x509.load_pem_x509_certificate(pem).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    signature = base64.b64decode(answer.headers["x-opendsr-signature"])
    key.verify(signature, answer.content, padding.PKCS1v15(), hashes.SHA256())
    assert answer.headers["x-opendsr-processor-domain"] == "clinic.example"


def test_a_controller_files_and_follows_a_request(processor):
    headers, body = processor.as_role(ServiceRole.INTAKE), opendsr_body()
    discovery = processor.client.get("/opendsr/discovery")
    check_signature(processor, discovery)
    assert discovery.json()["supported_identities"] == [{"identity_type": "subject", "identity_format": "raw"}]
    answer = processor.client.post("/opendsr/requests", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    check_signature(processor, answer)
    assert json.loads(base64.b64decode(answer.json()["encoded_request"])) == body
    path = f"/opendsr/requests/{body['subject_request_id']}"
    status = processor.client.get(path, headers=headers)
    check_signature(processor, status)
    assert status.json()["request_status"] == "pending"
    (request,) = [r["id"] for r in processor.client.get("/v1/requests", headers=headers).json()["requests"]]
    processor.act(request, "accept")
    assert processor.client.get(path, headers=headers).json()["request_status"] == "in_progress"
    assert processor.client.request("DELETE", path, headers=headers).status_code == 400
    processor.work()
    assert processor.client.get(path, headers=headers).json()["request_status"] == "completed"
    with processor.service.database.reading() as snapshot:
        bodies = [json.loads(row.body) for row in snapshot.connection.execute(select(MESSAGES))]
    assert {b["request_status"] for b in bodies} == {"in_progress", "completed"}
    assert {b["subject_request_id"] for b in bodies} == {body["subject_request_id"]}
    assert processor.client.get(path, headers=processor.key("other", ServiceRole.INTAKE)).status_code == 404


def test_a_pending_request_is_cancelled(processor):
    headers, body = processor.as_role(ServiceRole.INTAKE), opendsr_body()
    processor.client.post("/opendsr/requests", json=body, headers=headers)
    path = f"/opendsr/requests/{body['subject_request_id']}"
    answer = processor.client.request("DELETE", path, headers=headers)
    assert answer.status_code == 202
    check_signature(processor, answer)
    assert processor.client.get(path, headers=headers).json()["request_status"] == "cancelled"


@pytest.mark.parametrize(
    "changes",
    [
        {"subject_request_type": "access"},
        {"subject_request_id": "not a uuid"},
        {"submitted_time": "yesterday"},
        {"subject_identities": []},
        {"subject_identities": [{"identity_type": "email", "identity_value": "xyzzy", "identity_format": "sha256"}]},
        {"subject_identities": [SUBJECT | {"identity_value": "1"}, SUBJECT | {"identity_value": "2"}]},
        {"status_callback_urls": ["http://localhost/"]},
    ],
)
def test_a_request_that_is_not_supported_is_refused_without_repeating_it(processor, changes):
    body = opendsr_body(**changes)
    answer = processor.client.post("/opendsr/requests", json=body, headers=processor.as_role(ServiceRole.INTAKE))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == 400
    assert "xyzzy" not in answer.text
