"""The web processes of a service on loopback, for benchmarks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import httpx
import psutil

_START_S = 120.0


class WebProcesses:
    """Runs a command that serves at a port, until the block ends."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ)
        )

    def __enter__(self) -> Self:
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                httpx.get(f"{self.address}/readyz", trust_env=False).raise_for_status()
                return self
            except httpx.HTTPError:
                time.sleep(0.1)
        self._process.kill()
        raise RuntimeError("the service did not start")

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(30)

    def processor_s(self) -> float:
        """Return the processor time of all processes so far."""
        parent = psutil.Process(self._process.pid)
        times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
        return sum(t.user + t.system for t in times)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
