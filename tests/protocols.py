"""The callers of other protocols: agents of the Data Rights Protocol, and a controller of OpenDSR."""

import base64
import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from eupg.service.settings import DrpSettings, OpenDsrSettings
from managed import person
from serving import Running

AGENT, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def _in_base64(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


DRP = DrpSettings(business_id="CLINIC", agents={"AGENT": _in_base64(AGENT), "OTHER": _in_base64(OTHER)})


def signed(key: Ed25519PrivateKey, **values: object) -> bytes:
    """Return a message of an agent."""
    content = json.dumps(values).encode()
    return base64.b64encode(key.sign(content) + content)


def envelope(agent: str = "AGENT", **changes: object) -> dict[str, object]:
    """Return what every message says: who sends it to whom, and when it is valid."""
    now = datetime.now(UTC)
    times = {
        "issued-at": (now - timedelta(minutes=1)).isoformat(),
        "expires-at": (now + timedelta(hours=1)).isoformat(),
    }
    return {"agent-id": agent, "business-id": "CLINIC", "drp.version": "1.0"} | times | changes


def token(live: Running, agent: str = "AGENT", key: Ed25519PrivateKey = AGENT) -> dict[str, str]:
    """Return the header of an agent that was set up."""
    answer = live.client.post(f"/v1/agent/{agent}", content=signed(key, **envelope(agent)))
    assert answer.status_code == 200, answer.text
    assert answer.json()["agent-id"] == agent
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def exercised(live: Running, headers: dict[str, str], **changes: object):
    """File a request as an agent."""
    message = envelope(exercise="deletion", regime="ccpa", subject=person(3), email="a@b.example") | changes
    return live.client.post("/v1/data-rights-request", content=signed(AGENT, **message), headers=headers)


def opendsr_settings(folder: Path) -> OpenDsrSettings:
    """Make the key and the certificate of a domain."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clinic.example")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return OpenDsrSettings(domain="clinic.example", certificate_file=folder / "cert.pem", key_file=folder / "key.pem")


def opendsr_body(**changes: object) -> dict[str, object]:
    """Return a request of a controller."""
    body = {
        "regulation": "gdpr",
        "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": "erasure",
        "submitted_time": "2027-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "subject", "identity_value": person(5), "identity_format": "raw"}],
        "api_version": "1.0",
        "status_callback_urls": ["https://controller.example/callbacks"],
    }
    return body | changes
