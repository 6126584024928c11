"""A demonstration: two models of the RAND Health Insurance Experiment, and requests in every state.

One model holds everybody in training; the other was trained on four people in five. So an erasure may concern both
models, or one, or none.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.sources import rand_hie
from eupg.forget.eupg import EUPG
from eupg.forget.private_trees.base import PrivateTrees
from eupg.learn.leaves.learner import LeafLearner
from eupg.learn.xgboost import XGBoostLearner
from eupg.manage.manager import Manager
from eupg.manage.storage.lock import WorkspaceLock
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.service.access import Actor, ServiceRole, permissions_of
from eupg.service.requests import NewRequest
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from eupg.service.worker.loop import Worker

VISITS, PRIVATE = "doctor-visits", "doctor-visits-private"
_CHANNELS = ("letter", "web form", "telephone")
_log = logging.getLogger("eupg.service")


def prepare(settings: ServiceSettings) -> None:
    """Train the two models, and file requests, where there is no demonstration yet."""
    if (settings.own_folder / "service.db").exists():
        return
    source = rand_hie()
    _log.info("the demonstration is made: two models are trained, which takes about 20 seconds")
    trees = EUPG(ProbabilisticKAnonymity(30), XGBoostLearner(max_depth=4, learning_rate=0.1), 100, 20)
    private = EUPG(PrivateTrees(epsilon=1.0, max_records=5), LeafLearner(), 1, 0, exposure=0)
    everybody = source.train
    people = np.unique(everybody.subjects)
    some = everybody.select(everybody.where_subjects(people[np.arange(len(people)) % 5 != 0]))
    for name, method, records in ((VISITS, trees, some), (PRIVATE, private, everybody)):
        _train(settings.folder / name, method, records, source.test)
    _file(settings, [str(name) for name in people])


def _train(folder: Path, method: EUPG, records: Dataset, held_out: Dataset) -> None:
    manager = Manager(folder, method)
    if not manager.space.trained:
        manager.train(records, hold_out=held_out)
        manager.audit(references=4, sample=1000)
    manager.close()


def _file(settings: ServiceSettings, people: list[str]) -> None:
    """File requests: some long ago and not answered, some done, some fresh."""
    now = datetime.now(UTC)
    intake, review = (Actor(f"a-demo-{role}", f"Demo {role}", permissions_of([role]), (role,)) for role in _ROLES)
    moment = now - timedelta(days=40)
    service = Service.open(settings, clock=lambda: moment)
    try:
        accounts = {actor.id: service.accounts.named("demo", actor.roles[0], actor.name) for actor in (intake, review)}
        intake, review = (
            Actor(accounts[actor.id], actor.name, actor.permissions, actor.roles) for actor in (intake, review)
        )
        for i, days in enumerate((40, 36, 33, 20, 12, 9, 6, 3, 2, 1, 0, 0)):
            moment = now - timedelta(days=days, minutes=60 - i)
            # Every fifth person is in one model only; somebody unknown asks, too.
            who = people[7 * i + 1] if i != 4 else "nobody-here"
            new = NewRequest({"subject": who}, channel=_CHANNELS[i % 3], source="api")
            request = service.requests.create(intake, new).case.request.id
            if i in (1, 3, 4, 5):
                service.requests.verify_identity(review, request)
            if i in (3, 4, 5):
                service.requests.accept(review, request)
            if i == 6:
                service.requests.reject(review, request, reason="identity could not be verified")
            if i == 7:
                service.requests.extend(review, request, months=2, reason="many requests at the same time")
        worker = Worker(service)
        moment = now - timedelta(minutes=45)
        worker.run_once()
        # Another process is busy with one model each time that the worker tries, until the worker gives up.
        late = NewRequest({"subject": people[101]}, channel="letter", source="api")
        service.requests.accept(review, service.requests.create(intake, late).case.request.id)
        with WorkspaceLock(settings.folder / VISITS / "lock", doing="add"):
            for _ in range(settings.worker.attempts):
                moment += timedelta(minutes=8)
                worker.run_once()
        moment = now
        worker.release()
    finally:
        service.close()


_ROLES = (ServiceRole.INTAKE, ServiceRole.REVIEW)
