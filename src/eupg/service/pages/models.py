"""The pages about models: what is claimed, how good they are, who was seen, what audits found, what was spent."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from eupg.service.access import Permission
from eupg.service.model_history import model_history
from eupg.service.pages.figures import quality_figure, roc_points
from eupg.service.pages.frame import Member, PageRoute

router = APIRouter(prefix="/models", route_class=PageRoute)
_MOST_AUDITS = 10


@router.get("")
def listed(visit: Member) -> Response:
    """List the models."""
    visit.actor.require(Permission.MODELS)
    shown = []
    for name in visit.service.models.names():
        with visit.service.models.opened(name) as manager:
            shown.append((name, manager.status(), model_history(manager).claim))
    return visit.show("models.html", title="Models", models=shown)


@router.get("/{name}")
def one(visit: Member, name: str) -> Response:
    """Show one model."""
    visit.actor.require(Permission.MODELS)
    with visit.service.models.opened(name) as manager:
        status, history = manager.status(), model_history(manager)
    by_auc = all(quality.auc is not None for _, quality in history.quality)
    points = [(at, q.auc if by_auc and q.auc is not None else q.accuracy) for at, q in history.quality]
    measure = "AUC" if by_auc else "accuracy"
    return visit.show(
        "model.html",
        title=name,
        name=name,
        status=status,
        claim=history.claim,
        figure=quality_figure(points, measure) if points else None,
        points=points,
        measure=measure,
        audits=[(audit, roc_points(audit.report)) for audit in history.audits[-_MOST_AUDITS:][::-1]],
        budget=status.budget,
    )
