"""An audit of the served model: of the records just forgotten, or of those who stay, against the people held out."""

from __future__ import annotations

import numpy as np

from eupg.audit.membership.attack import Attack
from eupg.audit.membership.audit import audit
from eupg.audit.membership.report import AuditReport
from eupg.data.dataset import Dataset
from eupg.errors import WrongState
from eupg.manage.ledger.events import Json
from eupg.manage.trainer import Trainer

FORGOTTEN = "the records forgotten last"


def audit_served(
    trainer: Trainer, forgotten: Dataset | None, *, attack: Attack, references: int, sample: int, seed: int
) -> AuditReport:
    """Attack the served model, and note the result in the ledger.

    The members are the records forgotten last, if they are given, or else a sample of those in training. The other
    parameters are those of :func:`eupg.audit.audit`.
    """
    space = trainer.space
    state = space.state()
    data, held_out = space.read(state)
    if not len(held_out):
        raise WrongState("nobody was held out at training, so there is nobody to compare with: train a new workspace")
    chosen = np.isin(np.arange(len(data)), np.random.default_rng(seed).permutation(len(data))[:sample])
    members, others = (data.select(chosen), data.select(~chosen)) if forgotten is None else (forgotten, data)
    model = trainer.served_model(state.served)
    with trainer.progress.step("audit"):
        report = audit(
            model,
            members,
            held_out,
            attack=attack,
            references=references,
            others=others,
            recipe=trainer.method,
            name="the served model",
            seed=seed,
        )
    about = "records still in training" if forgotten is None else FORGOTTEN
    body: dict[str, Json] = {"change": state.number, "about": about, "served": state.served}
    space.ledger.append("audit", {**body, "report": report.to_json(), "words": report.sentence()})
    return report
