"""The keys of a workspace: one signs certificates, the other makes keyed digests of ids.

Both are made on first use, in files that only their owner may read; a key that others can read is refused, since then
anyone could have signed. A workspace that is in use passes ``create=False``: a new key in the place of a lost one would
no longer recognise anyone. The public key is written next to the signing key, to be handed out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from eupg.errors import KeyFileError, ParameterError
from eupg.files import create_once, write_atomically

_DIGEST_KEY_BYTES = 32


@dataclass(frozen=True)
class PublicKey:
    """The public half of a signing key, as the 32 ``raw`` bytes of Ed25519: it checks signatures and makes none."""

    raw: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.raw, bytes) or len(self.raw) != 32:
            raise ParameterError(f"expected the 32 bytes of an Ed25519 public key, got {self.raw!r}")

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a public key from its PEM file."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise KeyFileError(f"cannot read the public key {path}: {error.strerror}") from error
        return cls.from_pem(content, name=str(path))

    @classmethod
    def from_pem(cls, content: bytes, *, name: str = "the file") -> PublicKey:
        """Read a public key from the content of its PEM file; ``name`` stands for the file in messages."""
        if b"PRIVATE KEY" in content:
            raise KeyFileError(f"{name} is a private key, expected a public one: pass the .pub file next to it")
        try:
            key = load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyFileError(f"{name} is not a public key in PEM form: pass the workspace's signing.pub") from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyFileError(f"{name} is a {type(key).__name__}, expected Ed25519: pass the workspace's signing.pub")
        return cls(key.public_bytes_raw())

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the key's SHA-256 digest: a name for people, not a proof."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def to_pem(self) -> bytes:
        """Return the content of a public-key file."""
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Tell whether the signature was made for this message with the private key."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class Signer(Protocol):
    """Whatever can sign: a key in this process, or another process that holds one."""

    @property
    def public(self) -> PublicKey:
        """The public half of the key."""

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of an Ed25519 signature."""


@dataclass(frozen=True)
class SigningKey:
    """The key that a workspace signs its certificates with; ``public`` is the half to hand out."""

    public: PublicKey
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def create_or_load(cls, path: str | Path, *, create: bool = True) -> SigningKey:
        """Read the key, or make one where there is none; the public key is written next to it as ``.pub``.

        With ``create=False`` a missing key is an error.
        """
        path = Path(path)
        content = _secret(path, _new_signing_key if create else None)
        try:
            private = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise KeyFileError(
                f"{path} is not a private key in PEM form without a password: restore it from a copy"
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFileError(f"{path} is a {type(private).__name__}, expected Ed25519: restore it from a copy")
        public = PublicKey(private.public_key().public_bytes_raw())
        _publish(path.with_suffix(".pub"), public)
        return cls(public, private)

    @property
    def id(self) -> str:
        """The id of the public key."""
        return self.public.id

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of an Ed25519 signature."""
        return self._private.sign(message)


def digest_key(path: str | Path, *, create: bool = True) -> bytes:
    """Return the 32 secret bytes for keyed digests of ids, drawn on first use.

    With ``create=False`` a missing key is an error.
    """
    path = Path(path)
    key = _secret(path, (lambda: os.urandom(_DIGEST_KEY_BYTES)) if create else None)
    if len(key) != _DIGEST_KEY_BYTES:
        raise KeyFileError(f"{path} holds {len(key)} bytes, expected {_DIGEST_KEY_BYTES}: restore it from a copy")
    return key


def check_value(key: bytes) -> str:
    """Return a value by which a secret key is recognised, and from which it cannot be computed."""
    return hashlib.blake2b(b"check value", key=key, digest_size=16, person=b"eupg key check").hexdigest()


def _new_signing_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _secret(path: Path, make: Callable[[], bytes] | None) -> bytes:
    """Read a secret file; where there is none, make it, or refuse without a maker."""
    try:
        if make is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not os.path.lexists(path):
            raise KeyFileError(
                f"{path} is missing, and the workspace depends on it: restore it from a backup; no new key is made"
            )
        mode = path.parent.stat().st_mode
        if mode & 0o022:
            raise KeyFileError(
                f"{path.parent} has the mode {stat.S_IMODE(mode):04o}, so others can put their own key there: "
                f"chmod 700 {path.parent}"
            )
        if make is not None and not os.path.lexists(path):
            create_once(path, make())
        return _read_secret(path)
    except KeyFileError:
        raise
    except OSError as error:
        raise KeyFileError(f"cannot read or make the key {path}: {error.strerror or error}") from error


def _read_secret(path: Path) -> bytes:
    try:
        # Without waiting: a pipe in the key's place would otherwise stop everything.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise KeyFileError(f"{path} is a symbolic link, expected the key itself: put the file there") from error
        raise
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise KeyFileError(f"{path} is not a plain file: move it away, or name another place for the key")
        if mode & 0o077:
            raise KeyFileError(
                f"{path} has the mode {stat.S_IMODE(mode):04o}, expected 0600: others may have read the key. "
                f"If you are sure that nobody did, chmod 600 {path}; if not, it is not secret: train a new workspace"
            )
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def _publish(path: Path, public: PublicKey) -> None:
    """Write the public key, or check the one that is there."""
    if not path.exists():
        try:
            write_atomically(path, public.to_pem(), mode=0o644)
        except OSError as error:
            raise KeyFileError(f"cannot write the public key {path}: {error.strerror or error}") from error
        return
    present = PublicKey.load(path)
    if present != public:
        raise KeyFileError(
            f"{path} is the public half of another key ({present.id}, expected {public.id}): "
            "find out who put it there; once it is removed, the right one is written again"
        )
