"""One comparison: the same people asked for, the same audit, every figure there, the controls always in."""

import io
import json
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from eupg import EUPG, SISA, Retrain
from eupg.cli import main
from eupg.compare.result import MissingRun
from eupg.compare.run import compare
from eupg.compare.show import notes, picture, table
from eupg.data.score import accuracy
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.learn import XGBoostLearner
from eupg.protect import ProbabilisticKAnonymity
from people import people

LEARNER = XGBoostLearner(max_depth=2, threads=1)


def source() -> Source:
    data, rest = people(400), people(150, seed=9)
    rest = replace(rest, ids=np.char.add("test ", rest.ids), subjects=np.char.add("test ", rest.subjects))
    return Source("people", data, rest, accuracy)


def controls() -> dict:
    return {"Retrain": Retrain(LEARNER, 10), "Short retrain": Retrain(LEARNER, 2)}


class Spy(Retrain):
    """A method that notes which records it was told to keep."""

    seen: ClassVar[list] = []

    def forget(self, trained, retained, rng):
        self.seen.append(frozenset(retained.ids.tolist()))
        return super().forget(trained, retained, rng)


@pytest.fixture(scope="module", autouse=True)
def one_process():
    """Train reference models in this process: starting others would take longer than the training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        yield


@pytest.fixture(scope="module")
def found():
    methods = controls() | {
        "SISA": SISA(LEARNER, 10, shards=2, slices=2),
        "EUPG, k=10": EUPG(ProbabilisticKAnonymity(10), LEARNER, 10, 2),
    }
    return compare(source(), methods, forget=0.1, repetitions=2, references=4)


def test_every_figure_is_there(found):
    assert [row.method for row in found.rows] == ["Retrain", "Short retrain", "SISA", "EUPG, k=10"]
    for row in found.rows:
        assert len(row.runs) == 2
        assert 50 < row.utility("after")[0] <= 100
        for when in ("before", "after"):
            assert row.audited(when).low <= row.audited(when).auc <= row.audited(when).high
        assert all(seconds > 0 for seconds in row.stage_s.values())
        assert row.runs[0].storage.size_bytes > 0
    assert list(found.rows[3].stage_s) == ["protect", "pretrain", "finetune", "forget"]
    assert found.rows[2].runs[0].storage.files == 4
    assert found.rows[2].runs[0].storage.models_a_prediction == 2
    assert found.rows[3].runs[0].storage.files == 2
    assert found.speed_up(found.rows[0]) == 1


def test_repetitions_differ_and_a_seed_repeats_them(found):
    first, second = found.rows[0].runs
    assert first.audit_after != second.audit_after
    again = compare(source(), controls(), forget=0.1, repetitions=1, references=4)
    assert again.rows[0].runs[0].after == first.after
    assert again.rows[0].runs[0].audit_before == first.audit_before


def test_an_overfitted_model_is_seen_before_and_not_after():
    learner = XGBoostLearner(max_depth=9, learning_rate=1.0, reg_lambda=0.0, threads=1)
    methods = {"Retrain": Retrain(learner, 30), "Short retrain": Retrain(learner, 2)}
    row = compare(source(), methods, forget=0.3, references=4).rows[0]
    assert row.audited("before").low > 55
    assert row.audited("after").low < 52


def test_all_methods_forget_the_same_people_of_whom_all_records_go():
    Spy.seen.clear()
    given, method = source(), Spy(LEARNER, 2)
    compare(given, controls() | {"one": method, "two": method}, forget=0.1, references=0)
    kept = Spy.seen[2:]  # after the warm-up of each
    assert len(kept) == 2
    assert kept[0] == kept[1]
    mask = np.isin(given.train.ids, list(kept[0]))
    assert set(given.train.subjects[mask]).isdisjoint(given.train.subjects[~mask])
    assert len(np.unique(given.train.subjects[~mask])) == round(0.1 * len(np.unique(given.train.subjects)))


@pytest.mark.parametrize("missing", ["Retrain", "Short retrain"])
def test_a_comparison_without_its_controls_is_refused(missing):
    methods = {name: method for name, method in controls().items() if name != missing}
    with pytest.raises(ParameterError, match=f"'{missing}' is missing"):
        compare(source(), methods)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"forget": 0.0}, ParameterError),
        ({"forget": 1.0}, ParameterError),
        ({"forget": 0.999}, DataError),
        ({"repetitions": 0}, ParameterError),
        ({"references": 3}, ParameterError),
        ({"references": 2}, ParameterError),
    ],
)
def test_odd_requests_are_refused_before_anything_runs(wrong, error):
    with pytest.raises(error):
        compare(source(), controls(), **wrong)


def test_without_references_there_is_no_audit():
    row = compare(source(), controls(), references=0).rows[0]
    assert row.audited("before") is None
    assert row.audited("after") is None


def test_json_holds_every_run_and_no_name(found):
    text = json.dumps(found.to_json())
    methods = json.loads(text)["methods"]
    assert [m["method"] for m in methods] == [row.method for row in found.rows]
    assert methods[3]["claim"]["k"] == 10
    assert len(methods[0]["runs"]) == 2
    assert {"before", "after", "seconds", "storage", "audit_before", "audit_after"} == set(methods[0]["runs"][0])


def test_table_names_each_method_with_its_claim(found):
    from rich.console import Console

    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table(found))
    text = console.export_text()
    assert "…" not in text, "cut off at 80 columns"
    for word in ("Retrain", "SISA", "EUPG, k=10", "exact", "linking ≤ 1/10", "4 files", "2 models", "pretrain"):
        assert word in text, word


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_picture_has_a_point_and_a_claim_for_each_method(found, tmp_path, suffix):
    path = picture(found, tmp_path / "folder" / f"found.{suffix}")
    assert path.stat().st_size > 5_000
    if suffix == "svg":
        text = path.read_text()
        for row in found.rows:
            assert row.method in text
            assert row.claim.label in text


def test_picture_of_another_kind_is_refused(found, tmp_path):
    with pytest.raises(ParameterError, match=r"svg or \.png"):
        picture(found, tmp_path / "found.pdf")


def test_methods_get_the_same_randomness():
    twice = compare(source(), controls() | {"again": Retrain(LEARNER, 10)}, references=0)
    assert twice.rows[0].runs[0].after == twice.rows[2].runs[0].after


class Stopping(Retrain):
    """A method that somebody interrupts, or that fails, from its n-th training on."""

    trainings: ClassVar[list] = []
    error: ClassVar[BaseException] = KeyboardInterrupt()
    first_failure: ClassVar[int] = 3

    def _train(self, data, lottery, rng):
        self.trainings.append(len(data))
        if len(self.trainings) >= self.first_failure:
            raise self.error
        return super()._train(data, lottery, rng)


def stopping(error, first_failure=3):
    """Return methods of which the third fails; it trains twice to warm up, and twice per repetition."""
    Stopping.trainings, Stopping.error, Stopping.first_failure = [], error, first_failure
    return controls() | {"odd": Stopping(LEARNER, 2), "last": Retrain(LEARNER, 2)}


class TestWhatWasMeasuredIsKept:
    def test_interrupted_comparison_returns_the_runs_before(self, tmp_path):
        comparison = compare(source(), stopping(KeyboardInterrupt()), repetitions=2, references=0)
        assert comparison.interrupted
        assert [(row.method, len(row.runs)) for row in comparison.rows] == [("Retrain", 1), ("Short retrain", 1)]
        assert [(run.method, run.repetition) for run in comparison.missing][:2] == [("odd", 0), ("last", 0)]
        assert len(comparison.missing) == 6
        assert table(comparison).row_count == 4
        assert "6 of 8 runs are missing: the comparison was interrupted." in notes(comparison)
        values = json.loads(json.dumps(comparison.to_json()))
        assert values["complete"] is False
        assert values["missing"][0]["method"] == "odd"
        assert picture(comparison, tmp_path / "p.svg").is_file()

    def test_run_that_fails_does_not_end_the_others(self):
        comparison = compare(source(), stopping(RuntimeError("no memory"), 5), repetitions=2, references=0)
        assert not comparison.interrupted
        assert [(row.method, len(row.runs)) for row in comparison.rows][-2:] == [("odd", 1), ("last", 2)]
        assert comparison.missing == (MissingRun("odd", 1, "RuntimeError: no memory"),)
        assert "1 of 8 runs are missing: RuntimeError: no memory." in notes(comparison)

    def test_speed_up_needs_the_time_of_retraining(self):
        whole = compare(source(), controls(), references=0)
        part = replace(whole, rows=whole.rows[1:])
        assert (whole.speed_up(whole.rows[1]) or 0) > 0
        assert part.speed_up(part.rows[0]) is None
        assert table(part).row_count == 1

    @pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()])
    def test_where_nothing_was_measured_the_error_is_raised(self, error):
        with pytest.raises(type(error)):
            compare(source(), stopping(error, first_failure=1), references=0)

    def test_reference_models_that_fail_are_tried_once(self, monkeypatch):
        calls = []

        def fail(*_, **__):
            calls.append(1)
            raise RuntimeError("no memory")

        monkeypatch.setattr("eupg.compare.run.references_for", fail)
        with pytest.raises(RuntimeError, match="no memory"):
            compare(source(), controls(), references=4)
        assert len(calls) == 1

    def test_command_shows_what_was_measured_and_exits_130(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        data = people(300)
        data.to_pandas().assign(who=data.subjects).to_csv("people.csv", index=False)
        calls = []

        def interrupted(self, trained, retained, rng):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return trained

        monkeypatch.setattr("eupg.forget.sisa.method.SISA.forget", interrupted)
        arguments = ("--label", data.schema.label.name, "--subject", "who", "--learner", "logistic", "--effort", "3")
        more = ("--finetune", "1", "--references", "0", "--methods", "sisa, kanonymity", "--k", "5", "--json")
        assert main(["compare", "--data", "people.csv", *arguments, *more]) == 130
        shown = capsys.readouterr()
        values = json.loads(shown.out)
        assert [m["method"] for m in values["methods"]] == ["Retrain", "Short retrain"]
        assert [m["method"] for m in values["missing"]] == ["SISA", "k=5, 1 exposed"]
        told = " ".join(shown.err.split())
        assert "not measured: interrupted" in told
        assert "2 of 4 runs are missing" in told
