"""Accounts and API keys. Of a key, only a hash is stored, so a copy of the database opens nothing."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from eupg.errors import ParameterError
from eupg.service.access import Actor, Permission
from eupg.service.database import ACCOUNTS, API_KEYS, Act, ServiceDatabase

_KEY = re.compile(r"eupg_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_LONGEST_NAME = 100
_MOST_DAYS = 366
# What the command line acts as: whoever can read the service's files.
OPERATOR = Actor("operator", "the operator of this machine", frozenset(Permission))


@dataclass(frozen=True)
class ApiKey:
    """An API key, without its secret."""

    id: str
    account: str
    name: str
    scopes: tuple[Permission, ...]
    created_at: str
    expires_at: str
    revoked_at: str | None


@dataclass(frozen=True)
class ListedAccount:
    """Somebody or something that acted here; ``provider`` says who vouches for the name."""

    id: str
    provider: str
    name: str
    created_at: str


class Accounts:
    """People and systems that act here, and the keys of the systems."""

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database

    def named(self, provider: str, subject: str, name: str) -> str:
        """Return the id of an account, which is made when it is first seen."""
        wanted = select(ACCOUNTS.c.id).where(ACCOUNTS.c.provider == provider, ACCOUNTS.c.subject == subject)
        with self._database.reading() as snapshot:
            known = snapshot.connection.execute(wanted).scalar()
        if known is not None:
            return str(known)
        with self._database.writing() as transaction:
            known = transaction.connection.execute(wanted).scalar()
            if known is not None:
                return str(known)
            account = f"a-{secrets.token_hex(8)}"
            row = {"id": account, "provider": provider, "subject": subject, "name": name[:_LONGEST_NAME]}
            transaction.connection.execute(
                insert(ACCOUNTS), [row | {"created_at": transaction.now.isoformat(timespec="seconds")}]
            )
            return account

    def names(self, accounts: Collection[str]) -> dict[str, str]:
        """Return the names of accounts, for people to read."""
        wanted = select(ACCOUNTS.c.id, ACCOUNTS.c.name).where(ACCOUNTS.c.id.in_(list(accounts)))
        with self._database.reading() as snapshot:
            return {str(row.id): str(row.name) for row in snapshot.connection.execute(wanted)}

    def listed(self, actor: Actor, *, limit: int = 200) -> list[ListedAccount]:
        """Return accounts, the newest first."""
        actor.require(Permission.MANAGE)
        wanted = select(ACCOUNTS).order_by(ACCOUNTS.c.created_at.desc(), ACCOUNTS.c.id).limit(limit)
        with self._database.reading() as snapshot:
            rows = snapshot.connection.execute(wanted)
            return [ListedAccount(str(r.id), str(r.provider), str(r.name), str(r.created_at)) for r in rows]

    def issue_key(
        self, actor: Actor, *, name: str, scopes: Collection[Permission], days: int, provider: str = "key"
    ) -> tuple[ApiKey, str]:
        """Make a key for a system; the second value is the key itself, which is shown once and stored nowhere."""
        actor.require(Permission.MANAGE)
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise ParameterError(f"name must be 1 to {_LONGEST_NAME} printable characters, got {len(name)}")
        if not scopes:
            raise ParameterError("a key needs at least one scope: name what it may do")
        if not 1 <= days <= _MOST_DAYS:
            raise ParameterError(f"days must be 1 to {_MOST_DAYS}, got {days}: a key has to expire")
        account = self.named(provider, name, name)
        key, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        chosen = tuple(sorted(set(scopes)))
        with self._database.writing() as transaction:
            now = transaction.now
            row = {
                "id": key,
                "account": account,
                "hash": _hash(secret),
                "scopes": json.dumps(chosen),
                "created_at": now.isoformat(timespec="seconds"),
                "expires_at": (now + timedelta(days=days)).isoformat(timespec="seconds"),
            }
            transaction.connection.execute(insert(API_KEYS), [row])
            self._database.note(
                transaction,
                [Act("key-issued", actor, details={"key_id": key, "account": account, "scopes": [*chosen]})],
            )
        issued = ApiKey(key, account, name, chosen, row["created_at"], row["expires_at"], None)
        return issued, f"eupg_{key}_{secret}"

    def provider(self, account: str) -> str | None:
        """Return where an account comes from: ``key``, ``drp``, ``proxy``, ``demo``, or an OIDC issuer."""
        with self._database.reading() as snapshot:
            return snapshot.connection.execute(select(ACCOUNTS.c.provider).where(ACCOUNTS.c.id == account)).scalar()

    def keys(self, actor: Actor) -> list[ApiKey]:
        """Return all keys, the newest first."""
        actor.require(Permission.MANAGE)
        wanted = select(API_KEYS, ACCOUNTS.c.name).join(ACCOUNTS, ACCOUNTS.c.id == API_KEYS.c.account)
        with self._database.reading() as snapshot:
            rows = snapshot.connection.execute(wanted.order_by(API_KEYS.c.created_at.desc(), API_KEYS.c.id))
            return [
                ApiKey(r.id, r.account, r.name, _scopes(r.scopes), r.created_at, r.expires_at, r.revoked_at)
                for r in rows
            ]

    def revoke_key(self, actor: Actor, key: str) -> bool:
        """End a key now; return whether there was one to end."""
        actor.require(Permission.MANAGE)
        with self._database.writing() as transaction:
            now = transaction.now.isoformat(timespec="seconds")
            wanted = update(API_KEYS).where(API_KEYS.c.id == key, API_KEYS.c.revoked_at.is_(None))
            ended = transaction.connection.execute(wanted.values(revoked_at=now)).rowcount
            if ended:
                self._database.note(transaction, [Act("key-revoked", actor, details={"key_id": key})])
            return bool(ended)

    def actor_of_key(self, text: str) -> Actor | None:
        """Return whom a key stands for; None if it is unknown, expired or revoked."""
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        with self._database.reading() as snapshot:
            now = snapshot.not_before(self._database.now()).isoformat(timespec="seconds")
            row = _key(snapshot.connection, match[1])
        # Compared even where there is no such key, so that the time does not tell.
        right = hmac.compare_digest(_hash(match[2]), "" if row is None else row.hash)
        if row is None or not right or row.revoked_at is not None or row.expires_at <= now:
            return None
        return Actor(row.account, row.name, frozenset(_scopes(row.scopes)), key=row.id)


def _key(connection: Connection, key: str) -> Row[Any] | None:
    wanted = select(API_KEYS, ACCOUNTS.c.name).join(ACCOUNTS, ACCOUNTS.c.id == API_KEYS.c.account)
    return connection.execute(wanted.where(API_KEYS.c.id == key)).first()


def _scopes(text: str) -> tuple[Permission, ...]:
    return tuple(Permission(scope) for scope in json.loads(text))


def _hash(secret: str) -> str:
    # A secret of 256 random bits needs no slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()
