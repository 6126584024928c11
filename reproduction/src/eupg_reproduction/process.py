"""A measuring process: jobs go in and results come back as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from eupg.errors import MeasurementFailed
from eupg_reproduction.cell import Job
from eupg_reproduction.worker import END


class Process:
    """A measuring process, which is restarted if it died."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def messages(self, job: Job) -> Iterator[dict[str, Any]]:
        """Send a job and yield its messages."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([cell.config for cell in job.cells]) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            message = json.loads(line)
            if message.get("done"):
                return
            yield message
            if "error" in message:
                return
        raise MeasurementFailed(
            f"the measuring process ended with status {process.wait()}, perhaps out of memory: run it again with fewer "
            "parallel jobs"
        )

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eupg_reproduction.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=self._environment,
            )
        return self._process

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        # Input that it never read is lost with it.
        with suppress(OSError):
            process.stdin.write(END)
            process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
