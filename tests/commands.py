"""The command line in this process, as tests of whole flows use it."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from eupg.cli import main
from people import people

TRAIN = (
    *("train", "--data", "people.csv", "--label", people(3).schema.label.name, "--subject", "who", "--id", "record"),
    *("--learner", "logistic", "--pretrain", "2", "--finetune", "1", "--workspace", "ws"),
)


def eupg(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: loading everything anew for each would take most of the time."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def words(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed, without its line breaks."""
    return " ".join(done.stdout.split())
