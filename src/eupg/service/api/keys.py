"""``/v1/keys``: API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import ConfigDict, Field

from eupg.service.access import Permission, ServiceRole, permissions_of
from eupg.service.accounts import ApiKey
from eupg.service.api.representations import Representation
from eupg.service.problems import Problem, described
from eupg.service.signin.current import CurrentActor, CurrentService

router = APIRouter(prefix="/keys", tags=["access"])


class NewKeyModel(Representation):
    """A key to issue: by role, by scope, or both."""

    model_config = ConfigDict(
        title="NewKey",
        json_schema_extra={"example": {"name": "customer database", "roles": ["intake"], "scopes": [], "days": 90}},
    )

    name: Annotated[str, Field(min_length=1, max_length=100)]
    roles: tuple[ServiceRole, ...] = ()
    scopes: tuple[Permission, ...] = ()
    days: Annotated[int, Field(ge=1, le=366)] = 90


class KeyModel(Representation):
    """An API key, without its secret."""

    model_config = ConfigDict(title="Key")

    id: str
    account: str
    name: str
    scopes: list[Permission]
    created_at: str
    expires_at: str
    revoked_at: str | None

    @classmethod
    def of(cls, key: ApiKey) -> KeyModel:
        """Return a key as the API sends it."""
        return cls(**(vars(key) | {"scopes": list(key.scopes)}))


class IssuedKeyModel(Representation):
    """A new API key; ``secret`` is shown this once."""

    model_config = ConfigDict(title="IssuedKey")

    key: KeyModel
    secret: str


@router.get("", summary="List API keys")
def keys(actor: CurrentActor, service: CurrentService) -> list[KeyModel]:
    """List all keys, the newest first."""
    return [KeyModel.of(key) for key in service.accounts.keys(actor)]


@router.post("", status_code=201, summary="Issue an API key")
def issue(new: NewKeyModel, actor: CurrentActor, service: CurrentService) -> IssuedKeyModel:
    """Issue a key for a system. It is shown once; only a hash is stored."""
    scopes = permissions_of(new.roles) | set(new.scopes)
    key, secret = service.accounts.issue_key(actor, name=new.name, scopes=scopes, days=new.days)
    return IssuedKeyModel(key=KeyModel.of(key), secret=secret)


@router.delete("/{key}", status_code=204, response_class=Response, responses=described(404), summary="Revoke a key")
def revoke(
    key: Annotated[str, Path(pattern="^[0-9a-f]{12}$", examples=["0123456789ab"])],
    actor: CurrentActor,
    service: CurrentService,
) -> Response:
    """End a key now."""
    if not service.accounts.revoke_key(actor, key):
        raise Problem(404, "unknown-key", "No such key", "there is no key in use with this id")
    return Response(status_code=204)
