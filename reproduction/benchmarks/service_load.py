"""Load on the service over loopback: reads, durable requests, and the status over many requests.

    cd reproduction && python -m benchmarks.service_load --seconds 5 --requests 100000

Wall times depend on what else the machine does. The processor time of the web processes per call does not, and two
cores divided by it bound the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from eupg.service.access import Permission
from eupg.service.accounts import OPERATOR
from eupg.service.requests import NewRequest
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings

_LIMITS = '[limits]\ncalls = "100000000/minute"\ncreations = "100000000/minute"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--database", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service.toml").write_text(_LIMITS)
        key, request = prepared(folder, options.database, options.requests)
        port = free_port()
        results = {}
        with served(folder, port, options.processes, options.database) as server:
            for kind in ("read", "list", "counts", "create"):
                call = calls(kind, request)
                results[kind] = asyncio.run(measured(server, port, key, call, options.seconds, options.clients))
        results["requests before"] = options.requests
        print(json.dumps(results, indent=2))


def prepared(folder: Path, database: str | None, number: int) -> tuple[str, str]:
    """File many requests, and return an API key and the id of one of them."""
    service = Service.open(ServiceSettings.load(folder, database=database))
    key = service.accounts.issue_key(OPERATOR, name="load", scopes=list(Permission), days=1)[1]
    first = ""
    for start in range(0, number, 1000):
        asked = [(OPERATOR, NewRequest({"subject": f"person {start + i}"})) for i in range(min(1000, number - start))]
        first = service.requests.create_many(asked)[0].case.request.id  # type: ignore[union-attr]
    service.close()
    return key, first


class served:  # noqa: N801
    """Runs the web processes."""

    def __init__(self, folder: Path, port: int, processes: int, database: str | None) -> None:
        command = [sys.executable, "-m", "eupg", "serve", str(folder), "--port", str(port)]
        command += ["--processes", str(processes)] + ([] if database is None else ["--database", database])
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ))
        self._port = port

    def __enter__(self) -> served:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                httpx.get(f"http://127.0.0.1:{self._port}/readyz", trust_env=False).raise_for_status()
                return self
            except httpx.HTTPError:
                time.sleep(0.1)
        raise RuntimeError("the service did not start")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def processor_s(self) -> float:
        """Return the processor time of all web processes so far."""
        parent = psutil.Process(self._process.pid)
        times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
        return sum(t.user + t.system for t in times)


def calls(kind: str, request: str):
    """Return a function that makes one call."""
    if kind == "create":
        return lambda client: client.post("/v1/requests", json={"identities": {"subject": f"new {time.time_ns()}"}})
    path = {"read": f"/{request}", "list": "?open=true&order=due", "counts": "/counts"}
    return lambda client: client.get(f"/v1/requests{path[kind]}")


async def measured(server: served, port: int, key: str, call, seconds: float, clients: int) -> dict[str, float]:
    """Call for some seconds with several clients at once."""
    took: list[float] = []
    headers = {"Authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers=headers, limits=limits, trust_env=False, timeout=60
    ) as client:
        await call(client)
        before, began = server.processor_s(), time.monotonic()

        async def repeat() -> None:
            while time.monotonic() - began < seconds:
                start = time.perf_counter()
                answer = await call(client)
                answer.raise_for_status()
                took.append(time.perf_counter() - start)

        await asyncio.gather(*(repeat() for _ in range(clients)))
        elapsed = time.monotonic() - began
        processor = server.processor_s() - before
    ordered = sorted(took)
    return {
        "calls": len(took),
        "per second": round(len(took) / elapsed, 1),
        "median ms": round(1000 * statistics.median(ordered), 1),
        "p99 ms": round(1000 * ordered[int(0.99 * (len(ordered) - 1))], 1),
        "processor ms per call": round(1000 * processor / len(took), 2),
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
