"""Search MLflow for files that should be gone: every artifact by its digest, every text for a digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, MetaData, String, Table, Text, cast, create_engine, inspect, select

from eupg.errors import DeletionIncomplete, ParameterError
from eupg.manage.storage.store import Digest
from eupg.temporary import TemporaryFolder

_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# Overlapping, so that a digest is also found among further such digits.
_DIGESTS = re.compile(r"(?=([0-9a-f]{64}))")
# MLflow's number for "marked as deleted or not".
_ALL = 3
_NAMED = 5


@dataclass(frozen=True)
class Searched:
    """The digests that were searched for and not found, and the number of files and texts that were read."""

    digests: tuple[Digest, ...]
    artifacts: int
    texts: int


def search_artifacts(
    client: Any, opened: Callable[[str], Any], gone: Collection[Digest], experiments: Sequence[str] | None
) -> tuple[int, list[str]]:
    """Read every artifact of experiments, deleted runs included; return their number and those that should be gone."""
    known = {e.name: e for e in all_pages(lambda token: client.search_experiments(view_type=_ALL, page_token=token))}
    for name in experiments or ():
        if name not in known:
            raise ParameterError(f"there is no experiment {name!r} in MLflow: check the name, or search all of them")
    number, leftovers = 0, []
    for name in known if experiments is None else experiments:
        for path, digest in artifact_digests(opened(known[name].artifact_location)):
            number += 1
            if digest in gone:
                leftovers.append(f"artifact {path} of experiment {name!r}")
    return number, leftovers


def artifact_digests(place: Any) -> Iterator[tuple[str, Digest]]:
    """Yield the path and digest of every file in a place of artifacts."""
    folder = getattr(place, "artifact_dir", None)
    if folder is None:
        yield from _remote_digests(place, None)
        return
    # MLflow's own listing leaves out the remains of an interrupted upload.
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), _digest_of(path)


def search_backend(client: Any, uri: str, gone: Collection[Digest]) -> tuple[int, list[str]]:
    """Read every text that MLflow keeps about runs and models; return their number and the places of digests."""
    database = re.split(r"[+:]", uri)[0] in _DATABASES
    number, places = 0, dict[str, None]()
    for place, text in _database_texts(uri) if database else _shown_texts(client):
        number += 1
        if not set(_DIGESTS.findall(text)).isdisjoint(gone):
            places[place] = None
    return number, list(places)


def refuse_leftovers(leftovers: Sequence[str]) -> None:
    """Raise if anything was found."""
    if leftovers:
        more = f" and {len(leftovers) - _NAMED} more" if len(leftovers) > _NAMED else ""
        raise DeletionIncomplete(
            f"expected no trace in MLflow of what was deleted here, found {'; '.join(leftovers[:_NAMED])}{more}: "
            "run export_to_mlflow, then 'mlflow gc', and remove by hand what is still there"
        )


def all_pages(page: Callable[[str | None], Any]) -> list[Any]:
    """Return everything that a search finds, page by page."""
    results: list[Any] = []
    token: str | None = None
    while True:
        part = page(token)
        results += part
        token = part.token
        if not token:
            return results


def _remote_digests(place: Any, folder: str | None) -> Iterator[tuple[str, Digest]]:
    for info in place.list_artifacts(folder):
        if info.is_dir:
            yield from _remote_digests(place, info.path)
        else:
            with TemporaryFolder() as here:
                yield info.path, _digest_of(Path(place.download_artifacts(info.path, dst_path=here)))


def _digest_of(path: Path) -> Digest:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _database_texts(uri: str) -> Iterator[tuple[str, str]]:
    engine = create_engine(uri)
    try:
        with engine.connect() as connection:
            for name in inspect(connection).get_table_names():
                yield from _table_texts(
                    connection, Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
                )
    finally:
        engine.dispose()


def _table_texts(connection: Connection, table: Table) -> Iterator[tuple[str, str]]:
    columns = [c for c in table.columns if isinstance(c.type, (String, JSON))]
    if columns:
        for row in connection.execute(select(*(cast(c, Text) for c in columns))):
            for column, text in zip(columns, row, strict=True):
                if text is not None:
                    yield f"{table.name}.{column.name}", str(text)


def _shown_texts(client: Any) -> Iterator[tuple[str, str]]:
    """Yield what a server shows about runs, deleted ones included, and about registered models."""
    experiments = all_pages(lambda token: client.search_experiments(view_type=_ALL, page_token=token))
    ids = [e.experiment_id for e in experiments]
    for run in all_pages(lambda token: client.search_runs(ids, run_view_type=_ALL, page_token=token)):
        yield f"run {run.info.run_id}", str(run.to_dictionary())
    for model in all_pages(lambda token: client.search_registered_models(page_token=token)):
        yield f"registered model {model.name!r}", str(dict(model))
    for version in all_pages(lambda token: client.search_model_versions(page_token=token)):
        yield f"version {version.version} of {version.name!r}", str(dict(version))
