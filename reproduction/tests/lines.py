"""Lines of a results file, made up."""

import json

from eupg_reproduction.cell import Cell


def line(method: str = "Retrain", *, version: str = "1", at: str = "2026-01-01", repetition: int = 0) -> dict:
    config = {"kind": "quality", "set": "adult", "model": "mlp", "method": method, "repetition": repetition}
    cell = Cell.of(config)
    return {
        "cell": cell.key,
        "config": cell.config,
        "version": version,
        "at": at,
        "metrics": {"utility": 80.0},
        "seconds": {},
    }


def text(*lines: dict) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines)
