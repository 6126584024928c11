"""Carry the cells of the earlier exposure benchmark over into the results file of ``eupg bench``.

``python -m benchmarks.carry_exposure OLD NEW`` appends to NEW what it does not hold yet; it may be run again. A line of
OLD is one draw of one protection at all exposures, and becomes one line each. Those lines did not record which code
made them, nor where: that is said in each, with the commits between which the file's history places them.
"""

import json
import sys
from pathlib import Path

from eupg.bench.cell import Cell
from eupg.bench.results import Writer, read

# The first lines lie in the file as it was committed; the rest was appended by a process started from a later commit.
COMMITTED = 342
ORIGINS = (
    ("0.1.0+272040d-3c2957c.carried", "2026-11-15T16:48:20.000+00:00", "a commit from 272040d to 3c2957c"),
    ("0.1.0+550d9b4.carried", "2026-11-15T17:25:00.000+00:00", "commit 550d9b4"),
)


def cells(old: dict) -> list[tuple[dict, dict, dict]]:
    """Return configuration, figures and seconds of every exposure in one line of the old file."""
    table, model, method, draw = old["cell"].split("/")
    config = {"kind": "exposure", "set": table, "model": model, "repetition": int(draw)}
    if method == "control":
        found = [
            ({**config, "method": "From scratch", "exposure": float(share)}, _figures(one), {"train": one["seconds"]})
            for share, one in old["scratch"].items()
        ]
        short = old["short"]
        return [
            *found,
            ({**config, "method": "Short retrain", "exposure": 1.0}, _figures(short), {"train": short["seconds"]}),
        ]
    base = old["base"]
    made = {"protect": base["protect_s"], "pretrain": base["seconds"]}
    found = [({**config, "method": method, "exposure": 0.0}, _figures(base) | {"kept_base": True}, made)]
    for share, one in old["served"].items():
        erased = {f"erase {who}": seconds for who, seconds in one["erase_s"].items()}
        found.append(({**config, "method": method, "exposure": float(share)}, _figures(one), made | erased))
    return found


def _figures(one: dict) -> dict:
    return {name: one[name] for name in ("utility", "kept_base", "effort") if name in one}


def carry(old: Path, new: Path) -> int:
    """Append what is missing and return how many lines that were."""
    known, count = read(new).newest, 0
    with Writer(new) as writer:
        for number, text in enumerate(old.read_text(encoding="utf-8").splitlines()):
            version, at, commits = ORIGINS[number >= COMMITTED]
            for config, metrics, seconds in cells(json.loads(text)):
                cell = Cell.of(config)
                if cell.key not in known:
                    writer.append(_line(cell, metrics, seconds, version, at, commits))
                    count += 1
    return count


def _line(cell: Cell, metrics: dict, seconds: dict, version: str, at: str, commits: str) -> dict:
    note = (
        f"carried over from an earlier file, made by benchmarks/exposure.py at {commits}; code, machine, memory and "
        "moment were not recorded then; seconds with other processes beside"
    )
    return {
        "cell": cell.key,
        "config": cell.config,
        "version": version,
        "at": at,
        "seed": cell.repetition,
        "metrics": metrics,
        "seconds": seconds,
        "shared": ["protect", "pretrain"] if "pretrain" in seconds else [],
        "peak_mb": None,
        "machine": {"note": "not recorded"},
        "note": note,
    }


if __name__ == "__main__":
    print(f"{carry(Path(sys.argv[1]), Path(sys.argv[2]))} lines carried over")
