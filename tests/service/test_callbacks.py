"""Callbacks: signed, repeated until they are accepted, never redirected, never to a private address."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from sqlalchemy import select

from eupg.errors import ParameterError
from eupg.service.access import ServiceRole
from eupg.service.callback_address import check_url
from eupg.service.database import MESSAGES, SUBSCRIPTIONS
from eupg.service.settings import CallbackSettings
from eupg.service.worker.callbacks import Delivery, signature
from eupg.service.worker.lease import Lease
from serving import running, settings_for

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver():
    """A receiver that answers with the statuses it is told, and keeps what it gets."""
    got: list[tuple[dict, bytes]] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = statuses.pop(0) if statuses else 204
            self.send_response(status)
            if status == 307:
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got, statuses
    server.shutdown()
    server.server_close()


def messages(live):
    with live.service.database.reading() as snapshot:
        return snapshot.connection.execute(select(MESSAGES).order_by(MESSAGES.c.next_at)).all()


def kept(live):
    """Return the messages and subscriptions that are stored."""
    with live.service.database.reading() as snapshot:
        return messages(live), snapshot.connection.execute(select(SUBSCRIPTIONS)).all()


def filed(live, url, subject="1"):
    sent = live.client.post(
        "/v1/requests",
        json={"identities": {"subject": subject}, "callback": {"url": url, "secret": SECRET}},
        headers=live.as_role(ServiceRole.INTAKE),
    )
    assert sent.status_code == 201, sent.text
    live.act(sent.json()["id"], "reject", reason="not our customer")
    return sent.json()["id"]


def delivery(live, clock, **options):
    lease = Lease(live.service.database, "worker", seconds=60)
    assert lease.take()
    return Delivery(live.service, lease, clock=lambda: clock[0], **options)


def test_a_message_is_signed_and_sent_once(tmp_path, receiver):
    url, got, _ = receiver
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True)
    for live in running(settings_for(tmp_path, callbacks=allowed)):
        request = filed(live, url)
        clock = [live.service.database.now().timestamp() + 1]
        sending = delivery(live, clock)
        assert (sending.run(), sending.run()) == (1, 0)
        ((headers, body),) = got
        assert json.loads(body)["data"] == {"request": request, "state": "rejected", "due": live.read(request)["due"]}
        expected = signature(SECRET, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
        assert headers["webhook-signature"] == expected


def test_a_message_that_is_not_accepted_is_sent_again_later_and_later(tmp_path, receiver):
    url, got, statuses = receiver
    statuses += [500, 307, 404]
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True)
    for live in running(settings_for(tmp_path, callbacks=allowed)):
        filed(live, url)
        clock = [live.service.database.now().timestamp() + 1]
        sending, waits = delivery(live, clock), []
        for _ in range(3):
            assert sending.run() == 0
            (message,) = messages(live)
            waits.append(round(message.next_at - clock[0]))
            assert sending.run() == 0
            clock[0] = message.next_at + 1
        assert waits == [5, 15, 45]
        assert sending.run() == 1
        # No redirect was followed, and every try was the same message.
        assert len(got) == 4
        assert len({headers["webhook-id"] for headers, _ in got}) == 1
        # The request is closed, so nothing about its receiver is kept.
        assert kept(live) == ([], [])


def test_a_message_is_given_up_in_the_end(tmp_path, receiver):
    url, got, statuses = receiver
    statuses += [500] * 10
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True, attempts=3)
    for live in running(settings_for(tmp_path, callbacks=allowed)):
        filed(live, url)
        clock = [live.service.database.now().timestamp() + 1]
        sending = delivery(live, clock)
        for _ in range(6):
            sending.run()
            clock[0] += 86_400
        assert len(got) == 3
        assert kept(live) == ([], [])


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.0.0.0", "100.64.0.1",
     "64:ff9b::a9fe:a9fe", "2002:a00:1::1"],
)  # fmt: skip
def test_no_message_goes_to_a_private_address(tmp_path, receiver, address):
    _, got, _ = receiver
    for live in running(settings_for(tmp_path)):
        filed(live, "https://crm.example.org/hook")
        clock = [live.service.database.now().timestamp() + 1]
        # One public address among private ones does not help.
        sending = delivery(live, clock, resolve=lambda *_: ["93.184.216.34", address])
        assert sending.run() == 0
        (message,) = messages(live)
        assert "private address" in message.error
        assert got == []


@pytest.mark.parametrize(
    "url",
    ["http://crm.example.org/", "ftp://x/", "https://", "https://user:word@host/", "https://[::1", "https://h:0/", "x",
     "https://a..b/", "https://.a/", f"https://{'a' * 64}.example/", f"https://{'ab.' * 85}example/"],
)  # fmt: skip
def test_an_address_of_another_kind_is_refused(url):
    with pytest.raises(ParameterError):
        check_url(url, CallbackSettings())


@pytest.mark.parametrize("url", ["https://a.example./x", "https://[2606:4700::1]/", "https://bücher.example/"])
def test_an_unusual_address_is_taken(url):
    check_url(url, CallbackSettings())


def test_a_message_that_cannot_be_sent_at_all_does_not_stop_the_others(tmp_path, receiver):
    url, got, _ = receiver
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True)
    for live in running(settings_for(tmp_path, callbacks=allowed)):
        filed(live, "https://crm.example.org/hook")
        filed(live, url, "2")

        def resolve(host, port):
            if host == "crm.example.org":
                raise UnicodeError("label empty or too long")
            return ["127.0.0.1"]

        clock = [live.service.database.now().timestamp() + 1]
        assert delivery(live, clock, resolve=resolve).run() == 1
        assert len(got) == 1
        assert sorted((m.state, m.error) for m in messages(live) if m.error) == [("waiting", "UnicodeError")]


def test_the_receiver_of_an_open_request_is_kept(tmp_path, receiver):
    url, got, _ = receiver
    allowed = CallbackSettings(allow_http=True, allow_private_addresses=True)
    for live in running(settings_for(tmp_path, callbacks=allowed)):
        callback = {"url": url, "secret": SECRET}
        sent = live.client.post(
            "/v1/requests",
            json={"identities": {"subject": "1"}, "callback": callback},
            headers=live.as_role(ServiceRole.INTAKE),
        )
        live.act(sent.json()["id"], "verify-identity")
        clock = [live.service.database.now().timestamp() + 1]
        sending = delivery(live, clock)
        assert sending.run() == 1
        assert [len(rows) for rows in kept(live)] == [1, 1]
        live.act(sent.json()["id"], "reject", reason="not our customer")
        clock[0] += 60
        assert sending.run() == 1
        assert kept(live) == ([], [])
        assert len(got) == 2
