"""An audit of the served model: of the records just forgotten, or of those who stay, against the people held out."""

from __future__ import annotations

import numpy as np

from eupg.audit.attack import Attack
from eupg.audit.membership import audit
from eupg.audit.report import AuditReport
from eupg.data.dataset import Dataset
from eupg.errors import WorkspaceState
from eupg.manage.events import Json
from eupg.manage.workshop import Workshop

FORGOTTEN = "the records forgotten last"


def audit_served(
    workshop: Workshop, forgotten: Dataset | None, *, attack: Attack, references: int, sample: int, seed: int
) -> AuditReport:
    """Attack the served model, and note the result in the ledger.

    Parameters
    ----------
    workshop
        The workspace and its method.
    forgotten
        The records forgotten last, as long as they are in memory; None to audit a sample of those in training.
    attack, references, seed
        As in :func:`eupg.audit.audit`.
    sample
        How many records in training to ask about.
    """
    space = workshop.space
    current = space.current()
    data, held = space.read(current)
    if not len(held):
        raise WorkspaceState("nobody was held out at training, so there is nobody to compare with: train anew")
    chosen = np.isin(np.arange(len(data)), np.random.default_rng(seed).permutation(len(data))[:sample])
    members, others = (data.select(chosen), data.select(~chosen)) if forgotten is None else (forgotten, data)
    model = workshop.load(current.served)
    report = workshop.watch(
        "audit",
        lambda: audit(
            model,
            members,
            held,
            attack=attack,
            references=references,
            others=others,
            recipe=workshop.method,
            name="the served model",
            seed=seed,
        ),
    )
    about = "records still in training" if forgotten is None else FORGOTTEN
    body: dict[str, Json] = {"change": current.number, "about": about, "served": current.served}
    space.ledger.append("audit", {**body, "report": report.to_json(), "words": report.sentence()})
    return report
