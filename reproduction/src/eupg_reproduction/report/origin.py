"""Where the figures come from: which code, which machine, and what is missing."""

from __future__ import annotations

from collections import Counter

from eupg_reproduction.experiment import Experiment
from eupg_reproduction.report.book import REPEATS, Book, measured
from eupg_reproduction.report.words import NONE, table
from eupg_reproduction.results import Result, versions

_HARDWARE = ("cpu", "cores", "system")


def origin(book: Book) -> dict[str, str]:
    """Return the values of the section on code and machines."""
    used = book.used()
    code = [[version, f"{count:,}"] for version, count in sorted(versions(used).items())]
    return {
        "experiments_table": table(["experiment", "what it asks", "cells", "measured", "peak MB"], _experiments(book)),
        "versions_table": table(["code", "cells"], code),
        "machines_table": table(["machine", "Python and libraries", "cells"], _machines(used)),
        "cells": f"{len(used):,}",
        "missing": f"{book.lacking():,}",
    }


def _experiments(book: Book) -> list[list[str]]:
    rows = []
    for one in measured():
        cells, missing = len(one.cells(REPEATS)), len(book.missing(one.name))
        state = "all" if not missing else f"{cells - missing:,}; {missing:,} missing"
        rows.append([f"`{one.name}`", one.about, f"{cells:,}", state, _peak(book, one)])
    return rows


def _peak(book: Book, one: Experiment) -> str:
    """Return the highest memory of a process that measured cells of an experiment, in MB."""
    found = [book.results[cell.key].line.get("peak_mb") for cell in one.cells(REPEATS) if cell.key in book.results]
    known = [float(value) for value in found if value is not None]
    return f"{max(known):,.0f}" if known else NONE


def _machines(used: list[Result]) -> list[list[str]]:
    """Return one row a machine: a process knows only the libraries it has loaded, so what they know is put together."""
    counts: Counter[str] = Counter()
    libraries: dict[str, dict[str, set[str]]] = {}
    for result in used:
        known = result.line.get("machine", {})
        name = ", ".join(
            f"{known[word]}" if word != "cores" else f"{known[word]} cores" for word in _HARDWARE if word in known
        )
        # Pictures are measured on a GPU, which their results name.
        name += f", {result.metrics['device']}" if "device" in result.metrics else ""
        counts[name or "not recorded"] += 1
        for library, version in known.items():
            if library not in (*_HARDWARE, "note"):
                libraries.setdefault(name, {}).setdefault(library, set()).add(str(version))
    rows = []
    for name, count in sorted(counts.items()):
        words = [f"{library} {' and '.join(sorted(v))}" for library, v in libraries.get(name, {}).items()]
        rows.append([name, ", ".join(words) or "not recorded", f"{count:,}"])
    return rows
