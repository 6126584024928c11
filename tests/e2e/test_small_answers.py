"""The command line's answers to small things: exit status, plurals, what a terminal may see, and who signed."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import eupg as eupg_package
from commands import TRAIN, eupg, words
from eupg.certify.certificate import Certificate, sign
from eupg.certify.keys import SigningKey
from people import people


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A workspace with one certified request."""
    place = tmp_path_factory.mktemp("cli")
    data = people(120)
    table = data.to_pandas()
    table.insert(0, "who", [f"p{i // 2}" if i > 2 else f"alone{i}" for i in range(len(data))])
    table.to_csv(place / "people.csv")
    assert eupg(*TRAIN, "--guarantee", "dp", "--hold-out", "0", cwd=place).returncode == 0
    assert eupg("request", "--workspace", "ws", "--subject", "p7", cwd=place).returncode == 0
    assert eupg("forget", "--workspace", "ws", cwd=place).returncode == 0
    assert eupg("certify", "--workspace", "ws", "--out", "c.json", cwd=place).returncode == 0
    return place


class TestVerify:
    def test_without_a_key_is_no_verification(self, folder, tmp_path):
        """Anyone can make a key and sign: the forgery is intact, and that is all."""
        forger = SigningKey.create_or_load(tmp_path / "keys" / "signing.key")
        sign(Certificate.load(folder / "c.json").body, forger).save(folder / "forged.json")
        for name in ("forged.json", "c.json"):
            done = eupg("verify", name, "--json", cwd=folder)
            assert done.returncode == 1
            assert json.loads(done.stdout)["verified"] is False
            assert "--key" in json.loads(done.stdout)["why"]
        forged = eupg("verify", "forged.json", "--key", "ws/keys/signing.pub", cwd=folder)
        assert forged.returncode == 1

    def test_of_integrity_alone_has_to_be_asked_for(self, folder):
        done = eupg("verify", "c.json", "--integrity-only", cwd=folder)
        assert done.returncode == 0
        assert "who that was is not known" in words(done)

    @pytest.mark.parametrize("content", ['{"take": {}, "points": []}', "[1, 2]", '{"a":1}'])
    def test_of_something_else_says_that_it_is_not_a_certificate(self, folder, content):
        (folder / "plan.json").write_text(content)
        done = eupg("verify", "plan.json", "--key", "ws/keys/signing.pub", cwd=folder)
        assert done.returncode == 1
        assert "not a certificate" in words(done)

    @pytest.mark.parametrize(
        "name", ["keys/digest.key", "keys/signing.key", "ledger.db", "workspace.toml", "current.json"]
    )
    def test_of_a_workspace_that_lost_a_file_is_a_clear_no(self, folder, tmp_path, name):
        shutil.copytree(folder / "ws", tmp_path / "ws")
        (tmp_path / "ws" / name).unlink()
        done = eupg("verify", "--workspace", "ws", "--json", cwd=tmp_path)
        assert done.returncode == 1
        answer = json.loads(done.stdout)
        assert answer["verified"] is False
        assert name in answer["why"]
        assert "restore" in answer["why"]


class TestDecide:
    def test_accepting_a_stranger_ends_in_no(self, folder):
        asked = eupg("request", "--workspace", "ws", "--subject", "stranger", "--pending", "--json", cwd=folder)
        request = json.loads(asked.stdout)[0]["id"]
        done = eupg("decide", "--workspace", "ws", "--request", request, "--accept", cwd=folder)
        assert done.returncode == 1
        assert "is rejected" in words(done)
        refused = eupg("certify", "--workspace", "ws", "--request", request, "--out", "no.json", cwd=folder)
        assert refused.returncode == 1
        assert "nothing was erased" in words(refused)
        assert "run forget first" not in words(refused)

    def test_control_characters_in_a_reason_are_refused(self, folder):
        asked = eupg("request", "--workspace", "ws", "--subject", "p9", "--pending", "--json", cwd=folder)
        request = json.loads(asked.stdout)[0]["id"]
        done = eupg("decide", "--workspace", "ws", "--request", request, "--reject", "\x1b[2Jgone", cwd=folder)
        assert done.returncode == 2
        assert "without control characters" in words(done)

    def test_those_of_an_earlier_version_do_not_reach_the_terminal(self, folder, monkeypatch):
        from eupg.manage.requests import book as requests
        from eupg.manage.requests import states as request_states

        asked = eupg("request", "--workspace", "ws", "--subject", "p10", "--pending", "--json", cwd=folder)
        request = json.loads(asked.stdout)[0]["id"]
        for module in (request_states, requests):
            monkeypatch.setattr(module, "check_reason", lambda _: None)
        done = eupg("decide", "--workspace", "ws", "--request", request, "--reject", "\x1b[2Jgone", cwd=folder)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert "gone" in done.stdout


def test_one_record_is_not_one_records(folder):
    assert eupg("request", "--workspace", "ws", "--subject", "alone1", cwd=folder).returncode == 0
    done = eupg("forget", "--workspace", "ws", cwd=folder)
    assert "1 request, 1 record erased" in words(done)
    assert "1 records" not in words(done)
    one = pd.read_csv(folder / "people.csv", dtype=str).head(1).assign(record="new", who="new")
    one.to_csv(folder / "one.csv", index=False)
    added = eupg("add", "--workspace", "ws", "--data", "one.csv", cwd=folder)
    assert "1 record added" in words(added)


def test_deeply_nested_message_is_refused_in_words(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a":' * 100_000 + "1" + "}" * 100_000))
    done = eupg("webhook", "--workspace", "ws", cwd=folder)
    assert done.returncode == 2
    assert "nested too deeply" in words(done)


def test_interrupted_command_prints_no_traceback(folder):
    """Ctrl-C while a command waits for its message."""
    command = [sys.executable, "-m", "eupg.cli", "webhook", "--workspace", "ws"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # The code under test, also where its path was given relative to another folder.
    environment = os.environ | {"PYTHONPATH": str(Path(eupg_package.__file__).parents[1])}
    process = subprocess.Popen(command, cwd=folder, env=environment, text=True, start_new_session=True, **pipes)
    # It has begun to wait once it sleeps in the kernel; a signal before that would interrupt an import.
    until = time.monotonic() + 60
    while time.monotonic() < until and not _waits_for_input(process.pid):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in out + err


def _waits_for_input(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            waits = "pipe_read" in file.read()
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return waits or file.read().startswith("0 0x0 ")
    except OSError:
        time.sleep(3)
        return True
