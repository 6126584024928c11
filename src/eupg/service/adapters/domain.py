"""The domain of this processor, for which OpenDSR has every answer and callback signed."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from eupg.errors import KeyFileError
from eupg.service.settings import OpenDsrSettings


class Domain:
    """Signs for the domain of this processor, with the key of its certificate."""

    def __init__(self, settings: OpenDsrSettings) -> None:
        self.name, self.certificate_file = settings.domain, settings.certificate_file
        try:
            key = load_pem_private_key(settings.key_file.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise KeyFileError(f"{settings.key_file}: the key of the domain cannot be read: {error}") from error
        if not isinstance(key, RSAPrivateKey):
            raise KeyFileError(f"{settings.key_file}: expected an RSA key, got {type(key).__name__}")
        self._key = key

    def sign(self, body: bytes) -> str:
        """Return the signature of a body: RSA over its SHA-256 digest, in base64."""
        return base64.b64encode(self._key.sign(body, padding.PKCS1v15(), hashes.SHA256())).decode()

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the headers of a signed body."""
        return {"X-OpenDSR-Processor-Domain": self.name, "X-OpenDSR-Signature": self.sign(body)}
