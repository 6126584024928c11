"""The models of a workspace in MLflow: versions of one registered model, with the aliases ``base`` and ``production``.

Each version is one run, in the experiment ``eupg/<name>`` (make it beforehand to choose the place of its artifacts),
and a model that ``mlflow.pyfunc.load_model`` loads (:mod:`eupg.manage.integrations.pyfunc`). :func:`export_to_mlflow`
makes MLflow match the workspace: it uploads what is missing and deletes what the workspace gave up, also after a call
that was interrupted. Call it after every change of the workspace; until then MLflow keeps the earlier model. Files,
version and the digest in the run's tags are deleted. An empty run, marked as deleted, stays until ``mlflow gc``.
:func:`check_deleted` checks that nothing is left. MLflow reports its use to its makers unless
``MLFLOW_DISABLE_TELEMETRY=true`` is set.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from eupg.errors import EupgError, MissingFramework, ParameterError, StorageError
from eupg.guarantees import guarantee_from_json
from eupg.manage.integrations.mlflow_search import (
    Searched,
    all_pages,
    refuse_leftovers,
    search_artifacts,
    search_backend,
)
from eupg.manage.integrations.pyfunc import save_pyfunc
from eupg.manage.manager import Manager
from eupg.manage.requests.intake import changing
from eupg.manage.storage.state import WorkspaceState
from eupg.manage.storage.store import Digest
from eupg.manage.storage.workspace import Workspace
from eupg.temporary import TemporaryFolder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,199}")
_OWNER, _DIGEST = "eupg.ledger", "eupg.digest"


@dataclass(frozen=True)
class Exported:
    """What MLflow holds after an export: the versions of the two aliases, and what changed, as digests of models."""

    base: str | None
    production: str
    uploaded: tuple[Digest, ...]
    withdrawn: tuple[Digest, ...]


def export_to_mlflow(manager: Manager, *, name: str, tracking_uri: str, registry_uri: str | None = None) -> Exported:
    """Register the base and the served model, and delete from MLflow what the workspace gave up.

    Nothing else may change the workspace meanwhile. After an error (:class:`StorageError`), call again to complete the
    export.

    Parameters
    ----------
    manager
        The manager of the models.
    name
        The registered model; it belongs to this workspace alone.
    tracking_uri, registry_uri
        The addresses of MLflow, as ``mlflow.set_tracking_uri`` accepts them; the first serves for both by default.
    """
    _check_name(name)
    mlflow = _Mlflow.connect(tracking_uri, registry_uri)
    space = manager.space
    with changing(space, "export to MLflow"), _translated():
        state = space.state()
        with space.ledger.snapshot() as snapshot:
            owner = snapshot.genesis()
        registered = _RegisteredModel.claim(mlflow, name, owner)
        aliases = {"production": state.served} | ({} if state.base is None else {"base": state.base})
        missing = sorted(set(aliases.values()) - registered.versions().keys())
        for digest in missing:
            what = "served model" if digest == state.served else "base model"
            # Before the copy is made: a superfluous note is harmless, an unknown copy is not.
            space.ledger.append("export", {"what": what, "digest": digest, "to": "mlflow"})
            registered.upload(space, digest, _tags(space, state, digest))
        held = registered.versions()
        for alias, digest in aliases.items():
            registered.point(alias, held[digest])
        withdrawn = set()
        for digest in registered.withdraw_all_but({held[digest] for digest in aliases.values()}):
            # A copy that never became a version may be withdrawn beside the one that did.
            if digest not in aliases.values():
                space.ledger.append("withdraw", {"what": "exported model", "digest": digest, "from": "mlflow"})
                withdrawn.add(digest)
        base = None if state.base is None else held[state.base]
        return Exported(base, held[state.served], tuple(missing), tuple(sorted(withdrawn)))


def check_deleted(
    manager: Manager, *, tracking_uri: str, registry_uri: str | None = None, experiments: Sequence[str] | None = None
) -> Searched:
    """Search MLflow for everything that the workspace ever deleted; return what was searched, or raise.

    Every artifact of these experiments (by default all) is read, and its digest compared
    with those in the ledger, under whatever name. In a database, every text of every table is searched. A tracking
    server is searched as far as it shows its content, which leaves out registered versions that were deleted.
    """
    mlflow = _Mlflow.connect(tracking_uri, registry_uri)
    state = manager.space.state()
    deleted = {str(entry.body["digest"]) for entry in manager.space.ledger.entries(kinds=["delete"])}
    # The same records in the same order may give the same file again.
    gone = frozenset(deleted - state.live_files - state.live_records)
    with _translated():
        artifacts, leftovers = search_artifacts(mlflow.client, mlflow.artifacts, gone, experiments)
        texts = 0
        for uri in dict.fromkeys((tracking_uri, registry_uri or tracking_uri)):
            seen, places = search_backend(mlflow.client, uri, gone)
            texts, leftovers = texts + seen, [*leftovers, *places]
    refuse_leftovers(leftovers)
    return Searched(tuple(sorted(gone)), artifacts, texts)


@dataclass(frozen=True)
class _Mlflow:
    """MLflow itself: a client, and the function that opens a place of artifacts."""

    client: Any
    artifacts: Any

    @classmethod
    def connect(cls, tracking_uri: str, registry_uri: str | None) -> _Mlflow:
        try:
            tracking = importlib.import_module("mlflow.tracking")
            opening = importlib.import_module("mlflow.store.artifact.artifact_repository_registry")
        except ModuleNotFoundError as error:
            raise MissingFramework(f"an export to MLflow needs {error.name}: pip install 'eupg[mlflow]'") from error
        with _translated():
            client = tracking.MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
        return cls(client, opening.get_artifact_repository)


@dataclass(frozen=True)
class _RegisteredModel:
    """One registered model and its experiment, both of one workspace."""

    mlflow: _Mlflow
    name: str
    owner: str
    experiment: str

    @classmethod
    def claim(cls, mlflow: _Mlflow, name: str, owner: str) -> _RegisteredModel:
        """Find the registered model of this workspace, or make it."""
        client = mlflow.client
        models = client.search_registered_models(f"name='{name}'")
        if not models:
            client.create_registered_model(name, tags={_OWNER: owner})
        elif models[0].tags.get(_OWNER) != owner:
            raise ParameterError(
                f"the registered model {name!r} belongs to another workspace: export under another name"
            )
        experiment = client.get_experiment_by_name(f"eupg/{name}")
        number = client.create_experiment(f"eupg/{name}") if experiment is None else experiment.experiment_id
        return cls(mlflow, name, owner, number)

    def versions(self) -> dict[Digest, str]:
        """Return the complete versions by the digest of their model; of equal ones the later."""
        runs = {run.info.run_id: run.data.tags.get(_DIGEST, "") for run in self._runs()}
        whole = [v for v in self._versions() if v.run_id in runs and v.tags.get(_DIGEST) == runs[v.run_id]]
        return {runs[v.run_id]: str(v.version) for v in whole}

    def upload(self, space: Workspace, digest: Digest, tags: Mapping[str, str]) -> None:
        """Put a model into a run of its own and register it."""
        client = self.mlflow.client
        run = client.create_run(self.experiment, tags={_OWNER: self.owner, _DIGEST: digest}).info
        with TemporaryFolder() as folder:
            save_pyfunc(folder / "model", space, digest, tracking_uri=client.tracking_uri)
            client.log_artifacts(run.run_id, f"{folder}/model", "model")
        client.set_terminated(run.run_id)
        # The version comes last, with all its tags: if it exists, so does its file.
        client.create_model_version(self.name, f"{run.artifact_uri}/model", run.run_id, tags=dict(tags))

    def point(self, alias: str, version: str) -> None:
        """Let an alias name a version."""
        self.mlflow.client.set_registered_model_alias(self.name, alias, version)

    def withdraw_all_but(self, kept: set[str]) -> Iterator[Digest]:
        """Delete every other version of this workspace with its run, and runs without a version."""
        client, versions, runs = self.mlflow.client, self._versions(), self._runs()
        mine, needed = {run.info.run_id for run in runs}, {v.run_id for v in versions if str(v.version) in kept}
        for version in versions:
            # A version that somebody registered by hand is left alone.
            if str(version.version) not in kept and (version.run_id in mine or _DIGEST in version.tags):
                # MLflow keeps the tags of a deleted version for good.
                for tag in version.tags:
                    client.delete_model_version_tag(self.name, version.version, tag)
                client.delete_model_version(self.name, version.version)
        for run in runs:
            if run.info.run_id not in needed:
                place = self.mlflow.artifacts(run.info.artifact_uri)
                place.delete_artifacts()
                folder = Path(getattr(place, "artifact_dir", ""))
                if (folder.parent / "meta.yaml").is_file():
                    # A store of files takes a run without this folder for damaged.
                    folder.mkdir(exist_ok=True)
                digest = run.data.tags.get(_DIGEST)
                if digest is not None:
                    # Noted before the run forgets which model it held.
                    yield digest
                    # MLflow keeps the tags of a deleted run until it is purged.
                    client.delete_tag(run.info.run_id, _DIGEST)
                # Last, since the next call would not find a deleted run again.
                client.delete_run(run.info.run_id)

    def _versions(self) -> list[Any]:
        search: Callable[..., Any] = self.mlflow.client.search_model_versions
        versions = all_pages(lambda token: search(f"name='{self.name}'", page_token=token))
        return sorted(versions, key=lambda version: int(version.version))

    def _runs(self) -> list[Any]:
        search: Callable[..., Any] = self.mlflow.client.search_runs
        mine = f"tags.`{_OWNER}` = '{self.owner}'"
        return all_pages(lambda token: search([self.experiment], mine, page_token=token))


def _tags(space: Workspace, state: WorkspaceState, digest: Digest) -> dict[str, str]:
    """Return what a version says about itself, as of now."""
    head = space.ledger.head()
    made = {} if state.base is None else {"eupg.base": state.base, "eupg.release": state.releases[-1].digest}
    return made | {
        _DIGEST: digest,
        "eupg.claim": guarantee_from_json(state.claim).sentence(),
        "eupg.generation": str(len(state.releases)),
        "eupg.change": str(state.number),
        "eupg.ledger_head": f"{head.number}:{head.digest}",
    }


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"a registered model is named by up to 200 letters, digits, spaces and _.-, beginning with a letter or "
            f"digit, got {name!r:.80}"
        )


@contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of MLflow into errors of this library."""
    refusal: Any = importlib.import_module("mlflow.exceptions").MlflowException
    try:
        yield
    except EupgError:
        raise
    except ModuleNotFoundError as error:
        raise MissingFramework(
            f"MLflow needs {error.name} for this address: install it beside what pip install 'eupg[mlflow]' brings"
        ) from error
    except (refusal, NotImplementedError, SQLAlchemyError) as error:
        # The message of MLflow may contain an address with a password: it is only in the cause.
        why = getattr(error, "error_code", type(error).__name__)
        raise StorageError(
            f"MLflow refused ({why}): the cause of this error says more; correct it and call again to complete the "
            "export"
        ) from error
