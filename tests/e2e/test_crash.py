"""``kill -9`` anywhere in a workspace's life: nothing accepted is lost, nothing forgotten comes back.

``EUPG_KILL_POINTS`` says how many kills (200 unless set, thousands for a soak), ``EUPG_KILL_SEED`` which. Methods other
than EUPG share the same code between their files, and get a fortieth each; ``EUPG_KILL_METHODS=1`` gives them all.
"""

import functools
import itertools
import os
import random
import shutil
import uuid
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from crash_flow import STAGES, STAGES_WITHOUT_RELEASE, Life, Victims
from eupg import EUPG, Manager
from eupg.data.dataset import Dataset
from eupg.forget import Durable
from eupg.forget.eupg import Base
from eupg.forget.released import Released
from eupg.guarantees import Exact, guarantee_from_json
from eupg.manage.checking import check_certificate
from eupg.manage.requests.states import State
from eupg.manage.storage.change import Recovered
from eupg.manage.storage.subjects import person_digest, record_digest
from managed import HELD_OUT, LOOK, METHODS, NEWCOMERS, RECORDS, RNG, in_memory
from traces import files_in, of_text, traces

KILLS = int(os.environ.get("EUPG_KILL_POINTS", "200"))
KILLS_OF_OTHERS = KILLS if os.environ.get("EUPG_KILL_METHODS") else max(1, KILLS // 40)
SEED = int(os.environ.get("EUPG_KILL_SEED", "20270115"))
POSTGRES = os.environ.get("EUPG_TEST_POSTGRES")
EVERYONE = RECORDS.plus(NEWCOMERS)
DONE = (State.COMPLETED, State.CERTIFIED)
WHOLE = Recovered((), False, ())


@pytest.fixture(scope="module")
def victims():
    with Victims() as server:
        yield server


class Story:
    """A life that nobody interrupted: the folder before each stage, and how much there is to interrupt."""

    def __init__(self, victims, folder: Path, method: str | None = None) -> None:
        self.method = method
        # The others make no release, or one in groups, of which a second would claim nothing.
        self.stages = STAGES if method is None else STAGES_WITHOUT_RELEASE
        self.before, self.checkpoints, self.seconds, self.bases = [], [], [], {}
        for number, stage in enumerate(self.stages):
            place, following = folder / str(number), folder / str(number + 1)
            place.mkdir(exist_ok=True)
            shutil.copytree(place, following)
            end = victims.run(following, stage, method=method)
            self.before.append(place)
            self.checkpoints.append(end.passed)
            self.seconds.append(end.seconds)
            with Life(following, method=method).manager() as manager:
                if manager.space.state().base is not None:
                    self.bases[len(manager.space.state().releases)] = manager.base_model.predict_proba(LOOK)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with in_memory(tmp_path_factory.mktemp("lives")) as folder:
        yield folder


@pytest.fixture(scope="module")
def story(victims, place):
    return Story(victims, place)


def test_killed_anywhere(victims, story, place):
    where = kill(victims, story, place / "life", KILLS)
    assert len(where) >= min(12, KILLS // 10), where


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_killed_anywhere(method, victims, place):
    folder = place / method
    folder.mkdir()
    kill(victims, Story(victims, folder, method), folder / "life", KILLS_OF_OTHERS)
    shutil.rmtree(folder)


def kill(victims, story: Story, folder: Path, kills: int) -> Counter[str]:
    """Kill lives at boundaries, all of them in turn, and one in four at a random moment; return where."""
    draw, where = random.Random(SEED), Counter()
    boundaries = [(stage, at) for stage, n in enumerate(story.checkpoints) for at in range(1, n + 1)]
    draw.shuffle(boundaries)
    turns = itertools.cycle(boundaries)
    for number in range(kills):
        if number % 4 == 3:
            stage, at, after = draw.randrange(len(story.stages)), 0, draw.random()
            after *= story.seconds[stage]
        else:
            (stage, at), after = next(turns), None
        shutil.copytree(story.before[stage], folder)
        end = victims.run(folder, story.stages[stage], kill_at=at, kill_after_s=after, method=story.method)
        told = f"kill {number} of seed {SEED}: stage {stage} ({story.stages[stage]}), {end.told or f'after {after} s'}"
        if after is None:
            assert end.killed, told
            where[end.told.rpartition(": ")[2].strip()] += 1
        again = draw.randrange(1, 20) if draw.random() < 0.3 else None
        if again is not None:
            victims.run(folder, "recover", kill_at=again, method=story.method)
            told += f", and at checkpoint {again} of recover"
        try:
            assert not files_in(victims.outside)
            survives(Life(folder, method=story.method), story.bases)
        except BaseException as error:
            error.add_note(told)
            raise
        shutil.rmtree(folder)
    return where


@pytest.mark.skipif(not POSTGRES, reason="EUPG_TEST_POSTGRES is not set: see .ci/postgres")
def test_killed_anywhere_over_postgresql(victims, story, place):
    draw, engine = random.Random(SEED), create_engine(POSTGRES)
    total = sum(story.checkpoints)
    for number in range(max(1, KILLS // 8)):
        schema = f"crash_{uuid.uuid4().hex}"
        folder = place / schema
        folder.mkdir()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        url = f"{POSTGRES}&options=-csearch_path%3D{schema}"
        at = draw.randrange(1, total)
        end = victims.run(folder, *STAGES, kill_at=at, ledger=url)
        try:
            assert end.killed
            assert not files_in(victims.outside)
            survives(Life(folder, url), story.bases)
        except BaseException as error:
            error.add_note(f"kill {number} of seed {SEED}: {end.told}")
            raise
        with engine.begin() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        shutil.rmtree(folder)
    engine.dispose()


def survives(life: Life, bases: dict[int, np.ndarray]) -> None:
    """Check everything that has to hold after a kill."""
    with life.manager() as manager:
        before = manager.predict(LOOK) if manager.space.trained else None
        manager.recover()
        assert manager.recover() == WHOLE
        if not manager.space.trained:
            assert before is None
            assert only_files(manager) == set()
            manager.train(RECORDS, hold_out=HELD_OUT)
        elif before is not None:
            np.testing.assert_array_equal(manager.predict(LOOK), before)
        nothing_accepted_is_lost(life, manager)
        one_model_is_served(manager, bases, life.method)
        manager.forget()
        manager.verify()
        for note in life.noted():
            assert note["state"] != State.ACCEPTED or manager.space.book.get(note["request"]).state in DONE
        gone = one_model_is_served(manager, bases, life.method)
        found = traces(life.folder, {name: of_text(name) for name in [*gone.ids, *set(gone.subjects.tolist())]})
        kept = set(manager.space.records.read(manager.space.state().records).subjects.tolist())
        assert not [f for f in found if f[1] not in kept]
        for paper in life.papers.glob("*.json"):
            check_certificate(manager.space, paper)


def nothing_accepted_is_lost(life: Life, manager: Manager) -> None:
    for note in life.noted():
        state = manager.space.book.get(note["request"]).state
        if note["state"] == State.ACCEPTED:
            assert state in (State.ACCEPTED, State.FAILED, *DONE)


def only_files(manager: Manager) -> set[str]:
    """Return the names of the files that hold models or records; nothing unfinished may lie anywhere."""
    space = manager.space
    assert not list(space.scratch.iterdir())
    assert not list(space.folder.rglob("*.partial"))
    folders = [folder for name in ("store", "records") if (folder := space.folder / name).exists()]
    return {path.name for folder in folders for path in folder.iterdir()}


def one_model_is_served(manager: Manager, bases: dict[int, np.ndarray], method: Durable) -> Dataset:
    """Check that what is served was made from exactly the records that are there; return the rest."""
    state = manager.space.state()
    assert only_files(manager) == state.live_files | state.live_records
    there = manager.space.records.read(state.records)
    taken_in = EVERYONE if added(manager) else RECORDS
    left, asked = taken_in.where(there.ids), answered(manager)
    whom = np.isin(taken_in.subjects, asked) | np.isin(taken_in.ids, asked)
    np.testing.assert_array_equal(left, ~whom)
    np.testing.assert_array_equal(taken_in.select(left).ids, there.ids)
    if isinstance(method, EUPG):
        np.testing.assert_array_equal(manager.base_model.predict_proba(LOOK), bases[len(state.releases)])
        served = finetuned(method, manager.base_model, len(state.releases), there)
        np.testing.assert_array_equal(manager.predict(LOOK), served)
    elif isinstance(guarantee_from_json(state.claim), Exact):
        # Certified-SP goes on from the served model, so that its history makes a difference.
        np.testing.assert_array_equal(manager.predict(LOOK), method.train(there, RNG).model.predict_proba(LOOK))
    return taken_in.select(~left)


_served: dict[tuple[str, int, bytes], np.ndarray] = {}


def finetuned(method: EUPG, base, generation: int, records: Dataset) -> np.ndarray:
    """Return the predictions of the method without any manager; computed once for each set of records."""
    known = (repr(method), generation, records.ids.tobytes())
    if known not in _served:
        made = Base(base, method.mechanism.guarantee(records.schema), Released.of(records))
        _served[known] = method.resume(made, records, RNG).model.predict_proba(LOOK)
    return _served[known]


def added(manager: Manager) -> bool:
    return any(True for _ in manager.space.ledger.entries(kinds=["add"]))


def answered(manager: Manager) -> list[str]:
    """Return the names of those whose requests are answered."""
    book, names = manager.space.book, digests(manager.space.key)
    every = {str(e.body["request"]) for e in manager.space.ledger.entries(kinds=["request.received"])}
    return [names[request.digest] for request in map(book.get, every) if request.state in DONE]


@functools.cache
def digests(key: bytes) -> dict[str, str]:
    everyone = EVERYONE.plus(HELD_OUT)
    known = {person_digest(key, name): name for name in everyone.subjects.tolist()}
    return known | {record_digest(key, name): name for name in everyone.ids.tolist()}
