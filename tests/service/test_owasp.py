"""Attacks by the items of the OWASP Top 10 (2021) and the OWASP API Security Top 10 (2023).

The threat model has the table of all items, with the tests that show each. Tests here go over every route that the
application has, so that a new route is attacked as well.
"""

import ast
import base64
import io
import json
import logging
import pickle
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import select

import eupg.service
from browsing import Page, post, sign_in, visitor
from eupg.errors import ParameterError, SignInFailed
from eupg.service.access import PERMISSIONS, Permission, ServiceRole
from eupg.service.app import create_app
from eupg.service.database import CASES
from eupg.service.logs import JsonFormatter
from eupg.service.rates import Rates
from eupg.service.sealing import Seal
from eupg.service.settings import LimitSettings, MailSettings, OidcSettings
from eupg.service.signin.oidc import OidcSignIn
from eupg.service.worker.callbacks import Delivery, addresses, is_public
from eupg.service.worker.lease import Lease
from protocols import AGENT, DRP, envelope, exercised, opendsr_body, opendsr_settings, signed, token
from serving import NO_LIMITS, Running, running, settings_for

P, ROOT = Permission, Path(__file__).parents[2]
THREATS = ROOT / "docs" / "concepts" / "threat-model.md"
GUIDE = ROOT / "docs" / "howto" / "service.md"
UNKNOWN, TOKEN, UUID = "r-0123456789abcdef", "x" * 43, "11111111-1111-4111-8111-111111111111"
# Every route that the description of the API does not list: pages, protocols with a description of their own, sign-in.
FORMS: dict[str, set[Permission] | None] = {
    "/sign-in/demo": None,
    "/sign-out": None,
    "/verify": None,
    "/erasure": None,
    "/erasure/confirm/{token}": None,
    "/erasure/status/{token}/withdraw": None,
    "/requests/search": {P.READ, P.READ_OWN},
    "/requests/decide": {P.DECIDE},
    "/requests/new": {P.CREATE},
    "/requests/{request}/identity": {P.IDENTITY},
    "/requests/{request}/verify": {P.DECIDE},
    "/requests/{request}/accept": {P.DECIDE},
    "/requests/{request}/reject": {P.DECIDE},
    "/requests/{request}/extend": {P.DECIDE},
    "/requests/{request}/retry": {P.RETRY},
    "/requests/{request}/cancel": {P.READ, P.READ_OWN},
    "/trail/check": {P.AUDIT},
    "/administration/keys": {P.MANAGE},
    "/administration/keys/{key}/revoke": {P.MANAGE},
}
PAGES = {
    *("/", "/sign-in", "/sign-in/oidc", "/sign-in/oidc/callback", "/verify", "/signing.pub", "/demo/mail"),
    *("/requests", "/requests/new", "/requests/{request}", "/requests/{request}/progress"),
    *("/requests/{request}/certificate", "/requests/{request}/certificate.json"),
    *("/requests/{request}/credential.json", "/requests/{request}/certificate.html"),
    *("/certificates", "/models", "/models/{name}", "/trail", "/administration"),
    *("/erasure", "/erasure/sent", "/erasure/confirm/{token}", "/erasure/status/{token}"),
    *("/erasure/status/{token}/certificate.json", "/erasure/status/{token}/certificate.html"),
}
PROTOCOLS = {
    ("POST", "/v1/agent/{agent}"),
    ("GET", "/v1/agent/{agent}"),
    ("POST", "/v1/data-rights-request"),
    ("POST", "/v1/data-rights-request/"),
    ("GET", "/v1/data-rights-request/{name}"),
    ("DELETE", "/v1/data-rights-request/{name}"),
    ("GET", "/opendsr/discovery"),
    ("GET", "/opendsr/certificate"),
    ("POST", "/opendsr/requests"),
    ("GET", "/opendsr/requests/{subject_request}"),
    ("DELETE", "/opendsr/requests/{subject_request}"),
}
# For machinery that has no account: they say nothing about anybody, and are cheap.
UNCOUNTED = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/v1/openapi.json")}
SCRIPT = "<script>alert(1)</script>{{7*7}}"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Running]:
    """A service that speaks every protocol, shared by the tests of this file."""
    folder = tmp_path_factory.mktemp("site")
    opendsr = opendsr_settings(tmp_path_factory.mktemp("domain"))
    yield from running(settings_for(folder, demo=True, drp=DRP, opendsr=opendsr))


def routes(live: Running) -> set[tuple[str, str]]:
    """Return method and path of everything that the application answers."""
    found = iter_route_contexts(live.client.app.routes)  # type: ignore[attr-defined]
    return {(method, str(route.path)) for route in found for method in (route.methods or ()) if method != "HEAD"}


def filled(path: str, request: str = UNKNOWN) -> str:
    names = {"request": request, "name": request, "model": "none", "key": "0123456789ab", "token": TOKEN}
    return path.format(**names, agent="AGENT", subject_request=UUID)


def stored(live: Running) -> list:
    with live.service.database.reading() as snapshot:
        return list(snapshot.connection.execute(select(CASES)))


# The table.


def rows_of_the_table() -> dict[str, list[str]]:
    rows = re.findall(r"^\| (A(?:PI)?\d+) [^|]*\| ([^|]*) \|$", THREATS.read_text(encoding="utf-8"), re.M)
    return {item: re.findall(r"`(test_\w+)`", shown) for item, shown in rows}


def test_the_table_names_every_item_and_tests_that_exist():
    table = rows_of_the_table()
    assert set(table) == {f"A{n:02}" for n in range(1, 11)} | {f"API{n}" for n in range(1, 11)}
    assert all(table.values()), "an item without a test"
    defined: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined[path.name] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for names in table.values() for name in names} <= set().union(*defined.values())
    # What is attacked here is in the table, under the item in its name.
    for name in defined[Path(__file__).name]:
        item = re.match(r"test_(a\d+|api\d+)_", name)
        if item is not None:
            assert name in table[item[1].upper()], name


# Broken access control: of objects, and of functions.


def test_api1_a_request_of_another_is_the_same_as_none_on_every_route(site):
    """Whoever may read their own requests gets the same answer about another's as about one that does not exist."""
    theirs = site.file("somebody of another intake")
    intruder = site.key("intruder", ServiceRole.INTAKE)
    browser = sign_in(site, ServiceRole.INTAKE)
    csrf = Page(browser.get("/requests/new").text).forms[0]["csrf"]
    bodies = {"reject": {"reason": "x"}, "extend": {"months": 1, "reason": "x"}, "cancel": {}}
    tried = 0
    for method, path in sorted(routes(site)):
        if "{request}" not in path:
            continue
        answers = []
        for request in (theirs, UNKNOWN):
            address = filled(path, request)
            if path.startswith("/v1/"):
                body = bodies.get(path.rpartition("/")[2]) if method == "POST" else None
                answer = site.client.request(method, address, json=body, headers=intruder)
            else:
                data = {"csrf": csrf, "reason": "x"} if method == "POST" else None
                answer = browser.request(method, address, data=data)
            answers.append((answer.status_code, answer.text.replace(request, "")))
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] in (403, 404), (method, path, answers[0][0])
        tried += 1
    assert tried > 20
    assert site.read(theirs)["state"] == "received"


def test_api1_the_tokens_of_protocols_open_their_own_requests_alone(site):
    own = exercised(site, token(site)).json()["request_id"]
    body = opendsr_body(status_callback_urls=[])
    headers = site.as_role(ServiceRole.INTAKE)
    assert site.client.post("/opendsr/requests", json=body, headers=headers).status_code == 201
    foreign = site.file("not of this agent")
    for request in (foreign, UNKNOWN):
        path = f"/v1/data-rights-request/{request}"
        assert site.client.get(path, headers=token(site)).status_code == 403
        message = signed(AGENT, **envelope(reason="x", request_id=request))
        assert site.client.request("DELETE", path, content=message, headers=token(site)).status_code == 403
    for controller in (token(site), site.key("another controller", ServiceRole.INTAKE)):
        for name in (str(body["subject_request_id"]), UUID):
            for method in ("GET", "DELETE"):
                answer = site.client.request(method, f"/opendsr/requests/{name}", headers=controller)
                assert answer.status_code == 404
    assert {site.read(request)["state"] for request in (own, foreign)} == {"received"}


def test_api5_a_form_refuses_every_role_that_it_is_not_for(site):
    request = site.file("somebody")
    before = site.read(request)
    for role in ServiceRole:
        browser = sign_in(site, role)
        csrf = Page(browser.get("/verify").text).forms[0]["csrf"]
        for path, needed in FORMS.items():
            if needed is None or PERMISSIONS[role] & needed:
                continue
            answer = browser.post(filled(path, request), data={"csrf": csrf, "reason": "x", "decision": "accept"})
            assert answer.status_code in ((403, 404) if P.READ_OWN in PERMISSIONS[role] else (403,)), (role, path)
    assert site.read(request) == before


# Broken object property level authorization: what a caller may set, and what they are shown.


def test_api3_no_body_sets_what_is_not_the_callers_to_set(site):
    document = site.client.get("/v1/openapi.json").json()
    bodies = {}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None:
                bodies[path] = content["schema"]
    # A certificate is checked as it is, whatever it holds.
    assert bodies.pop("/v1/certificates/verify") is not None
    assert len(bodies) >= 5
    for path, schema in bodies.items():
        model = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert model["additionalProperties"] is False, path
    before = len(stored(site))
    for member in ("owner", "state", "id", "due", "verified", "source", "approved_by", "received_at"):
        body = {"identities": {"subject": "mass"}, member: "x"}
        answer = site.client.post("/v1/requests", json=body, headers=site.as_role(ServiceRole.INTAKE))
        assert answer.status_code == 422, member
    assert len(stored(site)) == before


def test_api3_further_fields_of_forms_and_protocols_change_nothing(site):
    further = {"owner": "a-0000000000000000", "state": "certified", "verified": "true", "source": "api", "id": UNKNOWN}
    seen = {row.request for row in stored(site)}
    browser = sign_in(site, ServiceRole.INTAKE)
    post(browser, "/requests/new", "/requests/new", **{"identity-subject": "by page", "channel": "letter"}, **further)
    exercised(site, token(site), subject="by agent", **further)
    known_as = {"identity_type": "subject", "identity_value": "by controller", "identity_format": "raw"}
    body = opendsr_body(status_callback_urls=[], subject_identities=[known_as], **further)
    site.client.post("/opendsr/requests", json=body, headers=site.as_role(ServiceRole.INTAKE))
    anyone = visitor(site)
    post(anyone, "/erasure", "/erasure", **{"identity-subject": "by form", "email": "x@example.org"}, **further)
    link = re.search(r"(/erasure/confirm/\S+)", newest_message(site))
    assert link is not None
    post(anyone, link[1], link[1], **further)
    new = [row for row in stored(site) if row.request not in seen]
    assert sorted(row.source for row in new) == ["drp", "form", "opendsr", "page"]
    for row in new:
        assert row.owner != further["owner"]
        read = site.read(row.request)
        assert (read["id"] != UNKNOWN, read["state"], read["identity_verified"]) == (True, "received", False)


def newest_message(live: Running) -> str:
    paths = (live.settings.own_folder / "outbox").glob("*.txt")
    return max(paths, key=lambda path: path.stat().st_mtime_ns).read_text()


# Unrestricted resource consumption.


def test_api4_every_route_refuses_a_large_body(site):
    large = b"x" * (site.settings.limits.body_bytes + 1)
    tried = [(method, path) for method, path in routes(site) if method not in ("GET", "HEAD")]
    assert len(tried) > 25
    for method, path in tried:
        # Without a length beforehand as well.
        for content in (large, iter([large[:1000], large[1000:]])):
            answer = site.client.request(method, filled(path), content=content)
            assert answer.status_code == 413, (method, path, answer.status_code)


def test_api4_deep_nesting_is_refused_wherever_json_is_read(site):
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    intake = site.as_role(ServiceRole.INTAKE)
    for kind in ("application/json", "text/plain", "application/vnd.x+json"):
        for path in ("/v1/requests", "/opendsr/requests", "/v1/certificates/verify"):
            answer = site.client.post(path, content=deep, headers=intake | {"Content-Type": kind})
            assert answer.status_code in (400, 422), (path, kind, answer.status_code)
    content = b'{"agent-id":' + b"[" * 60_000 + b"]" * 60_000 + b"}"
    message = base64.b64encode(AGENT.sign(content) + content)
    assert site.client.post("/v1/agent/AGENT", content=message).status_code in (400, 403)


def test_api4_every_route_counts_its_callers(site, monkeypatch):
    """Signed in or not, no route is answered without being counted, so none escapes its limit."""
    counted: list[str] = []
    monkeypatch.setattr(Rates, "check", lambda _, purpose, __: counted.append(purpose))
    browser = sign_in(site, ServiceRole.INTAKE)
    for method, path in sorted(routes(site) - UNCOUNTED):
        for caller in (visitor(site), browser):
            counted.clear()
            # A body with which each route gets as far as it can.
            caller.request(method, filled(path), data={"role": "audit"} if method == "POST" else None)
            assert counted, (method, path)


def test_api4_pages_are_short_however_much_is_asked_for(site):
    reviewer, auditor = site.as_role(ServiceRole.REVIEW), site.as_role(ServiceRole.AUDIT)
    for limit in ("0", "-1", "201", "100000000"):
        assert site.client.get(f"/v1/requests?limit={limit}", headers=reviewer).status_code == 422
    for limit in ("0", "-1", "100000000"):
        assert site.client.get(f"/v1/audit?limit={limit}", headers=auditor).status_code == 422


def test_api4_callers_behind_a_proxy_are_told_apart(tmp_path):
    limits = LimitSettings(sign_ins="2/minute", forwarded_by=("10.0.0.0/8",))
    from starlette.requests import Request

    def address(client: str, forwarded: str | None) -> str:
        headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
        return Rates(limits).address(Request({"type": "http", "client": (client, 1), "headers": headers}))

    assert address("198.51.100.1", None) == "198.51.100.1"
    # Only what a known proxy has added counts: a caller cannot choose to be somebody else.
    assert address("198.51.100.1", "203.0.113.9") == "198.51.100.1"
    assert address("10.0.0.1", "203.0.113.9, 198.51.100.7") == "198.51.100.7"
    assert address("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2") == "198.51.100.7"
    assert address("10.0.0.1", None) == "10.0.0.1"
    assert address("10.0.0.1", "nonsense") == "nonsense"


def test_api6_the_form_fills_nobodys_mailbox(tmp_path):
    limits = NO_LIMITS.model_copy(update={"mails": "2/hour"})
    for live in running(settings_for(tmp_path, demo=True, limits=limits)):
        anyone, statuses = visitor(live), []
        for email in ("victim@example.org", "Victim@example.org", "VICTIM@example.org", "other@example.org"):
            sent = post(anyone, "/erasure", "/erasure", **{"identity-subject": "x", "email": email})
            statuses.append(sent.status_code)
        assert statuses == [303, 303, 429, 303]
        assert len(list((live.settings.own_folder / "outbox").glob("*.txt"))) == 3


# Server-side request forgery.


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "localhost", "[::1]", "[::ffff:127.0.0.1]",
     "[::ffff:a9fe:a9fe]", "[::7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fec0::1]",
     "[fd00::1]", "[ff02::1]", "[::]", "169.254.169.254", "224.0.0.1", "255.255.255.255"],
)  # fmt: skip
def test_a10_no_spelling_of_a_private_address_is_called(site, host):
    """With the resolver of this machine, which takes more spellings of an address than a check of the text does."""
    lease = Lease(site.service.database, "worker", seconds=60)
    sending = Delivery(site.service, lease, resolve=addresses)
    with pytest.raises((ParameterError, OSError)):
        sending._address(httpx.URL(f"https://{host}/").host, 443)


def test_a10_public_addresses_are_called():
    assert all(map(is_public, ["93.184.216.34", "2606:4700::1", "::ffff:93.184.216.34"]))


def test_a10_a_name_that_changes_between_check_and_use_leads_nowhere(site, monkeypatch):
    called = []

    def connect(_, request):
        called.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        raise httpx.ConnectError("no network here")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", connect)
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    lease = Lease(site.service.database, "worker", seconds=60)
    sending = Delivery(site.service, lease, resolve=lambda *_: answers.pop(0))
    assert sending._send("https://crm.example.org/hook", "secret", "msg", b"{}", {}) == "ConnectError"
    # Looked up once, and connected to the address that was checked, as the host that was named.
    assert called == [("93.184.216.34", "crm.example.org", "crm.example.org")]
    assert sending._send("https://crm.example.org/hook", "secret", "msg", b"{}", {}) is not None
    assert len(called) == 1


# Injection: SQL, HTML, headers and logs.


def test_a03_sql_in_a_value_is_a_value(site):
    site.file("somebody")
    before, reviewer = len(stored(site)), site.as_role(ServiceRole.REVIEW)
    attacks = ("' OR '1'='1", '" OR 1=1 --', "'; DROP TABLE cases; --", "letter' OR 'x' LIKE '%", "%", "_%")
    for attack in attacks:
        for name in ("channel", "owner"):
            listed = site.client.get("/v1/requests", params={name: attack}, headers=reviewer)
            assert listed.json()["requests"] == [], (name, attack)
        trail = site.client.get("/v1/audit", params={"kind": attack}, headers=site.as_role(ServiceRole.AUDIT))
        assert trail.status_code == 422 or trail.json()["entries"] == []
        found = post(sign_in(site, ServiceRole.REVIEW), "/requests", "/requests/search", text=attack)
        assert "No request was found" in found.text
        request = site.file(attack)
        seen = site.client.get(f"/v1/requests/{request}/identities", headers=reviewer).json()
        assert seen == {"subject": attack}
    assert len(stored(site)) == before + len(attacks)


def test_a03_markup_in_a_value_is_shown_as_text(site):
    reviewer, administrator = sign_in(site, ServiceRole.REVIEW), sign_in(site, ServiceRole.ADMINISTRATION)
    headers = site.key(SCRIPT, ServiceRole.INTAKE)
    sent = site.client.post("/v1/requests", json={"identities": {"subject": SCRIPT}}, headers=headers)
    path = f"/requests/{sent.json()['id']}"
    shown = [post(reviewer, path, f"{path}/identity").text, administrator.get("/administration").text]
    assert all("&lt;script&gt;alert(1)&lt;/script&gt;{{7*7}}" in page for page in shown)
    shown.append(post(reviewer, path, f"{path}/reject", reason=SCRIPT).text)
    shown += [reviewer.get(address).text for address in (path, "/requests?show=all", "/", f"/requests?text={SCRIPT}")]
    shown.append(reviewer.get(f"/requests?notice={SCRIPT}&show={SCRIPT}&channel={SCRIPT}").text)
    shown.append(visitor(site).get(f"/sign-in?next=/{SCRIPT}").text)
    shown.append(visitor(site).get(f"/{SCRIPT}", headers={"accept": "text/html"}).text)
    assert not any("<script>alert" in page or "49" in re.findall(r"</script>(\d+)", page) for page in shown)


def test_a03_no_value_ends_a_header(site):
    split = "x\r\nSet-Cookie: planted=1"
    browser = sign_in(site, ServiceRole.REVIEW)
    answers = [
        browser.post("/sign-in/demo", data={"role": "review", "next": f"/{split}"}),
        browser.get("/sign-in", params={"next": f"/{split}"}),
        browser.get("/requests/new", params={"x": split}),
        post(browser, "/requests", "/requests/search", text=f"r-{split}"),
        post(browser, "/requests", "/requests/decide", decision="accept", request=[UNKNOWN], back=f"/requests{split}"),
        site.client.get("/v1/requests", params={"cursor": split}, headers=site.as_role(ServiceRole.REVIEW)),
    ]
    for answer in answers:
        assert "planted" not in answer.headers.get("set-cookie", "")
        assert not any("\r" in value or "\n" in value for value in answer.headers.values())


def test_a03_a_value_never_begins_a_line_of_the_log():
    record = logging.LogRecord("eupg", logging.INFO, "", 0, 'a\n{"forged": true}\r\u2028', (), None)
    record.actor = "x\n{}"
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    assert "forged" in json.loads(line)["message"]


# Identification and authentication failures, and forged requests.


def test_a01_no_form_is_taken_from_another_site(site):
    """Every route that changes something by a cookie needs the token of its page, sent from a page of this site."""
    request, told = site.file("somebody"), []
    forms = {path for method, path in routes(site) if method == "POST" and not path.startswith(("/v1/", "/opendsr/"))}
    assert forms == set(FORMS)
    browser = sign_in(site, ServiceRole.REVIEW)
    csrf = Page(browser.get("/verify").text).forms[0]["csrf"]
    fields = {"role": "administration", "reason": "x", "identity-subject": "planted", "email": "x@example.org"}
    before = len(stored(site))
    for path in forms:
        address = filled(path, request)
        elsewhere = browser.post(address, data=fields | {"csrf": csrf}, headers={"origin": "https://evil.example"})
        told.append((path, elsewhere.status_code))
        # A sign-in of the demonstration has no session yet: the origin protects it.
        if path != "/sign-in/demo":
            for token_sent in ({}, {"csrf": "0" * 32}, {"csrf": ""}):
                told.append((path, browser.post(address, data=fields | token_sent).status_code))
    assert {status for _, status in told} == {403}, [t for t in told if t[1] != 403]
    assert len(stored(site)) == before
    assert site.read(request)["state"] == "received"


def test_a07_a_session_that_was_planted_is_never_used(site):
    browser, planted = visitor(site), "p" * 43
    browser.cookies.set("eupg-session", planted)
    browser.post("/sign-in/demo", data={"role": "review"})
    issued = [c for c in browser.cookies.jar if c.name == "eupg-session" and c.value != planted]
    assert len(issued) == 1
    assert site.service.sessions.find(planted) is None
    assert site.service.sessions.find(str(issued[0].value)) is not None
    # Another role is another session, and the one before has ended.
    before = sign_in(site, ServiceRole.AUDIT)
    old = before.cookies["eupg-session"]
    before.post("/sign-in/demo", data={"role": "administration"})
    assert before.cookies["eupg-session"] != old
    assert site.service.sessions.find(old) is None


def test_a07_a_cookie_is_no_key_and_a_key_is_no_cookie(site):
    browser = sign_in(site, ServiceRole.REVIEW)
    session = browser.cookies["eupg-session"]
    assert site.client.get("/v1/requests", headers={"Authorization": f"Bearer {session}"}).status_code == 401
    key = site.as_role(ServiceRole.REVIEW)["Authorization"].removeprefix("Bearer ")
    anyone = visitor(site)
    anyone.cookies.set("eupg-session", key)
    assert anyone.get("/requests").status_code == 303
    # A key of the API opens no page: forms would have no token.
    assert visitor(site).get("/requests", headers=site.as_role(ServiceRole.REVIEW)).status_code == 303
    assert site.client.get(f"/v1/requests?key={key}").status_code == 401


# Security misconfiguration, and inventory.


def test_api8_every_answer_carries_the_headers_that_protect_browsers(site):
    browser, seen = sign_in(site, ServiceRole.REVIEW), set()
    request = site.file("somebody")
    addresses_of = [(method, filled(path, request)) for method, path in sorted(routes(site))]
    addresses_of += [("GET", "/static/style.css"), ("GET", "/static/nothing"), ("GET", "/nowhere"), ("TRACE", "/")]
    for method, address in addresses_of:
        for caller in (visitor(site), browser):
            answer = caller.request(method, address, headers={"origin": "https://evil.example"})
            seen.add(answer.status_code)
            headers, where = answer.headers, (method, address, answer.status_code)
            assert "default-src 'none'" in headers["content-security-policy"], where
            assert "unsafe" not in headers["content-security-policy"], where
            assert headers["x-content-type-options"] == "nosniff", where
            assert headers["x-frame-options"] == "DENY", where
            assert headers["referrer-policy"] == "same-origin", where
            assert "cache-control" in headers, where
            # No other site may read an answer.
            assert not [name for name in headers if name.startswith("access-control-")], where
            assert "x-powered-by" not in headers, where
            assert "Traceback" not in answer.text, where
    assert {200, 303, 401, 403, 404, 405} <= seen


def test_api8_the_host_that_a_caller_names_leads_nowhere(site):
    for path in ("/", "/requests/", "/requests", "/v1/requests/", "/sign-in", "/models/", "/erasure/"):
        answer = visitor(site).get(path, headers={"host": "evil.example", "x-forwarded-host": "evil.example"})
        assert "evil.example" not in answer.headers.get("location", "") + answer.text, path
    anyone = visitor(site)
    csrf = Page(anyone.get("/erasure").text).forms[0]["csrf"]
    fields = {"csrf": csrf, "identity-subject": "x", "email": "x@example.org"}
    assert anyone.post("/erasure", data=fields, headers={"host": "evil.example"}).status_code == 303
    assert "http://testserver/erasure/confirm/" in newest_message(site)
    assert "evil.example" not in newest_message(site)


def test_api9_every_route_is_described_or_listed(site):
    document = site.client.get("/v1/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    pages = {("GET", path) for path in PAGES} | {("POST", path) for path in FORMS}
    assert routes(site) == described | pages | PROTOCOLS | {("GET", "/v1/openapi.json")}
    guide = GUIDE.read_text(encoding="utf-8")
    for _, path in PROTOCOLS:
        assert path.partition("{")[0].rstrip("/") in guide, path
    # Nothing answers on an old version or a page of a framework.
    for path in ("/docs", "/redoc", "/openapi.json", "/v0/requests", "/v2/requests", "/.env", "/static/../x.toml"):
        assert visitor(site).get(path).status_code == 404, path


# Software and data integrity failures.


RAN: list[int] = []


def run() -> None:
    RAN.append(1)


class Planted:
    """An object that runs something when it is unpickled."""

    def __reduce__(self):
        return run, ()


def test_a08_nothing_that_is_sent_is_unpickled(site):
    content = pickle.dumps(Planted())
    # The attack works where it is let.
    pickle.loads(content)  # noqa: S301
    assert RAN == [1]
    RAN.clear()
    coded = base64.urlsafe_b64encode(content).decode()
    anyone = visitor(site)
    for name in ("eupg-session", "eupg-sign-in"):
        anyone.cookies.set(name, coded)
    for method, path in sorted(routes(site)):
        if method != "GET":
            anyone.request(method, filled(path), content=content)
            anyone.request(method, filled(path), data={"csrf": coded}, files={"certificate": io.BytesIO(content)})
    reviewer = site.as_role(ServiceRole.REVIEW)
    assert site.client.get("/v1/requests", params={"cursor": coded[:200]}, headers=reviewer).status_code == 422
    anyone.get("/sign-in/oidc/callback", params={"code": coded, "state": coded})
    assert RAN == []


def test_a08_no_module_of_the_service_can_run_what_it_reads():
    dangerous = {"pickle", "marshal", "shelve", "yaml", "dill", "joblib", "cloudpickle"}
    modules = list(Path(str(eupg.service.__file__)).parent.rglob("*.py"))
    assert len(modules) > 40
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = {alias.name.partition(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {str(node.module).partition(".")[0]} if isinstance(node, ast.ImportFrom) else set()
            assert not names & dangerous, path.name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path.name


# Security logging: what must not be in a log, and what must.


class Lines(logging.Handler):
    """Keeps everything that is logged, as the service writes it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_a09_no_secret_and_no_name_is_in_a_log_or_an_address(site):
    """A whole day's work, with everything logged that any module has to say."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    visited: list[str] = []
    secrets = {"person": "Erika Mustermann 4711", "mail": "erika@example.org"}
    secrets |= {"hook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    try:
        administrator = sign_in(site, ServiceRole.ADMINISTRATION)
        administrator.event_hooks = {"request": [lambda r: visited.append(str(r.url))]}
        fields = {"name": "crm", "scope": "requests:create", "days": "9"}
        made = post(administrator, "/administration", "/administration/keys", **fields)
        key = re.search(r"eupg_[0-9a-f]{12}_([\w-]{43})", made.text)
        assert key is not None
        secrets |= {"key": key[1], "session": administrator.cookies["eupg-session"]}
        headers = {"Authorization": f"Bearer {key[0]}"}
        body = {"identities": {"subject": secrets["person"]}}
        hook = {"url": "https://crm.example.org/secret-path", "secret": secrets["hook"]}
        filed = site.client.post("/v1/requests", json=body | {"callback": hook}, headers=headers)
        assert filed.status_code == 201
        anyone = visitor(site)
        anyone.event_hooks = {"request": [lambda r: visited.append(str(r.url))]}
        form = {"identity-subject": secrets["person"], "email": secrets["mail"]}
        post(anyone, "/erasure", "/erasure", **form)
        link = re.search(r"/erasure/confirm/(\S+)", newest_message(site))
        assert link is not None
        status = post(anyone, link[0], link[0]).headers["location"]
        # Of all secrets, only the two links that are sent by e-mail are addresses.
        visited = [address for address in visited if "/erasure/confirm/" not in address]
        secrets |= {"confirm": link[1], "status": status.rpartition("/")[2]}
        anyone.get(status)
        secrets |= {"csrf": Page(administrator.get("/administration").text).forms[0]["csrf"]}
        site.client.get("/v1/requests", headers={"Authorization": f"Bearer {key[0]}x"})
        site.client.post("/v1/requests", json={"identities": {secrets["person"]: 1}}, headers=headers)
        site.work()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert any('"route": "api.requests.create"' in line for line in handler.lines)
    for name, secret in secrets.items():
        assert not [line for line in handler.lines if secret in line and '"logger": "httpx2' not in line], name
        if name != "status":
            assert not [address for address in visited if secret in address], name


def test_a09_refused_sign_ins_and_forbidden_calls_are_logged(site):
    handler = Lines()
    logging.getLogger("eupg.service").addHandler(handler)
    logging.getLogger("eupg.service").setLevel(logging.INFO)
    try:
        site.client.get("/v1/requests", headers={"Authorization": "Bearer eupg_0123456789ab_" + "a" * 43})
        site.client.get("/v1/keys", headers=site.as_role(ServiceRole.INTAKE))
    finally:
        logging.getLogger("eupg.service").removeHandler(handler)
    calls = [json.loads(line) for line in handler.lines]
    assert [(call["route"], call["status"]) for call in calls] == [("api.requests.search", 401), ("api.keys.keys", 403)]
    assert calls[1]["actor"]


# Unsafe consumption of what others answer.


@pytest.fixture
def liar():
    """A provider whose answers a test sets, by path."""
    answers: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = answers.get(self.path, b"{}")
            self.send_response(302 if content.startswith(b"http") else 200)
            if content.startswith(b"http"):
                self.send_header("location", content.decode())
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()


def provider_at(address: str, folder: Path) -> OidcSignIn:
    (folder / "secret").write_text("x")
    settings = OidcSettings(issuer=address, client_id="eupg", client_secret_file=folder / "secret")
    return OidcSignIn(settings, Seal(b"k" * 32), "http://testserver")


def description(address: str, **changes: object) -> bytes:
    paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
    values = {"issuer": address, **{name: f"{address}/{path}" for name, path in paths.items()}, **changes}
    return json.dumps({name: value for name, value in values.items() if value is not None}).encode()


def test_api10_a_description_of_a_provider_that_cannot_be_used_is_refused(liar, tmp_path):
    address, answers = liar
    elsewhere = "http://login.example.org/x"
    for content in (
        *(b"", b"[]", b"null", b"not JSON", b"[" * 200_000, b'{"issuer": 1}', b" " * 2_000_000 + b"{}"),
        b"http://127.0.0.1:1/elsewhere",
        description(address, issuer="https://evil.example"),
        *(description(address, jwks_uri=value) for value in (None, 7, "", "file:///etc/passwd", elsewhere)),
        description(address, token_endpoint=elsewhere),
        description(address, authorization_endpoint="javascript:alert(1)"),
    ):
        answers["/.well-known/openid-configuration"] = content
        with pytest.raises(SignInFailed):
            provider_at(address, tmp_path).begin("/")
    answers["/.well-known/openid-configuration"] = description(address)
    assert provider_at(address, tmp_path).begin("/")[0].startswith(f"{address}/authorize?")


def test_api10_a_token_of_a_provider_that_cannot_be_used_is_refused(liar, tmp_path):
    address, answers = liar
    answers["/.well-known/openid-configuration"] = description(address)
    tokens = [b"", b"[]", b"null", b"7", b'"x"', b"not JSON", b"{}", b'{"id_token": 7}', b'{"id_token": "a.b.c"}']
    tokens += [b'{"id_token": {"a": 1}, "access_token": []}', b'{"error": "no", "error_description": "x"}']
    for keys in (
        b"{}",
        b"[]",
        b'{"keys": 7}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}]}',
        b"nonsense",
    ):
        answers["/keys"] = keys
        for content in tokens if keys == b"{}" else tokens[-3:]:
            answers["/token"] = content
            provider = provider_at(address, tmp_path)
            url, cookie = provider.begin("/")
            with pytest.raises(SignInFailed):
                provider.finish(code="c", state=httpx.URL(url).params["state"], cookie=cookie)


def test_api10_a_receiver_of_callbacks_that_never_ends_its_answer_is_left(tmp_path):
    """Only the status of an answer is read, so a receiver cannot fill the worker's memory."""

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(10**12))
            self.end_headers()
            left.wait(60)

        def log_message(self, *_):
            pass

    from eupg.service.settings import CallbackSettings

    left = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True)
    try:
        for live in running(settings_for(tmp_path, callbacks=allowed)):
            sending = Delivery(live.service, Lease(live.service.database, "worker", seconds=60))
            url = f"http://127.0.0.1:{server.server_port}/"
            assert sending._send(url, "secret", "msg", b"{}", {}) is None
    finally:
        left.set()
        server.shutdown()
        server.server_close()


# Insecure defaults.


def test_a05_what_is_not_set_up_is_closed(tmp_path):
    """Without settings there is no demonstration, no form, no protocol and no sign-in; cookies need HTTPS."""
    for live in running(settings_for(tmp_path)):
        anyone = visitor(live)
        assert anyone.post("/sign-in/demo", data={"role": "administration"}).status_code == 404
        assert anyone.get("/demo/mail").status_code == 404
        assert anyone.get("/sign-in/oidc").status_code == 404
        assert anyone.get("/erasure").status_code == 409
        assert anyone.get("/opendsr/discovery").status_code == 404
        headers = {"x-forwarded-user": "root", "x-forwarded-groups": "administrators"}
        assert anyone.get("/v1/keys", headers=headers).status_code == 401
    from eupg.service.settings import ServiceSettings

    defaults = ServiceSettings(folder=tmp_path)
    assert defaults.secure_cookies
    callbacks = defaults.callbacks
    assert [callbacks.allow_http, callbacks.allow_private_addresses, defaults.demo] == [False, False, False]
    assert MailSettings(host="h", sender="s").starttls
    assert create_app(defaults).debug is False


# Vulnerable and outdated components.


def test_a06_every_component_is_pinned_and_none_is_loaded_from_elsewhere(site):
    for path in (ROOT / "requirements").glob("*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-", " ")):
                assert re.match(r"[A-Za-z0-9._\[\]-]+==\S+", line), (path.name, line)
    for page in ("/", "/verify", "/erasure"):
        for tag, attributes in Page(visitor(site).get(page).text).tags:
            if tag in ("script", "link", "img", "iframe"):
                assert attributes.get("src", attributes.get("href", "")).startswith(("/static/", "data:")), attributes
