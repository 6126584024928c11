"""Where the figures come from: experiments, code and machines."""

from __future__ import annotations

import pandas as pd

from eupg_reproduction.report.tidy import Measurements, cells, reported
from eupg_reproduction.results import versions as count_versions

_HARDWARE = ("cpu", "cores", "system")


def experiments(measurements: Measurements) -> pd.DataFrame:
    """Return one row per experiment: its cells, how many are missing, and the peak memory of a process in MB."""
    rows = []
    for one in reported():
        keys = cells(one.name)
        lines = [measurements.results[key].line for key in keys if key in measurements.results]
        peaks = [line["peak_mb"] for line in lines if line.get("peak_mb") is not None]
        row = {"experiment": one.name, "what it asks": one.about, "cells": len(keys), "measured": len(lines)}
        rows.append(row | {"missing": len(keys) - len(lines), "peak MB": round(max(peaks)) if peaks else None})
    return pd.DataFrame(rows)


def versions(measurements: Measurements) -> pd.DataFrame:
    """Return the code that made the results: version and commit, or a digest of its source."""
    return pd.DataFrame(sorted(count_versions(measurements.used()).items()), columns=["code", "cells"])


def machines(measurements: Measurements) -> pd.DataFrame:
    """Return one row per machine, with the libraries that its processes recorded."""
    libraries: dict[str, dict[str, set[str]]] = {}
    counts: dict[str, int] = {}
    for result in measurements.used():
        known = result.line.get("machine", {})
        words = [f"{known[word]}{' cores' if word == 'cores' else ''}" for word in _HARDWARE if word in known]
        # Results on pictures name their GPU.
        words += [str(result.metrics["device"])] if "device" in result.metrics else []
        name = ", ".join(words) or "not recorded"
        counts[name] = counts.get(name, 0) + 1
        for library, version in known.items():
            if library not in (*_HARDWARE, "note"):
                libraries.setdefault(name, {}).setdefault(library, set()).add(str(version))
    rows = []
    for name in sorted(counts):
        words = [f"{library} {' and '.join(sorted(some))}" for library, some in libraries.get(name, {}).items()]
        rows.append(
            {"machine": name, "Python and libraries": ", ".join(words) or "not recorded", "cells": counts[name]}
        )
    return pd.DataFrame(rows)
