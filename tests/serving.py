"""A service to test with: no limits on calls, no HTTPS, a quick worker, and a key per role."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient

from eupg import Manager
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import report
from eupg.service.access import PERMISSIONS, ServiceRole
from eupg.service.accounts import OPERATOR
from eupg.service.app import create_app
from eupg.service.service import Service
from eupg.service.settings import LimitSettings, ServiceSettings, WorkerSettings
from eupg.service.worker.loop import Worker

_MANY = "100000/minute"
NO_LIMITS = LimitSettings(calls=_MANY, creations=_MANY, sign_ins=_MANY, strangers=_MANY, mails=_MANY)


@dataclass
class Running:
    """A service that answers, and its worker."""

    settings: ServiceSettings
    client: TestClient
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def service(self) -> Service:
        service: Service = self.client.app.state.service  # type: ignore[attr-defined]
        return service

    @cached_property
    def worker(self) -> Worker:
        return Worker(self.service)

    def key(self, name: str, *roles: ServiceRole) -> dict[str, str]:
        """Return the header of an API key with these roles."""
        if name not in self.keys:
            scopes = frozenset().union(*(PERMISSIONS[role] for role in roles))
            self.keys[name] = self.service.accounts.issue_key(OPERATOR, name=name, scopes=scopes, days=1)[1]
        return {"Authorization": f"Bearer {self.keys[name]}"}

    def as_role(self, role: ServiceRole) -> dict[str, str]:
        """Return the header of an API key with this role."""
        return self.key(f"{role} system", role)

    def file(self, subject: str, **headers: str) -> str:
        """File a request, and return its id."""
        sent = self.client.post(
            "/v1/requests",
            json={"identities": {"subject": subject}, "channel": "letter"},
            headers=self.as_role(ServiceRole.INTAKE) | headers,
        )
        assert sent.status_code == 201, sent.text
        return str(sent.json()["id"])

    def act(self, request: str, step: str, role: ServiceRole = ServiceRole.REVIEW, **body: object):
        """Take a step, and return the answer."""
        return self.client.post(f"/v1/requests/{request}/{step}", json=body or None, headers=self.as_role(role))

    def read(self, request: str, role: ServiceRole = ServiceRole.REVIEW) -> dict:
        """Return a request."""
        answer = self.client.get(f"/v1/requests/{request}", headers=self.as_role(role))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def work(self):
        """Let a worker do one pass."""
        return self.worker.run_once()


def settings_for(folder: Path, **changes) -> ServiceSettings:
    """Return settings for tests: no limits on calls, no HTTPS, a quick worker."""
    defaults: dict[str, Any] = {
        "folder": folder,
        "public_url": "http://testserver",
        "secure_cookies": False,
        "limits": NO_LIMITS,
        "worker": WorkerSettings(interval_s=0.05, lease_s=5.0),
    }
    return ServiceSettings(**(defaults | changes))


def running(settings: ServiceSettings) -> Iterator[Running]:
    with TestClient(create_app(settings), follow_redirects=False, raise_server_exceptions=False) as client:
        yield Running(settings, client)


def note_audit(manager: Manager) -> None:
    """Note an audit of made-up scores, without the reference models that a real one trains."""
    rng = np.random.default_rng(0)
    mask = np.arange(300) < 150
    baseline = report(rng.normal(0, 1, 300), mask, attack=LossAttack(), model="retraining")
    found = report(rng.normal(mask * 0.5, 1), mask, attack=LossAttack(), baseline=baseline)
    body: dict[str, Any] = {"change": 1, "about": "records still in training", "served": manager.space.state().served}
    manager.space.ledger.append("audit", {**body, "report": found.to_json(), "words": found.sentence()})
