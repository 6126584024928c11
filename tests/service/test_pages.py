"""Pages: every one works without scripts, for the roles that may see it, and for nobody else."""

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from browsing import Page, post, sign_in
from eupg import verify
from eupg.manage.requests.states import State
from eupg.service.access import PERMISSIONS, Actor, Permission, ServiceRole, permissions_of
from eupg.service.app import create_app
from eupg.service.database import TOKENS
from eupg.service.pages import words
from eupg.service.requests import NewRequest
from managed import person
from serving import Running, running, settings_for

OFFICER = Actor("a-officer", "An officer", permissions_of([ServiceRole.REVIEW, ServiceRole.OPERATION]))
# Which permission each page needs; None is for everybody.
PAGES: dict[str, Permission | tuple[Permission, ...] | None] = {
    "/verify": None,
    "/erasure": None,
    "/erasure/sent": None,
    "/sign-in": None,
    "/requests": (Permission.READ, Permission.READ_OWN),
    "/requests/new": Permission.CREATE,
    "/requests/{request}": Permission.READ,
    "/certificates": Permission.CERTIFICATES,
    "/models": Permission.MODELS,
    "/models/all": Permission.MODELS,
    "/trail": Permission.AUDIT,
    "/administration": Permission.MANAGE,
}


def file(live: Running, subject: str) -> str:
    new = NewRequest({"subject": subject}, channel="letter")
    return live.service.requests.create(OFFICER, new).case.request.id


@pytest.fixture
def demo(folder) -> Iterator[Running]:
    yield from running(settings_for(folder, demo=True))


@pytest.fixture(scope="module")
def shared(trained, tmp_path_factory) -> Iterator[Running]:
    """A service that tests only look at."""
    import shutil

    folder = tmp_path_factory.mktemp("shared") / "models"
    shutil.copytree(trained, folder)
    yield from running(settings_for(folder, demo=True))


def test_every_role_sees_its_pages_and_no_other(shared):
    request = file(shared, person(3))
    for role in ServiceRole:
        browser = sign_in(shared, role)
        for path, needed in PAGES.items():
            allowed = needed is None or bool(
                PERMISSIONS[role] & set(needed if isinstance(needed, tuple) else (needed,))
            )
            status = browser.get(path.format(request=request)).status_code
            if path == "/sign-in":
                assert status == 303
            elif path == "/requests/{request}" and not allowed and Permission.READ_OWN in PERMISSIONS[role]:
                assert status == 404, "somebody else's request does not exist for them"
            else:
                assert status == (200 if allowed else 403), f"{role} at {path}"


def test_whoever_is_not_signed_in_is_sent_to_the_sign_in_and_back(shared):
    browser = TestClient(shared.client.app, follow_redirects=False)
    for path, needed in PAGES.items():
        answer = browser.get(path.format(request="r-0123456789abcdef"))
        assert answer.status_code == (200 if needed is None else 303), path
        if needed is not None:
            assert answer.headers["location"].startswith("/sign-in?next=/")
    page = browser.get("/sign-in?next=//evil.example/").text
    assert "evil.example" not in page
    answer = browser.post("/sign-in/demo", data={"role": "review", "next": "https://evil.example/"})
    assert answer.headers["location"] == "/"
    assert browser.post("/requests/decide", data={}).status_code == 403


def test_no_page_has_inline_scripts_or_styles_and_every_form_has_a_token(shared):
    request = file(shared, person(4))
    for role in (ServiceRole.REVIEW, ServiceRole.AUDIT, ServiceRole.ADMINISTRATION):
        browser = sign_in(shared, role)
        for path in PAGES:
            answer = browser.get(path.format(request=request), follow_redirects=True)
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            assert answer.headers["cache-control"] == "no-store"
            page = Page(answer.text)
            for tag, attributes in page.tags:
                assert tag != "style"
                assert "style" not in attributes
                assert tag != "script" or attributes["src"].startswith("/static/")
                assert not any(name.startswith("on") for name in attributes), attributes
                assert not attributes.get("src", attributes.get("href", "")).startswith("http")
            for form in page.forms:
                assert form["method"] == "get" or form.get("csrf"), form


def test_form_without_its_token_changes_nothing(demo):
    request = file(demo, person(5))
    browser = sign_in(demo, ServiceRole.REVIEW)
    for token in ("", "0" * 32):
        assert browser.post(f"/requests/{request}/accept", data={"csrf": token}).status_code == 403
    elsewhere = {"origin": "https://evil.example"}
    csrf = Page(browser.get(f"/requests/{request}").text).forms[-1]["csrf"]
    assert browser.post(f"/requests/{request}/accept", data={"csrf": csrf}, headers=elsewhere).status_code == 403
    stolen = sign_in(demo, ServiceRole.REVIEW)
    assert stolen.post(f"/requests/{request}/accept", data={"csrf": csrf}).status_code == 403
    assert demo.service.requests.read(OFFICER, request).request.state is State.RECEIVED


def test_officer_accepts_sees_both_models_and_downloads_a_certificate_that_verifies(demo, tmp_path):
    request = file(demo, person(6))
    browser = sign_in(demo, ServiceRole.REVIEW)
    assert request in browser.get("/").text
    path = f"/requests/{request}"
    answer = post(browser, path, f"{path}/accept")
    assert answer.status_code == 303
    assert "was accepted" in browser.get(answer.headers["location"]).text
    assert "every 2s" in browser.get(path).text
    assert browser.get(f"{path}/progress?state=received").headers["hx-redirect"] == path
    assert demo.work().completed == 1
    shown = browser.get(path).text
    assert "every 2s" not in shown
    assert shown.count('<span class="badge good">Erased</span>') == 2
    assert "all</a>" in shown
    assert "half</a>" in shown
    assert "Demo review" in shown
    content = browser.get(f"{path}/certificate.json")
    assert content.headers["content-disposition"].startswith("attachment")
    (tmp_path / "c.json").write_bytes(content.content)
    (tmp_path / "k.pub").write_bytes(browser.get("/signing.pub").content)
    verify(tmp_path / "c.json", key=tmp_path / "k.pub")
    printed = browser.get(f"{path}/certificate.html")
    assert "unsafe" not in printed.headers["content-security-policy"]
    assert browser.get(f"{path}/credential.json").json()["type"] == ["VerifiableCredential", "ErasureBundle"]
    assert request in browser.get("/certificates").text
    for name, changed, said in (
        ("c.json", content.content, "Genuine"),
        ("c.json", content.content.replace(b'"erased"', b'"erasad"'), "Not a valid certificate"),
        ("c.json", content.content.replace(request.encode(), b"r-0123456789abcdef"), "Not a valid certificate"),
        ("c.json", b"<script>alert(1)</script>", "Not a valid certificate"),
    ):
        assert said in drop(browser, name, changed)


def drop(browser: TestClient, name: str, content: bytes, key: bytes = b"") -> str:
    """Drop a certificate on the page that verifies."""
    csrf = next(form["csrf"] for form in Page(browser.get("/verify").text).forms if form["action"] == "/verify")
    files = {"certificate": (name, content), "key": ("k.pub", key)}
    return browser.post("/verify", data={"csrf": csrf}, files=files).text


def test_certificate_of_another_issuer_is_told_apart(shared):
    from certify import sample

    theirs, key = sample.certificate(issuer=sample.ISSUER).to_bytes(), sample.key().public.to_pem()
    anyone = TestClient(shared.client.app)
    assert "Signed by somebody else" in drop(anyone, "c.json", theirs)
    assert "Signed with the key that you gave" in drop(anyone, "c.json", theirs, key)
    assert "This is not a public key" in drop(anyone, "c.json", theirs, b"nonsense")
    assert "Choose the file" in drop(anyone, "c.json", b"")


def test_rejection_needs_a_reason_and_the_person_reads_it(demo):
    request = file(demo, person(7))
    browser, path = sign_in(demo, ServiceRole.REVIEW), f"/requests/{request}"
    refused = post(browser, path, f"{path}/reject", reason="   ")
    assert refused.status_code == 422
    assert 'href="#reject-reason"' in refused.text
    assert 'aria-invalid="true"' in refused.text
    assert "<title>Error: " in refused.text
    assert post(browser, path, f"{path}/reject", reason="identity <b>unclear</b>").status_code == 303
    shown = browser.get(path).text
    assert "identity &lt;b&gt;unclear&lt;/b&gt;" in shown
    assert "<b>unclear" not in shown
    csrf = Page(shown).forms[0]["csrf"]
    assert browser.post(f"{path}/accept", data={"csrf": csrf}).status_code == 409


def test_deadline_is_extended_once_with_a_reason(demo):
    request = file(demo, person(8))
    browser, path = sign_in(demo, ServiceRole.REVIEW), f"/requests/{request}"
    assert post(browser, path, f"{path}/extend", months="2").status_code == 422
    assert post(browser, path, f"{path}/extend", months="2", reason="many requests").status_code == 303
    shown = browser.get(path).text
    assert "extended the deadline" in shown
    assert f'action="{path}/extend"' not in shown


def test_who_asks_is_shown_by_a_form_alone_and_noted(demo):
    request = file(demo, person(9))
    browser, path = sign_in(demo, ServiceRole.REVIEW), f"/requests/{request}"
    assert person(9) not in browser.get(path).text
    assert person(9) in post(browser, path, f"{path}/identity").text
    assert "looked at who asks" in browser.get(path).text
    operator = sign_in(demo, ServiceRole.OPERATION)
    csrf = Page(operator.get(path).text).forms[0]["csrf"]
    assert operator.post(f"{path}/identity", data={"csrf": csrf}).status_code == 403


def test_failure_shows_its_cause_and_is_tried_again(demo, monkeypatch):
    from eupg.errors import LockHeld
    from eupg.manage.manager import Manager

    request = file(demo, person(10))
    demo.service.requests.accept(OFFICER, request)

    def held(self, **_):
        raise LockHeld("another process")

    with monkeypatch.context() as patch:
        patch.setattr(Manager, "forget", held)
        assert demo.work().failed == 1
    browser, path = sign_in(demo, ServiceRole.OPERATION), f"/requests/{request}"
    shown = browser.get(path).text
    assert "Another process is changing the workspace right now (LockHeld)." in shown
    assert "The worker tries again by itself" in shown
    assert "Try again now" in shown
    assert request in browser.get("/requests?show=failed").text
    assert post(browser, path, f"{path}/retry").status_code == 303
    assert demo.work().completed == 1
    assert "Carried out" in browser.get(path).text


def test_no_state_claims_that_every_model_was_searched():
    # Some may not be searchable.
    said = [text for *_, text in (*words.STATES.values(), *words.FOR_THE_PERSON.values())]
    assert not [text for text in said if re.search(r"(All models|Every model) (was|were) searched", text)]


def test_several_requests_are_decided_at_once(demo):
    names = [file(demo, person(i)) for i in range(11, 15)]
    browser = sign_in(demo, ServiceRole.REVIEW)
    missing = post(browser, "/requests", "/requests/decide", decision="reject", request=names[:2])
    assert missing.status_code == 422
    assert "Say why" in missing.text
    assert post(browser, "/requests", "/requests/decide", decision="accept").status_code == 422
    done = post(browser, "/requests", "/requests/decide", decision="accept", request=names[:2], back="//evil.example")
    assert done.status_code == 303
    assert done.headers["location"].startswith("/requests?")
    some = post(browser, "/requests", "/requests/decide", decision="reject", request=names[1:3], reason="not theirs")
    assert some.status_code == 409
    assert "1 request could not be decided" in some.text
    states = [demo.service.requests.read(OFFICER, name).request.state for name in names]
    assert states == [State.ACCEPTED, State.ACCEPTED, State.REJECTED, State.RECEIVED]


def test_list_is_filtered_paged_and_searched_without_names_in_addresses(demo):
    names = [file(demo, person(i % 50) + f"-{i}") for i in range(60)]
    browser = sign_in(demo, ServiceRole.REVIEW)
    first = browser.get("/requests?show=undecided").text
    following = next(a["href"] for t, a in Page(first).tags if t == "a" and a.get("rel") == "next")
    second = browser.get(following).text
    found = [set(re.findall(r'href="/requests/(r-[0-9a-f]{16})"', text)) for text in (first, second)]
    assert found[0] | found[1] == set(names)
    assert not found[0] & found[1]
    assert "There are no such requests" in browser.get("/requests?show=failed").text
    by_id = post(browser, "/requests", "/requests/search", text=names[0])
    assert by_id.headers["location"] == f"/requests/{names[0]}"
    by_name = post(browser, "/requests", "/requests/search", text=f"{person(7)}-7")
    assert by_name.status_code == 200
    assert names[7] in by_name.text
    assert person(7) not in str(by_name.url)
    assert "No request was found" in post(browser, "/requests", "/requests/search", text="nobody").text
    assert browser.get("/requests?cursor=nonsense").status_code == 422


def test_a_search_for_a_person_needs_the_permission_and_is_noted(demo):
    def noted():
        entries = demo.service.database.ledger.entries()
        return [entry.body.get("request") for entry in entries if entry.kind == "act.identity-read"]

    name = file(demo, "looked for")
    operator, reviewer = sign_in(demo, ServiceRole.OPERATION), sign_in(demo, ServiceRole.REVIEW)
    assert "Request or person" not in operator.get("/requests").text
    assert "Request or person" in reviewer.get("/requests").text
    assert post(operator, "/requests", "/requests/search", text="looked for").status_code == 403
    assert operator.get(f"/requests?text={name[:6]}").status_code == 200
    assert noted() == []
    assert name in post(reviewer, "/requests", "/requests/search", text="looked for").text
    assert noted() == [name]
    post(reviewer, "/requests", "/requests/search", text="nobody")
    assert noted() == [name, None]
    reviewer.get(f"/requests?text={name[:6]}")
    assert len(noted()) == 2


def test_request_is_filed_on_a_page_and_withdrawn_by_its_owner(demo):
    browser = sign_in(demo, ServiceRole.INTAKE)
    assert post(browser, "/requests/new", "/requests/new", channel="letter").status_code == 422
    filed = post(browser, "/requests/new", "/requests/new", **{"identity-subject": person(1), "channel": "telephone"})
    path = filed.headers["location"].partition("?")[0]
    assert "The request was filed" in browser.get(filed.headers["location"]).text
    other = sign_in(demo, ServiceRole.REVIEW)
    assert f'action="{path}/cancel"' not in other.get(path).text
    assert post(browser, path, f"{path}/cancel").status_code == 303
    assert "Withdrawn" in browser.get(path).text


def test_key_is_shown_once_and_revoked(demo):
    browser = sign_in(demo, ServiceRole.ADMINISTRATION)
    assert post(browser, "/administration", "/administration/keys", name="", days="0").status_code == 422
    made = post(browser, "/administration", "/administration/keys", name="crm", scope="requests:create", days="9")
    secret = re.search(r"eupg_[0-9a-f]{12}_[\w-]{43}", made.text)
    assert secret is not None
    assert secret[0] not in browser.get("/administration").text
    actor = demo.service.accounts.actor_of_key(secret[0])
    assert actor is not None
    action = f"/administration/keys/{actor.key}/revoke"
    assert post(browser, "/administration", action).status_code == 303
    assert demo.service.accounts.actor_of_key(secret[0]) is None


def test_trail_is_paged_checked_and_names_who_acted(demo):
    for i in range(40):
        file(demo, f"x-{i}")
    browser = sign_in(demo, ServiceRole.AUDIT)
    first = browser.get("/trail").text
    older = next(a["href"] for t, a in Page(first).tags if t == "a" and "before=" in a.get("href", ""))
    second = browser.get(older).text
    rows = [re.findall(r'data-label="Entry">([\d,]+)<', text) for text in (first, second)]
    assert rows[0] == sorted(rows[0], key=lambda n: -int(n))
    assert int(rows[0][-1]) == int(rows[1][0]) + 1
    newer = next(a["href"] for t, a in Page(second).tags if t == "a" and "after=" in a.get("href", ""))
    assert re.findall(r'data-label="Entry">([\d,]+)<', browser.get(newer).text) == rows[0]
    assert "act.filed" not in browser.get("/trail?kind=request.").text
    checked = post(browser, "/trail", "/trail/check")
    assert "is whole" in browser.get(checked.headers["location"]).text


def messages(live: Running) -> list[str]:
    paths = sorted((live.settings.own_folder / "outbox").glob("*.txt"), key=lambda p: p.stat().st_mtime_ns)
    return [path.read_text() for path in paths]


def ask(live: Running, subject: str) -> tuple[int, str, str]:
    anyone = TestClient(live.client.app, follow_redirects=False)
    answer = post(anyone, "/erasure", "/erasure", **{"identity-subject": subject, "email": "someone@example.org"})
    return answer.status_code, answer.headers["location"], anyone.get(answer.headers["location"]).text


def test_form_answers_the_same_whether_the_person_is_known_or_not(demo):
    assert ask(demo, person(2)) == ask(demo, "nobody at all")


def test_person_asks_confirms_follows_and_gets_the_certificate(demo):
    ask(demo, person(2))
    anyone = TestClient(demo.client.app, follow_redirects=False)
    link = re.search(r"http://testserver(/erasure/confirm/\S+)", messages(demo)[-1])
    assert link is not None
    # Programs that open every link file nothing.
    assert anyone.get(link[1]).status_code == 200
    assert demo.service.requests.counts(OFFICER).open == 0
    confirmed = post(anyone, link[1], link[1])
    status = confirmed.headers["location"]
    assert re.fullmatch(r"/erasure/status/[\w-]{43}", status)
    assert anyone.get(link[1]).status_code == 404
    page = anyone.get(status)
    assert "We have received your request" in page.text
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert "400 days" in page.text
    request = re.search(r"r-[0-9a-f]{16}", page.text)
    assert request is not None
    demo.service.requests.verify_identity(OFFICER, request[0])
    demo.service.requests.accept(OFFICER, request[0])
    demo.work()
    shown = anyone.get(status).text
    assert words.FOR_THE_PERSON[State.CERTIFIED][0] in shown
    # The page does not tell where the person was held; the certificate, for a verified person, does.
    assert "half" not in shown
    certificate = anyone.get(f"{status}/certificate.json")
    assert certificate.status_code == 200
    assert "Genuine" in drop(anyone, "c.json", certificate.content)


def test_a_submission_that_nobody_confirms_is_deleted_by_the_worker(demo, monkeypatch):
    def stored():
        with demo.service.database.reading() as snapshot:
            return snapshot.connection.execute(select(TOKENS)).all()

    ask(demo, person(2))
    before, now = stored(), demo.service.database.now
    demo.work()
    assert len(before) == 1
    assert stored() == before
    monkeypatch.setattr(demo.service.database, "now", lambda: now() + timedelta(days=2, seconds=1))
    demo.work()
    assert stored() == []


def test_person_withdraws_by_the_link(demo):
    ask(demo, person(2))
    anyone = TestClient(demo.client.app, follow_redirects=False)
    link = re.search(r"http://testserver(/erasure/confirm/\S+)", messages(demo)[-1])
    assert link is not None
    status = post(anyone, link[1], link[1]).headers["location"]
    assert post(anyone, status, f"{status}/withdraw").status_code == 303
    assert "You have withdrawn" in anyone.get(status).text
    assert anyone.get("/erasure/status/" + "x" * 43).status_code == 404


def test_public_form_refuses_what_cannot_be_and_is_closed_without_mail(demo, folder):
    anyone = TestClient(demo.client.app, follow_redirects=False)
    wrong = post(anyone, "/erasure", "/erasure", **{"identity-subject": "", "email": "nonsense"})
    assert wrong.status_code == 422
    assert 'href="#identity-subject"' in wrong.text
    wrong = post(anyone, "/erasure", "/erasure", **{"identity-subject": "x", "email": "a\r\nBcc: b@example.org"})
    assert wrong.status_code == 422
    assert anyone.post("/erasure", data={"identity-subject": "x", "email": "a@example.org"}).status_code == 403
    assert messages(demo) == []
    with TestClient(create_app(settings_for(folder)), raise_server_exceptions=False) as closed:
        assert closed.get("/erasure").status_code == 409
        assert closed.get("/demo/mail").status_code == 404
        assert "Have your data erased" not in closed.get("/").text


def test_form_token_of_yesterday_is_refused(demo, monkeypatch):
    anyone = TestClient(demo.client.app, follow_redirects=False)
    csrf = next(f["csrf"] for f in Page(anyone.get("/erasure").text).forms if f["action"] == "/erasure")
    late = time.time() + 3 * 3600
    monkeypatch.setattr(time, "time", lambda: late)
    sent = {"csrf": csrf, "identity-subject": "x", "email": "a@example.org"}
    assert anyone.post("/erasure", data=sent).status_code == 403
    for forged in ("", ".", "x.y", f"{int(late)}.{'0' * 32}", "²." + csrf.partition(".")[2]):
        assert anyone.post("/erasure", data=sent | {"csrf": forged}).status_code == 403, forged


def test_errors_are_pages_for_people_and_problems_for_programs(shared):
    html = shared.client.get("/nowhere", headers={"accept": "text/html"})
    assert html.status_code == 404
    assert "There is no such page" in html.text
    assert shared.client.get("/nowhere").headers["content-type"] == "application/problem+json"
    assert shared.client.get("/v1/nowhere", headers={"accept": "text/html"}).json()["status"] == 404
    browser = sign_in(shared, ServiceRole.REVIEW)
    for path in ("/requests/r-0123456789abcdef", "/models/nothing", "/models/..%2f..%2fetc"):
        assert browser.get(path, headers={"accept": "text/html"}).status_code == 404, path
    assert browser.get("/requests/nonsense").status_code == 422


def test_files_of_the_pages_are_in_the_package():
    static = Path(words.__file__).parent / "static"
    assert {path.name for path in static.iterdir()} == {
        "eupg.js",
        "htmx.LICENSE.txt",
        "htmx.min.js",
        "icon.svg",
        "style.css",
    }


@pytest.mark.parametrize("table", [words.STATES, words.FOR_THE_PERSON])
def test_every_state_has_words(table):
    assert set(table) == set(State)


def test_every_role_and_permission_has_words():
    assert set(words.ROLES) == set(ServiceRole)
    assert set(words.PERMISSIONS) == set(Permission)


def test_a_mail_server_that_fails_costs_nobody_their_request(demo, monkeypatch):
    from eupg.errors import MailFailed
    from eupg.service.mail import FolderMailer

    def fail(*_):
        raise MailFailed("no mail server")

    def stored():
        with demo.service.database.reading() as snapshot:
            return snapshot.connection.execute(select(TOKENS)).all()

    anyone, fields = TestClient(demo.client.app, follow_redirects=False), {"identity-subject": person(2)}
    fields["email"] = "someone@example.org"
    with monkeypatch.context() as broken:
        broken.setattr(FolderMailer, "send", fail)
        assert post(anyone, "/erasure", "/erasure", **fields).status_code == 503
        assert stored() == []
    assert post(anyone, "/erasure", "/erasure", **fields).status_code == 303
    link = re.search(r"http://testserver(/erasure/confirm/\S+)", messages(demo)[-1])
    assert link is not None
    monkeypatch.setattr(FolderMailer, "send", fail)
    status = post(anyone, link[1], link[1])
    assert status.status_code == 303
    assert "We have received your request" in anyone.get(status.headers["location"]).text


def test_a_person_is_found_by_every_kind_of_identifier_that_workspaces_use(folder):
    for live in running(settings_for(folder, demo=True, identifiers={"half": "email"})):
        new = NewRequest({"email": "looked.for@example.org"}, channel="letter")
        name = live.service.requests.create(OFFICER, new).case.request.id
        reviewer = sign_in(live, ServiceRole.REVIEW)
        assert name in post(reviewer, "/requests", "/requests/search", text="looked.for@example.org").text
