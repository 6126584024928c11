"""Processes side by side: the same results, errors that say what happened, and nothing that must be guarded."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import eupg
import tasks
from eupg.errors import WorkerLost
from eupg.executor import LocalProcesses
from eupg.executor.executor import in_order

DOUBLED = partial(tasks.double_and_say_where, 2)
NETWORK = """
import os
import numpy as np
from torch import nn
from eupg import Retrain, Seeded, sources
from eupg.audit import RMIA
from eupg.learn import MLP, TorchLearner
from eupg.audit import audit

trained_in = []

class Narrow(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        trained_in.append(os.getpid())
        self.layer = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.layer(x)

source = sources.rand_hie()
few = lambda data, start: data.select((np.arange(len(data)) >= start) & (np.arange(len(data)) < start + 300))
members, others, nonmembers = few(source.train, 0), few(source.train, 300), few(source.test, 0)
recipe = Retrain(TorchLearner(Narrow), 1)
model = recipe.train(members.plus(others), Seeded(1)).model
report = audit(model, members, nonmembers, others=others, recipe=recipe, references=4, jobs=2)
print(report.members, report.nonmembers, set(trained_in) == {os.getpid()}, len(trained_in) >= 6)
"""


def test_tasks_run_in_other_processes_whatever_they_print():
    results = in_order(LocalProcesses(2), DOUBLED, [1, 2, 3, 4, 5])
    assert [value for value, _ in results] == [2, 4, 6, 8, 10]
    processes = {process for _, process in results}
    assert os.getpid() not in processes
    assert len(processes) <= 2
    assert in_order(LocalProcesses(2), tasks.threads_allowed, [1, 2]) == ["1", "1"]


def test_one_job_or_one_task_stays_here():
    for numbers, jobs in (([1, 2], 1), ([1], 2)):
        results = in_order(LocalProcesses(jobs), DOUBLED, numbers)
        assert {process for _, process in results} == {os.getpid()}


def test_work_that_no_other_process_can_receive_is_done_here_in_order():
    here = []
    results = list(LocalProcesses(2).map(lambda task: here.append(os.getpid()) or task, [3, 1, 2]))
    assert results == [(0, 3), (1, 1), (2, 2)]
    assert set(here) == {os.getpid()}


def test_work_that_another_process_cannot_import_is_done_here(monkeypatch):
    """The module is known here by name only, as one made by a test runner or a notebook is."""
    module = type(sys)("made_up_module")
    exec("import os\ndef where(task): return os.getpid()\n", vars(module))
    monkeypatch.setitem(sys.modules, "made_up_module", module)
    with LocalProcesses(2).opened() as processes:
        assert in_order(processes, module.where, [1, 2]) == [os.getpid()] * 2
        # The processes that could not load it still work.
        assert os.getpid() not in {process for _, process in in_order(processes, DOUBLED, [1, 2])}


def test_killed_process_gives_an_error_that_says_so():
    with pytest.raises(WorkerLost, match=r"ended early \(killed by SIGKILL\).*fewer jobs"):
        list(LocalProcesses(2).map(tasks.killed, [1, 2, 3]))
    assert children() == []


def test_error_of_a_task_arrives_with_its_traceback():
    with pytest.raises(KeyError, match=r"task \d is wrong") as raised:
        list(LocalProcesses(2).map(tasks.fails, [1, 2]))
    assert "in fails" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match=r"TwoArguments: \d and \d"):
        list(LocalProcesses(2).map(tasks.fails_oddly, [1, 2]))
    assert children() == []


def test_processes_end_when_nobody_wants_more_results():
    results = LocalProcesses(2).map(DOUBLED, list(range(20)))
    next(results)
    results.close()
    assert children() == []


def test_opened_processes_stay_for_other_work_and_are_replaced_where_they_are_lost():
    with LocalProcesses(2).opened() as processes:
        first = {process for _, process in in_order(processes, DOUBLED, list(range(20)))}
        second = {process for _, process in in_order(processes, tasks.negative_and_process, list(range(20)))}
        assert first | second == set(children())
        os.kill(min(children()), signal.SIGKILL)
        assert in_order(processes, tasks.doubled, list(range(6))) == [0, 2, 4, 6, 8, 10]
        assert len(children()) == 2
        with pytest.raises(KeyError):
            list(processes.map(tasks.fails, [1, 2]))
        assert children() == []
        assert in_order(processes, tasks.doubled, [1, 2]) == [2, 4]
    assert children() == []


def test_nothing_is_left_on_the_disk(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    list(LocalProcesses(2).map(DOUBLED, [1, 2, 3]))
    assert list(tmp_path.iterdir()) == []


def test_network_defined_in_the_main_script_is_audited(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NETWORK, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(eupg.__file__).parents[1])},
        check=False,
    )
    assert (run.stdout, run.stderr) == ("300 300 True True\n", "")


def children() -> list[int]:
    """Return the processes that this one started and that have not ended."""
    own = Path(f"/proc/{os.getpid()}/task")
    if not own.is_dir():
        pytest.skip("the system does not list child processes under /proc")
    return [int(pid) for task in own.iterdir() for pid in (task / "children").read_text(encoding="utf-8").split()]
