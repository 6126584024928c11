"""One request, all models: filed once, decided by people, erased everywhere, certified."""

import json

import pytest
from sqlalchemy import select

from eupg.certify.bundle import Bundle
from eupg.certify.verification import verify
from eupg.errors import CertificateInvalid
from eupg.service.access import ServiceRole
from eupg.service.database import CASES
from managed import person
from serving import running, settings_for


def test_a_person_is_erased_from_every_model_and_the_certificate_names_each(live):
    both, one, nobody = person(3), person(40), "nobody at all"
    requests = {name: live.file(name) for name in (both, one, nobody)}
    for request in requests.values():
        assert live.act(request, "verify-identity").status_code == 200
        assert live.act(request, "accept").json()["state"] == "accepted"
    report = live.work()
    assert (report.taken_up, report.completed, report.failed) == (3, 3, 0)
    outcomes = {
        name: [(p["workspace"], p["state"]) for p in live.read(request)["workspaces"]]
        for name, request in requests.items()
    }
    assert outcomes == {
        both: [("all", "erased"), ("half", "erased")],
        one: [("all", "erased"), ("half", "nothing held")],
        nobody: [("all", "nothing held"), ("half", "nothing held")],
    }
    for name in ("all", "half"):
        with live.service.models.opened(name) as manager:
            assert both not in set(map(str, manager.space.read(manager.space.state())[0].subjects))
    content = live.client.get(
        f"/v1/requests/{requests[both]}/certificate", headers=live.as_role(ServiceRole.AUDIT)
    ).content
    bundle = Bundle.from_bytes(content)
    verify(bundle, key=live.service.certificates.public_key())
    assert set(bundle.certificates()) == {"all", "half"}
    for name, certificate in bundle.certificates().items():
        assert certificate.body.request.identity_verified
        with live.service.models.opened(name) as manager:
            manager.verify(certificate)


def test_a_changed_bundle_is_refused(live):
    request = live.file(person(1))
    live.act(request, "accept")
    live.work()
    content = live.client.get(f"/v1/requests/{request}/certificate", headers=live.as_role(ServiceRole.AUDIT)).content
    key = live.service.certificates.public_key()
    values = json.loads(content)
    values["body"]["workspaces"][1]["name"] = "another"
    with pytest.raises(CertificateInvalid, match="does not match"):
        verify(Bundle.from_json(values), key=key)
    values = json.loads(content)
    values["body"]["workspaces"][0]["certificate"]["body"]["request"]["records_erased"] += 1
    with pytest.raises(CertificateInvalid):
        verify(Bundle.from_json(values), key=key)
    answer = live.client.post("/v1/certificates/verify", json=json.loads(content))
    assert answer.json() == {"verified": True, "why": None}
    assert not live.client.post("/v1/certificates/verify", json=values).json()["verified"]


def test_the_credential_and_the_page_say_the_same(live):
    request = live.file(person(2))
    live.act(request, "accept")
    live.work()
    auditor = live.as_role(ServiceRole.AUDIT)
    credential = live.client.get(f"/v1/requests/{request}/certificate/credential", headers=auditor)
    assert credential.headers["content-type"] == "application/vc"
    assert live.client.post("/v1/certificates/verify", json=credential.json()).json()["verified"]
    page = live.client.get(f"/v1/requests/{request}/certificate/page", headers=auditor)
    assert "records were erased from 2" in page.text
    assert "script" not in page.headers["content-security-policy"].replace("sandbox", "")


def test_the_same_idempotency_key_files_one_request(live):
    first = live.file(person(4), **{"Idempotency-Key": "call-1"})
    again = live.client.post(
        "/v1/requests",
        json={"identities": {"subject": person(4)}, "channel": "letter"},
        headers=live.as_role(ServiceRole.INTAKE) | {"Idempotency-Key": "call-1"},
    )
    assert again.json()["id"] == first
    assert again.headers["idempotency-replayed"] == "true"
    other = live.client.post(
        "/v1/requests",
        json={"identities": {"subject": person(5)}},
        headers=live.as_role(ServiceRole.INTAKE) | {"Idempotency-Key": "call-1"},
    )
    assert other.status_code == 409
    # Another caller's key of the same name is another key.
    theirs = live.client.post(
        "/v1/requests", json={"identities": {"subject": person(5)}}, headers=live.as_role(ServiceRole.REVIEW)
    )
    assert theirs.status_code == 201


def test_identifiers_are_gone_once_a_request_is_closed(live):
    requests = [live.file(person(6)), live.file(person(7)), live.file(person(8))]
    reviewer = live.as_role(ServiceRole.REVIEW)
    seen = live.client.get(f"/v1/requests/{requests[0]}/identities", headers=reviewer)
    assert seen.json() == {"subject": person(6)}
    live.act(requests[0], "accept")
    live.act(requests[1], "reject", reason="identity could not be verified")
    live.work()
    for request in requests[:2]:
        assert live.client.get(f"/v1/requests/{request}/identities", headers=reviewer).json() == {}
    assert live.client.get(f"/v1/requests/{requests[2]}/identities", headers=reviewer).json() != {}


def test_no_name_is_in_the_ledger_or_in_clear_in_the_database(live, caplog):
    caplog.set_level("DEBUG")
    name = person(9)
    request = live.file(name)
    live.act(request, "accept")
    live.work()
    entries = json.dumps([vars(entry) for entry in live.service.database.ledger.entries()], default=dict)
    assert request in entries
    assert name not in entries
    assert name not in caplog.text
    live.service.close()
    files = [p for p in live.settings.own_folder.rglob("*") if p.is_file()]
    assert any(p.name == "service.db" for p in files)
    assert not any(name.encode() in p.read_bytes() for p in files)


def test_only_the_owner_cancels(live):
    request = live.file(person(10))
    body = {"reason": "filed by mistake"}
    refused = live.client.post(f"/v1/requests/{request}/cancel", json=body, headers=live.as_role(ServiceRole.REVIEW))
    assert refused.status_code == 403
    other = live.key("another intake system", ServiceRole.INTAKE)
    assert live.client.post(f"/v1/requests/{request}/cancel", json=body, headers=other).status_code == 404
    assert live.act(request, "cancel", ServiceRole.INTAKE, **body).json()["state"] == "cancelled"


def test_a_second_person_accepts(folder):
    for live in running(settings_for(folder, second_person=True)):
        request = live.file(person(11))
        first, second = live.key("officer one", ServiceRole.REVIEW), live.key("officer two", ServiceRole.REVIEW)
        path = f"/v1/requests/{request}/accept"
        answer = live.client.post(path, headers=first).json()
        assert (answer["state"], answer["awaits_second_person"]) == ("received", True)
        assert live.client.post(path, headers=first).status_code == 409
        assert live.work().taken_up == 0
        answer = live.client.post(path, headers=second).json()
        assert (answer["state"], answer["awaits_second_person"]) == ("accepted", False)


def test_a_failed_request_is_tried_again_and_says_why(live, monkeypatch):
    from eupg.manage.manager import Manager

    request = live.file(person(12))
    live.act(request, "accept")
    with monkeypatch.context() as broken:
        broken.setattr(Manager, "forget", lambda *_, **__: (_ for _ in ()).throw(OSError("disk of person")))
        assert live.work().failed == 1
    failed = live.read(request)
    assert failed["state"] == "failed"
    assert {p["reason"] for p in failed["workspaces"]} == {"OSError"}
    # It is not tried at once, unless somebody asks for that.
    assert live.work().taken_up == 0
    assert live.act(request, "retry", ServiceRole.REVIEW).status_code == 403
    assert live.act(request, "retry", ServiceRole.OPERATION).status_code == 200
    assert live.work().completed == 1
    assert live.read(request)["state"] == "certified"


def test_history_and_audit_trail_name_every_actor(live):
    request = live.file(person(13))
    live.act(request, "verify-identity")
    live.act(request, "extend", months=2, reason="many requests")
    live.act(request, "accept")
    live.work()
    entries = live.client.get(f"/v1/requests/{request}/history", headers=live.as_role(ServiceRole.AUDIT)).json()
    kinds = [entry["kind"] for entry in entries]
    assert [k for k in kinds if k.startswith("act.")] == [
        *("act.filed", "act.verified", "act.extended", "act.accepted", "act.carried-out")
    ]
    assert kinds[-1] == "request.certified"
    assert all(entry["body"]["actor"] for entry in entries if entry["kind"].startswith("act."))
    checked = live.client.post("/v1/audit/verify", headers=live.as_role(ServiceRole.AUDIT)).json()
    assert checked["verified"]
    trail = live.client.get(
        "/v1/audit", params={"kind": "act.", "limit": 3}, headers=live.as_role(ServiceRole.AUDIT)
    ).json()
    assert len(trail["entries"]) == 3
    assert trail["next_after"] == trail["entries"][-1]["number"]


def test_a_workspace_that_is_added_later_is_asked_too(live, folder):
    (folder / "half").rename(folder.parent / "half")
    request = live.file(person(14))
    live.act(request, "accept")
    (folder.parent / "half").rename(folder / "half")
    live.work()
    assert [p["state"] for p in live.read(request)["workspaces"]] == ["erased", "erased"]


def test_a_workspace_that_names_people_otherwise_is_not_searchable(folder):
    for live in running(settings_for(folder, identifiers={"half": "email"})):
        request = live.file(person(15))
        live.act(request, "accept")
        live.work()
        parts = {p["workspace"]: p for p in live.read(request)["workspaces"]}
        assert parts["all"]["state"] == "erased"
        assert (parts["half"]["state"], parts["half"]["reason"]) == (
            "not searchable",
            "the request does not name the person by email",
        )
        path, auditor = f"/v1/requests/{request}/certificate", live.as_role(ServiceRole.AUDIT)
        said = Bundle.from_json(live.client.get(path, headers=auditor).json()).body.sentence()
        assert said.startswith("1 model was searched for the person")
        assert said.endswith("records were erased from 1, 0 held none, and 1 could not be searched.")


def test_sealed_identifiers_of_a_closed_request_are_in_no_file(tmp_path):
    for live in running(settings_for(tmp_path)):
        names = [live.file(str(number)) for number in range(20)]
        with live.service.database.reading() as snapshot:
            sealed = [bytes(row.sealed) for row in snapshot.connection.execute(select(CASES.c.sealed))]
        for name in names:
            live.act(name, "reject", reason="not our customer")
        live.service.close()
        content = b"".join(path.read_bytes() for path in live.settings.own_folder.rglob("*") if path.is_file())
        assert len(sealed) == 20
        assert not any(value in content for value in sealed)
