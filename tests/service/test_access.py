"""Who may do what: every route refuses every role that it is not for, and nobody gets in without a key."""

import time
from datetime import timedelta

import pytest

from eupg.service.access import PERMISSIONS, Permission, ServiceRole
from eupg.service.accounts import OPERATOR
from serving import Running, running, settings_for

P = Permission
# The permissions that each route asks for; one of them suffices.
NEEDED = {
    ("POST", "/v1/requests"): {P.CREATE},
    ("GET", "/v1/requests"): {P.READ, P.READ_OWN},
    ("GET", "/v1/requests/counts"): {P.READ},
    ("GET", "/v1/requests/{request}"): {P.READ, P.READ_OWN},
    ("GET", "/v1/requests/{request}/history"): {P.READ, P.AUDIT},
    ("GET", "/v1/requests/{request}/identities"): {P.IDENTITY},
    ("POST", "/v1/requests/{request}/verify-identity"): {P.DECIDE},
    ("POST", "/v1/requests/{request}/accept"): {P.DECIDE},
    ("POST", "/v1/requests/{request}/reject"): {P.DECIDE},
    ("POST", "/v1/requests/{request}/cancel"): {P.READ, P.READ_OWN},
    ("POST", "/v1/requests/{request}/extend"): {P.DECIDE},
    ("POST", "/v1/requests/{request}/retry"): {P.RETRY},
    ("GET", "/v1/requests/{request}/certificate"): {P.CERTIFICATES, P.READ_OWN},
    ("GET", "/v1/requests/{request}/certificate/page"): {P.CERTIFICATES, P.READ_OWN},
    ("GET", "/v1/requests/{request}/certificate/credential"): {P.CERTIFICATES, P.READ_OWN},
    ("GET", "/v1/models"): {P.MODELS},
    ("GET", "/v1/models/{model}/status"): {P.MODELS},
    ("POST", "/v1/models/{model}/predict"): {P.PREDICT},
    ("GET", "/v1/audit"): {P.AUDIT},
    ("POST", "/v1/audit/verify"): {P.AUDIT},
    ("GET", "/v1/keys"): {P.MANAGE},
    ("POST", "/v1/keys"): {P.MANAGE},
    ("DELETE", "/v1/keys/{key}"): {P.MANAGE},
    ("GET", "/metrics"): {P.MODELS},
}
OPEN = {("GET", "/v1/key"), ("POST", "/v1/certificates/verify"), ("GET", "/healthz"), ("GET", "/readyz")}
BODIES = {
    "/v1/requests": {"identities": {"subject": "1"}},
    "/v1/requests/{request}/reject": {"reason": "no"},
    "/v1/requests/{request}/cancel": {},
    "/v1/requests/{request}/extend": {"months": 1, "reason": "many"},
    "/v1/models/{model}/predict": {"rows": [{"a": 1}]},
    "/v1/keys": {"name": "x", "roles": ["intake"]},
}


def called(live: Running, method: str, path: str, headers: dict[str, str]) -> int:
    address = path.format(request="r-0123456789abcdef", model="none", key="0123456789ab")
    body = BODIES.get(path) if method == "POST" else None
    return live.client.request(method, address, json=body, headers=headers).status_code


def test_every_route_is_in_the_table(empty):
    paths = empty.client.get("/v1/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert routes == set(NEEDED) | OPEN


@pytest.mark.parametrize("role", list(ServiceRole))
def test_a_role_gets_403_from_every_route_that_is_not_for_it(empty, role):
    headers = empty.as_role(role)
    for (method, path), needed in NEEDED.items():
        allowed = bool(PERMISSIONS[role] & needed)
        status = called(empty, method, path, headers)
        assert (status != 403) == allowed, (method, path, status)


def test_each_scope_alone_opens_its_routes_and_no_others(empty):
    for scope in Permission:
        _, secret = empty.service.accounts.issue_key(OPERATOR, name=f"only {scope}", scopes=[scope], days=1)
        for (method, path), needed in NEEDED.items():
            status = called(empty, method, path, {"Authorization": f"Bearer {secret}"})
            assert (status != 403) == (scope in needed), (scope, method, path, status)


def test_no_pair_of_scopes_opens_the_requests_of_others(empty):
    """A scope for something else, beside that for one's own requests, opens nothing of another's."""
    request = empty.file("1")
    routes = {route: needed - {P.READ_OWN} for route, needed in NEEDED.items() if "{request}" in route[1]}
    for scope in set(Permission) - {P.READ_OWN}:
        _, secret = empty.service.accounts.issue_key(OPERATOR, name="pair", scopes=[P.READ_OWN, scope], days=1)
        headers = {"Authorization": f"Bearer {secret}"}
        for (method, path), needed in routes.items():
            if method == "GET" and scope not in needed:
                status = empty.client.get(path.format(request=request), headers=headers).status_code
                assert status in (403, 404), (scope, path, status)
            if path.endswith("/cancel") and scope not in needed:
                status = empty.client.post(path.format(request=request), json={}, headers=headers).status_code
                assert status == 404, (scope, path, status)


def test_without_a_key_every_route_answers_401(empty):
    wrong = {"Authorization": "Bearer eupg_0123456789ab_" + "a" * 43}
    for method, path in NEEDED:
        for headers in ({}, wrong, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}):
            assert called(empty, method, path, headers) == 401, (method, path)
    for method, path in OPEN:
        assert called(empty, method, path, {}) in (200, 422)


def test_a_key_ends_when_it_expires_or_is_revoked(tmp_path, monkeypatch):
    for live in running(settings_for(tmp_path)):
        header = live.as_role(ServiceRole.AUDIT)
        assert live.client.get("/v1/audit", headers=header).status_code == 200
        listed = live.client.get("/v1/keys", headers=live.as_role(ServiceRole.ADMINISTRATION)).json()
        key = next(k for k in listed if k["name"] == "audit system")
        assert "hash" not in str(key)
        ended = live.client.delete(f"/v1/keys/{key['id']}", headers=live.as_role(ServiceRole.ADMINISTRATION))
        assert ended.status_code == 204
        assert live.client.get("/v1/audit", headers=header).status_code == 401
        intake, now = live.as_role(ServiceRole.INTAKE), live.service.database.now
        assert live.client.get("/v1/requests", headers=intake).status_code == 200
        monkeypatch.setattr(live.service.database, "now", lambda now=now: now() + timedelta(days=1, seconds=1))
        assert live.client.get("/v1/requests", headers=intake).status_code == 401


def test_only_hashes_of_keys_and_sessions_are_stored(tmp_path):
    for live in running(settings_for(tmp_path, demo=True)):
        live.as_role(ServiceRole.INTAKE)
        live.client.post("/sign-in/demo", data={"role": "review"})
        # The random part may hold underscores of its own.
        secrets = [live.keys["intake system"].split("_", 2)[2], live.client.cookies["eupg-session"]]
        assert all(len(secret) == 43 for secret in secrets)
        live.service.close()
        for path in live.settings.own_folder.rglob("*"):
            if path.is_file():
                assert not any(secret.encode() in path.read_bytes() for secret in secrets)


def test_guessing_keys_gets_slower(tmp_path):
    from eupg.service.settings import LimitSettings

    for live in running(settings_for(tmp_path, limits=LimitSettings(sign_ins="5/minute"))):
        guess = {"Authorization": "Bearer eupg_0123456789ab_" + "b" * 43}
        statuses = [live.client.get("/v1/requests", headers=guess).status_code for _ in range(7)]
        assert statuses == [401] * 5 + [429] * 2


def test_calls_are_limited_per_caller(tmp_path):
    from eupg.service.settings import LimitSettings

    for live in running(settings_for(tmp_path, limits=LimitSettings(calls="3/minute"))):
        statuses = [
            live.client.get("/v1/requests", headers=live.as_role(ServiceRole.INTAKE)).status_code for _ in range(4)
        ]
        assert statuses == [200, 200, 200, 429]
        assert live.client.get("/v1/requests", headers=live.as_role(ServiceRole.REVIEW)).status_code == 200


def test_the_answer_to_a_new_request_does_not_tell_whether_the_person_is_known(live):
    from managed import person

    def answer(name: str) -> tuple[dict, dict]:
        sent = live.client.post(
            "/v1/requests", json={"identities": {"subject": name}}, headers=live.as_role(ServiceRole.INTAKE)
        )
        varying = {"id", "received_at"}
        headers = {k: v for k, v in sent.headers.items() if k not in ("location", "date")}
        return {k: v for k, v in sent.json().items() if k not in varying}, headers

    assert answer(person(20)) == answer("nobody has this name")


def test_the_web_process_opens_no_workspace_to_answer_a_request(live, monkeypatch):
    """The answer takes the same time for everybody, because nobody is looked up."""

    def refuse(*_, **__):
        raise AssertionError("a workspace was opened")

    monkeypatch.setattr("eupg.service.models.Models.opened", refuse)
    monkeypatch.setattr("eupg.service.models.Models.names", refuse)
    request = live.file("somebody")
    assert live.act(request, "accept").status_code == 200
    assert live.read(request, ServiceRole.INTAKE)["state"] == "accepted"


def test_an_owner_sees_the_same_end_whether_known_or_not(live):
    from managed import person

    requests = [live.file(person(21)), live.file("unknown person")]
    for request in requests:
        live.act(request, "accept")
    live.work()
    seen = [live.read(request, ServiceRole.INTAKE) for request in requests]
    for request in seen:
        assert request["state"] == "certified"
        assert request["workspaces"] == []
    varying = {"id", "received_at"}
    same = [{k: v for k, v in request.items() if k not in varying} for request in seen]
    assert same[0] == same[1]
    # The certificate says what was held: an owner gets it once their identity was verified.
    intake = live.as_role(ServiceRole.INTAKE)
    for request in requests:
        assert live.client.get(f"/v1/requests/{request}/certificate", headers=intake).status_code == 409


def test_predictions_and_status(live):
    from managed import RECORDS

    names = [attribute.name for attribute in RECORDS.schema.features]
    row = {"age": 50, "income": 2000, "health": "good", "town": "A", "job": "x", "score": 0.1}
    assert set(names) == set(row)
    answer = live.client.post(
        "/v1/models/all/predict", json={"rows": [row]}, headers=live.as_role(ServiceRole.OPERATION)
    )
    assert answer.status_code == 200, answer.text
    assert abs(sum(answer.json()["probabilities"][0]) - 1) < 1e-6
    assert answer.json()["classes"] == ["no", "yes"]
    listed = live.client.get("/v1/models", headers=live.as_role(ServiceRole.AUDIT)).json()
    assert [model["name"] for model in listed] == ["all", "half"]
    status = live.client.get("/v1/models/half/status", headers=live.as_role(ServiceRole.AUDIT)).json()
    assert status["people"] == 25
    metrics = live.client.get("/metrics", headers=live.as_role(ServiceRole.OPERATION)).text
    assert "eupg_models 2.0" in metrics
    assert 'route="api.models.predict"' in metrics


def test_time_in_a_session_is_limited(tmp_path, monkeypatch):
    for live in running(settings_for(tmp_path, demo=True)):
        clock = [time.time()]
        monkeypatch.setattr(live.service.sessions, "_clock", lambda clock=clock: clock[0])
        live.client.post("/sign-in/demo", data={"role": "review"})
        assert live.client.get("/v1/requests").status_code == 200
        clock[0] += live.settings.sessions.idle_s - 1
        assert live.client.get("/v1/requests").status_code == 200
        clock[0] += live.settings.sessions.idle_s + 1
        assert live.client.get("/v1/requests").status_code == 401
        live.client.post("/sign-in/demo", data={"role": "review"})
        end = clock[0] + live.settings.sessions.lifetime_s
        while clock[0] < end:
            assert live.client.get("/v1/requests").status_code == 200
            clock[0] += live.settings.sessions.idle_s - 1
        assert live.client.get("/v1/requests").status_code == 401
