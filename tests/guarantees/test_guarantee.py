import dataclasses
import itertools
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import ParameterError
from eupg.guarantees import (
    CertifiedUnlearning,
    DifferentiallyPrivate,
    Exact,
    Guarantee,
    KAnonymous,
    Neighbours,
    NoGuarantee,
    Unit,
    guarantee_from_json,
)

NAMES = st.lists(st.sampled_from("abc"), unique=True).map(tuple)
COMMON = {
    "covers": NAMES,
    "leaves_open": NAMES,
    "caveats": st.lists(st.sampled_from(["bounds read", "utility learnt"]), unique=True).map(tuple),
    "seeded": st.booleans(),
}
GUARANTEES: st.SearchStrategy[Guarantee] = st.one_of(
    st.builds(Exact, **COMMON),
    st.builds(NoGuarantee, **COMMON),
    st.builds(KAnonymous, k=st.integers(2, 6), records=st.integers(1, 7), **COMMON),
    st.builds(
        DifferentiallyPrivate,
        epsilon=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        delta=st.sampled_from([0.0, 1e-6]),
        unit=st.sampled_from(Unit),
        neighbours=st.sampled_from(Neighbours),
        **COMMON,
    ),
    st.builds(
        CertifiedUnlearning,
        epsilon=st.sampled_from([0.0, 0.5, 1.0]),
        delta=st.sampled_from([0.0, 1e-6, 1e-5]),
        **COMMON,
    ),
)


@given(GUARANTEES)
def test_every_guarantee_implies_itself(a):
    assert a.implies(a)


@given(GUARANTEES, GUARANTEES, GUARANTEES)
def test_implication_is_transitive(a, b, c):
    if a.implies(b) and b.implies(c):
        assert a.implies(c)


@given(GUARANTEES)
def test_exact_without_caveats_implies_everything(a):
    assert Exact().implies(a)


def test_no_other_notion_implies_another():
    kinds = [
        NoGuarantee(),
        KAnonymous(k=10**9),
        DifferentiallyPrivate(epsilon=0),
        CertifiedUnlearning(epsilon=0, delta=0),
    ]
    assert not any(a.implies(b) for a, b in itertools.permutations(kinds, 2))
    assert not any(a.implies(Exact()) for a in kinds)


@given(GUARANTEES, st.integers(1, 5))
def test_group_privacy_never_strengthens(a, records):
    assert a.implies(a.for_person(records))
    assert a.for_person(records).implies(a.for_person(2 * records))


@given(GUARANTEES, st.integers(1, 4), st.integers(1, 4))
def test_group_privacy_multiplies_for_pure_claims(a, r, s):
    if isinstance(a, DifferentiallyPrivate) and a.delta:
        return
    assert a.for_person(r).for_person(s) == a.for_person(r * s)


@given(GUARANTEES)
def test_json_round_trip(a):
    assert guarantee_from_json(json.loads(json.dumps(a.to_json()))) == a


@given(GUARANTEES, GUARANTEES)
def test_a_second_release_never_strengthens_the_claim(a, b):
    together = a.compose(b)
    if type(together) is type(a):
        assert a.implies(together) or isinstance(a, Exact)
    assert together.seeded or not (a.seeded and not isinstance(a, (Exact, NoGuarantee)))


@given(GUARANTEES, GUARANTEES)
def test_both_of_two_claims_of_a_kind_imply_what_holds_for_them_together(a, b):
    together = a.compose(b)
    if type(a) is type(b) is type(together) and not isinstance(a, (Exact, NoGuarantee)):
        assert a.implies(together)
        assert b.implies(together)
        assert set(together.leaves_open) == {*a.leaves_open, *b.leaves_open}


@given(GUARANTEES, GUARANTEES)
def test_whoever_implies_a_claim_implies_it_for_people_with_more_records(a, b):
    if a.implies(b):
        assert a.for_person(3).implies(b.for_person(3))


def test_claim_for_one_record_is_not_the_claim_for_five():
    assert not KAnonymous(k=30).implies(KAnonymous(k=90, records=5))
    assert KAnonymous(k=30).implies(KAnonymous(k=30, records=5))
    assert not DifferentiallyPrivate(epsilon=1).implies(DifferentiallyPrivate(epsilon=1, records=2))
    assert DifferentiallyPrivate(epsilon=2, records=2).implies(DifferentiallyPrivate(epsilon=2))


def test_caveats_and_seeds_survive_composition():
    exact = Exact(caveats=("categories were read",))
    unlearnt = CertifiedUnlearning(epsilon=1, delta=1e-5)
    for claim in (DifferentiallyPrivate(epsilon=1), KAnonymous(k=5), unlearnt, NoGuarantee()):
        assert exact.compose(claim).caveats == claim.compose(exact).caveats or isinstance(claim, NoGuarantee)
        assert "categories were read" in exact.compose(claim).caveats
    assert DifferentiallyPrivate(epsilon=1, seeded=True).compose(NoGuarantee()).seeded
    assert NoGuarantee().compose(KAnonymous(k=3, seeded=True)).seeded


def test_sentence_for_a_person_speaks_of_their_records():
    assert "a forgotten person's 3 records" in DifferentiallyPrivate(epsilon=1).for_person(3).sentence()
    assert "added probability of 1e-05" in DifferentiallyPrivate(epsilon=1, delta=1e-5).sentence()


@given(GUARANTEES)
def test_sentence_tells_about_seed_caveats_and_open_attributes(a):
    said = a.sentence()
    assert ("not private" in said) == a.seeded
    assert all(c[1:] in said for c in (*a.caveats, *a.leaves_open))


def test_differential_privacy_of_a_person_with_three_records():
    # Closed form: (r·ε, r·e^((r−1)ε)·δ); Dwork and Roth 2014, theorem 2.2 and its (ε, δ) form.
    claim = DifferentiallyPrivate(epsilon=0.5, delta=1e-6).for_person(3)
    assert claim.epsilon == pytest.approx(1.5)
    assert claim.delta == pytest.approx(3 * math.exp(1.0) * 1e-6)


def test_person_level_claim_does_not_grow_with_records():
    claim = DifferentiallyPrivate(epsilon=1, unit=Unit.PERSON)
    assert claim.for_person(10) == claim


def test_person_with_more_records_than_k_gets_no_bound():
    claim = KAnonymous(k=5).for_person(7)
    assert claim.bound == 1
    assert "nothing is claimed" in claim.sentence()


def test_budgets_of_two_releases_add_up_where_both_cover():
    one = DifferentiallyPrivate(epsilon=1, covers=("age", "town"))
    two = DifferentiallyPrivate(epsilon=0.5, covers=("age", "label"), leaves_open=("town",))
    assert one.compose(two) == DifferentiallyPrivate(epsilon=1.5, covers=("age",), leaves_open=("town",))


def test_two_k_anonymous_releases_claim_nothing():
    assert isinstance(KAnonymous(k=30).compose(KAnonymous(k=30)), NoGuarantee)
    assert isinstance(DifferentiallyPrivate(epsilon=1).compose(KAnonymous(k=30)), NoGuarantee)


def test_unlearning_of_a_smaller_budget_implies_that_of_a_larger():
    claim = CertifiedUnlearning(epsilon=1, delta=1e-5)
    assert claim.implies(CertifiedUnlearning(epsilon=1, delta=1e-4))
    assert claim.implies(CertifiedUnlearning(epsilon=2, delta=1e-5))
    assert not claim.implies(CertifiedUnlearning(epsilon=0.9, delta=1e-4))
    assert not claim.implies(CertifiedUnlearning(epsilon=2, delta=1e-6))
    assert not claim.implies(DifferentiallyPrivate(epsilon=1, delta=1e-5))
    assert not DifferentiallyPrivate(epsilon=1, delta=1e-5).implies(claim)


def test_unlearning_covers_any_number_of_records_alike():
    claim = CertifiedUnlearning(epsilon=1, delta=1e-5, caveats=("noise is pseudo-random",))
    assert claim.for_person(1) == claim.for_person(1000) == claim
    with pytest.raises(ParameterError, match="at least one record"):
        claim.for_person(0)


def test_budgets_of_two_unlearnt_models_add_up():
    one = CertifiedUnlearning(epsilon=1, delta=1e-5, caveats=("a",))
    two = CertifiedUnlearning(epsilon=0.5, delta=1e-6, caveats=("b",), seeded=True)
    together = one.compose(two)
    assert isinstance(together, CertifiedUnlearning)
    assert (together.epsilon, together.delta) == pytest.approx((1.5, 1.1e-5))
    assert (together.caveats, together.seeded) == (("a", "b"), True)
    assert CertifiedUnlearning(epsilon=1, delta=0.7).compose(CertifiedUnlearning(epsilon=1, delta=0.7)).delta == 1.0


def test_unlearning_beside_a_claim_of_another_kind_claims_nothing():
    claim = CertifiedUnlearning(epsilon=1, delta=1e-5)
    for other in (DifferentiallyPrivate(epsilon=1), KAnonymous(k=30), NoGuarantee()):
        assert isinstance(claim.compose(other), NoGuarantee)
        assert isinstance(other.compose(claim), NoGuarantee)
    assert claim.compose(Exact(caveats=("x",))) == dataclasses.replace(claim, caveats=("x",))
    assert claim.compose(DifferentiallyPrivate(epsilon=1, seeded=True)).seeded


def test_sentence_of_unlearning_says_who_sees_what_and_what_it_compares():
    said = CertifiedUnlearning(epsilon=1, delta=1e-5).sentence()
    assert "(ε=1, δ=1e-05)" in said
    assert "more than e^1 ≈ 2.72 times as likely, apart from an added probability of 1e-05" in said
    assert "a model that was trained without the forgotten records, and vice versa" in said
    assert "all forgotten records together" in said


@pytest.mark.parametrize("wrong", [{"epsilon": -1}, {"epsilon": math.inf}, {"delta": 1.5}, {"delta": math.nan}])
def test_meaningless_budget_of_unlearning_is_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        CertifiedUnlearning(**({"epsilon": 1.0, "delta": 1e-5} | wrong))


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "30"])
def test_k_below_two_or_not_whole_is_refused(k):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 2"):
        KAnonymous(k=k)


@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf])
def test_meaningless_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        DifferentiallyPrivate(epsilon=epsilon)


def test_unknown_notion_is_refused():
    with pytest.raises(ParameterError, match="unknown notion"):
        guarantee_from_json({"notion": "vibes"})


def test_person_without_records_is_refused():
    with pytest.raises(ParameterError, match="at least one record"):
        KAnonymous(k=3).for_person(0)


def test_whoever_stays_with_other_records_has_twice_the_budget():
    whole = DifferentiallyPrivate(
        epsilon=1.0, delta=1e-6, unit=Unit.PERSON, neighbours=Neighbours.ADD_OR_REMOVE, covers=("age",)
    )
    part = whole.for_part()
    assert (part.epsilon, part.neighbours) == (2.0, Neighbours.ALTERED)
    assert part.delta == pytest.approx((1 + math.e) * 1e-6)
    assert part.for_part() == part
    assert "who stays" in part.sentence()
    assert guarantee_from_json(part.to_json()) == part
    record = DifferentiallyPrivate(
        epsilon=1.0, delta=1e-5, unit=Unit.RECORD, neighbours=Neighbours.ADD_OR_REMOVE, covers=("age",)
    )
    assert not whole.implies(record), "a record of a person who stays may let another one take its place"
    assert whole.implies(dataclasses.replace(record, epsilon=2.0))


@given(GUARANTEES)
def test_a_claim_about_a_whole_person_is_never_weaker_than_one_about_a_part(a):
    part = a.for_part()
    assert part == a or (isinstance(part, DifferentiallyPrivate) and part.epsilon == 2 * a.epsilon)


@pytest.mark.parametrize("epsilon", [700.0, 750.0, 1e6])
def test_factor_beyond_reading_is_a_power_wherever_it_is_written(epsilon):
    power = f"e^{epsilon:g} times as likely"
    for claim in (DifferentiallyPrivate(epsilon=epsilon), CertifiedUnlearning(epsilon=epsilon, delta=1e-5)):
        assert power in claim.sentence().replace(f"e^{epsilon:.4g} times", f"e^{epsilon:g} times")
        assert power in claim.plain_words()
        assert "infinitely" not in claim.sentence()


@given(GUARANTEES)
def test_every_field_of_the_json_is_needed_and_no_other_is_taken(a):
    values = a.to_json()
    with pytest.raises(ParameterError, match=r"claim\.extra: expected no such field"):
        guarantee_from_json(values | {"extra": 1})
    for name in values.keys() - {"notion"}:
        with pytest.raises(ParameterError, match=f"claim: expected the field {name}, found none"):
            guarantee_from_json({k: v for k, v in values.items() if k != name})


@pytest.mark.parametrize(
    ("claim", "change", "message"),
    [
        (Exact(), {"seeded": 1}, r"claim\.seeded: expected a valid boolean, found int"),
        (Exact(), {"covers": "age"}, r"claim\.covers: expected a valid array, found str"),
        (Exact(), {"caveats": [7]}, r"claim\.caveats\[0\]: expected a valid string, found int"),
        (KAnonymous(k=3), {"k": 3.0}, r"claim\.k: expected a valid integer, found float"),
        (KAnonymous(k=3), {"k": 1}, r"claim: k must be a whole number of at least 2, got 1"),
        (KAnonymous(k=3), {"records": True}, r"claim\.records: expected a valid integer, found bool"),
        (KAnonymous(k=3), {"shared": {"label": "half"}}, r"claim\.shared\.label: expected a valid number, found str"),
        (DifferentiallyPrivate(epsilon=1), {"epsilon": "1"}, r"claim\.epsilon: expected a valid number, found str"),
        (DifferentiallyPrivate(epsilon=1), {"epsilon": math.nan}, r"claim\.epsilon: expected a finite number"),
        (
            DifferentiallyPrivate(epsilon=1),
            {"unit": "household"},
            r"claim\.unit: expected 'record' or 'person', found str",
        ),
        (
            DifferentiallyPrivate(epsilon=1),
            {"neighbours": "some"},
            r"claim\.neighbours: expected .*'one unit added or removed'",
        ),
        (CertifiedUnlearning(epsilon=1, delta=0.1), {"delta": 2}, r"claim: delta must lie between 0 and 1, got 2"),
        (NoGuarantee(), {"why": None}, r"claim\.why: expected a valid string, found NoneType"),
    ],
)
def test_field_of_another_type_is_refused_with_its_place(claim, change, message):
    with pytest.raises(ParameterError, match=message):
        guarantee_from_json(claim.to_json() | change)


def test_what_was_measured_on_the_release_comes_back():
    claim = KAnonymous(k=3, leaves_open=("label",), shared={"label": 0.25})
    again = guarantee_from_json(json.loads(json.dumps(claim.to_json())))
    assert again.shared == claim.shared
    assert "shared" not in KAnonymous(k=3).to_json()


@given(GUARANTEES)
def test_a_claim_that_promises_nothing_says_what_to_do_instead(a):
    empty = isinstance(a, NoGuarantee) or (isinstance(a, KAnonymous) and a.bound == 1)
    assert (a.why_empty() is not None) == empty
    if empty:
        assert "retrain without the records" in a.why_empty()


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Exact(), "exact"),
        (KAnonymous(k=30, leaves_open=("y",)), "linking ≤ 1/30, y not covered"),
        (
            KAnonymous(k=30, leaves_open=("y",), shared={"y": 0.29}),
            "linking ≤ 1/30, y shared in the group by 29 %, y not covered",
        ),
        (KAnonymous(k=30, leaves_open=("x", "y")), "linking ≤ 1/30, 2 attributes not covered"),
        (DifferentiallyPrivate(epsilon=1.0), "ε=1 per record"),
        (CertifiedUnlearning(epsilon=1.0, delta=1e-5), "(1, 1e-05)-unlearning"),
    ],
)
def test_claims_in_a_few_words(claim, words):
    assert claim.label == words


def test_guarantees_are_read_without_anything_heavy():
    code = (
        "import sys, eupg.guarantees, eupg.certify.verification; print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'eupg'" in loaded
    assert not [name for name in ("numpy", "pandas", "scipy", "sklearn", "torch", "xgboost") if f"'{name}'" in loaded]
