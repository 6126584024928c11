"""Load on the service over loopback: reads, durable requests, and the status over many requests.

    cd reproduction && python -m benchmarks.service_load

prints a table and appends it to ``results/service_load.jsonl``. It needs ``wrk`` (``apt-get install wrk``), which takes
hardly any processor time, and about two minutes. Rates and times depend on what else the machine does, so the load of
the machine is noted. The processor time of the web processes per call depends on it less, and the number of cores
divided by it bounds the rate.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.web_processes import WebProcesses, free_port
from eupg.service.access import Permission
from eupg.service.accounts import OPERATOR
from eupg.service.requests import NewRequest
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings

LIMITS = '[limits]\ncalls = "100000000/minute"\ncreations = "100000000/minute"\n'
_RESULTS = Path(__file__).parents[1] / "results" / "service_load.jsonl"
_PER_TRANSACTION = 1000
# A new person per call: the number of the thread, and a count. The answer must be the expected one.
_SCRIPT = """
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end
function init(args)
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("EUPG_LOAD_KEY")
  wrk.headers["Content-Type"] = "application/json"
  count, method = 0, args[1]
end
function request()
  count = count + 1
  local body = nil
  if method == "POST" then
    body = string.format('{"identities": {"subject": "new %d %d %d"}}', os.time(), number, count)
  end
  return wrk.format(method, nil, nil, body)
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"calls": %d, "seconds": %f, "errors": %d, "median": %f, "p99": %f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


@dataclass(frozen=True)
class Goal:
    """What a kind of call has to reach: a rate, or a time."""

    per_second: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True)
class Measured:
    """One kind of call under load."""

    kind: str
    calls: int
    per_second: float
    median_ms: float
    p99_ms: float
    errors: int
    processor_ms_per_call: float
    generator_ms_per_call: float

    def met(self, goal: Goal) -> bool:
        """Return whether a goal is met, without an error."""
        quick = goal.p99_ms is None or self.p99_ms < goal.p99_ms
        return self.errors == 0 and quick and self.per_second >= (goal.per_second or 0.0)


# Kind, method, path, connections per client, and goal. The status is read by one caller at a time.
_KINDS: tuple[tuple[str, str, str, bool, Goal], ...] = (
    ("read", "GET", "/v1/requests/{request}", True, Goal(500, 200)),
    ("list", "GET", "/v1/requests?open=true&order=due", True, Goal()),
    ("status", "GET", "/v1/requests/counts", False, Goal(None, 100)),
    ("create", "POST", "/v1/requests", True, Goal(300, 200)),
)


def main() -> int:
    """Measure, print, and note; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="per kind of call")
    parser.add_argument("--requests", type=int, default=100_000, help="that are there before")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--database", default=None, help="the address of an empty PostgreSQL database")
    parser.add_argument("--no-note", action="store_true", help="do not append to the results")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service.toml").write_text(LIMITS)
        (folder / "load.lua").write_text(_SCRIPT)
        key, request = prepared(folder, options.database, options.requests)
        port = free_port()
        command = ["-m", "eupg", "serve", str(folder), "--port", str(port), "--processes", str(options.processes)]
        command += [] if options.database is None else ["--database", options.database]
        measured = []
        with WebProcesses(command, port) as server:
            for kind, method, path, many, _ in _KINDS:
                address = server.address + path.format(request=request)
                clients = options.clients if many else 1
                measured.append(
                    measure(server, kind, method, address, key, folder / "load.lua", options.seconds, clients)
                )
    met = [row.met(goal) for row, (*_, goal) in zip(measured, _KINDS, strict=True)]
    print(f"{'kind':8}{'calls/s':>9}{'median ms':>11}{'p99 ms':>9}{'errors':>8}{'web ms/call':>13}{'wrk ms/call':>13}")
    for row, good in zip(measured, met, strict=True):
        print(
            f"{row.kind:8}{row.per_second:9.0f}{row.median_ms:11.1f}{row.p99_ms:9.1f}{row.errors:8}"
            f"{row.processor_ms_per_call:13.2f}{row.generator_ms_per_call:13.3f}  {'ok' if good else 'MISSED'}"
        )
    print(f"{os.cpu_count()} cores, load before {load:.1f}, {options.requests:,} requests before")
    if not options.no_note:
        noted = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "database": "sqlite" if options.database is None else "postgresql",
            "cores": os.cpu_count(),
            "load_before": round(load, 2),
            "processes": options.processes,
            "clients": options.clients,
            "requests_before": options.requests,
            "measured": [asdict(row) for row in measured],
            "goals_met": all(met),
        }
        with _RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")
    return 0 if all(met) else 1


def prepared(folder: Path, database: str | None, number: int) -> tuple[str, str]:
    """File many requests, and return an API key and the id of one of them."""
    service = Service.open(ServiceSettings.load(folder, database=database))
    key = service.accounts.issue_key(OPERATOR, name="load", scopes=list(Permission), days=1)[1]
    one = ""
    for start in range(0, number, _PER_TRANSACTION):
        numbers = range(start, min(start + _PER_TRANSACTION, number))
        created = service.requests.create_many([(OPERATOR, NewRequest({"subject": f"person {i}"})) for i in numbers])
        one = created[0].case.request.id  # type: ignore[union-attr]
    service.close()
    return key, one


def measure(
    server: WebProcesses, kind: str, method: str, address: str, key: str, script: Path, seconds: int, clients: int
) -> Measured:
    """Call for some seconds with several connections at once."""
    threads = min(2, clients)
    command = ["wrk", f"-t{threads}", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script), address]
    environment = dict(os.environ) | {"EUPG_LOAD_KEY": key}
    own, web = resource.getrusage(resource.RUSAGE_CHILDREN), server.processor_s()
    run = subprocess.run([*command, "--", method], env=environment, capture_output=True, text=True, check=True)
    web = server.processor_s() - web
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    generator = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    said = json.loads(run.stdout.splitlines()[-1])
    calls = max(1, said["calls"])
    return Measured(
        kind=kind,
        calls=said["calls"],
        per_second=round(said["calls"] / said["seconds"], 1),
        median_ms=round(said["median"], 2),
        p99_ms=round(said["p99"], 2),
        errors=said["errors"],
        processor_ms_per_call=round(1000 * web / calls, 3),
        generator_ms_per_call=round(1000 * generator / calls, 4),
    )


if __name__ == "__main__":
    sys.exit(main())
