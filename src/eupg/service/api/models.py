"""``/v1/models``: what is served, what is claimed, and predictions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field

from eupg.service.access import Permission
from eupg.service.api.representations import Representation
from eupg.service.problems import described
from eupg.service.signin.current import CurrentActor, CurrentService

router = APIRouter(prefix="/models", tags=["models"])

ModelName = Annotated[str, Path(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", examples=["doctor-visits"])]
Cell = str | int | float | bool | None


class ModelModel(Representation):
    """A workspace and the model that it serves."""

    model_config = ConfigDict(title="Model")

    name: str
    served: str
    since: str
    method: str
    claim: str
    people: int
    records: int
    open_requests: int
    overdue_requests: int


class RowsModel(Representation):
    """Rows to predict, by column name."""

    model_config = ConfigDict(title="Rows", json_schema_extra={"example": {"rows": [{"age": 42, "plan": "free"}]}})

    rows: Annotated[list[dict[str, Cell]], Field(min_length=1, max_length=10_000)]


class PredictionModel(Representation):
    """A probability per class for each row, the model that gave them, and the rows whose values were adjusted."""

    model_config = ConfigDict(title="Prediction")

    model: str
    classes: list[str]
    probabilities: list[list[float]]
    adjusted: list[int]


@router.get("", summary="List models")
def models(actor: CurrentActor, service: CurrentService) -> list[ModelModel]:
    """List the workspaces, with the claim that holds for whoever is erased from them."""
    actor.require(Permission.MODELS)
    listed = []
    for name in service.models.names():
        status = service.models.status(name)
        listed.append(
            ModelModel(
                name=name,
                served=status.served,
                since=status.since,
                method=status.method,
                claim=status.claim,
                people=status.people,
                records=status.records,
                open_requests=status.requests.open,
                overdue_requests=status.requests.overdue,
            )
        )
    return listed


@router.get("/{model}/status", responses=described(404, 409), summary="Read the status of a model")
def status(model: ModelName, actor: CurrentActor, service: CurrentService) -> dict[str, Any]:
    """Return everything that ``eupg status`` shows: claim, budget, quality, requests and batches."""
    actor.require(Permission.MODELS)
    return service.models.status(model).to_json()


@router.post("/{model}/predict", responses=described(404, 409), summary="Predict")
def predict(model: ModelName, rows: RowsModel, actor: CurrentActor, service: CurrentService) -> PredictionModel:
    """Ask the served model about rows; while an erasure runs, the earlier model keeps answering."""
    actor.require(Permission.PREDICT)
    answer = service.models.predict(model, rows.rows)
    return PredictionModel(
        model=answer.model,
        classes=list(answer.classes),
        probabilities=[list(row) for row in answer.probabilities],
        adjusted=list(answer.adjusted),
    )
