"""The key that signs bundles: in a file of the service's folder, or in another process behind a Unix socket.

A process of its own keeps the key out of reach of whatever goes wrong in the worker. It speaks one JSON object per
line: ``{"public": true}`` is answered with the public key, and ``{"sign": "<hexadecimal>"}`` with a signature.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
from functools import cached_property
from pathlib import Path
from typing import Any

from eupg.certify.keys import PublicKey, Signer, SigningKey
from eupg.errors import KeyFileError, ParameterError
from eupg.service.settings import ServiceSettings

_SCHEME = "unix:"
_LONGEST = 64 * 2**20
_log = logging.getLogger("eupg.service")


def signer_of(settings: ServiceSettings) -> Signer:
    """Return what signs bundles."""
    if settings.signer is None:
        return SigningKey.create_or_load(settings.own_folder / "keys" / "signing.key")
    if not settings.signer.startswith(_SCHEME):
        raise ParameterError(f"signer must be {_SCHEME}/path/of/socket, got {settings.signer!r}")
    return SocketSigner(Path(settings.signer.removeprefix(_SCHEME)))


class SocketSigner:
    """Asks another process to sign, over a Unix socket; it never sees the key."""

    def __init__(self, path: Path, *, timeout_s: float = 10.0) -> None:
        self._path, self._timeout_s = path, timeout_s

    @cached_property
    def public(self) -> PublicKey:
        """The public half of the key."""
        return PublicKey(bytes.fromhex(self._ask({"public": True})["public"]))

    def sign(self, message: bytes) -> bytes:
        """Return the signature, once it is found to be right."""
        signature = bytes.fromhex(self._ask({"sign": message.hex()})["signature"])
        if not self.public.signed(message, signature):
            raise KeyFileError(f"{self._path}: the signer's signature does not fit its key: check the signer")
        return signature

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self._timeout_s)
                connection.connect(str(self._path))
                connection.sendall(json.dumps(question).encode() + b"\n")
                with connection.makefile("rb") as file:
                    answer: dict[str, Any] = json.loads(file.readline(_LONGEST))
        except (OSError, ValueError) as error:
            raise KeyFileError(f"{self._path}: the signer does not answer ({error}): start eupg signer") from error
        if "error" in answer:
            raise KeyFileError(f"{self._path}: the signer refused: {answer['error']}")
        return answer


class SignerServer(socketserver.ThreadingUnixStreamServer):
    """Signs for whoever may connect to its socket: its owner alone."""

    daemon_threads = True

    def __init__(self, path: Path, key: SigningKey) -> None:
        self.key = key
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            super().__init__(str(path), _Handler)
        finally:
            os.umask(before)


class _Handler(socketserver.StreamRequestHandler):
    server: SignerServer

    def handle(self) -> None:
        """Answer one question per line."""
        while line := self.rfile.readline(_LONGEST):
            try:
                question = json.loads(line)
                if question == {"public": True}:
                    answer = {"public": self.server.key.public.raw.hex()}
                else:
                    answer = {"signature": self.server.key.sign(bytes.fromhex(question["sign"])).hex()}
                    _log.info("signed", extra={"bytes": len(line) // 2})
            except (ValueError, KeyError, TypeError):
                answer = {"error": 'expected {"public": true} or {"sign": "<hexadecimal>"}'}
            self.wfile.write(json.dumps(answer).encode() + b"\n")
