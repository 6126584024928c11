"""The models of a workspace in MLflow: versions of one registered model, with the aliases ``base`` and ``production``.

Each version is one run with one file, named by its digest, in the experiment ``eupg/<name>`` (make that beforehand to
choose where artifacts lie). :func:`export_to_mlflow` makes MLflow match the workspace, whatever an earlier call left
undone: what is missing is uploaded, what the workspace gave up is deleted. Call it after every change of the workspace;
until then MLflow keeps the model before. It only marks runs as deleted, so run ``mlflow gc`` after it, and
:func:`check_deleted` to see that nothing is left.

A version holds the model's file as the workspace has it, not a flavour of MLflow's. Load it with the learner that made
it; its ``predict_proba`` takes a table and matches the columns by name (:mod:`eupg.data.rows`).

MLflow reports its own use to its makers unless ``MLFLOW_DISABLE_TELEMETRY=true`` is set.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from eupg.errors import EupgError, MissingFramework, ParameterError, StorageError
from eupg.guarantees import guarantee_from_json
from eupg.manage.current import Current
from eupg.manage.intake import changing
from eupg.manage.manager import Manager
from eupg.manage.mlflow_search import Searched, all_pages, refuse_leftovers, search_artifacts, search_backend
from eupg.manage.store import Digest
from eupg.manage.workspace import Workspace

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,199}")
_OWNER, _DIGEST = "eupg.ledger", "eupg.digest"


@dataclass(frozen=True)
class Exported:
    """What MLflow holds after an export.

    Parameters
    ----------
    base, production
        The versions that the two aliases name.
    uploaded
        Digests of the models that were missing there.
    withdrawn
        Digests of the models that were deleted there; ``mlflow gc`` takes away the rest of their runs.
    """

    base: str
    production: str
    uploaded: tuple[Digest, ...]
    withdrawn: tuple[Digest, ...]


def export_to_mlflow(manager: Manager, *, name: str, tracking_uri: str, registry_uri: str | None = None) -> Exported:
    """Register the base and the served model, and delete from MLflow what the workspace gave up.

    Parameters
    ----------
    manager
        Whose models these are. Nothing else may change its workspace meanwhile.
    name
        The registered model; it belongs to this workspace alone.
    tracking_uri, registry_uri
        Where MLflow lives, as ``mlflow.set_tracking_uri`` takes it; one place for both unless two are named.

    Raises
    ------
    MissingFramework
        If MLflow is not installed.
    ParameterError
        If the name cannot be used, or a registered model of that name belongs to something else.
    StorageError
        If MLflow refuses or cannot be reached. Call again: what was left undone is done then.
    """
    _check_name(name)
    mlflow = _Mlflow.connect(tracking_uri, registry_uri)
    space = manager.space
    with changing(space, "export to MLflow"), _translated():
        current = space.current()
        with space.ledger.snapshot() as snapshot:
            owner = snapshot.genesis()
        shelf = _Shelf.claim(mlflow, name, owner)
        wanted = {"base": current.base, "production": current.served}
        missing = sorted(set(wanted.values()) - shelf.versions().keys())
        for digest in missing:
            what = "served model" if digest == current.served else "base model"
            # Before the copy is made: a note too many is harmless, a copy that nobody knows of is not.
            space.ledger.append("export", {"what": what, "digest": digest, "to": "mlflow"})
            shelf.upload(space, digest, _tags(space, current, digest))
        held = shelf.versions()
        for alias, digest in wanted.items():
            shelf.point(alias, held[digest])
        withdrawn = set()
        for digest in shelf.withdraw_all_but({held[digest] for digest in wanted.values()}):
            # A copy that never became a version may be withdrawn beside the one that did.
            if digest not in wanted.values():
                space.ledger.append("withdraw", {"what": "exported model", "digest": digest, "from": "mlflow"})
                withdrawn.add(digest)
        return Exported(held[current.base], held[current.served], tuple(missing), tuple(sorted(withdrawn)))


def check_deleted(
    manager: Manager, *, tracking_uri: str, registry_uri: str | None = None, experiments: Sequence[str] | None = None
) -> Searched:
    """Search MLflow for everything that the workspace ever deleted; return what was searched, or raise.

    Run it after ``mlflow gc``. Every artifact of every experiment is read and its digest compared with those in the
    ledger, whoever put it there and under whatever name. A database is searched in every text of every table; of a
    tracking server only what it shows is searched, and it does not show registered versions that were deleted.

    Parameters
    ----------
    manager
        Whose ledger says what was deleted.
    tracking_uri, registry_uri
        Where MLflow lives.
    experiments
        Names of the experiments whose artifacts are searched; all, unless some are named.

    Raises
    ------
    DeletionIncomplete
        Naming the places where something is left.
    """
    mlflow = _Mlflow.connect(tracking_uri, registry_uri)
    current = manager.space.current()
    deleted = {str(entry.body["digest"]) for entry in manager.space.ledger.entries(kinds=["delete"])}
    # The same records in the same order may give the same file again.
    gone = frozenset(deleted - current.live_files - current.live_records)
    with _translated():
        artifacts, found = search_artifacts(mlflow.client, mlflow.artifacts, gone, experiments)
        texts = 0
        for uri in dict.fromkeys((tracking_uri, registry_uri or tracking_uri)):
            seen, places = search_backend(mlflow.client, uri, gone)
            texts, found = texts + seen, [*found, *places]
    refuse_leftovers(found)
    return Searched(tuple(sorted(gone)), artifacts, texts)


@dataclass(frozen=True)
class _Mlflow:
    """MLflow itself: a client, and what opens a place where artifacts lie."""

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
class _Shelf:
    """One registered model and the experiment behind it, both of one workspace."""

    mlflow: _Mlflow
    name: str
    owner: str
    experiment: str

    @classmethod
    def claim(cls, mlflow: _Mlflow, name: str, owner: str) -> _Shelf:
        """Find the registered model of this workspace, or make it."""
        client = mlflow.client
        found = client.search_registered_models(f"name='{name}'")
        if not found:
            client.create_registered_model(name, tags={_OWNER: owner})
        elif found[0].tags.get(_OWNER) != owner:
            raise ParameterError(f"the registered model {name!r} is not of this workspace: export under another name")
        experiment = client.get_experiment_by_name(f"eupg/{name}")
        number = client.create_experiment(f"eupg/{name}") if experiment is None else experiment.experiment_id
        return cls(mlflow, name, owner, number)

    def versions(self) -> dict[Digest, str]:
        """Return the versions that are whole, by the digest of their model; of twins the later one."""
        runs = {run.info.run_id: run.data.tags[_DIGEST] for run in self._runs()}
        whole = [v for v in self._registered() if v.run_id in runs and v.tags.get(_DIGEST) == runs[v.run_id]]
        return {runs[v.run_id]: str(v.version) for v in whole}

    def upload(self, space: Workspace, digest: Digest, tags: Mapping[str, str]) -> None:
        """Put a model file into a run of its own and register it."""
        client = self.mlflow.client
        run = client.create_run(self.experiment, tags={_OWNER: self.owner, _DIGEST: digest}).info
        client.log_artifact(run.run_id, str(space.store.path(digest)), "model")
        client.set_terminated(run.run_id)
        # The version comes last, with all its tags: where there is one, its file is there.
        client.create_model_version(self.name, f"{run.artifact_uri}/model", run.run_id, tags=dict(tags))

    def point(self, alias: str, version: str) -> None:
        """Let an alias name a version."""
        self.mlflow.client.set_registered_model_alias(self.name, alias, version)

    def withdraw_all_but(self, kept: set[str]) -> Iterator[Digest]:
        """Delete every other version of this workspace with its run, and runs that never became one."""
        client, registered, runs = self.mlflow.client, self._registered(), self._runs()
        mine, needed = {run.info.run_id for run in runs}, {v.run_id for v in registered if str(v.version) in kept}
        for version in registered:
            # One that somebody registered here by hand is left alone.
            if str(version.version) not in kept and (version.run_id in mine or _DIGEST in version.tags):
                # MLflow keeps the tags of a deleted version for good.
                for tag in version.tags:
                    client.delete_model_version_tag(self.name, version.version, tag)
                client.delete_model_version(self.name, version.version)
        for run in runs:
            if run.info.run_id not in needed:
                self.mlflow.artifacts(run.info.artifact_uri).delete_artifacts()
                # Last, since the next call would not find a deleted run again.
                client.delete_run(run.info.run_id)
                yield run.data.tags[_DIGEST]

    def _registered(self) -> list[Any]:
        search: Callable[..., Any] = self.mlflow.client.search_model_versions
        found = all_pages(lambda token: search(f"name='{self.name}'", page_token=token))
        return sorted(found, key=lambda version: int(version.version))

    def _runs(self) -> list[Any]:
        search: Callable[..., Any] = self.mlflow.client.search_runs
        mine = f"tags.`{_OWNER}` = '{self.owner}'"
        return all_pages(lambda token: search([self.experiment], mine, page_token=token))


def _tags(space: Workspace, current: Current, digest: Digest) -> dict[str, str]:
    """Return what a version says about itself, as of now."""
    head, release = space.ledger.head(), current.releases[-1]
    return {
        _DIGEST: digest,
        "eupg.base": current.base,
        "eupg.release": release.digest,
        "eupg.claim": guarantee_from_json(release.claim).sentence(),
        "eupg.generation": str(len(current.releases)),
        "eupg.change": str(current.number),
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
    """Turn what MLflow raises into errors of this library."""
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
        # Its own words may hold an address with a password: they stand in the cause.
        why = getattr(error, "error_code", type(error).__name__)
        raise StorageError(
            f"MLflow did not do what was asked ({why}): the cause says more; mend it and call again, what is undone "
            "is done then"
        ) from error
