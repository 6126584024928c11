"""Whether the time of an answer tells if a person is held: the AUC of latencies, with its interval.

    cd reproduction && python -m benchmarks.service_timing

files requests over loopback for people who are held and for people who are not, in random order, and reads each again.
Scores are the latencies, so an AUC of 50 % means that they tell nothing. Beside it stands a control: the same service,
which reads the records of a person who is held before it answers. It takes a few minutes, prints a table and appends
it to ``results/service_timing.jsonl``. Held and absent people alternate at random, so what else the machine does
widens the interval and does not shift it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.service_load import LIMITS
from benchmarks.web_processes import WebProcesses, free_port
from eupg import EUPG, Manager
from eupg.audit.membership.roc import auc_interval, delong
from eupg.data import Categorical, Dataset, Key, Numeric, Role, Schema
from eupg.errors import RequestRefused
from eupg.learn import SklearnLearner
from eupg.protect import LocalDP
from eupg.service.access import PERMISSIONS, Actor, ServiceRole
from eupg.service.accounts import OPERATOR
from eupg.service.app import create_app
from eupg.service.requests import Created, NewRequest, Requests
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings

_RESULTS = Path(__file__).parents[1] / "results" / "service_timing.jsonl"
_MODEL = "customers"
_HELD = 20_000
_WARM_UP = 50
_LEVEL = 0.95


def main() -> int:
    """Measure, print, and note; exit with 1 if the service can be told apart, or the control cannot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=2000, help="half of them are held")
    parser.add_argument("--no-note", action="store_true", help="do not append to the results")
    parser.add_argument("--serve", nargs=2, metavar=("FOLDER", "PORT"), help=argparse.SUPPRESS)
    parser.add_argument("--control", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve[0]), int(options.serve[1]), control=options.control)
        return 0
    rng, rows = np.random.default_rng(7), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service.toml").write_text(LIMITS)
        key = prepared(folder)
        for control in (False, True):
            port = free_port()
            command = ["-m", "benchmarks.service_timing", "--serve", str(folder), str(port)]
            with WebProcesses(command + ["--control"] * control, port) as server:
                # Asked of each service about the same number of other people.
                order = rng.permutation(options.people)
                rows += measured(server.address, key, order, "control" if control else "service")
    print(f"{'who answers':13}{'call':9}{'AUC':>8}{'95 % interval':>18}{'median held':>14}{'median absent':>15}")
    for row in rows:
        low, high = row["interval"]
        print(
            f"{row['who']:13}{row['call']:9}{row['auc']:8.1%}{f'{low:.1%} to {high:.1%}':>18}"
            f"{row['held_ms']:11.2f} ms{row['absent_ms']:12.2f} ms"
        )
    if not options.no_note:
        noted = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load": round(os.getloadavg()[0], 2)}
        with _RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted | {"people": options.people, "measured": rows}) + "\n")
    told = {(row["who"], row["call"]): not row["interval"][0] <= 0.5 <= row["interval"][1] for row in rows}
    # A read of the control may be slower as well, for whoever was just looked up: it decides nothing.
    good = told["control", "create"] and not any(told["service", call] for call in ("create", "read"))
    print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


def named(number: int) -> str:
    """Return how a person is named; those with an even number are held."""
    return f"person-{number:06d}"


def prepared(folder: Path) -> str:
    """Train a model on every second person, and return an API key."""
    rng, held = np.random.default_rng(1), np.arange(0, 2 * _HELD, 2)
    label = Categorical(name="churned", role=Role.LABEL, categories=("no", "yes"))
    schema = Schema((Key(name="customer", role=Role.SUBJECT), Numeric(name="age", lower=0, upper=100), label))
    age = rng.integers(18, 90, len(held))
    names = np.array([named(int(i)) for i in held])
    data = Dataset(schema, age[:, None].astype(float), (age > 50).astype(int), names, names)
    manager = Manager(folder / _MODEL, EUPG(LocalDP(epsilon=4.0), SklearnLearner(), pretrain=1, finetune=1))
    manager.train(data)
    manager.close()
    service = Service.open(ServiceSettings.load(folder))
    scopes = PERMISSIONS[ServiceRole.INTAKE]
    key = service.accounts.issue_key(OPERATOR, name="attacker", scopes=scopes, days=1)[1]
    service.close()
    return key


def serve(folder: Path, port: int, *, control: bool) -> None:
    """Serve in this process; as the control, read the records of people who are held before answering."""
    import uvicorn

    app = create_app(ServiceSettings.load(folder))
    if control:
        create = Requests.create_many

        def reads(self: Requests, asked: Sequence[tuple[Actor, NewRequest]]) -> list[Created | RequestRefused]:
            for _, new in asked:
                # As a service would that looks people up in the web process.
                if int(new.identities["subject"].rpartition("-")[2]) % 2 == 0:
                    with app.state.service.models.opened(_MODEL) as manager:
                        manager.space.read(manager.space.state())[0].subjects.tolist().count(new.identities["subject"])
            return create(self, asked)

        Requests.create_many = reads  # type: ignore[method-assign]
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


def measured(address: str, key: str, order: np.ndarray, who: str) -> list[dict[str, Any]]:
    """File a request for each person, read it, and compare the latencies of people who are held with the others."""
    took: dict[str, list[float]] = {"create": [], "read": []}
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        for number in [*range(10**5, 10**5 + _WARM_UP), *order.tolist()]:
            start = time.perf_counter()
            filed = client.post("/v1/requests", json={"identities": {"subject": named(number)}})
            took["create"].append(time.perf_counter() - start)
            filed.raise_for_status()
            start = time.perf_counter()
            client.get(f"/v1/requests/{filed.json()['id']}").raise_for_status()
            took["read"].append(time.perf_counter() - start)
    held, rows = order % 2 == 0, []
    for call, values in took.items():
        seconds = np.array(values[_WARM_UP:])
        area, variance = delong(seconds, held)
        low, high = auc_interval(area, variance, int(held.sum()), int((~held).sum()), level=_LEVEL)
        medians = {f"{name}_ms": 1000 * float(np.median(seconds[side])) for name, side in _sides(held)}
        rows.append({"who": who, "call": call, "auc": area, "interval": [low, high], **medians})
    return rows


def _sides(held: np.ndarray) -> tuple[tuple[str, np.ndarray], ...]:
    return ("held", held), ("absent", ~held)


if __name__ == "__main__":
    sys.exit(main())
