"""Identifiers of people who ask: sealed while their request is open, and keyed digests after that.

The seal is AES-GCM under a key in the service's folder, bound to the request. A copy of the database alone reveals
nobody. Once a request is closed, the sealed identifiers are deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from eupg.certify.keys import digest_key
from eupg.errors import StoreCorrupt

_NONCE_BYTES = 12


class Seal:
    """Seals values with a secret key, and makes keyed digests with another one derived from it."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(_derived(key, b"eupg seal"))
        self._digest_key = _derived(key, b"eupg digest")

    @classmethod
    def at(cls, path: Path) -> Seal:
        """Read the key, or draw one where there is none."""
        return cls(digest_key(path))

    def seal(self, values: Mapping[str, str], *, about: str) -> bytes:
        """Return values as bytes that only this key opens, and only for the same request."""
        nonce = os.urandom(_NONCE_BYTES)
        content = json.dumps(dict(values), sort_keys=True).encode()
        return nonce + self._cipher.encrypt(nonce, content, about.encode())

    def open(self, sealed: bytes, *, about: str) -> dict[str, str]:
        """Return the values that were sealed."""
        try:
            content = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode())
        except InvalidTag as error:
            raise StoreCorrupt(
                f"the identifiers of {about} cannot be opened: restore the service's key and database from one backup"
            ) from error
        values: dict[str, str] = json.loads(content)
        return values

    def digest(self, *parts: str) -> str:
        """Return a keyed digest of several texts, 32 hexadecimal digits."""
        content = json.dumps(parts).encode()
        return hashlib.blake2b(content, key=self._digest_key, digest_size=16, person=b"eupg service").hexdigest()


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=32, person=b"eupg derived").digest()
