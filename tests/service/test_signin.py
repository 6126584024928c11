"""Sign-in: by OpenID Connect at a real provider, by a trusted proxy, and what a browser is kept from doing."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from eupg.errors import ParameterError
from eupg.service.access import ServiceRole
from eupg.service.settings import OidcSettings, ProxySettings
from eupg.service.signin.current import csrf_token
from eupg.service.signin.oidc import OidcSignIn
from eupg.service.signin.routes import local_path
from service_processes import free_port
from serving import running, settings_for

GROUPS = {"privacy office": ("review",), "auditors": ("audit",)}


@pytest.fixture(scope="module")
def provider():
    """The address of a provider that runs in a process of its own."""
    port = free_port()
    script = Path(__file__).parents[1] / "oidc_provider.py"
    process = subprocess.Popen([sys.executable, str(script), str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def office(tmp_path, provider):
    """A service at which people sign in by the provider."""
    secret = tmp_path / "client-secret"
    secret.write_text("a secret of the client")
    oidc = OidcSettings(issuer=provider, client_id="eupg", client_secret_file=secret)
    folder = tmp_path / "models"
    folder.mkdir()
    tell(provider)
    yield from running(settings_for(folder, oidc=oidc, groups=GROUPS))


def tell(provider, **values):
    httpx.post(f"{provider}/told", json=values, trust_env=False)


def at_provider(live, path="/sign-in/oidc"):
    """Begin a sign-in, and return the address to which the provider sends the browser back."""
    sent = live.client.get(path)
    assert sent.status_code == 303, sent.text
    back = httpx.get(sent.headers["location"], trust_env=False).headers["location"]
    return urlsplit(back).path + "?" + urlsplit(back).query


def test_an_officer_signs_in_and_acts_under_their_own_account(office):
    begun = office.client.get("/sign-in/oidc", params={"next": "/requests?open=true"})
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert "a secret of the client" not in begun.headers["location"]
    back = httpx.get(begun.headers["location"], trust_env=False).headers["location"]
    done = office.client.get(urlsplit(back).path + "?" + urlsplit(back).query)
    assert (done.status_code, done.headers["location"]) == (303, "/requests?open=true")
    cookie = next(c for c in done.headers.get_list("set-cookie") if c.startswith("eupg-session="))
    assert "httponly" in cookie.lower()
    assert "samesite=lax" in cookie.lower()
    assert office.client.get("/v1/requests").status_code == 200
    assert office.client.get("/v1/audit").status_code == 403
    assert office.client.get("/v1/keys").status_code == 403


def test_a_second_sign_in_gets_a_new_session_and_ends_the_old_one(office):
    tokens = []
    for _ in range(2):
        office.client.get(at_provider(office))
        tokens.append(office.client.cookies["eupg-session"])
    assert tokens[0] != tokens[1]
    assert office.service.sessions.find(tokens[0]) is None
    assert office.service.sessions.find(tokens[1]) is not None


@pytest.mark.parametrize(
    "told",
    [
        {"wrong_key": True},
        {"none": True},
        {"claims": {"aud": "another service"}},
        {"claims": {"iss": "https://evil.example"}},
        {"claims": {"nonce": "another"}},
        {"claims": {"exp": 1}},
        {"claims": {"aud": ["eupg", "another"]}},
    ],
)
def test_an_answer_that_does_not_hold_is_refused(office, provider, told):
    tell(provider, **told)
    answer = office.client.get(at_provider(office))
    assert answer.status_code == 502, answer.text
    assert office.client.get("/v1/requests").status_code == 401


def test_somebody_without_a_role_does_not_get_in(office, provider):
    tell(provider, claims={"groups": ["cooks"]})
    assert office.client.get(at_provider(office)).status_code == 403
    assert "eupg-session" not in office.client.cookies


def test_a_sign_in_that_another_browser_began_is_refused(office):
    back = at_provider(office)
    office.client.cookies.clear()
    assert office.client.get(back).status_code == 403
    mine = at_provider(office)
    state = parse_qs(urlsplit(mine).query)["state"][0]
    assert office.client.get(back).status_code == 403
    assert office.client.get(mine.replace(state, "x")).status_code == 403
    assert office.client.get("/sign-in/oidc/callback?error=access_denied").status_code == 403


def test_a_code_works_once(office):
    back = at_provider(office)
    cookies = dict(office.client.cookies)
    assert office.client.get(back).status_code == 303
    office.client.cookies.clear()
    for name, value in cookies.items():
        office.client.cookies.set(name, value)
    assert office.client.get(back).status_code == 502


def test_a_provider_without_https_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    settings = OidcSettings(issuer="http://login.example.org", client_id="x", client_secret_file=secret)
    with pytest.raises(ParameterError, match="https"):
        OidcSignIn(settings, None, "http://x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "",
        "/\tx",
        "\\\\evil.example",
    ],
)
def test_nobody_is_sent_to_another_site(path):
    assert local_path(path) == "/"


def test_a_change_needs_the_token_of_the_session(tmp_path):
    for live in running(settings_for(tmp_path, demo=True)):
        request = live.file("somebody")
        live.client.post("/sign-in/demo", data={"role": "review"})
        token = csrf_token(live.service, live.client.cookies["eupg-session"])
        path = f"/v1/requests/{request}/verify-identity"
        assert live.client.post(path).status_code == 403
        assert live.client.post(path, headers={"X-CSRF-Token": "x"}).status_code == 403
        other = {"X-CSRF-Token": token, "Origin": "https://evil.example"}
        assert live.client.post(path, headers=other).status_code == 403
        assert live.read(request)["state"] == "received"
        assert live.client.post(path, headers={"X-CSRF-Token": token}).status_code == 200
        assert live.client.post("/sign-out", data={"csrf": "x"}).status_code == 403
        assert live.client.post("/sign-out", data={"csrf": token}).status_code == 303
        assert live.client.get("/v1/requests").status_code == 401


def test_signing_in_by_role_is_for_demonstrations(empty):
    assert empty.client.post("/sign-in/demo", data={"role": "review"}).status_code == 404


def test_every_answer_carries_the_headers_that_protect_browsers(empty):
    for path in ("/healthz", "/v1/requests", "/nothing"):
        headers = empty.client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_cookies_are_secure_unless_that_is_switched_off(tmp_path):
    for live in running(settings_for(tmp_path, demo=True, secure_cookies=True)):
        sent = live.client.post("/sign-in/demo", data={"role": "audit"})
        cookie = sent.headers["set-cookie"]
        assert cookie.startswith("__Host-eupg=")
        assert "Secure" in cookie
        assert "max-age=31536000" in sent.headers["strict-transport-security"]


@pytest.fixture
def behind(tmp_path):
    secret = tmp_path / "proxy-secret"
    secret.write_text("p" * 40)
    folder = tmp_path / "models"
    folder.mkdir()
    proxy = ProxySettings(networks=("127.0.0.0/8",), secret_file=secret)
    yield from running(settings_for(folder, proxy=proxy, groups=GROUPS))


def test_a_trusted_proxy_names_the_caller(behind, monkeypatch):
    sent = {
        "x-forwarded-user": "officer@example.org",
        "x-forwarded-groups": "cooks, privacy office",
        "x-eupg-proxy-secret": "p" * 40,
    }
    # The test client says that it is called "testclient".
    assert behind.client.get("/v1/requests", headers=sent).status_code == 401
    monkeypatch.setattr("eupg.service.signin.proxy.TrustedProxy._is_near", lambda *_: True)
    assert behind.client.get("/v1/requests", headers=sent).status_code == 200
    assert behind.client.get("/v1/audit", headers=sent).status_code == 403
    assert behind.client.get("/v1/requests", headers=sent | {"x-eupg-proxy-secret": "guess"}).status_code == 401
    request = behind.file("somebody")
    foreign = sent | {"sec-fetch-site": "cross-site"}
    assert behind.client.post(f"/v1/requests/{request}/accept", headers=foreign).status_code == 403
    # A browser that does not send Sec-Fetch-Site sends the origin.
    foreign = sent | {"origin": "https://elsewhere.example"}
    assert behind.client.post(f"/v1/requests/{request}/accept", headers=foreign).status_code == 403
    assert behind.client.post(f"/v1/requests/{request}/accept", headers=sent).status_code == 200
    entries = behind.client.get(f"/v1/requests/{request}/history", headers=behind.as_role(ServiceRole.AUDIT)).text
    assert "officer@example.org" not in entries


def test_a_proxy_counts_only_from_its_networks(tmp_path):
    from eupg.service.signin.proxy import TrustedProxy

    secret = tmp_path / "secret"
    secret.write_text("p" * 40)
    proxy = TrustedProxy(ProxySettings(networks=("10.0.0.0/24", "::1/128"), secret_file=secret))
    near = {"10.0.0.7": True, "10.0.1.7": False, "::1": True, "127.0.0.1": False, "testclient": False}
    assert {host: proxy._is_near(host) for host in near} == near
