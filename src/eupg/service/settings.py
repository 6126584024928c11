"""The settings of a service: one file, ``service.toml``, in the folder of workspaces.

Secrets are never in it. It names the files that hold them.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from eupg.errors import ParameterError
from eupg.service.access import ServiceRole

FILE = "service.toml"
OWN_FOLDER = ".service"
_HOUR_S = 3600


def _origin(url: str) -> str:
    """Return an address without a path; it is compared with the origin that browsers send."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/") or parts.query:
        raise ValueError("expected an address such as https://privacy.example.org, without a path")
    return f"{parts.scheme}://{parts.netloc}"


def _network(text: str) -> str:
    ipaddress.ip_network(text)
    return text


Origin = Annotated[str, AfterValidator(_origin)]
Network = Annotated[str, AfterValidator(_network)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OidcSettings(_Part):
    """Sign-in by an OpenID Connect provider."""

    issuer: str
    client_id: str
    client_secret_file: Path
    scopes: tuple[str, ...] = ("openid", "profile")
    groups_claim: str = "groups"


class ProxySettings(_Part):
    """Sign-in by a reverse proxy that has authenticated the caller and sets headers.

    Headers count only if the connection comes from one of these networks and carries the shared secret.
    """

    networks: tuple[Network, ...]
    secret_file: Path
    user_header: str = "x-forwarded-user"
    groups_header: str = "x-forwarded-groups"
    secret_header: str = "x-eupg-proxy-secret"


class IssuerSettings(_Part):
    """Who issues certificates."""

    name: str
    contact: str | None = None


class SessionSettings(_Part):
    """How long a sign-in lasts: without use, and in all."""

    idle_s: int = Field(default=_HOUR_S // 2, ge=60)
    lifetime_s: int = Field(default=12 * _HOUR_S, ge=60)


class LimitSettings(_Part):
    """What a caller may ask for: bytes and nesting of a body, and calls per time, as ``limits`` writes rates.

    ``mails`` is per address that the public form writes to. Callers who are not signed in are told apart by their
    address; ``forwarded_by`` names the networks of reverse proxies that pass it on in ``X-Forwarded-For``.
    """

    body_bytes: int = Field(default=256 * 1024, ge=1024)
    nesting: int = Field(default=16, ge=2)
    calls: str = "1200/minute"
    creations: str = "600/minute"
    sign_ins: str = "30/minute"
    strangers: str = "60/minute"
    mails: str = "5/hour"
    forwarded_by: tuple[Network, ...] = ()
    storage: str = "memory://"


class WorkerSettings(_Part):
    """How often the worker looks for work, and how long its lease lasts without a sign of life."""

    interval_s: float = Field(default=5.0, gt=0)
    lease_s: float = Field(default=30.0, gt=0)
    attempts: int = Field(default=5, ge=1)
    batch: int = Field(default=2000, ge=1)


class CallbackSettings(_Part):
    """Outgoing status callbacks."""

    allow_private_addresses: bool = False
    allow_http: bool = False
    timeout_s: float = Field(default=10.0, gt=0)
    attempts: int = Field(default=8, ge=1)


class DrpSettings(_Part):
    """The Data Rights Protocol: the id of this business in its directory, and the agents' keys in base64, by id."""

    business_id: str
    agents: Mapping[str, str]


class OpenDsrSettings(_Part):
    """OpenDSR: the domain of this processor, its certificate, and the RSA key of the certificate."""

    domain: str
    certificate_file: Path
    key_file: Path


class MailSettings(_Part):
    """Outgoing e-mail, for the public form."""

    host: str
    port: int = 587
    sender: str
    starttls: bool = True
    user: str | None = None
    password_file: Path | None = None


class ServiceSettings(_Part):
    """Everything that an operator can set.

    Parameters
    ----------
    folder
        The folder of workspaces.
    database
        A URL of PostgreSQL; by default a SQLite file in the folder.
    public_url
        The address that people and browsers use. Links, sign-in and the check of origins need it.
    secure_cookies
        Whether cookies are sent over HTTPS only. Off for a demonstration on this machine.
    second_person
        Whether a request is accepted only once two different people have accepted it.
    identifier, identifiers
        By which kind of identifier workspaces name people, and those that use another one, by name.
    retired
        Workspaces that were removed for good. Any other that was asked before and is missing makes requests fail, and
        they are tried again: it may hold the person.
    groups
        Which roles the members of a group have, for sign-in by OIDC or a proxy.
    public_form
        Whether anyone may file a request by the public form.
    demo
        Whether anyone on this machine may sign in by choosing a role.
    signer
        ``unix:/path`` of a process that holds the signing key; by default a key file in the folder.
    """

    folder: Path
    database: str | None = None
    public_url: Origin = "http://127.0.0.1:8765"
    secure_cookies: bool = True
    second_person: bool = False
    identifier: str = "subject"
    identifiers: Mapping[str, str] = {}
    retired: tuple[str, ...] = ()
    groups: Mapping[str, tuple[ServiceRole, ...]] = {}
    public_form: bool = True
    demo: bool = False
    signer: str | None = None
    issuer: IssuerSettings | None = None
    oidc: OidcSettings | None = None
    proxy: ProxySettings | None = None
    mail: MailSettings | None = None
    drp: DrpSettings | None = None
    opendsr: OpenDsrSettings | None = None
    sessions: SessionSettings = SessionSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerSettings = WorkerSettings()
    callbacks: CallbackSettings = CallbackSettings()

    @classmethod
    def load(cls, folder: str | Path, **changes: Any) -> Self:
        """Read ``service.toml`` where there is one; values that are passed win."""
        folder = Path(folder)
        if not folder.is_dir():
            raise ParameterError(f"{folder} is not a folder: pass the folder that holds your workspaces")
        path = folder / FILE
        values: dict[str, Any] = {}
        if path.is_file():
            try:
                values = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ParameterError(f"{path} cannot be read ({error}): correct it") from error
        try:
            return cls(**(values | {"folder": folder} | {k: v for k, v in changes.items() if v is not None}))
        except ValidationError as error:
            # Without the values: one of them may be a secret in the wrong place.
            problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ParameterError(f"{path}: {problems}: see docs/howto/service.md") from None

    @property
    def own_folder(self) -> Path:
        """The folder of the service's own database and keys."""
        return self.folder / OWN_FOLDER

    @property
    def ledger_place(self) -> str | Path:
        """Where the service's database is."""
        return self.database or self.own_folder / "service.db"

    def identifier_of(self, workspace: str) -> str:
        """Return the kind of identifier by which a workspace names people."""
        return self.identifiers.get(workspace, self.identifier)
