"""A workspace's whole life in small stages, and a server that forks a process for each, to be killed on the way.

Run as a program it reads one order a line from its input (JSON: folder, stages, kill_at, kill_after_s, ledger, method),
does it in a forked process, and answers with one line: how that ended, how many checkpoints it passed, where it was
killed. Everything is loaded once, so that a victim costs milliseconds and not seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from eupg import Manager
from eupg.killpoint import arm, passed
from eupg.manage.batching import BatchPolicy
from eupg.manage.requests.states import State
from managed import HELD_OUT, METHOD, METHODS, NEWCOMERS, RECORDS, RNG, person


class Life:
    """The stages, on one workspace; what the flow was told is noted beside it, as a caller would."""

    def __init__(self, folder: Path, ledger: str | None = None, method: str | None = None) -> None:
        self.folder, self.ledger = folder / "workspace", ledger
        self.method = METHOD if method is None else METHODS[method]
        self.notes, self.papers = folder / "notes", folder / "papers"
        self.papers.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def manager(self):
        opened = Manager(self.folder, self.method, rng=RNG, ledger=self.ledger)
        try:
            yield opened
        finally:
            opened.close()

    def note(self, **values: Any) -> None:
        with self.notes.open("a") as file:
            file.write(json.dumps(values) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def noted(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def ask(self, manager: Manager, *, accept: bool = True, **who: list[str]) -> None:
        for request in manager.request_many(**who, accept=accept):
            self.note(request=request.id, state=request.state)

    def train(self) -> None:
        with self.manager() as manager:
            manager.train(RECORDS, hold_out=HELD_OUT)

    def add(self) -> None:
        with self.manager() as manager:
            manager.add(NEWCOMERS)

    def ask_first(self) -> None:
        with self.manager() as manager:
            self.ask(manager, subjects=[person(3), person(2, "birch"), "nobody"], records=["record-amber-00030"])
            self.ask(manager, subjects=[person(5)], accept=False)

    def ask_again(self) -> None:
        with self.manager() as manager:
            self.ask(manager, subjects=[person(1, "cedar"), person(5)], records=["record-amber-00031"])

    def ask_last(self) -> None:
        with self.manager() as manager:
            self.ask(manager, subjects=[person(20), person(4, "birch")])

    def forget(self) -> None:
        with self.manager() as manager:
            manager.forget()

    def forget_due(self) -> None:
        """Forget in two runs: those whom no model has seen, then a batch that is due."""
        with self.manager() as manager:
            manager.set_batching(BatchPolicy(people=1))
            manager.forget(due_only=True)

    def certify(self) -> None:
        with self.manager() as manager:
            told = list(dict.fromkeys(n["request"] for n in self.noted()))
            for request in told:
                if manager.space.book.get(request).state is State.COMPLETED:
                    manager.certify(request).save(self.papers / f"{request}.json")

    def renew(self) -> None:
        with self.manager() as manager:
            manager.renew()

    def recover(self) -> None:
        with self.manager() as manager:
            manager.recover()


STAGES = (
    *("train", "add", "ask_first", "forget", "ask_again", "forget_due", "certify"),
    *("renew", "ask_last", "forget", "certify"),
)
# For methods without a second release.
STAGES_WITHOUT_RELEASE = tuple(stage for stage in STAGES if stage != "renew")


@dataclasses.dataclass(frozen=True)
class End:
    """How a victim ended."""

    killed: bool
    passed: int
    told: str
    seconds: float


class Victims:
    """Talks to the server; a context manager."""

    def __enter__(self):
        paths = os.pathsep.join(dict.fromkeys([str(Path(__file__).parent), *filter(None, sys.path)]))
        # Whatever a victim writes outside its workspace would be found here.
        self._outside = tempfile.TemporaryDirectory()
        self.outside = Path(self._outside.name)
        environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TMPDIR": self._outside.name}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._server = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()
        self._outside.cleanup()

    def run(
        self,
        folder: Path,
        *stages: str,
        kill_at: int = 0,
        kill_after_s: float | None = None,
        ledger: str | None = None,
        method: str | None = None,
    ) -> End:
        order = {"folder": str(folder), "stages": stages, "kill_at": kill_at, "kill_after_s": kill_after_s}
        self._server.stdin.write(json.dumps(order | {"ledger": ledger, "method": method}) + "\n")
        self._server.stdin.flush()
        status, count, told, seconds = json.loads(self._server.stdout.readline())
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, told
        return End(killed, count, told, seconds)


def _obey(order: dict[str, Any]) -> tuple[int, int, str, float]:
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as counted:
        started = time.perf_counter()
        child = os.fork()
        if not child:
            os.dup2(errors.fileno(), 2)
            arm(order["kill_at"])
            life = Life(Path(order["folder"]), order["ledger"], order["method"])
            for stage in order["stages"]:
                getattr(life, stage)()
            os.write(counted.fileno(), str(passed()).encode())
            os._exit(0)
        if order["kill_after_s"] is not None:
            # Not waited for yet, so the number is still this child's, alive or not.
            time.sleep(order["kill_after_s"])
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        for file in (errors, counted):
            file.seek(0)
        return status, int(counted.read() or 0), errors.read().decode(), time.perf_counter() - started


def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            life = Life(Path(folder))
            for stage in STAGES:
                getattr(life, stage)()
            with os.fdopen(writing, "w") as file:
                file.write("\n".join(sys.modules))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            names = file.read().split("\n")
        os.waitpid(child, 0)
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    assert threading.active_count() == 1
    for line in sys.stdin:
        print(json.dumps(_obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()
