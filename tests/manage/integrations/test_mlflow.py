"""Models in MLflow: the two aliases follow the workspace, and what it deleted is gone there too."""

import hashlib
import importlib
import importlib.util
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from eupg import EUPG, Manager, Seeded, __version__
from eupg.errors import DeletionIncomplete, LockHeld, MissingFramework, ModelFileError, ParameterError, StorageError
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.manage.integrations import mlflow as mlflow_export
from eupg.manage.integrations.mlflow import check_deleted, export_to_mlflow
from eupg.manage.integrations.mlflow_search import artifact_digests
from eupg.manage.storage import workspace
from eupg.manage.storage.change import changing
from eupg.protect import LocalDP
from managed import METHODS, trained
from people import people

METHOD = EUPG(LocalDP(5.0), SklearnLearner(), pretrain=1, finetune=1)
DESCRIPTIONS = {
    *("MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "method.json"),
    *("input_example.json", "serving_input_example.json"),
}
INSTALLED = all(importlib.util.find_spec(name) for name in ("mlflow", "alembic"))
needs_mlflow = pytest.mark.skipif(not INSTALLED, reason="MLflow is not installed: pip install 'eupg[mlflow]'")
pytestmark = [
    # MLflow's own, under newer releases of SQLAlchemy and of Python than it was written for.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # MLflow warns of type hints of its own when its flavour for Python functions is imported.
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning"),
]


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "workspace", METHOD, rng=Seeded(1))
    made.train(people(90))
    yield made
    made.close()


class Server:
    """An MLflow of one's own: a database and a folder of artifacts, beside what somebody else keeps there."""

    def __init__(self, folder) -> None:
        self.folder, self.uri = folder, f"sqlite:///{folder}/mlflow.db"
        self.client = importlib.import_module("mlflow.tracking").MlflowClient(self.uri, self.uri)
        self.client.create_experiment("eupg/people", artifact_location=(folder / "artifacts").as_uri())
        self.place = {"tracking_uri": self.uri}

    def files(self) -> dict[str, Path]:
        """Return all artifacts by their digest, without what MLflow writes to describe a model."""
        found = (p for p in self.folder.rglob("*") if p.is_file() and p.suffix != ".db" and p.name not in DESCRIPTIONS)
        return {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in found}

    def version(self, alias):
        return self.client.get_model_version_by_alias("people", alias)

    def number(self, alias) -> str:
        return str(self.version(alias).version)

    def numbers(self) -> set[str]:
        return {str(v.version) for v in self.client.search_model_versions("name='people'")}

    def collect(self) -> None:
        """Run ``mlflow gc`` in this process, which has loaded MLflow, and undo the address that it sets for all."""
        command = ["gc", "--backend-store-uri", self.uri, "--tracking-uri", self.uri]
        mlflow = importlib.import_module("mlflow")
        with mock.patch.dict(os.environ):
            done = CliRunner().invoke(importlib.import_module("mlflow.cli").cli, command)
            mlflow.set_tracking_uri(None)
        assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A database with MLflow's tables, since making them takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    importlib.import_module("mlflow.tracking").MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return (folder / "mlflow.db").read_bytes()


@pytest.fixture
def server(tmp_path, prepared):
    folder = tmp_path / "mlflow"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(prepared)
    return Server(folder)


def forget(manager, subject="p3") -> str:
    """Forget someone and return the digest of the model that was served until then."""
    before = manager.status().served
    manager.request_erasure(subject=subject)
    manager.forget()
    assert manager.status().served != before
    return before


@needs_mlflow
def test_base_and_production_are_versions_of_one_registered_model(manager, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = export_to_mlflow(manager, name="people", **server.place)
    state = manager.space.state()
    assert (server.number("base"), server.number("production")) == (done.base, done.production)
    assert set(done.uploaded) == set(server.files()) == {state.base, state.served}
    assert done.withdrawn == ()
    # Nothing else was made in the current folder.
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow", "workspace"}


@needs_mlflow
def test_what_production_names_is_the_served_model(manager, server, tmp_path):
    export_to_mlflow(manager, name="people", **server.place)
    source = server.version("production").source
    got = importlib.import_module("mlflow.artifacts").download_artifacts(source, dst_path=str(tmp_path))
    path = Path(got) / "data/eupg" / manager.status().served
    assert path.read_bytes() == manager.space.store.read(manager.status().served)


def table_of(data):
    """Return records as the raw table that a caller has."""
    return pd.DataFrame({a.name: a.decode(data.X[:, j]) for j, a in enumerate(data.schema.features)})


@needs_mlflow
@pytest.mark.parametrize("learner", [SklearnLearner(), XGBoostLearner(), LightGBMLearner(), TorchLearner()])
def test_production_predicts_raw_rows_as_the_manager_does(tmp_path, server, monkeypatch, learner):
    manager = Manager(tmp_path / "ws", EUPG(LocalDP(5.0), learner, pretrain=2, finetune=2), rng=Seeded(1))
    manager.train(people(90))
    export_to_mlflow(manager, name="people", **server.place)
    mlflow = importlib.import_module("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    raw = table_of(people(60, seed=4)).astype({"age": int})
    assert raw.isna().any().any()
    answers = mlflow.pyfunc.load_model("models:/people@production").predict(raw)
    assert np.abs(answers.to_numpy() - manager.predict(raw)).max() <= 1e-6
    assert list(answers) == ["no", "yes"]
    forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    after = mlflow.pyfunc.load_model("models:/people@production").predict(raw)
    assert np.abs(after.to_numpy() - manager.predict(raw)).max() <= 1e-6 < np.abs(answers - after).max().max()
    manager.close()


@needs_mlflow
@pytest.mark.parametrize(("name", "extra"), [("sisa", ""), ("exact-trees", ""), ("leaf-ridge", "[xgboost]")])
def test_production_of_other_methods_predicts_as_the_manager_does(tmp_path, server, monkeypatch, name, extra):
    with trained(tmp_path / "ws", METHODS[name]) as manager:
        done = export_to_mlflow(manager, name="people", **server.place)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        raw = table_of(people(60, seed=4)).astype({"age": int})
        loaded = importlib.import_module("mlflow").pyfunc.load_model("models:/people@production")
        assert np.abs(loaded.predict(raw).to_numpy() - manager.predict(raw)).max() <= 1e-6
        (folder,) = (p.parents[2] for p in server.files().values() if p.name == manager.status().served)
        assert f"eupg{extra}=={__version__}" in (folder / "requirements.txt").read_text().splitlines()
        manager.request_erasure(subject="person-amber-00003")
        manager.forget()
        again = export_to_mlflow(manager, name="people", **server.place)
        assert set(done.uploaded) & set(again.withdrawn)
        assert check_deleted(manager, **server.place).artifacts


@needs_mlflow
def test_a_version_holds_no_code_and_an_example_that_is_nobody(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    (folder,) = (p.parents[2] for p in server.files().values() if p.name == manager.status().served)
    assert [p for p in folder.rglob("*") if p.suffix in (".pkl", ".py")] == []
    example = json.loads((folder / "input_example.json").read_text())["data"]
    assert example == [[50.0, 2500.0, "poor", "A", "x", 0.0]]
    assert "loader_module: eupg.manage.integrations.pyfunc" in (folder / "MLmodel").read_text()
    assert f"eupg=={__version__}" in (folder / "requirements.txt").read_text().splitlines()


@needs_mlflow
def test_a_damaged_version_is_refused(manager, server, monkeypatch):
    # Without an address, MLflow makes a database in the current folder.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    export_to_mlflow(manager, name="people", **server.place)
    (path,) = (p for p in server.files().values() if p.name == manager.status().served)
    path.write_bytes(path.read_bytes()[:-1])
    mlflow = importlib.import_module("mlflow")
    with pytest.raises(ModelFileError, match="does not match its name"):
        mlflow.pyfunc.load_model(str(path.parents[2]))


@needs_mlflow
def test_the_earlier_model_is_gone_from_disk_and_database_without_a_purge(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    earlier, number = manager.space.store.read(manager.status().served), server.number("production")
    run = server.version("production").run_id
    old = forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert not any(earlier in path.read_bytes() or old in str(path) for path in files)
    assert not [path for path in server.folder.rglob(f"*{run}*") if path.is_file() or any(path.rglob("*.*"))]
    with pytest.raises(importlib.import_module("mlflow.exceptions").MlflowException, match="not found"):
        server.client.get_model_version("people", number)
    with sqlite3.connect(server.folder / "mlflow.db") as database:
        assert old not in "\n".join(database.iterdump())


@needs_mlflow
def test_tags_say_what_a_version_is(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    state, tags = manager.space.state(), server.version("production").tags
    assert (tags["eupg.digest"], tags["eupg.base"]) == (state.served, state.base)
    assert (tags["eupg.release"], tags["eupg.claim"]) == (state.releases[-1].digest, manager.status().claim)
    assert (tags["eupg.generation"], tags["eupg.change"]) == ("1", "1")
    number, digest = tags["eupg.ledger_head"].split(":")
    assert digest in {e.digest for e in manager.space.ledger.entries() if e.number == int(number)}


@needs_mlflow
def test_a_second_export_of_the_same_models_changes_nothing(manager, server):
    first = export_to_mlflow(manager, name="people", **server.place)
    before = manager.space.ledger.head()
    second = export_to_mlflow(manager, name="people", **server.place)
    assert (second.base, second.production) == (first.base, first.production)
    assert (second.uploaded, second.withdrawn, manager.space.ledger.head()) == ((), (), before)


@needs_mlflow
def test_after_a_forget_production_moves_and_nothing_is_left_of_the_old_model(manager, server):
    first = export_to_mlflow(manager, name="people", **server.place)
    old = forget(manager)
    second = export_to_mlflow(manager, name="people", **server.place)
    state = manager.space.state()
    assert (second.base, second.uploaded, second.withdrawn) == (first.base, (state.served,), (old,))
    assert server.number("production") == second.production != first.production
    assert set(server.files()) == {state.base, state.served}
    assert old in check_deleted(manager, **server.place).digests
    assert server.numbers() == {second.base, second.production}
    server.collect()
    assert old in check_deleted(manager, **server.place).digests
    assert server.numbers() == {second.base, second.production}
    manager.verify()


@needs_mlflow
def test_an_old_model_that_was_never_withdrawn_is_found(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    old = forget(manager)
    server.collect()
    with pytest.raises(DeletionIncomplete, match=rf"artifact .*/data/eupg/{old} of experiment 'eupg/people'"):
        check_deleted(manager, **server.place)


@needs_mlflow
def test_a_copy_that_somebody_else_made_is_found_whatever_its_name(manager, server, tmp_path):
    export_to_mlflow(manager, name="people", **server.place)
    elsewhere = server.client.create_experiment("elsewhere", artifact_location=(server.folder / "else").as_uri())
    copy = tmp_path / "holiday.jpg"
    copy.write_bytes(manager.space.store.read(manager.status().served))
    server.client.log_artifact(server.client.create_run(elsewhere).info.run_id, str(copy))
    forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    server.collect()
    with pytest.raises(DeletionIncomplete, match=r"found artifact .*holiday.jpg of experiment 'elsewhere': run"):
        check_deleted(manager, **server.place)
    check_deleted(manager, **server.place, experiments=["eupg/people"])
    with pytest.raises(ParameterError, match="no experiment 'elswhere'"):
        check_deleted(manager, **server.place, experiments=["elswhere"])


@needs_mlflow
def test_a_note_about_the_old_model_is_found_in_the_database(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    old = forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    server.collect()
    server.client.set_registered_model_tag("people", "note", f"rolled back from sha256:{old}0")
    with pytest.raises(DeletionIncomplete, match=r"found registered_model_tags\.value: run"):
        check_deleted(manager, **server.place)


@needs_mlflow
def test_what_an_interrupted_upload_left_is_found(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    content = manager.space.store.read(manager.status().served)
    forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    server.collect()
    (server.folder / "artifacts" / ".artifact.uploading.model").write_bytes(content)
    with pytest.raises(DeletionIncomplete, match=r"artifact \.artifact\.uploading\.model"):
        check_deleted(manager, **server.place)


@needs_mlflow
def test_the_ledger_notes_copies_and_their_withdrawal(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    old = forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    state = manager.space.state()
    noted = [
        (e.kind, e.body["what"], e.body["digest"]) for e in manager.space.ledger.entries(kinds=["export", "withdraw"])
    ]
    assert sorted(noted[:2]) == sorted([("export", "base model", state.base), ("export", "served model", old)])
    assert noted[2:] == [("export", "served model", state.served), ("withdraw", "exported model", old)]


@needs_mlflow
@pytest.mark.parametrize(
    "step",
    [
        "create_run",
        "log_artifacts",
        "set_terminated",
        "create_model_version",
        "set_registered_model_alias",
        "delete_model_version_tag",
        "delete_model_version",
        "delete_tag",
        "delete_run",
    ],
)
def test_a_call_that_breaks_down_anywhere_is_completed_by_the_next(manager, server, monkeypatch, step):
    export_to_mlflow(manager, name="people", **server.place)
    old = forget(manager)
    refusal = importlib.import_module("mlflow.exceptions").MlflowException
    client = type(server.client)
    for after in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(client, step, breaking(getattr(client, step), refusal("connection lost"), after=after))
            with pytest.raises(StorageError, match="call again"):
                export_to_mlflow(manager, name="people", **server.place)
    done = export_to_mlflow(manager, name="people", **server.place)
    state = manager.space.state()
    assert (server.number("base"), server.number("production")) == (done.base, done.production)
    assert set(server.files()) == {state.base, state.served}
    assert server.numbers() == {done.base, done.production}
    noted = {e.body["digest"] for e in manager.space.ledger.entries(kinds=["withdraw"])}
    assert noted <= {old}
    server.collect()
    assert old in check_deleted(manager, **server.place).digests


def breaking(method, error, *, after):
    """Return a method that fails once it was called, before or after it does its work."""

    def broken(self, *arguments, **options):
        if after:
            method(self, *arguments, **options)
        raise error

    return broken


@needs_mlflow
def test_a_registered_model_of_another_workspace_is_refused(manager, server, tmp_path):
    export_to_mlflow(manager, name="people", **server.place)
    other = Manager(tmp_path / "other", METHOD, rng=Seeded(2))
    other.train(people(60))
    with pytest.raises(ParameterError, match="belongs to another workspace: export under another name"):
        export_to_mlflow(other, name="people", **server.place)
    other.close()
    assert server.version("production").tags["eupg.digest"] == manager.status().served


@needs_mlflow
def test_a_version_registered_by_hand_is_left_alone(manager, server):
    export_to_mlflow(manager, name="people", **server.place)
    mine = server.client.create_model_version("people", (server.folder / "mine").as_uri())
    forget(manager)
    export_to_mlflow(manager, name="people", **server.place)
    assert str(mine.version) in server.numbers()


@needs_mlflow
def test_where_the_base_model_is_served_both_aliases_name_one_version(manager, server, monkeypatch):
    state = manager.space.state()
    monkeypatch.setattr(manager.space, "state", lambda: replace(state, served=state.base))
    done = export_to_mlflow(manager, name="people", **server.place)
    assert (done.base, len(done.uploaded)) == (done.production, 1)
    assert server.number("base") == server.number("production")


@needs_mlflow
def test_nothing_is_exported_while_the_workspace_changes(manager, server, monkeypatch):
    monkeypatch.setattr(workspace, "_PATIENCE_S", 0.05)
    other = Manager(manager.space.folder)
    with changing(other.space, "forget"), pytest.raises(LockHeld, match="forget"):
        export_to_mlflow(manager, name="people", **server.place)
    other.close()
    assert server.client.search_registered_models() == []


@needs_mlflow
@pytest.mark.parametrize("name", ["", "a/b", "it's", "a" * 300, None])
def test_a_name_that_mlflow_could_misread_is_refused(manager, server, name):
    with pytest.raises(ParameterError, match="named by up to 200 letters"):
        export_to_mlflow(manager, name=name, **server.place)


@needs_mlflow
@pytest.mark.parametrize("driver", ["nodriver", "oursql"])
def test_a_place_that_cannot_be_opened_is_an_error_without_its_password(manager, driver):
    with pytest.raises((StorageError, MissingFramework), match="MLflow") as raised:
        export_to_mlflow(manager, name="people", tracking_uri=f"mysql+{driver}://me:secretword@localhost/db")
    assert "secretword" not in str(raised.value)


@pytest.mark.parametrize("call", [lambda m, **p: export_to_mlflow(m, name="people", **p), check_deleted])
def test_without_mlflow_the_extra_is_named(manager, monkeypatch, call):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="mlflow")

    monkeypatch.setattr(mlflow_export.importlib, "import_module", absent)
    with pytest.raises(MissingFramework, match=r"needs mlflow: pip install 'eupg\[mlflow\]'"):
        call(manager, tracking_uri="sqlite://")


def test_artifacts_elsewhere_are_read_through_their_listing():
    held = {"a/model": b"one", "a/b/model": b"two", "top": b"three"}

    class Remote:
        def list_artifacts(self, path=None):
            start = f"{path}/" if path else ""
            names = {k[len(start) :].split("/")[0] for k in held if k.startswith(start)}
            return [SimpleNamespace(path=start + n, is_dir=start + n not in held) for n in sorted(names)]

        def download_artifacts(self, path, dst_path):
            to = Path(dst_path) / "file"
            to.write_bytes(held[path])
            return str(to)

    assert dict(artifact_digests(Remote())) == {k: hashlib.sha256(v).hexdigest() for k, v in held.items()}
