"""Kill points: silent in use, exact in crash tests."""

import os
import signal
import subprocess
import sys

import pytest

CODE = """
from eupg.killpoint import checkpoint
for name in "abc":
    checkpoint(name)
    print(name, flush=True)
"""


def run(**environment: str) -> subprocess.CompletedProcess:
    plain = {k: v for k, v in os.environ.items() if not k.startswith("EUPG_KILL")}
    return subprocess.run(
        [sys.executable, "-c", CODE], env=plain | environment, capture_output=True, text=True, check=False
    )


def test_nothing_happens_unless_asked():
    assert (run().returncode, run().stdout.split()) == (0, ["a", "b", "c"])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_process_dies_at_the_checkpoint_asked_for(number):
    killed = run(EUPG_KILL_AT=str(number))
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.split() == list("abc")[: number - 1]
    assert killed.stderr == f"killed at checkpoint {number}: {'abc'[number - 1]}\n"


def test_checkpoints_are_counted(tmp_path):
    assert run(EUPG_KILL_COUNT=str(tmp_path / "count")).returncode == 0
    assert int((tmp_path / "count").read_text()) == 3


@pytest.mark.parametrize("wrong", ["0", "-1", "two", ""])
def test_number_that_is_none_is_refused(wrong):
    refused = run(EUPG_KILL_AT=wrong)
    assert refused.returncode == 1
    assert "EUPG_KILL_AT must be a whole number" in refused.stderr


def test_process_can_be_armed_after_it_was_loaded():
    code = CODE.replace("import checkpoint\n", "import arm, checkpoint, passed\ncheckpoint('before')\narm(0)\n")
    command = [sys.executable, "-c"]
    counting = subprocess.run([*command, code + "print(passed())"], capture_output=True, text=True, check=True)
    assert counting.stdout.split() == ["a", "b", "c", "3"]
    killed = subprocess.run([*command, code.replace("arm(0)", "arm(2)")], capture_output=True, check=False)
    assert (killed.returncode, killed.stdout.split()) == (-signal.SIGKILL, [b"a"])
