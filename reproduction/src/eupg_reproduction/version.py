"""The origin of every result: the code and the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import eupg

# The library, and the experiments themselves.
_PACKAGES = (Path(eupg.__file__).parent, Path(__file__).parent)
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "xgboost", "xgboost-cpu", "lightgbm", "torch")


def source_digest() -> str:
    """Return a digest of both packages' Python source and data on disk."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".toml", ".csv")):
            digest.update(str(path.relative_to(package.parent)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


@cache
def code_version() -> str:
    """Return version and commit, with "dirty" if the source was changed since; without git, version and digest."""
    try:
        commits = {_git(package, "rev-parse", "--short=12", "HEAD") for package in _PACKAGES}
        # A folder may lie in another repository, whose commit says nothing about the package.
        tracked = all(_git(package, "ls-files", "--", "__init__.py") for package in _PACKAGES)
        changed = any(_git(package, "status", "--porcelain", "--", ".") for package in _PACKAGES)
    except (OSError, subprocess.CalledProcessError):
        commits, tracked, changed = set(), False, False
    if len(commits) != 1 or not tracked:
        return f"{eupg.__version__}+source.{source_digest()}"
    return f"{eupg.__version__}+{commits.pop()}" + (".dirty" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout.strip()


@cache
def machine() -> dict[str, str | int]:
    """Return processor, cores, Python and the numerical libraries."""
    values: dict[str, str | int] = {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for name in _LIBRARIES:
        version = _library(name)
        if version:
            values[name] = version
    return values


def _library(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        # A bare copy on the path has no metadata, but the imported module has its version.
        return getattr(sys.modules.get(name), "__version__", None)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def forget_peak_memory() -> None:
    """Reset the peak memory use, if the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_memory_mb() -> float | None:
    """Return the peak memory use of this process in MB."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        try:
            import resource
        except ImportError:
            return None
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kilobytes / 1000, 1)
