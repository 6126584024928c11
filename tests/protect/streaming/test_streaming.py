"""k-anonymity of tables in files: the claim of the mechanism in memory, the same bytes everywhere, nothing left."""

import os
import pickle
import signal
import struct
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eupg
import tasks
from eupg.data import Categorical
from eupg.data.schema import Schema
from eupg.errors import DataError, LockHeld, ParameterError, WrongState
from eupg.executor import Executor, InProcess, LocalProcesses
from eupg.guarantees import KAnonymous
from eupg.protect import ProbabilisticKAnonymity, ReleaseFiles, protect_files
from eupg.protect.microaggregation.mdav import partitioned_mdav
from eupg.protect.streaming import run, stages
from eupg.protect.streaming.chunks import TableColumns, chunks_of
from eupg.protect.streaming.cut_tree import CutTree
from eupg.protect.streaming.folder import claimed
from eupg.protect.streaming.kernel import permuted
from eupg.protect.streaming.packed import Sorted, read_rows
from eupg.rng import Secret, Seeded
from large import SCHEMA, bytes_of, people


def stored(folder: Path, frame: pd.DataFrame, name: str = "table.parquet") -> Path:
    path = folder / name
    frame.to_parquet(path, row_group_size=500)
    return path


small = partial(protect_files, k=5, cell=200, part=700, executor=InProcess())


def test_release_holds_every_value_once_and_confidential_values_beside_their_label(tmp_path):
    frame = people()
    release = small(stored(tmp_path, frame), SCHEMA, tmp_path / "out", rng=Seeded(3))
    assert len(release.parts) == 8
    shown = pd.concat([pd.read_parquet(release.folder / name) for name in release.parts])
    assert "person" not in shown
    for name in ("age", "income", "town", "school", "since", "illness", "ill"):
        assert Counter(map(_plain, shown[name])) == Counter(map(_plain, frame[name])), name
    assert set(zip(shown["illness"].astype(int), shown["ill"], strict=True)) == set(
        zip(frame["illness"], frame["ill"], strict=True)
    )
    pairs = set(zip(frame["age"], frame["income"], frame["since"], strict=True))
    kept = sum(pair in pairs for pair in zip(shown["age"], shown["income"], shown["since"], strict=True))
    assert kept < len(frame) / 10


def test_rows_are_in_random_order_over_all_parts(tmp_path):
    release = small(stored(tmp_path, people()), SCHEMA, tmp_path / "out", rng=Seeded(3))
    parts = [X for X, _ in release.batches()]
    order = np.concatenate([X[:, 5] for X in parts])
    # The record's number is confidential, so it stays with its row. The correlation of a random order of 3000 has a
    # standard deviation of 0.018, and rows that came group by group would have a correlation of ages beyond 0.3.
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.09
    for j in (0, 4):
        before, after = (np.concatenate([part[j] for part in pairs]) for pairs in _neighbours([X.T for X in parts]))
        assert abs(np.corrcoef(before, after)[0, 1]) < 0.09


def _neighbours(parts):
    return [part[:, :-1] for part in parts], [part[:, 1:] for part in parts]


def test_claim_is_that_of_the_mechanism_in_memory(tmp_path):
    release = small(stored(tmp_path, people()), SCHEMA, tmp_path / "out", rng=Secret())
    claim = ProbabilisticKAnonymity(5).guarantee(SCHEMA)
    assert release.guarantee == claim
    assert not release.seeded
    assert isinstance(release.guarantee, KAnonymous)
    shared = dict(release.guarantee.shared or {})
    assert shared.keys() == {"illness", "ill"}
    assert shared["illness"] == 0
    assert 0 < shared["ill"] < 0.5
    assert SCHEMA["person"] not in release.schema.attributes
    opened = ReleaseFiles.open(tmp_path / "out")
    assert (opened.guarantee, opened.schema, opened.parts) == (release.guarantee, release.schema, release.parts)
    whole = opened.load()
    assert (len(whole), len(opened)) == (3000, 3000)
    assert whole.guarantee == release.guarantee


def test_seeded_run_repeats_whatever_runs_it_and_says_that_it_is_not_private(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ROWS", 600)
    source = stored(tmp_path, people())
    executors: dict[str, Executor] = {"one": LocalProcesses(1), "two": _KillsOne(tmp_path / "killed")}
    for name, executor in executors.items():
        release = small(source, SCHEMA, tmp_path / name, rng=Seeded(7), executor=executor)
        assert release.seeded
        assert "not private" in release.guarantee.sentence()
    assert sorted(p.suffix for p in tmp_path.glob("killed.*")) == [".group", ".route"]
    assert len({bytes_of(tmp_path / name) for name in executors}) == 1
    small(source, SCHEMA, tmp_path / "other", rng=Seeded(8))
    small(source, SCHEMA, tmp_path / "secret")
    small(source, SCHEMA, tmp_path / "secret again")
    assert len({bytes_of(tmp_path / name) for name in ("one", "other", "secret", "secret again")}) == 4


class _KillsOne:
    """Two processes for the stages that read and write records, one of which is killed in each."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def map(self, work, items):
        stage = work.func.__name__.split("_")[0]
        if stage not in ("route", "group"):
            return InProcess().map(work, items)
        return LocalProcesses(2).map(tasks.KilledOnce(work, self.flag.with_suffix(f".{stage}")), items)


class _Sent:
    """Remembers what would travel between machines."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def map(self, work, items):
        self.messages += [pickle.dumps(work), *map(pickle.dumps, items)]
        for position, answer in InProcess().map(work, items):
            self.messages.append(pickle.dumps(answer))
            yield position, answer


def test_tasks_and_results_hold_no_records(tmp_path):
    frame, sent = people(), _Sent()
    small(stored(tmp_path, frame), SCHEMA, tmp_path / "out", executor=sent)
    assert len(sent.messages) > 50
    assert max(map(len, sent.messages)) < 40_000
    values = [value for value in frame["income"].dropna().unique() if value >= 1000]
    assert len(values) > 2000
    both = [struct.pack(form, value) for value in values for form in ("<d", ">d")]
    everything = b"".join(sent.messages)
    assert [value for value in both if value in everything] == []


def test_files_of_other_kinds_give_the_same_release(tmp_path):
    frame = people(400)
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_csv(tmp_path / "table.tsv", index=False, sep="\t")
    with pa.ipc.new_file(tmp_path / "table.arrow", (table := pa.Table.from_pandas(frame)).schema) as writer:
        writer.write_table(table)
    (tmp_path / "folder").mkdir()
    stored(tmp_path / "folder", frame[:150], "a.parquet")
    stored(tmp_path / "folder", frame[150:], "b.parquet")
    stored(tmp_path, frame)
    sources = ("table.parquet", "table.csv", "table.tsv", "table.arrow", "folder")
    for name in sources:
        small(tmp_path / name, SCHEMA, tmp_path / f"out {name}", rng=Seeded(7))
    assert len({bytes_of(tmp_path / f"out {name}") for name in sources}) == 1


def test_csv_file_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ROWS", 100)
    people(950).to_csv(tmp_path / "table.csv", index=False)
    with claimed(tmp_path / "x") as records:
        chunks = chunks_of(tmp_path / "table.csv", TableColumns(SCHEMA), records, rows=100)
    assert [chunk.rows for chunk in chunks] == [100] * 9 + [50]
    assert len(small(tmp_path / "table.csv", SCHEMA, tmp_path / "out")) == 950


def test_row_groups_that_are_too_large_are_read_in_pieces(tmp_path, monkeypatch):
    people(950).to_parquet(tmp_path / "table.parquet", row_group_size=950)
    with claimed(tmp_path / "x") as records:
        chunks = chunks_of(tmp_path / "table.parquet", TableColumns(SCHEMA), records, rows=100)
        assert {Path(chunk.path).parent for chunk in chunks} == {records}
        whole = chunks_of(tmp_path / "table.parquet", TableColumns(SCHEMA), records, rows=300)
    assert [chunk.rows for chunk in chunks] == [100] * 9 + [50]
    assert [(chunk.path, chunk.rows) for chunk in whole] == [(str(tmp_path / "table.parquet"), 950)]
    small(tmp_path / "table.parquet", SCHEMA, tmp_path / "one", rng=Seeded(1))
    monkeypatch.setattr(run, "ROWS", 100)
    small(tmp_path / "table.parquet", SCHEMA, tmp_path / "two", rng=Seeded(1))
    assert len(ReleaseFiles.open(tmp_path / "two")) == 950
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_many_categories_are_placed_in_pieces(tmp_path, monkeypatch):
    names = tuple(f"town {i}" for i in range(300))
    rng = np.random.default_rng(1)
    frame = people(2000).assign(town=rng.choice(names, 2000))
    towns = Categorical(name="town", categories=names)
    schema = Schema(tuple(towns if a.name == "town" else a for a in SCHEMA.attributes))
    source = stored(tmp_path, frame)
    small(source, schema, tmp_path / "one", rng=Seeded(1))
    monkeypatch.setattr(stages, "_NUMBERS", 1 << 21)
    small(source, schema, tmp_path / "two", rng=Seeded(1))
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


@pytest.mark.parametrize("equal", [0.5, 1.0])
def test_equal_rows_beyond_a_cell_and_small_leaves_still_give_groups_of_k(tmp_path, equal):
    frame = people(2000)
    count = int(equal * len(frame))
    for name in ("age", "income", "town", "school", "since"):
        frame[name] = frame[name].where(np.arange(len(frame)) >= count, frame[name][0])
    settings = stages.StreamSettings(SCHEMA, 7, str(tmp_path), 100, 700)
    chunks = chunks_of(stored(tmp_path, frame), settings.columns, tmp_path)
    plan = run.plan_of(settings, [stages.survey_chunk(settings, chunk) for chunk in chunks])
    routed = [stages.route_chunk(plan, chunk) for chunk in chunks]
    cells = stages.cells_of(plan, routed)
    sizes = [sum(piece.rows for piece in cell) for cell in cells]
    assert sum(sizes) == 2000
    assert min(sizes) >= 7
    assert max(sizes) <= 200
    done = [stages.group_cell(plan, task) for task in run.cell_tasks(plan, routed, Seeded(1))]
    assert min(cell.smallest for cell in done) >= 7
    assert sum(int(cell.file.counts.sum()) for cell in done) == 2000


def test_leaves_with_fewer_than_k_rows_are_joined():
    plan = _plan(k=10, cell=40, rows=3 + 4 + 5 + 30 + 100 + 2)
    counts = np.array([3, 4, 5, 30, 100, 2])
    cells = stages.cells_of(plan, [Sorted("a", counts)])
    assert [sum(piece.rows for piece in cell) for cell in cells] == [12, 30, 50, 52]
    assert [(p.first, p.rows) for cell in cells for p in cell] == [
        (0, 3), (3, 4), (7, 5), (12, 30), (42, 50), (92, 50), (142, 2)
    ]  # fmt: skip


def _plan(*, k: int, cell: int, rows: int) -> stages.Routing:
    settings = stages.StreamSettings(SCHEMA, k, "", cell, 700)
    return stages.Routing(settings, (), CutTree._of([], [], 1), rows)


def test_values_move_inside_groups_only(tmp_path, monkeypatch):
    formed = []

    def remembered(points, k):
        groups = partitioned_mdav(points, k)
        formed.append(groups)
        return groups

    monkeypatch.setattr(stages, "group_rows", remembered)
    frame = people(300)
    settings = stages.StreamSettings(SCHEMA, 5, str(tmp_path), 10_000, 700)
    chunks = chunks_of(stored(tmp_path, frame), settings.columns, tmp_path)
    plan = run.plan_of(settings, [stages.survey_chunk(settings, chunk) for chunk in chunks])
    routed = [stages.route_chunk(plan, chunk) for chunk in chunks]
    (task,) = run.cell_tasks(plan, routed, Secret())
    before = read_rows(task.slices, plan.layout)
    after = read_rows(tuple(stages.group_cell(plan, task).file.slices()), plan.layout)
    # The confidential number names the record, and stays with its row.
    group = dict(zip(before["c5"], formed[0], strict=True))
    moved = 0
    for j in range(5):
        values: dict[int, Counter[str]] = {number: Counter() for number in set(formed[0])}
        for number, value in zip(formed[0], before[f"c{j}"].tolist(), strict=True):
            values[number][str(value)] += 1
        for record, value in zip(after["c5"], after[f"c{j}"].tolist(), strict=True):
            values[group[record]][str(value)] -= 1
        assert not any(count for counter in values.values() for count in counter.values())
        home = dict(zip(before["c5"], before[f"c{j}"], strict=True))
        moved += sum(home[record] != value for record, value in zip(after["c5"], after[f"c{j}"], strict=True))
    assert moved > 500


def test_permutations_are_uniform():
    rng, groups = Seeded(5), 30_000
    starts = np.arange(0, 3 * groups + 1, 3)
    source = np.empty(3 * groups, np.int64)
    assert permuted(rng.words(3 * groups), starts, source)
    orders = Counter(map(tuple, source.reshape(-1, 3) % 3))
    # A false alarm in one of 10,000 seeds; an order that is 6 % too likely is found.
    assert len(orders) == 6
    assert sum((count - groups / 6) ** 2 / (groups / 6) for count in orders.values()) < 25.7
    assert (source // 3 == np.arange(3 * groups) // 3).all()


def test_words_that_would_favour_some_permutations_are_drawn_again():
    starts, source = np.array([0, 3]), np.empty(3, np.int64)
    assert 2**63 % 3 == 2
    assert not permuted(np.array([0, 0, 2**63 - 1], np.uint64), starts, source)
    assert not permuted(np.array([0, 0, 2**63 - 2], np.uint64), starts, source)
    assert permuted(np.array([0, 0, 2**63 - 3], np.uint64), starts, source)


def test_nothing_but_the_release_is_left(tmp_path):
    small(stored(tmp_path, people(500)), SCHEMA, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["_release.json", "part-00000.parquet"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": -5}, "column 'age': 500 of 500 rows lie outside the public bounds"),
        ({"town": "Rome"}, r"column 'town': 500 of 500 rows hold categories the schema does not list \('Rome'\)"),
        ({"age": np.nan}, "column 'age': 500 of 500 rows are missing: drop them, or declare missing"),
        ({"ill": None}, "column 'ill': 500 of 500 rows are missing"),
        ({"age": "many"}, "column 'age': 500 of 500 rows are not numbers"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_nothing_is_left(tmp_path, change, message):
    frame = people(500).assign(**change)
    with pytest.raises(DataError, match=message):
        small(stored(tmp_path, frame), SCHEMA, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_wrong_use_says_what_to_do(tmp_path):
    source, out = stored(tmp_path, people(50)), tmp_path / "out"
    with pytest.raises(DataError, match=r"lacks 'age', which the schema declares; it has .*correct the schema"):
        small(stored(tmp_path, people(50).rename(columns={"age": "Age"}), "other.parquet"), SCHEMA, out)
    with pytest.raises(DataError, match="k=51 needs at least 51 records, got 50: lower k"):
        small(source, SCHEMA, out, k=51)
    with pytest.raises(DataError, match=r"no file .*nothing\.csv"):
        small(tmp_path / "nothing.csv", SCHEMA, out)
    with pytest.raises(DataError, match="holds no Parquet file"):
        small(tmp_path / "out", SCHEMA, tmp_path / "out 2")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"broken\.parquet cannot be read as a table"):
        small(tmp_path / "broken.parquet", SCHEMA, out)
    with pytest.raises(ParameterError, match="a cell holds at least 2k=10 records"):
        small(source, SCHEMA, out, cell=9)
    with pytest.raises(WrongState, match="is a file"):
        small(source, SCHEMA, source)
    assert list(out.iterdir()) == []
    small(source, SCHEMA, out)
    with pytest.raises(WrongState, match="holds a release already: name another folder"):
        small(source, SCHEMA, out)
    with pytest.raises(WrongState, match="holds other files, such as"):
        small(source, SCHEMA, tmp_path)
    with pytest.raises(DataError, match="holds no release that can be read"):
        ReleaseFiles.open(tmp_path)


def test_folder_in_use_is_refused(tmp_path):
    source = stored(tmp_path, people(50))
    with claimed(tmp_path / "out") as records:
        assert oct(records.stat().st_mode)[-3:] == "700"
        with pytest.raises(LockHeld, match=r"another run writes to .*: wait until it ends, or name another folder"):
            small(source, SCHEMA, tmp_path / "out")
    assert len(small(source, SCHEMA, tmp_path / "out")) == 50


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from eupg.executor import InProcess
from large import SCHEMA
from test_streaming import small

class Killed(InProcess):
    def map(self, work, items):
        yield from super().map(work, items)
        if work.func.__name__ == "group_cell":
            os.kill(os.getpid(), signal.SIGKILL)

small(Path(sys.argv[1]), SCHEMA, Path(sys.argv[2]), executor=Killed())
"""


def test_records_of_a_killed_run_are_erased_by_the_next(tmp_path):
    source, out = stored(tmp_path, people(500)), tmp_path / "out"
    paths = [str(Path(__file__).parent), str(Path(tasks.__file__).parent), str(Path(eupg.__file__).parents[1])]
    run = subprocess.run([sys.executable, "-c", KILLED, str(source), str(out), *paths], env=os.environ, check=False)
    assert run.returncode == -signal.SIGKILL
    (left,) = out.glob(".records-*")
    assert any(left.iterdir())
    small(source, SCHEMA, out)
    assert sorted(p.name for p in out.iterdir()) == ["_release.json", "part-00000.parquet"]


def test_damaged_part_is_refused(tmp_path):
    release = small(stored(tmp_path, people(50)), SCHEMA, tmp_path / "out")
    (name,) = release.parts
    part = pq.read_table(release.folder / name)
    pq.write_table(part[:40], release.folder / name)
    with pytest.raises(DataError, match="has 40 rows, expected 50"):
        release.load()
    (release.folder / name).unlink()
    with pytest.raises(DataError, match=r"cannot be read .*repeat eupg protect"):
        release.load()


def _plain(value: Any) -> str:
    return "missing" if pd.isna(value) else str(value).removesuffix(".0")
