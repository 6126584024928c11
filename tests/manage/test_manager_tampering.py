"""Damage and forgery: whatever was changed behind the manager's back is found and named, and nothing runs."""

import dataclasses
import hashlib
import io
import pickle
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import FunctionTransformer

from eupg import Manager
from eupg.certify.certificate import Certificate, sign
from eupg.certify.verification import verify
from eupg.errors import (
    CertificateInvalid,
    EupgError,
    LedgerCorrupt,
    LedgerUnavailable,
    ModelFileError,
    StoreCorrupt,
    UnknownRequest,
    WorkspaceDamaged,
    WrongState,
)
from eupg.learn.envelope import write_model
from eupg.manage.checking import check_certificate
from eupg.manage.requests.states import State
from managed import GROUPED, LOOK, METHOD, NEWCOMERS, RNG, person, trained
from people import people


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "workspace") as manager:
        yield manager


def flip(path: Path, *, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(bytes(content))


def sql(manager, *statements):
    """Do something to the ledger that the library would never do."""
    with closing(sqlite3.connect(manager.space.folder / "ledger.db")) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            connection.execute(statement)
        for _, text in triggers:
            connection.execute(text)


def certified(manager, number=3):
    request = manager.request_erasure(subject=person(number))
    manager.forget()
    return manager.certify(request.id)


class TestFlippedByte:
    @pytest.mark.parametrize("what", ["base", "served", "index"])
    def test_in_a_stored_file_is_named(self, manager, what):
        digest = getattr(manager.space.state(), what)
        flip(manager.space.store.folder / digest)
        with pytest.raises(StoreCorrupt, match=f"{digest} is damaged"):
            manager.verify()

    def test_in_a_record_file_is_named(self, manager):
        digest = manager.space.state().records[0]
        flip(manager.space.records.folder / digest)
        with pytest.raises(StoreCorrupt, match=f"{digest} is damaged"):
            manager.verify()

    def test_in_the_base_model_stops_the_rollback_and_nothing_changes(self, manager):
        request = manager.request_erasure(subject=person(3))
        before, answer = manager.space.state(), manager.predict(LOOK)
        path = manager.space.store.folder / before.base
        flip(path)
        with pytest.raises(StoreCorrupt, match="is damaged"):
            manager.forget()
        assert manager.space.state() == before
        assert manager.space.book.get(request.id).state is State.FAILED
        np.testing.assert_array_equal(manager.predict(LOOK), answer)
        flip(path)
        assert manager.forget().requests == (request.id,)
        manager.verify()

    def test_in_the_served_model_is_found_before_it_answers(self, manager):
        flip(manager.space.store.folder / manager.space.state().served)
        with pytest.raises(StoreCorrupt, match="is damaged"):
            manager.predict(LOOK)

    @pytest.mark.parametrize("at", [0.02, 0.3, 0.6, 0.98])
    def test_in_the_pointer_is_named_and_deletes_nothing(self, manager, at):
        files = {path for path in manager.space.folder.rglob("*") if path.is_file() and path.parent.name != "scratch"}
        path = manager.space.folder / "current.json"
        flip(path, at=at)
        for check in (manager.verify, manager.recover, manager.forget):
            with pytest.raises(WorkspaceDamaged, match=r"current\.json"):
                check()
        assert {path for path in manager.space.folder.rglob("*") if path.is_file()} >= files
        flip(path, at=at)
        manager.verify()

    def test_in_a_certificate_is_named(self, manager, tmp_path):
        certified(manager).save(tmp_path / "paper.json")
        manager.verify(tmp_path / "paper.json")
        for at in np.linspace(0.01, 0.99, 25):
            flip(tmp_path / "paper.json", at=at)
            with pytest.raises(CertificateInvalid):
                manager.verify(tmp_path / "paper.json")
            flip(tmp_path / "paper.json", at=at)

    def test_in_the_ledgers_file_is_found(self, manager):
        certified(manager)
        manager.close()
        path = manager.space.folder / "ledger.db"
        whole, found = path.read_bytes(), 0
        body = whole.index(b'"claim"')
        for place in (body, body + 40, body + 200):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            path.write_bytes(bytes(damaged))
            again = Manager(manager.space.folder, rng=RNG)
            with pytest.raises((LedgerCorrupt, LedgerUnavailable)):
                again.verify()
            again.close()
            found += 1
        assert found == 3


class TestPointer:
    def test_that_is_lost_deletes_nothing(self, manager):
        """Without it every file would seem to belong to nothing."""
        path = manager.space.folder / "current.json"
        content = path.read_bytes()
        path.unlink()
        for step in (manager.recover, manager.forget, lambda: manager.train(NEWCOMERS)):
            with pytest.raises(WorkspaceDamaged, match="not what the ledger last noted"):
                step()
        path.write_bytes(content)
        manager.verify()
        manager.predict(LOOK)

    def test_of_yesterday_is_refused_and_deletes_nothing(self, manager):
        path = manager.space.folder / "current.json"
        old = path.read_bytes()
        certified(manager)
        new = path.read_bytes()
        path.write_bytes(old)
        for step in (manager.verify, manager.recover, manager.forget):
            with pytest.raises(WorkspaceDamaged):
                step()
        path.write_bytes(new)
        manager.verify()

    def test_of_another_workspace_is_refused(self, manager, tmp_path):
        with trained(tmp_path / "other", GROUPED) as other:
            content = (other.space.folder / "current.json").read_bytes()
        (manager.space.folder / "current.json").write_bytes(content)
        with pytest.raises(WorkspaceDamaged):
            manager.recover()


def test_stray_file_is_named(manager):
    (manager.space.store.folder / "notes.txt").write_text("x")
    with pytest.raises(StoreCorrupt, match=r"notes\.txt"):
        manager.verify()
    assert len(manager.recover().deleted) == 1
    manager.verify()


class TestLedger:
    def test_changed_event_is_named(self, manager):
        certified(manager)
        sql(manager, "UPDATE entries SET body = replace(body, '\"records\":3', '\"records\":2') WHERE kind = 'forget'")
        with pytest.raises(LedgerCorrupt, match="entry"):
            manager.verify()

    def test_cut_end_is_found_through_the_certificate(self, manager):
        """A chain cannot show that its end is missing; whoever holds the certificate can."""
        paper = certified(manager)
        head = paper.body.ledger.number
        sql(manager, f"DELETE FROM entries WHERE number > {head - 1}")
        with pytest.raises(CertificateInvalid, match="its end was cut off"):
            check_certificate(manager.space, paper)
        with pytest.raises((LedgerCorrupt, WorkspaceDamaged)):
            manager.verify(paper)

    def test_index_that_disagrees_is_found(self, manager):
        paper = certified(manager)
        sql(manager, "UPDATE requests SET state = 'accepted'")
        with pytest.raises(LedgerCorrupt, match=paper.body.request.id):
            manager.verify()


class TestCertificates:
    def test_verify_with_the_public_key_alone(self, manager, tmp_path):
        manager.add(NEWCOMERS)
        asked = manager.request_many(subjects=[person(3), person(2, "birch"), person(1, "cedar")])
        manager.forget()
        key = (manager.space.folder / "keys" / "signing.pub").read_bytes()
        (tmp_path / "theirs.pub").write_bytes(key)
        for request in asked:
            paper = manager.certify(request.id)
            paper.save(tmp_path / "paper.json")
            verify(tmp_path / "paper.json", key=tmp_path / "theirs.pub")
            manager.verify(paper)

    def test_of_another_workspace_is_refused(self, manager, tmp_path):
        with trained(tmp_path / "other") as other:
            paper = certified(other)
            with pytest.raises(CertificateInvalid, match="signed with key"):
                manager.verify(paper)
            other.verify(paper)

    def test_with_a_better_claim_than_the_ledger_has_is_refused(self, manager):
        body = certified(manager).body
        better = dataclasses.replace(body.claimed.claim, epsilon=body.claimed.claim.epsilon / 100)
        false = dataclasses.replace(body, claimed=dataclasses.replace(body.claimed, claim=better))
        with pytest.raises(CertificateInvalid, match="the ledger disagrees"):
            manager.verify(sign(false, manager.space.signing))

    def test_signed_by_a_thief_of_the_key_is_refused(self, manager):
        paper = certified(manager)
        body = paper.body
        false = dataclasses.replace(body, provenance=dataclasses.replace(body.provenance, new_model="0" * 64))
        with pytest.raises(CertificateInvalid, match="the ledger disagrees"):
            manager.verify(sign(false, manager.space.signing))

    def test_stay_good_as_the_workspace_goes_on(self, manager, tmp_path):
        paper = certified(manager)
        manager.add(NEWCOMERS)
        certified(manager, 4)
        manager.renew()
        manager.verify(paper)

    def test_are_issued_again_with_the_same_story(self, manager):
        first = certified(manager)
        second = manager.certify(first.body.request.id)
        assert dataclasses.replace(second.body, issued=first.body.issued, ledger=first.body.ledger) == first.body
        manager.verify(second)

    def test_by_default_is_that_of_the_last_request(self, manager):
        certified(manager)
        last = manager.request_erasure(subject=person(5))
        manager.forget()
        assert manager.certify().body.request.id == last.id

    def test_are_not_issued_before_the_erasure(self, manager):
        request = manager.request_erasure(subject=person(3))
        with pytest.raises(WrongState, match="run forget first"):
            manager.certify(request.id)


@dataclasses.dataclass
class Exploit:
    """Whoever unpickles it makes a file."""

    path: Path

    def __reduce__(self):
        return (Path.touch, (self.path,))


class TestMaliciousModel:
    """Even with the pointer bent to it, so that digest and name agree, nothing in a model file runs."""

    def plant(self, manager, content: bytes) -> Manager:
        digest = manager.space.store.put(content)
        state = manager.space.state()
        bent = dataclasses.replace(state, parts={"base": digest}, served=digest)
        (manager.space.folder / "current.json").write_bytes(bent.to_bytes())
        # Whoever can write to the ledger, too, makes it agree.
        noted = {"change": bent.number, "digest": hashlib.sha256(bent.to_bytes()).hexdigest()}
        manager.space.ledger.append("current", noted)
        manager.close()
        return Manager(manager.space.folder, rng=RNG)

    def test_pickle_is_refused(self, manager, tmp_path):
        again = self.plant(manager, pickle.dumps(Exploit(tmp_path / "exploited")))
        with pytest.raises(ModelFileError):
            again.predict(LOOK)
        assert not (tmp_path / "exploited").exists()
        again.close()

    def test_function_in_an_estimator_is_refused(self, manager, tmp_path):
        evil = FunctionTransformer(func=pickle.loads)
        good = manager.served_model
        about = {"encoder": good.encoder.to_json(), "effort": 1}
        write_model(tmp_path / "evil", "eupg-sklearn-1", good.schema, skops.io.dumps(evil), **about)
        again = self.plant(manager, (tmp_path / "evil").read_bytes())
        with pytest.raises(ModelFileError):
            again.predict(LOOK)
        again.close()

    def test_names_with_paths_in_an_archive_write_nowhere(self, manager, tmp_path):
        archive = io.BytesIO(skops.io.dumps(SGDClassifier(loss="log_loss").fit([[0.0], [1.0]], [0, 1])))
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr("../../escaped", "x")
        good = manager.served_model
        about = {"encoder": good.encoder.to_json(), "effort": 1}
        write_model(tmp_path / "evil", "eupg-sklearn-1", good.schema, archive.getvalue(), **about)
        again = self.plant(manager, (tmp_path / "evil").read_bytes())
        with pytest.raises((EupgError, ValueError)):
            again.predict(LOOK)
        assert not list(tmp_path.rglob("escaped")) + list(tmp_path.parent.glob("escaped"))
        again.close()


NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "a\x00b",
    "..",
    ".",
    "con",
    "x" * 3000,
    "';DROP TABLE entries;--",
    "\u202egnp.exe",
]


def test_path_tricks_in_names_do_nothing(tmp_path):
    """Names are data: they become keyed digests and cells of a table, never paths and never statements."""
    data = people(150)
    subjects = np.array([NAMES[i // 3] if i < 3 * len(NAMES) else s for i, s in enumerate(data.subjects.tolist())])
    ids = np.array([f"{NAMES[i]}#" if i < len(NAMES) else s for i, s in enumerate(data.ids.tolist())])
    around = set(tmp_path.parent.iterdir())
    manager = Manager(tmp_path / "w", METHOD, rng=RNG)
    manager.train(dataclasses.replace(data, subjects=subjects, ids=ids), hold_out=0.0)
    asked = manager.request_many(subjects=NAMES[1:], records=[f"{NAMES[0]}#"])
    assert {r.state for r in asked} == {State.ACCEPTED}
    assert manager.forget().records == 3 * len(NAMES) - 2
    manager.verify(manager.certify())
    assert set(tmp_path.parent.iterdir()) == around
    assert {p.name for p in tmp_path.iterdir()} == {"w"}
    manager.close()


@pytest.mark.parametrize("name", ["../current.json", "r-0/../../x", "a" * 64, ""])
def test_path_tricks_in_request_ids_find_nothing(manager, name):
    with pytest.raises(UnknownRequest):
        manager.accept(name)


def test_certificate_that_is_no_file_is_refused(manager, tmp_path):
    for content in (b"", b"{}", b"[]", b"\x00" * 100, pickle.dumps(Exploit(tmp_path))):
        (tmp_path / "paper.json").write_bytes(content)
        with pytest.raises(CertificateInvalid):
            Certificate.load(tmp_path / "paper.json")
