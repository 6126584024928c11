"""A run that is killed at any moment goes on where it stopped; it says what it reuses; time is measured alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from eupg import EUPG, SISA, Retrain, sources
from eupg.audit.membership.audit import audit
from eupg.compare.run import compare
from eupg.errors import MeasurementFailed, ParameterError
from eupg.learn import XGBoostLearner
from eupg.protect import ProbabilisticKAnonymity
from eupg_reproduction import run as running
from eupg_reproduction.cell import Job
from eupg_reproduction.cell_figures import audited, repetition, requests
from eupg_reproduction.experiments import experiment
from eupg_reproduction.process import Process
from eupg_reproduction.results import Contents, Writer, read, versions
from eupg_reproduction.run import _Dispatcher, plan
from eupg_reproduction.shared_references import shared_references
from eupg_reproduction.version import code_version, source_digest
from lines import text

SMOKE = experiment("smoke").cells(1)


def command(*arguments: str, results: Path) -> list[str]:
    return [sys.executable, "-m", "eupg_reproduction", *arguments, "--results", str(results)]


def bench(*arguments: str, results: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, results=results),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"COLUMNS": "300"} | environment,
    )


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(one) for one in found.stdout.split()]


def gone(pid: int) -> bool:
    with suppress(OSError):
        return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
    return True


@dataclass(frozen=True)
class Killed:
    """A run of the smoke test that was killed after some cells, and went on."""

    folder: Path
    workers: list[int]
    status: int
    stdout: str
    stderr: str

    @property
    def path(self) -> Path:
        """The results."""
        return self.folder / "smoke.jsonl"

    @property
    def before(self) -> Contents:
        """What the results were when the run was killed."""
        return read(self.folder / "earlier.jsonl")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Kill a run of the smoke test, then let it go on. Parallel processes of pytest share one such run."""
    together = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        together = together.parent
    known = together / "smoke.json"
    with FileLock(together / "smoke.lock"):
        if not known.exists():
            known.write_text(json.dumps(kill_and_go_on(tmp_path_factory.mktemp("smoke"))), encoding="utf-8")
    values = json.loads(known.read_text(encoding="utf-8"))
    return Killed(**(values | {"folder": Path(values["folder"])}))


def kill_and_go_on(folder: Path) -> dict[str, Any]:
    """Return the values of ``Killed``, as JSON."""
    path, shared = folder / "smoke.jsonl", folder / "shared"
    shared.mkdir()
    process = subprocess.Popen(
        command("run", "smoke", "--jobs", "2", results=path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(shared)},
    )
    deadline = time.monotonic() + 120
    # Measurements of time come first, with one process.
    while not path.exists() or path.read_bytes().count(b'{"cell":') < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers = children(process.pid)
    process.kill()
    process.wait()
    shutil.copy(path, folder / "earlier.jsonl")
    again = bench("run", "smoke", "--jobs", "2", results=path)
    told = {"status": again.returncode, "stdout": again.stdout, "stderr": again.stderr}
    return {"folder": str(folder), "workers": workers} | told


def test_a_killed_run_leaves_a_readable_file_no_processes_and_no_folder(killed):
    assert 5 <= killed.before.lines < len(SMOKE)
    assert len(killed.workers) == 2
    assert all(gone(pid) for pid in killed.workers)
    assert not list((killed.folder / "shared").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_processes_leaves_no_folder(number, tmp_path):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests were started with nohup, and so is what they start: it goes on, as it should")
    path, shared = tmp_path / "smoke.jsonl", tmp_path / "shared"
    shared.mkdir()
    process = subprocess.Popen(
        command("run", "smoke", "--jobs", "2", results=path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(shared)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(shared.glob("eupg-bench-*/*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, number)
    assert process.wait(30) == 128 + number
    assert not list(shared.iterdir())


def test_it_goes_on_where_it_stopped(killed):
    assert killed.status == 0, killed.stderr
    after = read(killed.path)
    assert set(after.newest) == {cell.key for cell in SMOKE}
    assert after.lines == len(SMOKE)
    assert after.repeated == 0
    for key, result in killed.before.newest.items():
        assert after.newest[key].line == result.line


def test_it_says_what_it_reuses_and_which_code_made_it(killed):
    reused = len(killed.before.newest)
    for version, count in versions(killed.before.newest.values()).items():
        assert f"Reused: {count} cells made by {version}" in killed.stdout
    assert f"To compute: {len(SMOKE) - reused} cells" in killed.stdout


def test_the_smoke_test_takes_less_than_two_minutes_of_one_core(killed):
    # Processor seconds, which other programs on the machine do not lengthen.
    assert sum(result.line["cpu_s"] for result in read(killed.path).newest.values()) < 120


def test_every_line_says_where_it_comes_from(killed):
    for result in read(killed.path).newest.values():
        line = result.line
        assert line["version"].startswith(code_version())
        assert len(line["source"]) == len(source_digest())
        assert line["machine"]["cores"] >= 1
        assert line["machine"]["python"]
        assert line["peak_mb"] > 20
        assert line["seed"] == result.cell.repetition
        assert all(seconds >= 0 for seconds in result.seconds.values())


def test_time_is_measured_before_all_else(killed):
    lines = [result.line for result in read(killed.path).newest.values()]
    timed = [line for line in lines if line["config"]["kind"] == "runtime"]
    others = [line for line in lines if line["config"]["kind"] != "runtime"]
    assert len(timed) == 3
    assert {line["processes"] for line in timed} == {1}
    assert max(line["at"] for line in timed) < min(line["at"] for line in others)
    for line in timed:
        assert line["seconds"]["forget"] > 0
        assert line["metrics"]["inference_us_a_record"] > 0
        assert line["metrics"]["storage"]["bytes"] > 0


def test_figures_are_those_of_a_comparison(killed):
    learner = XGBoostLearner(threads=1)
    ways = {
        "Retrain": Retrain(learner, 10),
        "Short retrain": Retrain(learner, 2),
        "SISA": SISA(learner, 10, jobs=1),
        "EUPG k=30": EUPG(ProbabilisticKAnonymity(30), learner, 10, 2),
    }
    expected = {row.method: row.runs[0] for row in compare(sources.rand_hie(), ways, references=0).rows}
    found = {
        r.cell.method: r.metrics
        for r in read(killed.path).newest.values()
        if (r.cell.kind, r.cell.model) == ("quality", "xgboost")
    }
    assert len(found) == 6
    for name, run in expected.items():
        assert found[name]["before"]["utility"] == pytest.approx(run.before, abs=1e-9)
        assert found[name]["after"]["utility"] == pytest.approx(run.after, abs=1e-9)


def test_audits_are_those_of_the_shared_references(killed):
    source, method = sources.rand_hie(), Retrain(XGBoostLearner(threads=1), 10)
    members, _ = requests(source, 0.05, repetition(0))
    model = method.train(source.train, repetition(0)).model
    expected = audited(audit(model, members, source.test, references=shared_references(method, source, 4)))
    (found,) = (
        r.metrics["before"]["audit"]
        for r in read(killed.path).newest.values()
        if (r.cell.kind, r.cell.model, r.cell.method) == ("quality", "xgboost", "Retrain")
    )
    assert found == pytest.approx(expected)
    assert found["low"] > 50


def test_exposure_zero_is_the_base_itself(killed):
    served = {
        (r.cell.method, r.cell.get("exposure")): r
        for r in read(killed.path).newest.values()
        if r.cell.kind == "exposure"
    }
    alone, seen = served["k=30", 0.0], served["k=30", 0.05]
    assert alone.metrics["kept_base"]
    assert alone.metrics["exposed"] == 0
    assert alone.seconds["pretrain"] == seen.seconds["pretrain"]
    assert "finetune" not in alone.seconds
    assert seen.metrics["exposed"] > 0


def test_groups_of_the_exposure_audit_are_both_there(killed):
    (one,) = (r for r in read(killed.path).newest.values() if r.cell.kind == "exposure_audit")
    assert set(one.metrics) == {"seen raw", "never seen raw"}
    assert all(found["low"] <= found["auc"] <= found["high"] for found in one.metrics.values())


def test_fresh_reuses_nothing(killed):
    assert plan(["smoke"], killed.path, repeats=1).cells == 0
    again = plan(["smoke"], killed.path, repeats=1, fresh=True)
    assert (again.cells, again.reused) == (len(SMOKE), ())
    shown = bench("run", "smoke", "--fresh", "--dry-run", results=killed.path)
    assert "Nothing is reused (--fresh)." in shown.stdout


def test_results_of_other_code_are_named_as_such(killed, tmp_path):
    lines = [r.line | {"version": code_version()} for r in read(killed.path).newest.values()]
    other = [line | {"version": "0.0.1+older"} for line in lines[:4]]
    (tmp_path / "mixed").write_text(text(*other, *lines[4:]), encoding="utf-8")
    shown = bench("run", "smoke", "--dry-run", results=tmp_path / "mixed").stdout
    assert "Reused: 4 cells made by 0.0.1+older" in shown
    assert f"Reused: {len(SMOKE) - 4} cells made by {code_version()}" in shown
    assert "made by other code; --fresh computes them again" in shown


def test_only_what_is_missing_of_a_job_is_computed(killed, tmp_path):
    lines = [r.line for r in read(killed.path).newest.values() if r.cell.method != "SISA"]
    (tmp_path / "most").write_text(text(*lines), encoding="utf-8")
    (job,) = plan(["smoke"], tmp_path / "most", repeats=1).jobs
    assert [cell.method for cell in job.cells] == ["SISA"]


def test_list_counts_what_is_done(killed):
    shown = json.loads(bench("list", "--json", results=killed.path).stdout)
    smoke = next(one for one in shown if one["name"] == "smoke")
    assert (smoke["cells"], smoke["done"]) == (len(SMOKE), len(SMOKE))
    assert len(shown) > 10


def test_code_that_was_changed_during_a_run_is_named_as_such(tmp_path, monkeypatch):
    found = {"key": SMOKE[0].key, "metrics": {}, "seconds": {}, "shared": [], "cpu_s": 0, "peak_mb": 1, "machine": {}}
    digests = iter(["one", "one", "two"])
    monkeypatch.setattr(running, "source_digest", lambda: next(digests))
    with Writer(tmp_path / "r") as writer:
        desk = _Dispatcher(writer, 2, lambda line: None, {})
        for _ in range(2):
            desk._keep(Job((SMOKE[0],)), found, 1)
    lines = [json.loads(line) for line in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    assert [(line["version"], line["source"]) for line in lines] == [
        (code_version(), "one"),
        (f"{code_version()}.changed-on-the-way", "two"),
    ]


def test_a_filter_that_nothing_passes_is_wrong_use(tmp_path):
    with pytest.raises(ParameterError, match="no cell of smoke passes"):
        plan(["smoke"], tmp_path / "r", only=["set=mars"])
    done = bench("run", "smoke", "--only", "set=mars", results=tmp_path / "r")
    assert done.returncode == 2
    assert not (tmp_path / "r").exists()


def test_lines_that_were_cut_off_are_told(killed, tmp_path):
    whole = killed.path.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "r").write_text("".join([*whole[:2], whole[2][:50] + "\n", *whole[3:]]), encoding="utf-8")
    shown = bench("run", "smoke", "--dry-run", results=tmp_path / "r").stdout
    assert f"1 lines of {tmp_path / 'r'} are cut off or not JSON, and not counted." in shown
    assert "To compute: 1 cells" in shown


def test_a_job_that_fails_is_named_and_leaves_no_line(tmp_path):
    done = bench(
        *("run", "synthesis", "--repeats", "1", "--only", "set=credit", "--only", "model=logistic"),
        *("--only", "method=synthesis ε=1", "--json"),
        results=tmp_path / "r",
        EUPG_DATA=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["computed"] == 0
    assert "SourceUnavailable" in found["failed"][0]
    assert read(tmp_path / "r").lines == 0


def test_a_process_ends_at_once_when_whoever_started_it_is_gone():
    long = dict(next(cell for cell in SMOKE if cell.model == "mlp").config) | {"effort": 100_000}
    with subprocess.Popen(
        [sys.executable, "-m", "eupg_reproduction.worker"], stdin=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(json.dumps([long]) + "\n")
        process.stdin.flush()
        time.sleep(1)
        assert process.poll() is None
        process.stdin.close()
        try:
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_a_process_that_dies_fails_its_job_and_not_the_run():
    worker = Process(dict(os.environ))
    job = Job((SMOKE[0],))
    process = worker._running()
    os.kill(process.pid, signal.SIGSTOP)
    messages = worker.messages(job)
    process.kill()
    with pytest.raises((MeasurementFailed, BrokenPipeError)):
        next(messages)
    assert worker._running().pid != process.pid
    worker.end()
