"""The pointer: what is live, what was given up, and bytes that say so."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import WorkspaceDamaged
from eupg.manage.storage.state import Answered, DeletedFile, Event, ReleaseEntry, WorkspaceState, digest_of_all

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.text(max_size=9), JSON, max_size=4)
RELEASES = st.builds(
    ReleaseEntry, digest=DIGESTS, claim=BODIES, k=st.none() | st.integers(2, 99), constant=st.just({"age": 0.5})
)
CURRENTS = st.builds(
    WorkspaceState,
    number=st.integers(1, 10**6),
    records=st.lists(DIGESTS, max_size=3).map(tuple),
    held_out=st.lists(DIGESTS, max_size=2).map(tuple),
    served=DIGESTS,
    parts=st.dictionaries(st.text(max_size=9), DIGESTS, max_size=3),
    index=DIGESTS,
    claim=BODIES,
    releases=st.lists(RELEASES, max_size=2).map(tuple),
    given_up=st.lists(st.builds(DeletedFile, records=st.booleans(), what=st.text(), digest=DIGESTS), max_size=3).map(
        tuple
    ),
    answered=st.lists(st.builds(Answered, request=st.text(), details=BODIES), max_size=3).map(tuple),
    events=st.lists(st.builds(Event, kind=st.text(), body=BODIES), max_size=3).map(tuple),
)


@given(CURRENTS)
def test_bytes_give_it_back_and_the_same_bytes_again(state):
    """The ledger notes the digest of these bytes, also after a crash, when they were read and written again."""
    content = state.to_bytes()
    assert WorkspaceState.from_bytes(content) == state
    assert WorkspaceState.from_bytes(content).to_bytes() == content


@given(CURRENTS)
def test_bytes_are_plain_json(state):
    assert json.loads(state.to_bytes())["parts"] == state.parts


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(content):
    with pytest.raises(WorkspaceDamaged, match=r"current\.json cannot be read"):
        WorkspaceState.from_bytes(content)


START = WorkspaceState(
    number=1,
    records=("a" * 64, "b" * 64),
    held_out=("c" * 64,),
    served="2" * 64,
    parts={"base": "1" * 64},
    index="3" * 64,
    claim={"notion": "exact"},
    releases=(ReleaseEntry("d" * 64, {"notion": "exact"}, None, {}),),
)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.pop("parts"),
        lambda v: v.update(extra=1),
        lambda v: v.update(format="eupg-current-9"),
        lambda v: v["releases"][0].pop("claim"),
        lambda v: v.update(events=[1]),
    ],
    ids=["missing", "extra", "format", "part", "list"],
)
def test_wrong_fields_are_refused(change):
    values = json.loads(START.to_bytes())
    change(values)
    with pytest.raises(WorkspaceDamaged):
        WorkspaceState.from_bytes(json.dumps(values).encode())


def test_first_format_is_read():
    """It knew one method: a base model, with the claim of the last release."""
    values = json.loads(START.to_bytes()) | {"format": "eupg-current-1", "base": "1" * 64}
    values = {name: value for name, value in values.items() if name not in ("parts", "claim")}
    assert WorkspaceState.from_bytes(json.dumps(values).encode()) == START


def test_what_only_the_old_state_needs_is_given_up():
    new = START.followed_by((Event("forget", {}),), served="4" * 64, index="5" * 64, records=("b" * 64,))
    assert new.number == 2
    assert {(g.what, g.digest, g.records) for g in new.given_up} == {
        ("served model", "2" * 64, False),
        ("subject index", "3" * 64, False),
        ("records", "a" * 64, True),
    }
    assert new.given_up[-1].what == "subject index"


def test_base_model_that_is_served_stays_as_long_as_it_is_needed():
    """Where nothing is fine-tuned, base and served model are one file."""
    base = START.parts["base"]
    same = dataclasses.replace(START, served=base)
    assert same.followed_by((), served="4" * 64).given_up == ()
    assert START.followed_by((), served=base).given_up == (DeletedFile(False, "served model", "2" * 64),)


def test_answers_and_events_belong_to_one_change():
    first = START.followed_by((Event("a", {}),), (Answered("r", {}),))
    second = first.followed_by(())
    assert (second.events, second.answered, second.given_up) == ((), (), ())


def test_everything_live_is_named():
    assert START.live_files == {"1" * 64, "2" * 64, "3" * 64}
    assert START.live_records == {"a" * 64, "b" * 64, "c" * 64}


def test_digest_of_the_retained_records_changes_with_them():
    fewer = dataclasses.replace(START, records=("b" * 64,))
    assert digest_of_all(START.records) != digest_of_all(fewer.records)
    assert digest_of_all(()) is None
