"""A plan: every point measured, the controls beside it, and advice that follows from the figures."""

import dataclasses
import json

import numpy as np
import pytest

from eupg import LocalDP, ProbabilisticKAnonymity, XGBoostLearner
from eupg.cli import main
from eupg.compare.show import claim_label
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.score import accuracy
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.guarantees import Exact, KAnonymous
from eupg.guarantees.wording import NO_PERSON, percent
from eupg.learn.best_of import BestOf
from eupg.learn.recipes import Recipe
from eupg.plan.advice import advise
from eupg.plan.frontier import Frontier, Point, measure
from eupg.plan.show import picture, table
from eupg.protect.kanonymity import shared_values
from eupg.protect.mechanism import Mechanism
from people import people

LEARNER = XGBoostLearner(max_depth=2, threads=1)
RECIPE = Recipe(BestOf((LEARNER,), 0.2), 8, BestOf((LEARNER,)), 4, LEARNER, 4)
MECHANISMS: dict[str, Mechanism] = {"k=5": ProbabilisticKAnonymity(5), "ε=4": LocalDP(4.0)}


def source(rows: int = 400) -> Source:
    data, rest = people(rows), people(150, seed=9)
    rest = dataclasses.replace(rest, ids=np.char.add("t", rest.ids), subjects=np.char.add("t", rest.subjects))
    return Source("people", data, rest, accuracy)


def unwatched(step, work, /):
    return work()


@pytest.fixture(scope="module")
def frontier():
    return measure(source(), RECIPE, MECHANISMS, exposures=(0.0, 0.3, 1.0), watch=unwatched)


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
    found = measure(asked, given, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0,), watch=unwatched)
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
    chosen = advise(Frontier("table", 1, 1, "accuracy", tuple(p for p in frontier.points if p.guarantee != "ε=4")))
    told = f"{data.schema.label.name} {percent(shares[data.schema.label.name])}"
    assert told in chosen.words
    assert "record-level" not in chosen.words
    assert claim_label(point.claim).startswith("linking ≤ 1/5, ill shared in the group by")


def test_plan_without_a_person_column_says_that_claims_are_about_records():
    asked = source()
    schema = Schema(tuple(a for a in asked.train.schema.attributes if a is not asked.train.schema.subject))
    train, test = (Dataset(schema, d.X, d.y, d.ids, d.ids) for d in (asked.train, asked.test))
    found = measure(
        dataclasses.replace(asked, train=train, test=test), RECIPE, MECHANISMS, exposures=(0.0,), watch=unwatched
    )
    for name in ("k=5, 0 exposed", "ε=4, 0 exposed"):
        assert NO_PERSON in found.named(name).to_json()["claim"]["caveats"]
    assert "other records of the same person are not known here" in advise(found).words


def test_share_of_free_erasures_and_their_cost(frontier):
    alone, some, all_ = (frontier.named(f"k=5, {e} exposed") for e in ("0", "0.3", "1"))
    assert (alone.free, alone.expected_s) == (1.0, 0.0)
    assert some.free == pytest.approx(0.7, abs=0.01)
    assert some.expected_s == pytest.approx(0.3 * some.erase_s, rel=0.05)
    assert (all_.free, all_.expected_s) == (0.0, all_.erase_s)
    assert frontier.named("From scratch, 0.3 exposed").free == some.free


def point(name, utility, seconds, free=0.0, guarantee="k=5", exposure=0.1) -> Point:
    claim = Exact() if guarantee is None else KAnonymous(k=5)
    return Point(name, guarantee, exposure, utility, 1.0, seconds, free, claim)


def made(*points) -> Frontier:
    controls = (point("Retrain", 80.0, 10.0, guarantee=None, exposure=None),
                point("Short retrain", 79.0, 1.0, guarantee=None, exposure=None))  # fmt: skip
    return Frontier("table", 100, 100, "accuracy", (*controls, *points))


def test_cheapest_point_within_the_tolerance_is_taken():
    found = made(point("dear", 80.5, 2.0), point("cheap", 79.8, 2.0, 0.99), point("worse", 70.0, 0.0, 1.0))
    assert advise(found, tolerance=0.3).point.name == "cheap"
    assert advise(found, tolerance=0.1).point.name == "dear"
    assert advise(found, tolerance=20).point.name == "worse"


def test_where_nothing_is_good_enough_the_best_is_taken_and_that_is_said():
    advice = advise(made(point("low", 60.0, 0.1), point("lower", 50.0, 0.0)), tolerance=0.3)
    assert advice.point.name == "low"
    assert not advice.within
    assert "Nothing protected comes within 0.3 points" in advice.words


def test_a_control_that_is_better_is_named():
    assert "short retrain is exact and 1.0 points worse" in advise(made(point("fine", 80.0, 0.1, 0.9))).words
    beaten = advise(made(point("poor", 78.0, 0.1, 0.9)), tolerance=5)
    assert "short retrain is exact and 1.0 points better" in beaten.words
    alike = made(point("fine", 80.0, 0.1, 0.9), point("From scratch", 80.4, 0.2, 0.9, guarantee=None))
    assert "does not pay at this exposure" in advise(alike).words
    assert "does not pay" not in advise(made(point("fine", 80.0, 0.1, 0.9))).words


def test_yearly_cost_follows_from_the_rate_of_requests():
    assert "At 100 requests a month that is 120 s" not in advise(made(point("p", 80.0, 0.1)), requests_a_month=10).words
    assert "At 100 requests a month that is 2 min" in advise(made(point("p", 80.0, 0.1)), requests_a_month=100).words


def test_table_and_picture_show_every_point(frontier, tmp_path):
    advice = advise(frontier)
    assert table(frontier, advice).row_count == len(frontier.points)
    text = picture(frontier, advice, tmp_path / "plan.svg").read_text()
    for words in ("k=5", "ε=4", "Retrain", "Short retrain", "recommended", "from scratch on the same people"):
        assert words in text


@pytest.mark.parametrize("wrong", [{"exposures": (1.5,)}, {"exposures": (-0.1,)}])
def test_exposures_outside_the_range_are_refused(wrong):
    with pytest.raises(ParameterError, match="from 0 to 1"):
        measure(source(), RECIPE, MECHANISMS, watch=unwatched, **wrong)


def test_too_few_people_are_refused():
    with pytest.raises(DataError, match="at least 50 people"):
        measure(source(40), RECIPE, MECHANISMS, watch=unwatched)


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
    assert shown["take"]["guarantee"] == "k=5"
    assert "looked at the records" in shown["not_covered"]
    assert (tmp_path / "plan.svg").stat().st_size > 5_000


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
        found = measure(source(), RECIPE, mechanisms, exposures=(0.0, 0.3), watch=unwatched)
        assert [(u.name, u.guarantee, u.exposure) for u in found.unmeasured] == [
            ("broken, 0 exposed", "broken", 0.0),
            ("broken, 0.3 exposed", "broken", 0.3),
        ]
        assert all(u.reason.startswith(reason) for u in found.unmeasured)
        assert [p.name for p in found.points][-2:] == ["k=5, 0 exposed", "k=5, 0.3 exposed"]
        advice = advise(found)
        assert advice.point.guarantee == "k=5"
        assert "2 of 7 rows were not measured" in advice.words
        assert table(found, advice).row_count == 7
        assert picture(found, advice, tmp_path / "p.svg").is_file()

    def test_failing_guarantee_is_tried_once(self):
        steps = []

        def watched(step, work, /):
            steps.append(step)
            return work()

        mechanisms = {"broken": Failing(DataError("no")), "k=5": MECHANISMS["k=5"]}
        measure(source(), RECIPE, mechanisms, exposures=(0.0, 0.3, 1.0), watch=watched)
        assert steps.count("broken: base model") == 1

    def test_exposure_of_too_few_people_is_a_row_that_says_so(self):
        found = measure(source(), RECIPE, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0, 0.01), watch=unwatched)
        assert [u.name for u in found.unmeasured] == ["From scratch, 0.01 exposed", "k=5, 0.01 exposed"]
        assert "at least 10 people, and this exposure draws 1" in found.unmeasured[1].reason

    def test_interrupted_plan_returns_the_rows_before(self):
        steps = []

        def interrupted(step, work, /):
            steps.append(step)
            if len(steps) == 4:
                raise KeyboardInterrupt
            return work()

        found = measure(source(), RECIPE, MECHANISMS, exposures=(0.0, 0.3), watch=interrupted)
        assert found.interrupted
        assert [p.name for p in found.points] == ["Retrain", "Short retrain", "From scratch, 0.3 exposed"]
        assert len(found.unmeasured) == 4
        advice = advise(found)
        assert advice.point is None
        assert "No advice: no guarantee was measured. The plan was interrupted: 4 of 7 rows" in advice.words

    def test_without_full_retraining_there_is_no_advice(self):
        recipe = dataclasses.replace(RECIPE, learner=Stopping(LEARNER, 0, RuntimeError("no memory")))
        found = measure(source(), recipe, {"k=5": MECHANISMS["k=5"]}, exposures=(0.0,), watch=unwatched)
        assert [p.name for p in found.points] == ["Short retrain"]
        assert advise(found).point is None

    @pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()])
    def test_where_nothing_was_measured_the_error_is_raised(self, error):
        def broken(step, work, /):
            raise error

        with pytest.raises(type(error)):
            measure(source(), RECIPE, MECHANISMS, watch=broken)


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
    assert {p["guarantee"] for p in values["points"]} == {None, "k=5", "ε=4", "synthetic ε=4"}
    assert values["unmeasured"] == []
    title = " ".join(shown.err.split())
    assert "people: 240 records; auc in percent on records held out" in title


def test_row_that_cannot_be_measured_is_shown_and_written_with_its_reason(file, capsys):
    assert main([*PLAN, "--schema", "fine.toml", "--k", "5", "--epsilon", "4"]) == 0
    shown = capsys.readouterr()
    values = json.loads(shown.out)
    assert values == json.loads((file / "plan.json").read_text(encoding="utf-8"))
    (row,) = values["unmeasured"]
    assert row["name"] == "ε=4, 0 exposed"
    assert "a grid has 1 to 1048576 points" in row["reason"]
    assert "not measured" in shown.err
    assert values["take"]["guarantee"] in ("k=5", "synthetic ε=4")


def test_interrupted_command_shows_and_writes_what_was_measured(file, capsys, monkeypatch):
    def protect(self, data, rng):
        raise KeyboardInterrupt

    monkeypatch.setattr("eupg.protect.local_dp.LocalDP.protect", protect)
    assert main([*PLAN, "--label", "ill", "--k", "5", "--epsilon", "4"]) == 130
    shown = capsys.readouterr()
    values = json.loads((file / "plan.json").read_text(encoding="utf-8"))
    assert values == json.loads(shown.out)
    assert values["complete"] is False
    assert [p["name"] for p in values["points"]] == ["Retrain", "Short retrain", "k=5, 0 exposed"]
    assert "k=5, 0 exposed" in shown.err


def test_plan_without_advice_is_written_and_not_followed(file, capsys):
    assert main([*PLAN, "--schema", "fine.toml", "--guarantee", "dp"]) == 1
    assert json.loads(capsys.readouterr().out)["take"] is None
    train = ["train", "--data", "people.csv", "--label", "ill", "--plan", "plan.json", "--workspace", "ws"]
    assert main(train) == 2
    assert "plan.json recommends nothing: pass --guarantee" in " ".join(capsys.readouterr().out.split())


def test_picture_that_cannot_be_drawn_costs_no_figures(file, capsys, monkeypatch):
    def broken(*_):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("eupg.plan.show.picture", broken)
    assert main([*PLAN, "--label", "ill", "--guarantee", "kanonymity", "--k", "5"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["picture"] is None
    assert len(values["points"]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--guarantee", "kanonymity", "--epsilon", "4"), "--epsilon belongs to --guarantee dp or synthesis and"),
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


@pytest.mark.parametrize(
    "option", [("--label", "y"), ("--no-subject",), ("--drop", "y"), ("--hold-out", "0.3"), ("--test-share", "0.3")]
)
def test_option_about_a_file_is_refused_with_a_public_data_set(option, capsys):
    assert main(["plan", "rand_hie", *option]) == 2
    words = f"{option[0]} describes a file of your own and would be ignored with the data set 'rand_hie'"
    assert words in " ".join(capsys.readouterr().out.split())
