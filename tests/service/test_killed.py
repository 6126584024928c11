"""Web and worker are killed at any moment: no acknowledged request is lost, and none is carried out twice.

``EUPG_SERVICE_KILLS`` sets the number of kills; with ``EUPG_SERVICE_RESTARTS=1`` PostgreSQL is restarted in between.
"""

import os
import random
import subprocess
import threading
import time
from collections import Counter

import httpx
import pytest
from sqlalchemy import func, select

from eupg.manage.requests.states import State
from eupg.service.access import PERMISSIONS, ServiceRole
from eupg.service.accounts import OPERATOR
from eupg.service.database import DOCUMENTS
from eupg.service.requests import RequestSearch
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from managed import person
from service_processes import Processes, free_port
from serving import NO_LIMITS

KILLS = int(os.environ.get("EUPG_SERVICE_KILLS", "4"))
RESTARTS = os.environ.get("EUPG_SERVICE_RESTARTS") == "1"
# A long run has so many people that the load lasts as long as the kills.
PEOPLE = 9 if KILLS < 20 else 24


class Caller(threading.Thread):
    """Files and accepts requests, and repeats a call until it is acknowledged."""

    def __init__(self, ports, key, numbers):
        super().__init__(daemon=True)
        self.acknowledged: dict[str, str] = {}
        self._ports, self._numbers, self._headers = ports, numbers, {"Authorization": f"Bearer {key}"}

    def run(self):
        for number in self._numbers:
            subject = person(number)
            body = {"identities": {"subject": subject}}
            filed = self._until("/v1/requests", body, {"Idempotency-Key": f"call-{number}"}, (201,))
            self.acknowledged[subject] = filed.json()["id"]
            # A repeated call finds it accepted already, which the service refuses.
            self._until(f"/v1/requests/{filed.json()['id']}/accept", None, {}, (200, 409))
            time.sleep(0.02 if KILLS < 20 else 2)

    def _until(self, path, body, headers, wanted):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            port = random.choice(self._ports)
            try:
                with httpx.Client(trust_env=False, timeout=5) as client:
                    url = f"http://127.0.0.1:{port}{path}"
                    answer = client.post(url, json=body, headers=self._headers | headers)
                if answer.status_code in wanted:
                    return answer
                assert answer.status_code == 503, answer.text
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service did not come back")


def restart_postgres():
    data = f"{os.environ['EUPG_TEST_POSTGRES_FOLDER']}/data"
    programs = sorted(os.listdir("/usr/lib/postgresql"))[-1]
    command = [f"/usr/lib/postgresql/{programs}/bin/pg_ctl", "restart", "-m", "immediate", "-w", "-s", "-D", data]
    owner = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    subprocess.run([*owner, *command], check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice(folder, database, tmp_path):
    values = {
        "folder": str(folder),
        "database": database,
        "secure_cookies": False,
        "limits": NO_LIMITS.model_dump(),
        "worker": {"interval_s": 0.05, "lease_s": 1.0, "attempts": 1000},
    }
    settings = ServiceSettings(**values)
    service = Service.open(settings)
    scopes = PERMISSIONS[ServiceRole.INTAKE] | PERMISSIONS[ServiceRole.REVIEW]
    key = service.accounts.issue_key(OPERATOR, name="caller", scopes=scopes, days=1)[1]
    ports, chance = [free_port(), free_port()], random.Random(7)
    processes = Processes(values, log=tmp_path / "log")
    roles = {"web 1": ports[0], "web 2": ports[1], "worker": 0}
    try:
        for name, port in roles.items():
            processes.start(name, port)
        callers = [Caller(ports, key, range(i, PEOPLE, 3)) for i in range(3)]
        for caller in callers:
            caller.start()
        for number in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.6))
            victim = ("worker", "web 1", "worker", "web 2")[number % 4]
            processes.kill(victim)
            if RESTARTS and database is not None and number % 10 == 5:
                restart_postgres()
            processes.start(victim, roles[victim])
        for caller in callers:
            caller.join(150)
        acknowledged = {k: v for caller in callers for k, v in caller.acknowledged.items()}
        assert set(acknowledged) == {person(i) for i in range(PEOPLE)}
        wait_until_done(service, len(acknowledged))
        for name in roles:
            processes.end(name)
    finally:
        processes.close()
    cases = service.requests.search(OPERATOR, RequestSearch(limit=200)).cases
    # Every acknowledged request is there, and no other.
    assert {case.request.id for case in cases} == set(acknowledged.values())
    assert all([p.state for p in case.parts] == ["erased", "erased"] for case in cases)
    with service.database.reading() as snapshot:
        count = select(DOCUMENTS.c.request, DOCUMENTS.c.kind, func.count().label("n"))
        rows = snapshot.connection.execute(count.group_by(DOCUMENTS.c.request, DOCUMENTS.c.kind)).all()
    assert {row.n for row in rows} == {1}
    service.trail.verify(OPERATOR)
    for name in ("all", "half"):
        with service.models.opened(name) as manager:
            manager.verify()
            completed = Counter(
                str(e.body["request"]) for e in manager.space.ledger.entries(kinds=["request.completed"])
            )
            assert len(completed) == PEOPLE
            assert set(completed.values()) == {1}
    service.close()


def wait_until_done(service, number):
    end = time.monotonic() + 150
    while time.monotonic() < end:
        try:
            if service.database.book.status().counts[State.CERTIFIED] == number:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError({str(k): v for k, v in service.database.book.status().counts.items() if v})
