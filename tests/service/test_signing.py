"""The signing key in a process of its own."""

import stat
import threading

import pytest

from eupg.certify.keys import SigningKey
from eupg.errors import KeyFileError, ParameterError
from eupg.service.access import ServiceRole
from eupg.service.signing import SignerServer, SocketSigner, signer_of
from managed import person
from serving import running, settings_for


@pytest.fixture
def signer(tmp_path):
    """A signer behind a socket, and its key."""
    key = SigningKey.create_or_load(tmp_path / "keys" / "signing.key")
    path = tmp_path / "signer.sock"
    with SignerServer(path, key) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield path, key
        server.shutdown()


def test_another_process_signs_and_the_service_holds_no_key(folder, signer):
    path, key = signer
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for live in running(settings_for(folder, signer=f"unix:{path}")):
        request = live.file(person(1))
        live.act(request, "accept")
        live.work()
        certificate = live.client.get(f"/v1/requests/{request}/certificate", headers=live.as_role(ServiceRole.AUDIT))
        assert certificate.json()["key"]["id"] == key.id
        assert live.client.post("/v1/certificates/verify", json=certificate.json()).json()["verified"]
        assert not (live.settings.own_folder / "keys" / "signing.key").exists()


def test_a_signer_that_is_away_delays_the_certificate_and_loses_nothing(folder, tmp_path):
    for live in running(settings_for(folder, signer=f"unix:{tmp_path / 'nobody'}")):
        request = live.file(person(2))
        live.act(request, "accept")
        with pytest.raises(KeyFileError, match="does not answer"):
            live.work()
        assert live.read(request)["state"] == "completed"
        key = SigningKey.create_or_load(tmp_path / "keys" / "signing.key")
        with SignerServer(tmp_path / "nobody", key) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            live.work()
            server.shutdown()
        assert live.read(request)["state"] == "certified"


def test_a_wrong_question_is_refused(signer):
    path, _ = signer
    with pytest.raises(KeyFileError, match="refused"):
        SocketSigner(path)._ask({"give": "the key"})


def test_a_signer_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="unix:"):
        signer_of(settings_for(tmp_path, signer="https://signer.example"))
