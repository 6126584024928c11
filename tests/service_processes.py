"""Web processes and workers that a test may kill at any moment.

A process that has imported everything forks each of them, so that a new one is up within a few hundredths of a second.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_FORKS = """
import json, os, signal, sys
from eupg.service import logs
from eupg.service.settings import ServiceSettings
from eupg.service.processes import _work
from eupg.service.app import create_app
import uvicorn

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    settings = ServiceSettings(**order["settings"])
    if order["port"]:
        logs.configure(level="ERROR")
        uvicorn.run(create_app(settings), host="127.0.0.1", port=order["port"], log_config=None, access_log=False)
    else:
        _work(settings)
    os._exit(0)
"""


class Processes:
    """Starts and kills the processes of one service."""

    def __init__(self, settings: dict, *, log: Path) -> None:
        self._settings, self._log = settings, log.open("wb")
        command = [sys.executable, "-c", _FORKS]
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=dict(os.environ)
        )
        assert self._read() == "ready"
        self.running: dict[str, int] = {}

    def _read(self) -> str:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().strip()

    def start(self, name: str, port: int = 0) -> None:
        """Start a web process at a port, or a worker."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps({"settings": self._settings, "port": port}) + "\n")
        self._parent.stdin.flush()
        self.running[name] = int(self._read())

    def kill(self, name: str) -> None:
        """End a process, without a chance to clean up."""
        os.kill(self.running[name], signal.SIGKILL)

    def end(self, name: str) -> None:
        """Ask a process to end, and wait until it has."""
        process = self.running[name]
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} did not end")

    def close(self) -> None:
        """End everything."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait(30)
        assert self._parent.stdout is not None
        self._parent.stdout.close()
        self._log.close()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
