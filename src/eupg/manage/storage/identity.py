"""How the ledger recognises a workspace: by check values of its keys, and by the digest of its settings."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from eupg.errors import KeyFileError, WorkspaceDamaged
from eupg.manage.ledger.transaction import Snapshot, Transaction

if TYPE_CHECKING:
    from eupg.certify.keys import SigningKey

_KEYS, _SETTINGS = "keys", "settings"


def note_identity(transaction: Transaction, *, key: bytes, signing: SigningKey, settings: bytes) -> None:
    """Note the keys, unless they are noted already, and the settings."""
    keys, noted = {**_value(key), **_value(signing)}, transaction.last(_KEYS)
    if noted is None or noted.body != keys:
        transaction.append_many([(_KEYS, keys)])
    transaction.append_many([(_SETTINGS, {"digest": hashlib.sha256(settings).hexdigest()})])


def knows_keys(snapshot: Snapshot) -> bool:
    """Return whether the keys are noted; the first versions did not note them."""
    return snapshot.last(_KEYS) is not None


def check_key(snapshot: Snapshot, path: Path, key: bytes | SigningKey) -> None:
    """Raise if a key is not the noted one."""
    noted = snapshot.last(_KEYS)
    if noted is not None and not _value(key).items() <= noted.body.items():
        raise KeyFileError(
            f"{path} is not the key that this workspace was made with: restore it from a backup, together with the "
            "ledger and the records it belongs to"
        )


def check_settings(snapshot: Snapshot, settings: bytes) -> None:
    """Raise if the settings are not the noted ones."""
    noted = snapshot.last(_SETTINGS)
    if noted is not None and noted.body["digest"] != hashlib.sha256(settings).hexdigest():
        raise WorkspaceDamaged(
            "workspace.toml is not what the ledger noted: method, schema and what is not covered are fixed at the "
            "first training; restore the file from a backup, or train another workspace"
        )


def _value(key: bytes | SigningKey) -> dict[str, str]:
    """Return the value by which a key is recognised, and from which a secret one cannot be computed."""
    from eupg.certify.keys import check_value

    return {"digest_key": check_value(key)} if isinstance(key, bytes) else {"signing_key": key.public.raw.hex()}
