"""Executors: the same results wherever tasks run, and a process that is killed is replaced."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eupg
import tasks
from eupg.errors import ParameterError, WorkerLost
from eupg.executor import Executor, InProcess, LocalProcesses
from eupg.executor.executor import in_order

PARENT = """
import sys, tasks
from eupg.executor import LocalProcesses
list(LocalProcesses(2).map(tasks.sleeps, [sys.argv[1], sys.argv[2]]))
"""


@pytest.mark.parametrize("executor", [InProcess(), LocalProcesses(1), LocalProcesses(2), LocalProcesses()])
def test_results_arrive_with_their_position(executor):
    assert isinstance(executor, Executor)
    results = in_order(executor, tasks.negative_and_process, [5, 3, 8])
    assert [number for number, _ in results] == [-5, -3, -8]
    assert list(executor.map(tasks.negative_and_process, [])) == []


def test_two_processes_are_other_processes_and_one_is_this():
    for jobs, here in ((1, True), (2, False)):
        results = in_order(LocalProcesses(jobs), tasks.negative_and_process, [1, 2, 3])
        assert ({process for _, process in results} == {os.getpid()}) is here


def test_killed_process_is_replaced_and_its_task_repeated(tmp_path):
    work = tasks.KilledOnce(tasks.negative_and_process, tmp_path / "killed")
    results = in_order(LocalProcesses(2), work, list(range(6)))
    assert (tmp_path / "killed").exists()
    assert [number for number, _ in results] == [0, -1, -2, -3, -4, -5]


def test_task_that_always_loses_its_process_ends_the_run():
    with pytest.raises(WorkerLost, match="SIGKILL"):
        list(LocalProcesses(2).map(tasks.killed, [1, 2]))


def test_number_of_processes_is_checked():
    with pytest.raises(ParameterError, match="jobs"):
        LocalProcesses(0)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    marks = [tmp_path / "one", tmp_path / "two"]
    paths = os.pathsep.join([str(Path(eupg.__file__).parents[1]), str(Path(tasks.__file__).parent)])
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *map(str, marks)], env={**os.environ, "PYTHONPATH": paths})
    try:
        _wait(lambda: all(mark.exists() and mark.read_text(encoding="utf-8") for mark in marks))
        children = [int(mark.read_text(encoding="utf-8")) for mark in marks]
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _wait(lambda: not any(map(_runs, children)))


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
