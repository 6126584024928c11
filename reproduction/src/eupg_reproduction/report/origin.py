"""Where the figures come from: which experiments, which code, which machines, and what is missing."""

from __future__ import annotations

import pandas as pd

from eupg_reproduction.report.tidy import Book, cells, measured
from eupg_reproduction.results import versions as count_versions

_HARDWARE = ("cpu", "cores", "system")


def experiments(book: Book) -> pd.DataFrame:
    """Return one row per experiment: its cells, how many are missing, and the highest memory of a process, in MB."""
    rows = []
    for one in measured():
        keys = cells(one.name)
        lines = [book.results[key].line for key in keys if key in book.results]
        peaks = [line["peak_mb"] for line in lines if line.get("peak_mb") is not None]
        row = {"experiment": one.name, "what it asks": one.about, "cells": len(keys), "measured": len(lines)}
        rows.append(row | {"missing": len(keys) - len(lines), "peak MB": round(max(peaks)) if peaks else None})
    return pd.DataFrame(rows)


def versions(book: Book) -> pd.DataFrame:
    """Return the code that made the results: version and commit, or a digest of its source."""
    return pd.DataFrame(sorted(count_versions(book.used()).items()), columns=["code", "cells"])


def machines(book: Book) -> pd.DataFrame:
    """Return one row per machine; a process knows only the libraries it has loaded, so these are put together."""
    rows: dict[str, dict[str, set[str]]] = {}
    counts: dict[str, int] = {}
    for result in book.used():
        known = result.line.get("machine", {})
        words = [f"{known[word]}{' cores' if word == 'cores' else ''}" for word in _HARDWARE if word in known]
        # Pictures are measured on a GPU, which their results name.
        words += [str(result.metrics["device"])] if "device" in result.metrics else []
        name = ", ".join(words) or "not recorded"
        counts[name] = counts.get(name, 0) + 1
        for library, version in known.items():
            if library not in (*_HARDWARE, "note"):
                rows.setdefault(name, {}).setdefault(library, set()).add(str(version))
    libraries = {
        name: ", ".join(f"{library} {' and '.join(sorted(some))}" for library, some in rows.get(name, {}).items())
        for name in sorted(counts)
    }
    return pd.DataFrame(
        {"machine": name, "Python and libraries": text or "not recorded", "cells": counts[name]}
        for name, text in libraries.items()
    )
