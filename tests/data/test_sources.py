"""The public data sets: counts, splits, public bounds, and where the files are looked for."""

import hashlib
import importlib.util
import io
import os
import urllib.error
import urllib.request
import zipfile
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eupg.data import sources
from eupg.data.attribute import Numeric, Outside
from eupg.data.score import accuracy, auc
from eupg.data.sources import content_digest, public_schema
from eupg.errors import DataError, SchemaError, SourceUnavailable

NAMES = ("rand_hie", "adult", "heart", "credit")
PAPER_FILES = {
    "adult-train": sources._ADULT_TRAIN,
    "adult-test": sources._ADULT_TEST,
    "heart": sources._HEART,
    "credit": sources._CREDIT,
}
TABLE = pd.DataFrame({"v": [1.5, 2.0], "w": ["a", "b"]})
CSV = TABLE.to_csv(index=False).encode()
PAGE = "https://example.org/toy"


@pytest.fixture(scope="module")
def rand_hie():
    if importlib.util.find_spec("statsmodels") is None:
        pytest.skip("RAND HIE ships inside statsmodels, which is not installed")
    return sources.rand_hie()


@pytest.fixture(scope="module")
def raw_rand_hie(rand_hie):
    folder = Path(importlib.util.find_spec("statsmodels").submodule_search_locations[0])
    raw = pd.read_csv(folder / "datasets" / "randhie" / "src" / "randhie.csv")
    return raw.assign(doctor=np.where(raw["mdvis"] > 0, "yes", "no"))


@pytest.fixture(scope="module")
def paper_folder():
    """Return the folder with the paper's data sets, or skip."""
    folder = os.environ.get("EUPG_DATA")
    if not folder:
        pytest.skip("EUPG_DATA is not set: point it at the folder with the paper's data sets")
    absent = [f.names[0] for f in PAPER_FILES.values() if not any((Path(folder) / n).is_file() for n in f.names)]
    if absent:
        pytest.skip(f"EUPG_DATA does not hold {', '.join(absent)}")
    return Path(folder)


@pytest.fixture(scope="module")
def raw_tables(paper_folder):
    return {name: sources._table(file) for name, file in PAPER_FILES.items()}


@pytest.fixture(scope="module")
def adult(paper_folder):
    return sources.adult()


@pytest.fixture(scope="module")
def heart(paper_folder):
    return sources.heart()


@pytest.fixture(scope="module")
def credit(paper_folder):
    return sources.credit()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give the test a data folder, a cache and a publisher of its own; no network is touched."""
    folders = {name: tmp_path / name for name in ("data", "cache", "publisher")}
    for name in ("data", "publisher"):
        folders[name].mkdir()
    monkeypatch.setenv("EUPG_DATA", str(folders["data"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folders["cache"]))
    return folders["data"], folders["cache"] / "eupg", folders["publisher"]


def toy(url, read=pd.read_csv):
    return sources._File(names=("toy.parquet", "toy.csv"), digest=content_digest(TABLE), read=read, url=url, page=PAGE)


def refuse(error):
    """Return a stand-in for the network that always fails."""

    def urlopen(url, timeout):
        raise error

    return urlopen


def columns_fit(table, schema):
    for attribute in (*schema.features, schema.label):
        encoded = attribute.encode(table[attribute.name])
        assert len(encoded) == len(table)
        if isinstance(attribute, Numeric):
            assert np.nanmin(encoded) >= attribute.lower
            assert np.nanmax(encoded) <= attribute.upper


def outside_share(table, schema):
    """Return the largest share of rows that a clipped column of the schema clips."""
    clipped = [a for a in schema.features if isinstance(a, Numeric) and a.outside is Outside.CLIP]
    return max((~table[a.name].between(a.lower, a.upper)).mean() for a in clipped)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_fact_names_its_source_and_none_is_inferred(name):
    schema = public_schema(name)
    assert all(a.source for a in schema.attributes)
    assert schema.caveats == ()


def test_unknown_public_schema_lists_the_known_ones():
    with pytest.raises(
        SchemaError, match=r"no public schema 'iris': choose one of \['adult', 'credit', 'heart', 'rand"
    ):
        public_schema("iris")


def test_rand_hie_has_the_published_counts(rand_hie):
    assert len(rand_hie.train) + len(rand_hie.test) == 20_190
    assert len({*rand_hie.train.subjects, *rand_hie.test.subjects}) == 5_912
    assert len(np.unique(rand_hie.test.subjects)) == 5_912 // 5
    assert rand_hie.name == "rand_hie"
    assert rand_hie.utility is auc


def test_rand_hie_has_nobody_in_both_train_and_test(rand_hie):
    assert set(rand_hie.train.subjects).isdisjoint(rand_hie.test.subjects)
    assert set(rand_hie.train.ids).isdisjoint(rand_hie.test.ids)


def test_rand_hie_features_hold_no_spending_and_no_visit(rand_hie):
    features = {a.name for a in rand_hie.train.schema.features}
    spending = {"outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "lnmeddol", "binexp"}
    visits = {"mdvis", "notmdvis", "mentvis", "totadm", "inpmis", "tookphys"}
    assert features.isdisjoint(spending | visits)
    assert "zper" not in features


def test_rand_hie_label_share_is_about_69_percent(rand_hie):
    for part in (rand_hie.train, rand_hie.test):
        assert 0.68 < part.y.mean() < 0.70


def test_rand_hie_names_person_and_year(rand_hie):
    person = rand_hie.train.of_subjects(["125024"])
    assert person.ids.tolist() == [f"125024-{year}" for year in range(1, 6)]


def test_rand_hie_split_is_always_the_same(rand_hie):
    np.testing.assert_array_equal(sources.rand_hie().test.ids, rand_hie.test.ids)


def test_rand_hie_lies_within_its_public_bounds(raw_rand_hie):
    schema = public_schema("rand_hie")
    columns_fit(raw_rand_hie, schema)
    assert outside_share(raw_rand_hie, schema) == 0


def test_rand_hie_without_statsmodels_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SourceUnavailable, match="ships inside statsmodels: pip install statsmodels"):
        sources.rand_hie()


def test_rand_hie_moved_away_names_the_file(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_loader("statsmodels", None, is_package=True)
    spec.submodule_search_locations.append(str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(SourceUnavailable, match=r"does not hold .*randhie\.csv: pip install"):
        sources.rand_hie()


def test_changed_counts_are_refused():
    with pytest.raises(DataError, match=r"toy: expected counts \(1, 2\), got \(1, 3\): the data or a library's split"):
        sources._expect("toy", (1, 3), (1, 2))


@pytest.mark.paper
def test_adult_has_the_published_rows(adult):
    assert (len(adult.train), len(adult.test)) == (32_561, 16_281)
    assert (adult.train.y.sum(), adult.test.y.sum()) == (7_841, 3_846)
    assert adult.utility is accuracy
    first = adult.train.to_pandas().iloc[0].to_dict()
    assert first["age"] == 39
    assert first["workclass"] == "State-gov"
    assert first["education-num"] == 13
    assert first["native-country"] == "United-States"
    assert first["income"] == "<=50K"


@pytest.mark.paper
def test_adult_drops_weight_and_education_unless_asked(adult):
    assert len(adult.train.schema.features) == 12
    everything = sources.adult(all_attributes=True).train
    added = {a.name for a in everything.schema.features} - {a.name for a in adult.train.schema.features}
    assert added == {"fnlwgt", "education"}


@pytest.mark.paper
def test_heart_has_the_published_rows(heart):
    assert (len(heart.train), len(heart.test)) == (55_869, 14_131)
    assert heart.train.y.sum() + heart.test.y.sum() == 34_979
    assert set(heart.train.ids).isdisjoint(heart.test.ids)
    assert heart.utility is accuracy
    first = heart.train.to_pandas().loc["0"].to_dict()
    assert [first[c] for c in ("age", "gender", "height", "weight", "ap_hi", "ap_lo")] == [18393, "2", 168, 62, 110, 80]
    assert [first[c] for c in ("cholesterol", "gluc", "cardio")] == ["1", "1", "0"]


@pytest.mark.paper
def test_credit_has_the_published_rows(credit):
    assert (len(credit.train), len(credit.test)) == (96_215, 24_054)
    assert (credit.train.y.sum(), credit.test.y.sum()) == (6_659, 1_698)
    assert set(credit.train.ids).isdisjoint(credit.test.ids)
    assert credit.utility is auc
    first = credit.test.select(credit.test.where(["1"]))
    assert first.X[0].tolist() == [0.766126609, 45, 2, 0.802982129, 9120, 13, 0, 6, 0, 2]
    assert first.y.tolist() == [1]


@pytest.mark.paper
def test_loading_leaves_the_global_random_state_alone(paper_folder):
    before = np.random.get_state()[1].copy()
    sources.heart()
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.paper
@pytest.mark.parametrize("name", PAPER_FILES)
def test_paper_data_lie_within_their_public_bounds(raw_tables, name):
    """What is refused does not occur; what is clipped is at most 1.5 % of a column (typing errors in heart)."""
    schema, table = public_schema(name.split("-")[0]), raw_tables[name].dropna()
    columns_fit(table, schema)
    assert outside_share(table, schema) < (0.015 if name == "heart" else 0.002)


def adult_bytes(table, *, test):
    """Write the table as UCI publishes it."""
    lines = [", ".join(map(str, row)) + "." * test for row in table.itertuples(index=False)]
    return "\n".join([*["|1x3 Cross validator"] * test, *lines, "", ""]).encode("ascii")


@pytest.mark.paper
@pytest.mark.parametrize(
    ("name", "published", "sha256"),
    [
        ("adult-train", "adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        ("adult-test", "adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    ],
)
def test_adult_as_published_reads_as_the_same_content(raw_tables, tmp_path, name, published, sha256):
    """The digests are of the files at UCI, so the rebuilt bytes are the published ones."""
    content = adult_bytes(raw_tables[name], test=name == "adult-test")
    assert hashlib.sha256(content).hexdigest() == sha256
    (tmp_path / published).write_bytes(content)
    assert content_digest(sources._read_adult(tmp_path / published)) == PAPER_FILES[name].digest


@pytest.mark.paper
def test_heart_as_published_reads_as_the_same_content(raw_tables, tmp_path):
    raw_tables["heart"].to_csv(tmp_path / "cardio_train.csv", sep=";", index=False)
    assert content_digest(sources._read_heart(tmp_path / "cardio_train.csv")) == sources._HEART.digest


@pytest.mark.paper
def test_credit_as_published_reads_as_the_same_content(raw_tables, tmp_path):
    published = raw_tables["credit"].rename(columns={"index": ""})
    published.to_csv(tmp_path / "cs-training.csv", index=False, na_rep="NA")
    assert content_digest(sources._read_credit(tmp_path / "cs-training.csv")) == sources._CREDIT.digest


def test_digest_depends_on_values_and_names_but_not_on_storage():
    digest = content_digest(TABLE)
    assert content_digest(TABLE.astype({"v": "float32", "w": object})) == digest
    assert content_digest(TABLE.rename(columns={"v": "u"})) != digest
    assert content_digest(TABLE.iloc[::-1]) != digest
    assert content_digest(TABLE.assign(w=["a", "c"])) != digest


def test_data_folder_comes_first(places):
    data, cache, publisher = places
    cache.mkdir(parents=True)
    (cache / "toy.csv").write_bytes(b"wrong")
    (publisher / "toy.csv").write_bytes(b"wrong")
    (data / "toy.csv").write_bytes(CSV)
    assert sources._table(toy((publisher / "toy.csv").as_uri())).equals(TABLE)


def test_cache_comes_before_the_publisher(places):
    _, cache, publisher = places
    cache.mkdir(parents=True)
    (cache / "toy.csv").write_bytes(CSV)
    (publisher / "toy.csv").write_bytes(b"wrong")
    assert sources._table(toy((publisher / "toy.csv").as_uri())).equals(TABLE)


def test_cache_is_used_where_no_data_folder_is_named(places, monkeypatch):
    _, cache, _ = places
    monkeypatch.delenv("EUPG_DATA")
    cache.mkdir(parents=True)
    (cache / "toy.csv").write_bytes(CSV)
    assert sources._table(toy(None)).equals(TABLE)


def test_cache_is_in_the_home_folder_unless_said_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sources.cache_folder() == tmp_path / ".cache" / "eupg"


def test_download_lands_in_the_cache_and_is_not_fetched_again(places):
    _, cache, publisher = places
    (publisher / "toy.csv").write_bytes(CSV)
    file = toy((publisher / "toy.csv").as_uri())
    assert sources._table(file).equals(TABLE)
    assert [p.name for p in cache.iterdir()] == ["toy.csv"]
    (publisher / "toy.csv").unlink()
    assert sources._table(file).equals(TABLE)


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def test_zipped_download_is_unpacked(places):
    _, cache, publisher = places
    (publisher / "toy.zip").write_bytes(zipped("toy.csv", CSV))
    assert sources._table(toy((publisher / "toy.zip").as_uri())).equals(TABLE)
    assert (cache / "toy.csv").read_bytes() == CSV


@pytest.mark.parametrize("content", [zipped("other.csv", CSV), zipped("toy.csv", CSV)[:30]], ids=["other", "cut off"])
def test_archive_without_the_file_is_refused(places, content):
    _, cache, publisher = places
    (publisher / "toy.zip").write_bytes(content)
    with pytest.raises(SourceUnavailable, match=rf"toy\.csv could not be fetched .*: download it from {PAGE}"):
        sources._table(toy((publisher / "toy.zip").as_uri()))
    assert not cache.exists()


@pytest.mark.parametrize("content", [b"v,w\n1.5,a\n2.5,b\n", b"<html>\n<p>a, b, c</p>\n", b"", b"\xff\xfe\x00"])
def test_wrong_content_is_refused_with_the_file_and_the_page(places, content):
    data, _, _ = places
    (data / "toy.csv").write_bytes(content)
    said = rf"data.toy\.csv is not the published data set \(.*\): remove it and get the original from {PAGE}"
    with pytest.raises(DataError, match=said):
        sources._table(toy(None))


def test_wrong_download_is_refused_and_stays_out_of_the_cache(places):
    _, cache, publisher = places
    (publisher / "toy.csv").write_bytes(b"please log in")
    with pytest.raises(SourceUnavailable, match=rf"sent something else than the data set: download it from {PAGE}"):
        sources._table(toy((publisher / "toy.csv").as_uri()))
    assert not list(cache.rglob("*.csv"))


@pytest.mark.parametrize(
    "error", [urllib.error.URLError("no route"), TimeoutError("too slow"), IncompleteRead(b""), ConnectionResetError()]
)
def test_unreachable_publisher_names_the_page_and_the_cache(places, monkeypatch, error):
    _, cache, _ = places
    monkeypatch.setattr(urllib.request, "urlopen", refuse(error))
    said = (
        rf"toy\.csv could not be fetched .*: download it from {PAGE} and put toy\.csv into {cache}, or point EUPG_DATA"
    )
    with pytest.raises(SourceUnavailable, match=said):
        sources._table(toy("https://example.org/toy.csv"))


@pytest.mark.parametrize(
    ("load", "file"), [(sources.adult, sources._ADULT_TRAIN), (sources.heart, sources._HEART)], ids=["adult", "heart"]
)
def test_paper_data_that_cannot_be_fetched_name_the_page(places, monkeypatch, load, file):
    monkeypatch.setattr(urllib.request, "urlopen", refuse(urllib.error.URLError("no route")))
    with pytest.raises(
        SourceUnavailable, match=rf"{file.names[-1]} could not be fetched .*no route.*{file.page} and put"
    ):
        load()


def test_credit_says_that_its_publisher_asks_for_a_login(places, monkeypatch):
    _, cache, _ = places
    monkeypatch.setattr(urllib.request, "urlopen", refuse(AssertionError("nothing to fetch")))
    said = rf"cs-training\.csv is not here and its publisher asks for a login: download it from .*kaggle.* into {cache}"
    with pytest.raises(SourceUnavailable, match=said):
        sources.credit()
