"""Keys: made once, readable by their owner alone, and never taken from where others could have put them."""

import os
import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from eupg.certify.keys import PublicKey, SigningKey, digest_key
from eupg.errors import KeyFileError, ParameterError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys" / "signing.key"


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask():
    """The widest mask there is: permissions must not depend on it."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_key_is_made_on_first_use_for_its_owner_alone(path):
    key = SigningKey.create_or_load(path)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert PublicKey.load(path.with_suffix(".pub")) == key.public
    assert sorted(p.name for p in path.parent.iterdir()) == ["signing.key", "signing.pub"]


def test_second_use_finds_the_same_key(path):
    assert SigningKey.create_or_load(path).public == SigningKey.create_or_load(path).public


def test_signature_fits_its_message_alone(path, tmp_path):
    key, other = SigningKey.create_or_load(path), SigningKey.create_or_load(tmp_path / "other" / "signing.key")
    signature = key.sign(b"message")
    assert key.public.signed(b"message", signature)
    assert not key.public.signed(b"another", signature)
    assert not other.public.signed(b"message", signature)
    assert not key.public.signed(b"message", b"short")


def test_id_is_the_start_of_the_public_key_s_digest():
    # SHA-256 of 32 zero bytes, a published value.
    assert PublicKey(bytes(32)).id == "66687aadf862bd77"


@pytest.mark.parametrize("wide", [0o644, 0o640, 0o604, 0o660])
@pytest.mark.parametrize("make", [SigningKey.create_or_load, digest_key])
def test_key_that_others_can_read_is_refused_with_the_next_step(path, wide, make):
    make(path)
    path.chmod(wide)
    with pytest.raises(KeyFileError, match=rf"{wide:04o}, expected 0600.*chmod 600"):
        make(path)


def test_folder_that_others_can_write_to_is_refused(path):
    SigningKey.create_or_load(path)
    path.parent.chmod(0o777)
    with pytest.raises(KeyFileError, match="0777, so others can put their own key there: chmod 700"):
        SigningKey.create_or_load(path)


def test_symbolic_link_is_refused(path, tmp_path):
    SigningKey.create_or_load(tmp_path / "elsewhere" / "signing.key")
    path.parent.mkdir(mode=0o700)
    path.symlink_to(tmp_path / "elsewhere" / "signing.key")
    with pytest.raises(KeyFileError, match="symbolic link"):
        SigningKey.create_or_load(path)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_key_s_place_is_refused(path, make):
    path.parent.mkdir(mode=0o700)
    make(path, 0o600)
    with pytest.raises(KeyFileError, match="not a plain file"):
        digest_key(path)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_damaged_signing_key_is_refused_and_stays(path, content):
    SigningKey.create_or_load(path)
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match="not a private key in PEM form"):
        SigningKey.create_or_load(path)
    assert path.read_bytes() == content


def test_key_of_another_kind_is_refused(path):
    SigningKey.create_or_load(path)
    other = generate_private_key(SECP256R1())
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(KeyFileError, match="expected Ed25519"):
        SigningKey.create_or_load(path)
    public = path.with_suffix(".pub")
    public.write_bytes(other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(KeyFileError, match="expected Ed25519"):
        PublicKey.load(public)


def test_public_half_of_another_key_is_refused_and_a_missing_one_written_again(path, tmp_path):
    key, other = SigningKey.create_or_load(path), SigningKey.create_or_load(tmp_path / "other" / "signing.key")
    public = path.with_suffix(".pub")
    public.write_bytes(other.public.to_pem())
    with pytest.raises(KeyFileError, match=f"{other.id}, expected {key.id}"):
        SigningKey.create_or_load(path)
    public.unlink()
    SigningKey.create_or_load(path)
    assert PublicKey.load(public) == key.public


def test_private_key_given_as_public_is_recognised(path):
    SigningKey.create_or_load(path)
    with pytest.raises(KeyFileError, match=r"is a private key.*\.pub"):
        PublicKey.load(path)


def test_missing_or_foreign_public_key_is_named(tmp_path):
    with pytest.raises(KeyFileError, match="No such file"):
        PublicKey.load(tmp_path / "signing.pub")
    (tmp_path / "signing.pub").write_text("hello")
    with pytest.raises(KeyFileError, match="not a public key in PEM form"):
        PublicKey.load(tmp_path / "signing.pub")
    with pytest.raises(ParameterError, match="32 bytes"):
        PublicKey(b"short")


def test_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "keys").write_text("a file where the folder should be")
    with pytest.raises(KeyFileError, match="cannot read or make the key"):
        SigningKey.create_or_load(tmp_path / "keys" / "signing.key")


def test_private_key_is_not_printed(path):
    assert "rivate" not in repr(SigningKey.create_or_load(path))


def test_digest_key_is_32_random_bytes_and_stays(tmp_path):
    one, other = tmp_path / "a" / "digest.key", tmp_path / "b" / "digest.key"
    assert len(digest_key(one)) == 32
    assert digest_key(one) == digest_key(one) != digest_key(other)
    assert mode(one) == 0o600


def test_digest_key_of_another_length_is_refused(tmp_path):
    path = tmp_path / "keys" / "digest.key"
    digest_key(path)
    path.write_bytes(b"short")
    with pytest.raises(KeyFileError, match="holds 5 bytes, expected 32"):
        digest_key(path)


def test_processes_that_start_together_end_with_one_key(path):
    code = (
        "import sys; from eupg.certify.keys import SigningKey\n"
        "sys.stdin.readline(); print(SigningKey.create_or_load(sys.argv[1]).public.raw.hex())"
    )
    command = [sys.executable, "-c", code, str(path)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate()[0].strip() for process in started}
    assert found == {SigningKey.create_or_load(path).public.raw.hex()}
    assert sorted(p.name for p in path.parent.iterdir()) == ["signing.key", "signing.pub"]


def test_whoever_comes_second_takes_the_first_one_s_key(path, monkeypatch):
    """The race itself: another process makes its key between the look and the write."""
    from eupg.certify import keys

    first = {}
    write = keys.create_once

    def interrupted(place, content):
        monkeypatch.setattr(keys, "create_once", write)
        first["key"] = SigningKey.create_or_load(place).public
        write(place, content)

    monkeypatch.setattr(keys, "create_once", interrupted)
    assert SigningKey.create_or_load(path).public == first["key"]
