"""Build the wheels and source archives of both packages, and check that each is complete and can be installed.

The wheels are built from the source archives, so an archive that lacks a file does not pass. Then the wheel of the
library is unpacked into a folder of its own, and its command is run from there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
# Files that serve the repository and not its readers.
REPOSITORY_ONLY = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml")


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return what it prints; a command that fails ends this one."""
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def tracked(folder: str) -> set[str]:
    """Return the files of a package that the repository holds, by their paths within its folder."""
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT / folder).splitlines()
    return {name for name in names if not name.startswith((*REPOSITORY_ONLY, "reproduction/"))}


def build(folder: str) -> tuple[Path, Path]:
    """Build a package's source archive, and its wheel from that archive."""
    with tempfile.TemporaryDirectory() as out:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, str(ROOT / folder))
        built = [Path(shutil.move(path, DIST)) for path in sorted(Path(out).iterdir())]
    wheel, archive = sorted(built, key=lambda path: path.suffix, reverse=True)
    return wheel, archive


def check_archive(archive: Path, folder: str) -> None:
    """Refuse a source archive that lacks a file of the repository."""
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    if missing := sorted(tracked(folder) - names):
        sys.exit(f"{archive.name} lacks {', '.join(missing)}: name them in {folder}/MANIFEST.in")


def check_wheel(wheel: Path, folder: str, package: str) -> None:
    """Refuse a wheel that lacks a file of the package, or its licence."""
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    source = f"src/{package}/"
    expected = {name.removeprefix("src/") for name in tracked(folder) if name.startswith(source)}
    if missing := sorted(expected - names):
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}: name them in [tool.setuptools.package-data]")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        sys.exit(f"{wheel.name} lacks the licence: put LICENSE into {folder}")
    run(str(Path(sys.executable).with_name("check-wheel-contents")), str(wheel))


def check_install(wheel: Path) -> str:
    """Install the library's wheel into an empty folder, and return what its command says about its version."""
    with tempfile.TemporaryDirectory() as place:
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index")
        run(sys.executable, *pip, "--target", place, str(wheel))
        here = Path(place)
        home = run(sys.executable, "-c", "import eupg; print(eupg.__file__)", cwd=here, PYTHONPATH=place)
        if not Path(home).is_relative_to(here):
            sys.exit(f"expected to import eupg from {place}, got {home}")
        # Every public name: each is imported when it is first used.
        names = "import eupg; [getattr(eupg, name) for name in eupg.__all__]; print(eupg.__version__)"
        version = run(sys.executable, "-c", names, cwd=here, PYTHONPATH=place)
        said = run(sys.executable, str(here / "bin" / "eupg"), "--version", cwd=here, PYTHONPATH=place)
    if version not in said or f"-{version}-" not in wheel.name:
        sys.exit(f"expected version {version} in {said!r} and in {wheel.name}")
    return said


def main() -> None:
    """Build and check both packages."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for folder, package in ((".", "eupg"), ("reproduction", "eupg_reproduction")):
        wheel, archive = build(folder)
        check_archive(archive, folder)
        check_wheel(wheel, folder, package)
        print(f"{wheel.name} and {archive.name} are complete")
        if package == "eupg":
            print(f"installed from its wheel: {check_install(wheel)}")


main()
