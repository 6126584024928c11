"""A cell's hash is that of what it is: stable, complete, and blind to the order in which it is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import DataError
from eupg_reproduction.cell import Cell, group, matches
from eupg_reproduction.kinds import KINDS

CONFIG = {"kind": "quality", "set": "adult", "model": "mlp", "method": "EUPG k=30", "repetition": 2, "forget": 0.05}
TOGETHER = {name: kind.together for name, kind in KINDS.items()}


def test_the_hash_is_the_same_on_every_machine_and_in_every_version():
    # SHA-256 of the sorted JSON, by hand: a results file must be found again in years.
    assert Cell.of(CONFIG).key == "7ed230313fa7b061"


@given(st.permutations(list(CONFIG.items())))
def test_the_order_of_the_words_makes_no_difference(items):
    assert Cell.of(dict(items)) == Cell.of(CONFIG)
    assert Cell.of(dict(items)).key == Cell.of(CONFIG).key


@pytest.mark.parametrize("name", list(CONFIG))
def test_whatever_is_said_makes_a_difference(name):
    other = 7 if name in ("repetition", "forget") else "another"
    assert Cell.of(CONFIG | {name: other}).key != Cell.of(CONFIG).key
    assert Cell.of(CONFIG | {"new": 1}).key != Cell.of(CONFIG).key


def test_the_plain_form_comes_back():
    assert Cell.of(CONFIG).config == CONFIG


def test_a_cell_without_its_own_words_is_refused():
    with pytest.raises(DataError, match="'model' is missing"):
        Cell.of({k: v for k, v in CONFIG.items() if k != "model"})


def test_methods_of_one_repetition_share_a_job_and_others_do_not():
    cells = [
        Cell.of(CONFIG | {"method": method, "finetune": finetune, "repetition": repetition})
        for method in ("Retrain", "SISA")
        for finetune in (1, 5)
        for repetition in (0, 1)
    ]
    jobs = group(cells, TOGETHER)
    assert sorted(len(job.cells) for job in jobs) == [4, 4]
    assert all(len({cell.repetition for cell in job.cells}) == 1 for job in jobs)


def test_protections_make_bases_of_their_own():
    cells = [
        Cell("exposure", "adult", "mlp", method, (("exposure", share),), 0)
        for method in ("k=10", "k=30")
        for share in (0.0, 0.05)
    ]
    assert [{cell.method for cell in job.cells} for job in group(cells, TOGETHER)] == [{"k=10"}, {"k=30"}]


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ([], True),
        (["set=adult"], True),
        (["set=adu"], False),
        (["method=EUPG k=30"], True),
        (["EUPG"], True),
        (["k=30"], True),
        (["forget=0.05", "repetition=2"], True),
        (["forget=0.05", "repetition=1"], False),
        (["heart"], False),
    ],
)
def test_filters(filters, passes):
    assert matches(Cell.of(CONFIG), filters) == passes
