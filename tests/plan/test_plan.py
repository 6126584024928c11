"""A plan: every point measured, the controls beside it, and advice that follows from the figures."""

import contextlib
import dataclasses
import json
import shlex

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg import Manager
from eupg.cli import main
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.score import accuracy
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.forget import ExactTrees, Retrain
from eupg.guarantees import DifferentiallyPrivate, Exact, KAnonymous
from eupg.guarantees.wording import NO_PERSON, percent
from eupg.learn import XGBoostLearner
from eupg.learn.best_of import BestOf
from eupg.learn.recipes import Recipe
from eupg.manage.description import describe
from eupg.plan.advice import Limits, advise
from eupg.plan.frontier import Frontier, Point, measure
from eupg.plan.show import picture, table
from eupg.progress import SILENT
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from eupg.protect.kanonymity import shared_values
from eupg.protect.mechanism import Mechanism
from people import people
from steps import Steps

LEARNER = XGBoostLearner(max_depth=2, threads=1)
RECIPE = Recipe(BestOf((LEARNER,), 0.2), 8, BestOf((LEARNER,)), 4, LEARNER, 4)
MECHANISMS: dict[str, Mechanism] = {"k=5": ProbabilisticKAnonymity(5), "ε=4": LocalDP(4.0)}


def source(rows: int = 400) -> Source:
    data, rest = people(rows), people(150, seed=9)
    rest = dataclasses.replace(rest, ids=np.char.add("t", rest.ids), subjects=np.char.add("t", rest.subjects))
    return Source("people", data, rest, accuracy)


@pytest.fixture(scope="module")
def frontier():
    return measure(source(), RECIPE, MECHANISMS, exposures=(0.0, 0.3, 1.0), progress=SILENT)


def test_every_guarantee_at_every_exposure_and_the_controls(frontier):
    assert [p.name for p in frontier.points] == [
        *("Retrain", "Short retrain", "From scratch, 0.3 exposed"),
        *("k=5, 0 exposed", "k=5, 0.3 exposed", "k=5, 1 exposed"),
        *("ε=4, 0 exposed", "ε=4, 0.3 exposed", "ε=4, 1 exposed"),
    ]
    assert all(40 < p.utility <= 100 for p in frontier.points)
    assert {p.claim.notion for p in frontier.points if p.is_control} == {"exact"}


def test_the_short_retrain_is_made_as_the_recipe_says():
    asked, brisk = source(), XGBoostLearner(max_depth=4, learning_rate=0.7, threads=1)
    given = dataclasses.replace(RECIPE, short=brisk, short_effort=3)
    found = measure(asked, given, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0,), progress=SILENT)
    model = brisk.fit(asked.train, effort=3, rng=np.random.default_rng(0))
    expected = accuracy(model.predict_proba(asked.test.X), asked.test.y)
    assert found.named("Short retrain").utility == expected
    others = [
        accuracy(one.fit(asked.train, effort=n, rng=np.random.default_rng(0)).predict_proba(asked.test.X), asked.test.y)
        for one, n in ((LEARNER, 3), (brisk, given.finetune), (brisk, 1))
    ]
    assert expected not in others


def test_plan_says_what_groups_share_and_for_whom_a_claim_is(frontier):
    """The very groups that a release of these records is made in."""
    data, mechanism = source().train, MECHANISMS["k=5"]
    shares = shared_values(data, mechanism.groups(data), (data.schema.label.name,))
    point = frontier.named("k=5, 0 exposed")
    assert point.to_json()["claim"]["shared"] == shares
    assert not point.claim.seeded
    chosen = advise(frontier, Limits(notion=KAnonymous, tolerance=100))
    told = f"{data.schema.label.name} {percent(shares[data.schema.label.name])}"
    assert told in chosen.words
    assert "record-level" not in chosen.words
    assert point.claim.label.startswith("linking ≤ 1/5, ill shared in the group by")


def test_plan_without_a_person_column_says_that_claims_are_about_records():
    asked = source()
    schema = Schema(tuple(a for a in asked.train.schema.attributes if a is not asked.train.schema.subject))
    train, test = (Dataset(schema, d.X, d.y, d.ids, d.ids) for d in (asked.train, asked.test))
    found = measure(
        dataclasses.replace(asked, train=train, test=test), RECIPE, MECHANISMS, exposures=(0.0,), progress=SILENT
    )
    for name in ("k=5, 0 exposed", "ε=4, 0 exposed"):
        assert NO_PERSON in found.named(name).to_json()["claim"]["caveats"]
    chosen = advise(found, Limits(notion=KAnonymous, tolerance=100))
    assert "other records of the same person are not known here" in chosen.words


def test_share_of_free_erasures_and_their_cost(frontier):
    alone, some, all_ = (frontier.named(f"k=5, {e} exposed") for e in ("0", "0.3", "1"))
    assert (alone.free, alone.expected_s) == (1.0, 0.0)
    assert some.free == pytest.approx(0.7, abs=0.01)
    assert some.expected_s == pytest.approx(0.3 * some.erase_s, rel=0.05)
    assert (all_.free, all_.expected_s) == (0.0, all_.erase_s)
    assert frontier.named("From scratch, 0.3 exposed").free == some.free


def point(name, utility, seconds, free=0.0, guarantee="k=5", exposure=0.1, claim=None) -> Point:
    claim = claim or (Exact() if guarantee is None else KAnonymous(k=5))
    return Point(name, guarantee, exposure, utility, 1.0, seconds, free, claim, method=Retrain(LEARNER, 1))


def made(*points) -> Frontier:
    controls = (point("Retrain", 80.0, 10.0, guarantee=None, exposure=None),
                point("Short retrain", 79.0, 1.0, guarantee=None, exposure=None))  # fmt: skip
    return Frontier("table", 100, 100, "accuracy", (*controls, *points))


def test_cheapest_point_within_the_tolerance_is_taken():
    found = made(point("dear", 80.5, 2.0), point("cheap", 79.8, 2.0, 0.99), point("worse", 70.0, 0.0, 1.0))
    assert advise(found, Limits(tolerance=0.3)).point.name == "cheap"
    assert advise(found, Limits(tolerance=0.1)).point.name == "dear"
    assert advise(found, Limits(tolerance=20)).point.name == "worse"


def test_short_retrain_that_is_better_is_taken():
    """The row that was recommended before is dominated: it is worse, dearer, and claims less."""
    found = made(point("protected", 78.9, 2.0))
    assert advise(found, Limits(tolerance=2)).point.name == "Short retrain"


def test_a_weaker_claim_is_not_taken_for_seconds_per_year():
    exact = point("exact", 79.9, 0.15, claim=Exact())
    found = made(point("weaker", 79.9, 0.10), exact)
    advice = advise(found)
    assert advice.point.name == "exact"
    assert "it claims more than weaker, the cheapest of the rows within 0.3 points" in advice.words
    assert advise(found, requests_per_month=200).point.name == "weaker"
    # A model that never changes shows nothing to somebody who compares versions.
    assert advise(made(point("still", 79.9, 0.0, 1.0), exact)).point.name == "still"
    assert advise(made(point("weaker", 79.9, 0.1), exact), Limits(notion=KAnonymous)).point.name == "weaker"


def test_where_nothing_is_good_enough_the_best_is_taken_and_that_is_said():
    limits = Limits(tolerance=0.3, notion=KAnonymous)
    advice = advise(made(point("low", 60.0, 0.1), point("lower", 50.0, 0.0)), limits)
    assert advice.point.name == "low"
    assert not advice.within
    assert "nothing that meets your limits comes within 0.3 points" in advice.words


def test_limits_are_honoured():
    private = [point(f"dp{e}", 70.0 + e, 0.0, 1.0, claim=DifferentiallyPrivate(epsilon=e)) for e in (1.0, 4.0)]
    found = made(*private, point("slow", 80.0, 9.0), point("fast", 79.0, 0.5))
    assert advise(found, Limits(notion=DifferentiallyPrivate)).point.name == "dp4.0"
    assert advise(found, Limits(notion=DifferentiallyPrivate, max_epsilon=2)).point.name == "dp1.0"
    assert advise(found, Limits(tolerance=1.5, max_seconds=0.7)).point.name == "fast"
    # k-anonymity bounds no ε; an exact row meets any.
    assert advise(found, Limits(tolerance=9.5, max_epsilon=2)).point.name == "dp1.0"
    assert advise(found, Limits(tolerance=1.5, max_epsilon=2)).point.name == "Short retrain"
    nothing = advise(found, Limits(notion=DifferentiallyPrivate, max_epsilon=0.1))
    assert nothing.point is None
    assert "no row meets your limits" in nothing.words


@given(
    st.lists(
        st.tuples(st.floats(70, 82), st.floats(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([5, 9, None])),
        max_size=6,
    ),
    st.floats(0, 10),
)
def test_recommended_row_is_never_dominated(rows, tolerance):
    points = [
        point(f"row {i}", utility, seconds, free, claim=Exact() if k is None else KAnonymous(k=k))
        for i, (utility, seconds, free, k) in enumerate(rows)
    ]
    found = made(*points)
    chosen = advise(found, Limits(tolerance=tolerance)).point
    assert chosen is not None
    assert not any(other.dominates(chosen) for other in found.points)


def test_rows_that_do_better_are_named():
    assert "short retrain is exact and 1.0 points worse" in advise(made(point("fine", 80.0, 0.1, 0.9))).words
    beaten = advise(made(point("poor", 78.0, 0.1, 0.9)), Limits(tolerance=5))
    assert "short retrain is exact and 1.0 points better" in beaten.words
    alike = made(point("fine", 80.0, 0.1, 0.9), point("From scratch", 80.4, 0.2, 0.5, guarantee=None))
    assert "The best accuracy is that of From scratch: 0.4 points more, at 0.1 s per erasure" in advise(alike).words


def test_yearly_cost_follows_from_the_rate_of_requests():
    frontier = made(point("p", 80.0, 0.1))
    assert "At 10 requests per month that is 12 s" in advise(frontier, requests_per_month=10).words
    assert "At 100 requests per month that is 2 min" in advise(frontier, requests_per_month=100).words


def test_table_and_picture_show_every_point(frontier, tmp_path):
    advice = advise(frontier)
    assert frontier._repr_html_().count("<tr>") == len(frontier.points) + 1
    assert table(frontier, advice).row_count == len(frontier.points)
    text = picture(frontier, advice, tmp_path / "plan.svg").read_text()
    for words in ("k=5", "ε=4", "Retrain", "Short retrain", "recommended", "from scratch on the same people"):
        assert words in text


@pytest.mark.parametrize("wrong", [{"exposures": (1.5,)}, {"exposures": (-0.1,)}])
def test_exposures_outside_the_range_are_refused(wrong):
    with pytest.raises(ParameterError, match="from 0 to 1"):
        measure(source(), RECIPE, MECHANISMS, progress=SILENT, **wrong)


def test_further_methods_are_measured_with_what_they_cost():
    found = measure(source(), RECIPE, {}, methods={"Exact trees": ExactTrees(most_cells=200)}, progress=SILENT)
    row = found.named("Exact trees")
    assert (row.free, row.claim.notion, row.reveals) == (0.0, "exact", "who was forgotten, if few are at once")
    assert 0 < row.erase_s < row.train_s + 1
    assert row.low < row.utility < row.high
    assert row.storage_bytes > 1_000


def test_too_few_people_are_refused():
    with pytest.raises(DataError, match="at least 50 people"):
        measure(source(40), RECIPE, MECHANISMS, progress=SILENT)


def test_command_writes_the_advice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = people(400)
    frame = data.to_pandas()
    frame.insert(0, "who", data.subjects)
    frame.to_csv("people.csv", index=False)
    arguments = ["plan", "--data", "people.csv", "--label", data.schema.label.name, "--subject", "who", "--k", "5"]
    arguments += ["--learner", "logistic", "--guarantee", "kanonymity", "--exposure", "0", "--exposure", "0.5"]
    assert main([*arguments, "--out", "plan.json", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    row = next(p for p in shown["points"] if p["name"] == shown["take"]["name"])
    assert row == shown["take"]
    assert not any(p["name"] == "k=5, 0.5 exposed" and p["method"] is None for p in shown["points"])
    assert "looked at the records" in shown["not_covered"]
    assert (tmp_path / "plan.svg").stat().st_size > 5_000


def test_the_next_command_can_be_copied_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = people(300)
    frame = data.to_pandas().assign(who=data.subjects, odd=1.5)
    frame.to_csv("my people.csv", index=False, sep=";")
    arguments = ["--data", "my people.csv", "--label", "ill", "--subject", "who", "--drop", "odd", "--sep", ";"]
    settings = ["--learner", "logistic", "--guarantee", "kanonymity", "--k", "5", "--exposure", "0"]
    assert main(["plan", *arguments, *settings, "--out", "plan.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Next: eupg "))
    command = shlex.split(" ".join(lines[begin:]).removeprefix("Next: eupg "))
    assert main([*command, "--hold-out", "0"]) == 0
    recommended = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["take"]["method"]
    with contextlib.closing(Manager("ws")) as manager:
        assert describe(manager.method) == recommended


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "name one data set"), (("rand_hie", "--picture", "p.pdf"), ".svg or .png"), (("moon",), "no data set")],
)
def test_wrong_use_says_what_to_do(arguments, words, capsys):
    assert main(["plan", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().out.split())


class Failing:
    """A guarantee that cannot be made on this table."""

    def __init__(self, error):
        self.error = error

    def guarantee(self, schema):
        return MECHANISMS["k=5"].guarantee(schema)

    def protect(self, data, rng):
        raise self.error


class Stopping:
    """A learner that somebody interrupts, or that fails, from its n-th model on."""

    def __init__(self, learner, models, error):
        self.learner, self.models, self.error = learner, models, error
        self.warm_starts = learner.warm_starts

    def fit(self, *arguments, **options):
        self.models -= 1
        if self.models < 0:
            raise self.error
        return self.learner.fit(*arguments, **options)

    def __getattr__(self, name):
        return getattr(self.learner, name)


class TestWhatWasMeasuredIsKept:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [(ParameterError("a grid has too many points"), "a grid has"), (RuntimeError("odd"), "RuntimeError: odd")],
    )
    def test_guarantee_that_fails_becomes_rows_with_the_reason(self, error, reason, tmp_path):
        mechanisms = {"broken": Failing(error), "k=5": MECHANISMS["k=5"]}
        found = measure(source(), RECIPE, mechanisms, exposures=(0.0, 0.3), progress=SILENT)
        assert [(u.name, u.guarantee, u.exposure) for u in found.unmeasured] == [
            ("broken, 0 exposed", "broken", 0.0),
            ("broken, 0.3 exposed", "broken", 0.3),
        ]
        assert all(u.reason.startswith(reason) for u in found.unmeasured)
        assert [p.name for p in found.points][-2:] == ["k=5, 0 exposed", "k=5, 0.3 exposed"]
        advice = advise(found)
        assert advice.point is not None
        assert "2 of 7 rows were not measured" in advice.words
        assert table(found, advice).row_count == 7
        assert picture(found, advice, tmp_path / "p.svg").is_file()

    def test_failing_guarantee_is_tried_once(self):
        steps = Steps()
        mechanisms = {"broken": Failing(DataError("no")), "k=5": MECHANISMS["k=5"]}
        measure(source(), RECIPE, mechanisms, exposures=(0.0, 0.3, 1.0), progress=steps)
        assert steps.names.count("broken: base model") == 1

    def test_exposure_of_too_few_people_is_a_row_that_says_so(self):
        found = measure(source(), RECIPE, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0, 0.01), progress=SILENT)
        assert [u.name for u in found.unmeasured] == ["From scratch, 0.01 exposed", "k=5, 0.01 exposed"]
        assert "at least 10 people, and this exposure draws 1" in found.unmeasured[1].reason

    def test_interrupted_plan_returns_the_rows_before(self):
        steps = Steps()

        def interrupt(_) -> None:
            if len(steps.names) == 4:
                raise KeyboardInterrupt

        steps.act = interrupt
        found = measure(source(), RECIPE, MECHANISMS, exposures=(0.0, 0.3), progress=steps)
        assert found.interrupted
        assert [p.name for p in found.points] == ["Retrain", "Short retrain", "From scratch, 0.3 exposed"]
        assert len(found.unmeasured) == 4
        advice = advise(found)
        assert advice.point.is_control
        assert "The plan was interrupted: 4 of 7 rows" in advice.words

    def test_without_full_retraining_there_is_no_advice(self):
        recipe = dataclasses.replace(RECIPE, learner=Stopping(LEARNER, 0, RuntimeError("no memory")))
        found = measure(source(), recipe, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0,), progress=SILENT)
        assert [p.name for p in found.points] == ["Short retrain"]
        assert advise(found).point is None

    @pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()])
    def test_where_nothing_was_measured_the_error_is_raised(self, error):
        def fail(_) -> None:
            raise error

        with pytest.raises(type(error)):
            measure(source(), RECIPE, MECHANISMS, progress=Steps(fail))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A table with a column of wide range, and a schema under which its grid does not fit."""
    monkeypatch.chdir(tmp_path)
    frame = people(300).to_pandas().reset_index(drop=True).assign(balance=np.arange(300) // 2 * 10_000)
    frame.loc[0, "balance"] = 1_200_001
    frame.to_csv("people.csv", index=False)
    schema = Schema.infer(frame, label="ill")
    fine = [dataclasses.replace(a, resolution=1) if a.name == "balance" else a for a in schema.attributes]
    Schema(tuple(fine)).save("fine.toml")
    return tmp_path


PLAN = ("plan", "--data", "people.csv", "--learner", "logistic", "--exposure", "0", "--out", "plan.json", "--json")


def test_table_with_large_integers_is_planned_with_its_resolution_coarsened(file, capsys):
    assert main([*PLAN, "--label", "ill", "--k", "5", "--epsilon", "4"]) == 0
    shown = capsys.readouterr()
    assert "'balance' ranges too widely for a grid in steps of 1: its resolution is 2" in " ".join(shown.err.split())
    values = json.loads(shown.out)
    expected = {None, "k=5", "ε=4", "synthetic ε=4", "private trees ε=4", "Exact trees", "SISA"}
    assert {p["guarantee"] for p in values["points"]} == expected
    assert values["unmeasured"] == []
    title = " ".join(shown.err.split())
    assert "people: 240 records; auc in percent on records held out" in title


def test_row_that_cannot_be_measured_is_shown_and_written_with_its_reason(file, capsys):
    assert main([*PLAN, "--schema", "fine.toml", "--k", "5", "--epsilon", "4"]) == 0
    shown = capsys.readouterr()
    values = json.loads(shown.out)
    assert values == json.loads((file / "plan.json").read_text(encoding="utf-8"))
    (row,) = [u for u in values["unmeasured"] if u["name"] == "ε=4, 0 exposed"]
    assert "a grid has 1 to 1048576 points" in row["reason"]
    assert "not measured" in shown.err
    assert values["take"]["method"] is not None


def test_interrupted_command_shows_and_writes_what_was_measured(file, capsys, monkeypatch):
    def protect(self, data, rng):
        raise KeyboardInterrupt

    monkeypatch.setattr("eupg.protect.local_dp.LocalDP.protect", protect)
    assert main([*PLAN, "--label", "ill", "--k", "5", "--epsilon", "4"]) == 130
    shown = capsys.readouterr()
    values = json.loads((file / "plan.json").read_text(encoding="utf-8"))
    assert values == json.loads(shown.out)
    assert values["complete"] is False
    assert [p["name"] for p in values["points"]] == [
        "Retrain",
        "Short retrain",
        "Exact trees",
        "SISA",
        "private trees ε=4",
        "k=5, 0 exposed",
    ]
    assert "k=5, 0 exposed" in shown.err


def test_plan_without_advice_is_written_and_not_followed(file, capsys):
    assert main([*PLAN, "--schema", "fine.toml", "--guarantee", "dp", "--require", "dp"]) == 1
    assert json.loads(capsys.readouterr().out)["take"] is None
    train = ["train", "--data", "people.csv", "--label", "ill", "--plan", "plan.json", "--workspace", "ws"]
    assert main(train) == 2
    assert "plan.json recommends nothing: pass --method" in " ".join(capsys.readouterr().out.split())


def test_picture_that_cannot_be_drawn_costs_no_figures(file, capsys, monkeypatch):
    def broken(*_):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("eupg.plan.show.picture", broken)
    assert main([*PLAN, "--label", "ill", "--guarantee", "kanonymity", "--k", "5"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["picture"] is None
    assert len(values["points"]) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--guarantee", "kanonymity", "--epsilon", "4"),
            "--epsilon belongs to --guarantee dp or synthesis or",
        ),
        (("--guarantee", "dp", "--k", "4"), "--k belongs to --guarantee kanonymity and would be ignored with dp"),
        (("--guarantee", "dp", "--max-records", "4"), "--max-records belongs to --guarantee synthesis"),
        (("--out", "nowhere/plan.json"), "there is no folder nowhere"),
        (("--picture", "nowhere/plan.svg"), "there is no folder nowhere"),
    ],
)
def test_option_that_would_be_ignored_is_refused_at_once(file, arguments, words, capsys):
    assert main(["plan", "--data", "people.csv", "--label", "ill", *arguments]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert words in shown
    assert "load" not in shown


@pytest.mark.parametrize("option", [("--label", "y"), ("--no-subject",), ("--drop", "y"), ("--hold-out", "0.3")])
def test_option_about_a_file_is_refused_with_a_public_data_set(option, capsys):
    assert main(["plan", "rand_hie", *option]) == 2
    words = f"{option[0]} describes a file of your own and would be ignored with the data set 'rand_hie'"
    assert words in " ".join(capsys.readouterr().out.split())
