"""A workspace knows its own keys, settings and ledger: what was lost or replaced is refused, never made anew."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sklearn.preprocessing import FunctionTransformer

from eupg import EUPG, Manager
from eupg.errors import KeyFileError, LedgerMissing, ModelFileError, WorkspaceDamaged
from eupg.learn import SklearnLearner
from eupg.manage.integrations.webhook import handle
from eupg.manage.requests.states import State
from eupg.manage.storage.change import changing, switch
from eupg.protect import LocalDP
from managed import HELD_OUT, LOOK, METHOD, NEWCOMERS, RECORDS, RNG, person, trained


@pytest.fixture
def folder(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        manager.request_erasure(subject=person(3))
    return tmp_path / "workspace"


@pytest.fixture
def reopened(folder):
    manager = Manager(folder, rng=RNG)
    yield manager
    manager.close()


KEYS = ["digest.key", "signing.key"]


class TestKeys:
    def test_lost_digest_key_is_not_made_anew_and_nobody_is_turned_away(self, folder, reopened):
        (folder / "keys" / "digest.key").unlink()
        for step in (lambda: reopened.request_erasure(subject=person(4)), lambda: reopened.add(NEWCOMERS)):
            with pytest.raises(KeyFileError, match=r"is missing.*restore it from a backup"):
                step()
        assert not (folder / "keys" / "digest.key").exists()
        assert {r.state for r in reopened.space.book.open_requests()} == {State.ACCEPTED}

    def test_other_digest_key_is_refused(self, folder, reopened):
        (folder / "keys" / "digest.key").write_bytes(os.urandom(32))
        with pytest.raises(KeyFileError, match="not the key that this workspace was made with"):
            reopened.request_erasure(subject=person(4))

    @pytest.mark.parametrize("name", KEYS)
    def test_lost_key_is_found_by_verify(self, folder, reopened, name):
        (folder / "keys" / name).unlink()
        with pytest.raises(KeyFileError, match=f"{name} is missing"):
            reopened.verify()

    def test_lost_or_other_signing_key_signs_nothing(self, folder, reopened, tmp_path):
        reopened.forget()
        (folder / "keys" / "signing.key").unlink()
        with pytest.raises(KeyFileError, match="is missing"):
            reopened.certify()
        with trained(tmp_path / "other") as other:
            shutil.copytree(other.space.folder / "keys", tmp_path / "theirs")
        for name in ("signing.key", "signing.pub"):
            shutil.copy(tmp_path / "theirs" / name, folder / "keys" / name)
        with pytest.raises(KeyFileError, match="not the key that this workspace was made with"):
            reopened.certify()

    def test_verify_computes_the_index_of_people_again(self, folder, reopened):
        """An index made with another key, with which no request would find its person."""
        space = reopened.space
        state, (data, held) = space.state(), space.read(space.state())
        index = type(space.index(state)).empty()
        index = index.plus(data, b"x" * 32, held_out=False).plus(held, b"x" * 32, held_out=True)
        index = index.released(None).exposing(space.index(state).exposed[: len(data)])
        with changing(space, "test"):
            switch(space, state.followed_by((), index=space.store.put(index.to_bytes())))
        with pytest.raises(WorkspaceDamaged, match="the index of people does not fit"):
            reopened.verify()

    def test_none_is_made_where_only_the_ledger_knows_of_a_model(self, folder):
        """A disk that was not mounted: pointer, store and records are not there, and neither is the key."""
        (folder / "current.json").unlink()
        for name in ("store", "records", "keys"):
            shutil.rmtree(folder / name)
        again = Manager(folder, METHOD, rng=RNG)
        for step in (lambda: again.space.key, lambda: again.space.signing):
            with pytest.raises(KeyFileError, match="is missing"):
                step()
        with pytest.raises(WorkspaceDamaged):
            again.train(RECORDS, hold_out=HELD_OUT)
        assert not (folder / "keys").exists()
        again.close()

    def test_no_secret_is_in_the_ledger(self, folder, reopened):
        key = (folder / "keys" / "digest.key").read_bytes()
        noted = json.dumps([dict(e.body) for e in reopened.space.ledger.entries(kinds=["keys"])])
        assert "digest_key" in noted
        assert key.hex() not in noted


class TestSettings:
    @pytest.mark.parametrize(
        ("old", "new"), [('"epsilon\\": 4.0', '"epsilon\\": 0.1'), ("not_covered = []", 'not_covered = ["x"]')]
    )
    def test_changed_by_hand_are_refused(self, folder, reopened, old, new):
        path = folder / "workspace.toml"
        text = path.read_text().replace(old.replace("\\", ""), new.replace("\\", ""))
        text = text.replace(old, new)
        assert text != path.read_text()
        path.write_text(text)
        again = Manager(folder, rng=RNG)
        for step in (again.verify, again.forget, lambda: again.predict(LOOK)):
            with pytest.raises(WorkspaceDamaged, match=r"workspace\.toml is not what the ledger noted"):
                step()
        again.close()

    def test_changed_or_lost_are_refused_by_every_look_and_request(self, folder, reopened):
        def change(path):
            path.write_text(path.read_text() + "\n# a note\n")

        for spoil, words in ((change, "is not what the ledger noted"), (Path.unlink, "is missing")):
            spoil(folder / "workspace.toml")
            again = Manager(folder, rng=RNG)
            # One that was open before finds it, too.
            for manager in (again, reopened):
                before = manager.space.book.open_requests() if "ledger" in manager.space.__dict__ else None
                pending = lambda m=manager: m.request_erasure(subject=person(5), accept=False)  # noqa: E731
                for step in (manager.status, pending, lambda m=manager: m.predict(LOOK), manager.verify):
                    with pytest.raises(WorkspaceDamaged, match=words):
                        step()
                assert before is None or manager.space.book.open_requests() == before
            again.close()

    def test_of_another_format_are_refused(self, folder):
        path = folder / "workspace.toml"
        path.write_text(path.read_text().replace("eupg-workspace-1", "eupg-workspace-9"))
        with pytest.raises(WorkspaceDamaged, match="eupg-workspace-9"):
            Manager(folder)


class TestLedger:
    def test_missing_is_refused_and_not_made_anew(self, folder):
        for path in folder.glob("ledger.db*"):
            path.unlink()
        again = Manager(folder, rng=RNG)
        for step in (lambda: again.request_erasure(subject=person(4)), again.status, again.verify, again.forget):
            with pytest.raises(LedgerMissing, match="restore it from a backup"):
                step()
        assert not (folder / "ledger.db").exists()

    def test_missing_with_the_pointer_deletes_nothing(self, folder):
        for name in ("ledger.db", "current.json"):
            (folder / name).unlink()
        before = {path for path in folder.rglob("*") if path.is_file()}
        again = Manager(folder, METHOD, rng=RNG)
        with pytest.raises(LedgerMissing):
            again.train(RECORDS, hold_out=HELD_OUT)
        assert {path for path in folder.rglob("*") if path.is_file()} - {folder / "lock"} == before - {folder / "lock"}

    def test_emptied_acknowledges_nothing(self, folder, tmp_path):
        (folder / "ledger.db").unlink()
        with closing(Manager(tmp_path / "new", METHOD, rng=RNG)) as new:
            assert new.space.ledger.head().number == 0
        shutil.copy(tmp_path / "new" / "ledger.db", folder / "ledger.db")
        again = Manager(folder, rng=RNG)
        with pytest.raises(WorkspaceDamaged, match="not what the ledger last noted"):
            again.request_erasure(subject=person(4))
        again.close()

    def test_dropped_from_its_database_is_refused(self, tmp_path, places, url):
        with trained(tmp_path / "w", ledger=url) as manager:
            assert manager.request_erasure(subject=person(3)).state is State.ACCEPTED
        tables = ("requests", "entries", "ledger", "schema_version")
        places.sql(url, *(f"DROP TABLE {name}" for name in tables))
        again = Manager(tmp_path / "w", rng=RNG)
        for step in (lambda: again.request_erasure(subject=person(4)), again.status, again.forget):
            with pytest.raises(LedgerMissing, match="holds no ledger"):
                step()
        again.close()


class TestPointer:
    def test_lost_is_damage_and_not_a_workspace_without_people(self, folder, reopened):
        (folder / "current.json").unlink()
        message = {"action": "erase", "identity": {"subject": person(4)}}
        for step in (lambda: reopened.request_erasure(subject=person(4)), reopened.status, reopened.verify):
            with pytest.raises(WorkspaceDamaged, match=r"current\.json is"):
                step()
        with pytest.raises(WorkspaceDamaged, match=r"current\.json is missing"):
            handle(reopened, message)


class TestForeignWorkspace:
    def test_does_not_choose_which_types_are_loaded(self, tmp_path, monkeypatch):
        """The list of trusted types in a foreign workspace's settings is not followed."""
        learner = SklearnLearner(trusted=("builtins.eval", "operator.methodcaller"))
        with trained(tmp_path / "w", EUPG(LocalDP(4.0), learner, pretrain=1, finetune=1)) as manager:
            assert "builtins.eval" in json.dumps(manager.space.settings.method)
        opened = Manager(tmp_path / "w")
        assert opened.method.learner.trusted == ()
        opened.close()
        opened = Manager(tmp_path / "w", trusted=("builtins.eval",))
        assert opened.method.learner.trusted == ("builtins.eval",)
        opened.close()

    def test_planted_function_is_refused_though_its_settings_trust_it(self, tmp_path):
        evil = FunctionTransformer(func=os.getcwd)
        evil.predict_proba = None
        learner = SklearnLearner(trusted=("posix.getcwd",))
        with trained(tmp_path / "w", EUPG(LocalDP(4.0), learner, pretrain=1, finetune=1)) as manager:
            import dataclasses

            from eupg.learn.sklearn import SklearnModel

            good = manager.served_model
            planted = dataclasses.replace(good, estimator=evil)
            assert isinstance(planted, SklearnModel)
            learner.save(planted, tmp_path / "evil")
            space = manager.space
            with changing(space, "test"):
                switch(space, space.state().followed_by((), served=space.store.put(Path(tmp_path / "evil"))))
        opened = Manager(tmp_path / "w")
        with pytest.raises(ModelFileError, match="Manager\\(trusted=…\\)"):
            opened.predict(LOOK)
        opened.close()

    def test_pointer_is_checked_before_a_model_is_loaded(self, folder, reopened, monkeypatch):
        state = reopened.space.state()
        loaded = []
        monkeypatch.setattr(SklearnLearner, "load", lambda _, path: loaded.append(path))
        text = (folder / "current.json").read_text()
        (folder / "current.json").write_text(text.replace(state.served, state.base))
        again = Manager(folder, rng=RNG)
        with pytest.raises(WorkspaceDamaged, match="not what the ledger last noted"):
            again.predict(LOOK)
        assert not loaded
        again.close()


def test_newest_entry_of_a_kind_is_found_by_an_index(folder):
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM entries WHERE kind = 'keys' ORDER BY number DESC LIMIT 1"
        ).fetchall()
    assert "entries_by_kind" in str(plan)
