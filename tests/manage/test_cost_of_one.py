"""What one erasure, one request and one prediction read: not the table, and not the history."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from eupg import Manager
from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.manage.integrations.evidence_folder import export
from eupg.manage.requests import intake
from eupg.manage.requests.states import Receipt, State
from eupg.manage.storage import change, workspace
from eupg.manage.storage.records import RecordFiles
from eupg.manage.storage.subjects import person_digest
from managed import GROUPED, HELD_OUT, LOOK, METHOD, RECORDS, RNG, person, record, trained


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """Many small files of records, and a model that saw nobody."""
    method = METHOD.__class__(METHOD.mechanism, METHOD.learner, METHOD.pretrain, METHOD.finetune, exposure=0.0)
    real = RecordFiles.write_sketched

    def small(self, data, rows, **options):
        return real(self, data, rows, **options, rows_per_part=6)

    monkeypatch.setattr(RecordFiles, "write_sketched", small)
    with trained(tmp_path / "ws", method) as made:
        yield made


def pointer_size(manager):
    return (manager.space.folder / "current.json").stat().st_size


class TestErasure:
    def test_person_whom_no_model_saw_costs_the_files_that_hold_them(self, manager, monkeypatch):
        state, read = manager.space.state(), []
        assert len(state.records) > 20
        manager.request_erasure(subject=person(7))
        real = RecordFiles._table

        def noted(self, digest, columns=None):
            read.append(digest)
            return real(self, digest, columns)

        monkeypatch.setattr(RecordFiles, "_table", noted)
        assert manager.forget().records == 3
        after = manager.space.state()
        replaced = set(state.records) - set(after.records)
        assert len(replaced) == 1
        assert replaced <= set(read)
        # The others that were read hold records like theirs.
        assert len(set(read)) <= 4
        manager.verify()

    def test_second_erasure_writes_what_has_changed_of_the_index(self, manager):
        before = manager.space.state()
        for number in (7, 8):
            manager.request_erasure(subject=person(number))
            manager.forget()
        after = manager.space.state()
        assert after.columns == before.columns
        assert manager.space.store.place(after.index).stat().st_size < 400
        assert manager.status().people == 48

    def test_every_file_of_the_person_is_deleted_the_sketch_too(self, manager):
        state = manager.space.state()
        manager.request_erasure(subject=person(7))
        manager.forget()
        given_up = {file.digest for file in manager.space.state().given_up if file.records}
        assert len(given_up) == 2
        assert given_up <= {*state.records, *state.sketches}
        assert not [digest for digest in given_up if digest in manager.space.records.files]

    def test_index_that_names_other_rows_is_noticed_before_anything_is_deleted(self, manager, monkeypatch):
        """Were the numbers of rows mixed up, somebody else would be erased in the place of the person."""
        manager.request_erasure(subject=person(7))
        index = manager.space.index(manager.space.state())
        monkeypatch.setattr(type(index), "records_at", lambda _, rows: [bytes(16)] * len(rows))
        before = manager.space.state()
        with pytest.raises(WorkspaceDamaged, match="does not fit the records"):
            manager.forget()
        assert manager.space.state() == before

    def test_forgetting_many_keeps_the_pointer_small(self, tmp_path):
        with trained(tmp_path, GROUPED) as manager:
            size = pointer_size(manager)
            requests = manager.request_many(subjects=[person(i) for i in range(20)])
            manager.forget()
            state = manager.space.state()
            assert state.answered == ()
            assert state.answers is not None
            assert state.answers in manager.space.store
            assert pointer_size(manager) < size + 2000
            certificate = manager.certify(requests[3].id)
            manager.verify(certificate)
            manager.request_erasure(subject=person(30))
            manager.forget()
            assert state.answers not in manager.space.store

    @pytest.mark.parametrize("many", [1000, 5], ids=["one entry each", "one entry for all"])
    def test_answers_are_read_back_after_a_crash(self, tmp_path, monkeypatch, many):
        monkeypatch.setattr(workspace, "_MANY_REQUESTS", many)

        def interrupted(*_, **__):
            raise KeyboardInterrupt

        with trained(tmp_path, GROUPED) as manager:
            requests = manager.request_many(subjects=[person(i) for i in range(20)])
            with monkeypatch.context() as patch:
                patch.setattr(change, "settle", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    manager.forget()
        again = Manager(tmp_path, GROUPED, rng=RNG)
        assert again.recover().settled
        assert {again.space.book.get(r.id).state for r in requests} == {State.COMPLETED}
        again.verify(again.certify(requests[0].id))
        again.close()

    def test_many_answered_in_one_entry_are_told_and_certified_as_if_each_had_its_own(self, tmp_path, monkeypatch):
        """Among them are a person held out, a record, a record of the same person, and somebody who is unknown."""
        subjects = [*(person(i) for i in range(8)), person(2, "cedar"), "nobody"]
        records = [record(30), record(31), record(30)]
        results = {}
        for many in (1000, 2):
            monkeypatch.setattr(workspace, "_MANY_REQUESTS", many)
            with trained(tmp_path / str(many), GROUPED) as manager:
                asked = manager.request_many(subjects=subjects, records=records)
                manager.forget()
                papers = [manager.certify(asked[i].id) for i in (0, 8, 10)]
                manager.verify(papers[-1])
                entries = manager.space.ledger.head().number
                histories = [
                    [(e.kind, e.body["details"] if e.kind == "request.completed" else None) for e in history]
                    for history in (manager.space.book.history(r.id) for r in asked)
                ]
                results[many] = [p.body.request.records_erased for p in papers], histories
                assert "requests.completed" in {e.kind for e in manager.space.ledger.entries()} or many == 1000
                out = export(manager.space, tmp_path / f"evidence {many}")
                assert len(out[0].read_text().splitlines()) == entries + 1
        assert results[2] == results[1000]
        assert results[2][0] == [3, 3, 1]
        assert [h[-1][0] for h in results[2][1]] == [
            *["request.certified", *["request.completed"] * 7, "request.certified", "request.rejected"],
            *["request.certified", "request.completed", "request.certified"],
        ]


class TestRequests:
    def test_threads_share_a_write_and_each_gets_its_own_answer(self, manager, monkeypatch):
        together, real, answers = [], intake.Intake._take_in, {}

        def noted(self, calls):
            together.append(len(calls))
            return real(self, calls)

        monkeypatch.setattr(intake.Intake, "_take_in", noted)

        def ask(number):
            answers[number] = manager.request_erasure(subject=person(number))

        # A writer holds the ledger, so that they have to wait for each other.
        with manager.space.ledger.transaction():
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
            for thread in threads:
                thread.start()
            while len(manager._intake._waiting) < 15:
                pass
        for thread in threads:
            thread.join()
        assert max(together) >= 15
        assert len(together) == 2
        digests = {number: manager.space.book.find("person", answers[number].digest) for number in answers}
        assert all([r.id for r in digests[number]] == [answers[number].id] for number in range(16))
        assert {request.state for request in answers.values()} == {State.ACCEPTED}
        manager.verify()

    def test_writer_waits_for_those_who_were_just_answered_and_not_for_ever(self, manager, monkeypatch):
        together, real, waiting = [], intake.Intake._take_in, manager._intake

        def noted(self, calls):
            together.append(len(calls))
            return real(self, calls)

        monkeypatch.setattr(intake.Intake, "_take_in", noted)
        waiting._expected, waiting._patience_s = 2, 60.0
        threads = [threading.Thread(target=manager.request_erasure, kwargs={"subject": person(i)}) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert together == [2]
        assert (waiting._expected, waiting._patience_s <= intake._LET_OTHERS_IN_S) == (2, True)
        # Nobody else asks: the next one goes on alone, and does not wait again.
        manager.request_erasure(subject=person(2))
        assert (together, waiting._expected) == ([2, 1], 1)

    def test_one_that_is_refused_does_not_take_the_others_with_it(self, manager, monkeypatch):
        calls = [
            intake._Call([Receipt("person", "5e" * 16)], True),
            intake._Call([Receipt("person", person_digest(manager.space.key, person(3)))], True),
        ]
        broken, real = calls[0], manager._intake._take_in

        def refuses(some):
            if broken in some:
                raise ParameterError("no")
            return real(some)

        monkeypatch.setattr(manager._intake, "_take_in", refuses)
        manager._intake._answer(calls)
        assert isinstance(broken.error, ParameterError)
        assert calls[1].result is not None
        assert calls[1].result[0].state is State.ACCEPTED

    def test_many_come_in_parts_that_let_others_in(self, manager, monkeypatch):
        monkeypatch.setattr(intake, "_AT_ONCE", 4)
        heads, real = [], intake.Intake._take_in

        def noted(self, calls):
            heads.append(self._space.ledger.head().number)
            return real(self, calls)

        monkeypatch.setattr(intake.Intake, "_take_in", noted)
        requests = manager.request_many(subjects=[person(i) for i in range(10)], records=[record(40)])
        assert len(set(heads)) == 3
        assert [r.unit for r in requests] == ["person"] * 10 + ["record"]
        assert {r.state for r in requests} == {State.ACCEPTED}

    @pytest.mark.parametrize("field", ["request", "reference"])
    def test_entries_of_one_are_found_by_an_index(self, manager, field):
        from eupg.manage.ledger.migrations import body_field

        named, value = body_field(field, sqlite=True)
        with manager.space.ledger.snapshot() as snapshot:
            query = f"EXPLAIN QUERY PLAN SELECT * FROM entries WHERE {named} AND {value} = 'r-1' ORDER BY number"
            plan = " ".join(str(row) for row in snapshot.connection.exec_driver_sql(query))
        assert f"USING INDEX entries_by_{field}" in plan

    def test_history_is_that_of_the_request_alone(self, manager):
        first, second = (manager.request_erasure(subject=person(i)) for i in (3, 4))
        manager.forget()
        for request in (first, second):
            kinds = [entry.kind for entry in manager.space.book.history(request.id)]
            assert kinds == [f"request.{s}" for s in ("received", "accepted", "processing", "completed")]


class TestLooks:
    def test_status_loads_nothing_that_trains(self, manager):
        manager.close()
        code = (
            "import sys; from eupg.cli.main import main; "
            f"assert main(['status', '--workspace', {str(manager.space.folder)!r}, '--json']) == 0; "
            "heavy = {'xgboost', 'sklearn', 'scipy', 'torch', 'pandas', 'pyarrow', 'numba'} & set(sys.modules); "
            "assert not heavy, heavy"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    def test_prediction_reads_pointer_and_settings_alone(self, manager, monkeypatch):
        expected = manager.predict(LOOK)

        def fail(*_, **__):
            raise AssertionError("nothing else is read")

        space = type(manager.space)
        monkeypatch.setattr(space, "index", fail)
        monkeypatch.setattr(space, "read", fail)
        monkeypatch.setattr(type(manager.space.ledger), "snapshot", fail)
        np.testing.assert_array_equal(manager.predict(LOOK), expected)

    def test_certificate_reads_the_entries_of_its_change_alone(self, manager):
        from eupg.manage.evidence import entries_of_change

        requests = []
        for number in (3, 4, 5):
            requests.append(manager.request_erasure(subject=person(number)))
            manager.forget()
        for request in requests:
            (completed,) = (e for e in manager.space.book.history(request.id) if e.kind == "request.completed")
            change = completed.body["details"]["change"]
            with manager.space.ledger.snapshot() as snapshot:
                whole = list(snapshot.entries(kinds=["forget", "measure", "audit", "delete"]))
                found = entries_of_change(snapshot, completed)
            expected = [entry for entry in whole if entry.body.get("change") == change]
            assert [e for e in found if e.body.get("change") == change] == expected
            assert len(found) < len(whole)


def test_people_held_out_are_erased_from_their_files(tmp_path):
    with trained(tmp_path, METHOD) as manager:
        name = str(HELD_OUT.subjects[0])
        manager.request_erasure(subject=name)
        assert manager.forget().records == 3
        _, held_out = manager.space.read(manager.space.state())
        assert name not in held_out.subjects
        assert len(manager.space.read(manager.space.state())[0]) == len(RECORDS)
        manager.verify()
