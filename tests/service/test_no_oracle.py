"""Nobody learns by the time of an answer whether a person is held: the same work is done for everybody.

Times on a busy machine show nothing, so the work itself is compared: every function of the package that runs, and every
statement that the database gets, in order. A lookup of a person would be one more call, or another statement.
``reproduction/benchmarks/service_timing.py`` measures the times.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio.to_thread
import pytest
from sqlalchemy import Engine, event

from browsing import post, sign_in, visitor
from eupg.service.access import ServiceRole
from eupg.service.models import Models
from eupg.service.requests import Requests
from managed import person
from protocols import DRP, exercised, opendsr_body, opendsr_settings, token
from serving import Running, running, settings_for


class Work:
    """Notes what is done to answer a call. Handlers run in the thread of the event loop, so that all is seen."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def statement(self, _connection, _cursor, text, parameters, *_) -> None:
        rows = len(parameters) if isinstance(parameters, list) else 1
        self.done.append(f"{text} × {rows}")

    def call(self, frame, kind, _argument) -> None:
        module = frame.f_globals.get("__name__", "")
        if kind == "call" and module.startswith("eupg."):
            self.done.append(f"{module}.{frame.f_code.co_qualname}")

    async def run_here(self, function, *arguments, **_):
        sys.setprofile(self.call)
        try:
            return function(*arguments)
        finally:
            sys.setprofile(None)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Note the work of all calls in this block."""
    work = Work()
    event.listen(Engine, "before_cursor_execute", work.statement)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", work.run_here)
        try:
            yield work.done
        finally:
            event.remove(Engine, "before_cursor_execute", work.statement)


@pytest.fixture(scope="module")
def site(trained, tmp_path_factory) -> Iterator[Running]:
    """A service over two models, by every protocol."""
    import shutil

    folder = tmp_path_factory.mktemp("oracle") / "models"
    shutil.copytree(trained, folder)
    opendsr = opendsr_settings(tmp_path_factory.mktemp("domain"))
    for live in running(settings_for(folder, demo=True, drp=DRP, opendsr=opendsr)):
        # Whether a session was seen a minute ago decides whether that is noted.
        live.service.sessions._clock = lambda: 1.8e9
        yield live


# Each files a request for a person, follows it, and returns the calls with which its owner follows it later.
Follow = Callable[[], list[int]]


def by_api(live: Running, name: str) -> Follow:
    intake = live.as_role(ServiceRole.INTAKE)
    body = {"identities": {"subject": name}, "channel": "letter"}
    request = live.client.post("/v1/requests", json=body, headers=intake).json()["id"]
    again = live.client.post("/v1/requests", json=body, headers=intake | {"Idempotency-Key": f"k-{name}"})
    assert again.status_code == 201
    path = f"/v1/requests/{request}"
    places = (path, "/v1/requests?limit=1", f"/v1/requests?state=certified&text={request}", f"{path}/certificate")
    return lambda: [live.client.get(place, headers=intake).status_code for place in places]


def by_agent(live: Running, name: str) -> Follow:
    headers = token(live)
    request = exercised(live, headers, subject=name, email=None).json()["request_id"]
    return lambda: [live.client.get(f"/v1/data-rights-request/{request}", headers=headers).status_code]


def by_controller(live: Running, name: str) -> Follow:
    headers = live.key("controller", ServiceRole.INTAKE)
    known_as = {"identity_type": "subject", "identity_value": name, "identity_format": "raw"}
    body = opendsr_body(subject_identities=[known_as], status_callback_urls=[])
    assert live.client.post("/opendsr/requests", json=body, headers=headers).status_code == 201
    path = f"/opendsr/requests/{body['subject_request_id']}"
    return lambda: [live.client.get(path, headers=headers).status_code]


def by_form(live: Running, name: str) -> Follow:
    anyone = visitor(live)
    post(anyone, "/erasure", "/erasure", **{"identity-subject": name, "email": "someone@example.org"})
    messages = (live.settings.own_folder / "outbox").glob("*.txt")
    links = [re.search(r"/erasure/confirm/\S+", path.read_text()) for path in messages]
    (link,) = [link[0] for link in links if link is not None and anyone.get(link[0]).status_code == 200]
    status = post(anyone, link, link).headers["location"]
    for path in (live.settings.own_folder / "outbox").glob("*.txt"):
        path.unlink()
    return lambda: [anyone.get(place).status_code for place in (status, f"{status}/certificate.json")]


def by_page(live: Running, name: str) -> Follow:
    browser = sign_in(live, ServiceRole.INTAKE)
    filed = post(browser, "/requests/new", "/requests/new", **{"identity-subject": name, "channel": "letter"})
    path = filed.headers["location"].partition("?")[0]
    # The form is that of a page whose length does not depend on what was filed before.
    assert post(browser, "/requests?show=failed", "/requests/search", text=path.rpartition("/")[2]).status_code == 303
    places = (path, f"{path}/progress?state=certified", "/requests?show=done", f"{path}/certificate.json")
    return lambda: [browser.get(place).status_code for place in places]


WAYS = [by_api, by_agent, by_controller, by_form, by_page]


def names(number: int) -> list[str]:
    """Return one person to begin with, two who are held and two who are not, with names of the same length."""
    held, absent = person(20 + number), person(900 + number)
    return [person(800 + number), held, absent, person(35 + number), person(950 + number)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_same_work_is_done_whether_a_person_is_held_or_not(site, way):
    number = WAYS.index(way)
    filed, read_before, read_after, follow = {}, {}, {}, {}
    for name in names(number):
        with watched() as done:
            follow[name] = way(site, name)
        filed[name] = done
    for name in names(number):
        with watched() as done:
            answers = follow[name]()
        read_before[name] = done, answers
    reviewer = site.as_role(ServiceRole.REVIEW)
    for request in site.client.get("/v1/requests?open=true", headers=reviewer).json()["requests"]:
        assert site.act(request["id"], "accept").status_code == 200
    assert site.work().completed == len(names(number))
    for name in names(number):
        with watched() as done:
            answers = follow[name]()
        read_after[name] = done, answers
    # The first call of all fills caches.
    _, *others = names(number)
    for seen in (filed, read_before, read_after):
        assert all(seen[name] == seen[others[0]] for name in others)
    assert len(filed[others[0]]) > 50, "nothing was watched"


def test_a_lookup_would_be_noticed(site, monkeypatch):
    """The comparison above sees even a lookup that finds nothing, and one that only some people get."""
    create = Requests.create_many

    def looks_up(self, asked):
        if any(new.identities["subject"] == person(20) for _, new in asked):
            site.service.models.names()
        return create(self, asked)

    with watched() as before:
        site.file(person(21))
    monkeypatch.setattr(Requests, "create_many", looks_up)
    with watched() as same:
        site.file(person(22))
    with watched() as other:
        site.file(person(20))
    assert same == before
    assert other != before
    assert any(Models.__module__ in line for line in other)
