"""The data sets of the paper and the built-in demonstration set, prepared as the paper prepared them.

``rand_hie`` ships inside ``statsmodels``, and its counts are checked. The others are read from the folder named by
``EUPG_DATA``, or from the cache (``~/.cache/eupg``), or downloaded from their official address into the cache. Their
content is checked against a digest before any row is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eupg.data.dataset import Dataset, Labels
from eupg.data.fetch import FAILURES, by_hand, data_folders, download, into_cache
from eupg.data.fetch import cache_folder as cache_folder
from eupg.data.pictures import cifar
from eupg.data.pictures.files import image_dataset
from eupg.data.schema import Schema
from eupg.data.score import Probabilities, accuracy, auc
from eupg.errors import DataError, SchemaError, SourceUnavailable

if TYPE_CHECKING:
    import pandas as pd

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_KAGGLE = "https://www.kaggle.com/"


@dataclass(frozen=True)
class Source:
    """A data set, split into training and test records, with the utility the paper reports for it."""

    name: str
    train: Dataset
    test: Dataset
    utility: Callable[[Probabilities, Labels], float]


@dataclass(frozen=True)
class _File:
    """One published table: its possible names on disk, its origin, and the digest of its content."""

    names: tuple[str, ...]
    digest: str
    read: Callable[[Path], pd.DataFrame]
    url: str | None
    page: str


def rand_hie() -> Source:
    """Load the RAND Health Insurance Experiment: whether 5,912 people saw a doctor, in 20,190 person-years."""
    import pandas as pd

    spec = importlib.util.find_spec("statsmodels")
    if spec is None or not spec.submodule_search_locations:
        raise SourceUnavailable("RAND HIE ships inside statsmodels: pip install statsmodels")
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "randhie" / "src" / "randhie.csv"
    if not path.is_file():
        raise SourceUnavailable(f"this statsmodels does not hold {path}: pip install --force-reinstall statsmodels")
    raw = pd.read_csv(path)
    raw["doctor"] = np.where(raw["mdvis"] > 0, "yes", "no")
    raw["record"] = raw["zper"].astype(str) + "-" + raw["year"].astype(str)
    data = Dataset.from_table(raw, public_schema("rand_hie"), ids="record")
    _expect("rand_hie", (len(data), len(np.unique(data.subjects))), (20_190, 5_912))
    people = np.unique(data.subjects)
    tested = np.random.default_rng(7).permutation(people)[: len(people) // 5]
    test = data.where_subjects(tested)
    return Source("rand_hie", data.select(~test), data.select(test), auc)


def adult(*, all_attributes: bool = False) -> Source:
    """Load UCI Adult with its own split; without ``fnlwgt`` and ``education`` unless ``all_attributes`` is set."""
    schema = public_schema("adult")
    if not all_attributes:
        schema = Schema(tuple(a for a in schema.attributes if a.name not in ("fnlwgt", "education")))
    train, test = (
        Dataset.from_table(_table(file).rename(index=f"{part}-{{}}".format), schema)
        for file, part in ((_ADULT_TRAIN, "train"), (_ADULT_TEST, "test"))
    )
    _expect("adult", (len(train), len(test)), (32_561, 16_281))
    return Source("adult", train, test, accuracy)


def heart() -> Source:
    """Load the cardiovascular disease set with the split that gives the paper's counts."""
    data = Dataset.from_table(_table(_HEART), public_schema("heart"))
    # The paper's split is this legacy stream, drawn here without touching NumPy's global state.
    train = np.random.RandomState(7).rand(len(data)) < 0.8
    _expect("heart", (int(train.sum()), int((~train).sum())), (55_869, 14_131))
    return Source("heart", data.select(train), data.select(~train), accuracy)


def credit() -> Source:
    """Load the complete rows of Give Me Some Credit with the split that gives the paper's counts."""
    from sklearn.model_selection import train_test_split

    complete = _table(_CREDIT).dropna()
    data = Dataset.from_table(complete, public_schema("credit"))
    train = np.zeros(len(data), dtype=bool)
    train[train_test_split(np.arange(len(data)), test_size=0.2, random_state=42)[0]] = True
    _expect("credit", (int(train.sum()), int((~train).sum())), (96_215, 24_054))
    return Source("credit", data.select(train), data.select(~train), auc)


def cifar10() -> Source:
    """Load CIFAR-10 with its own split: 60,000 colour pictures of 32 × 32 pixels in ten classes."""
    parts = []
    for name, records in zip(("train", "test"), cifar.Published().load(), strict=True):
        images, ids = records[:, 1:].reshape(-1, *cifar.SHAPE), (f"{name}-{i}" for i in range(len(records)))
        parts.append(image_dataset(images, records[:, 0], classes=cifar.CLASSES, ids=ids))
    train, test = parts
    _expect("cifar10", (len(train), len(test)), (50_000, 10_000))
    return Source("cifar10", train, test, accuracy)


def public_schema(name: str) -> Schema:
    """Return the schema that ships with a source: public bounds and categories, each with its origin."""
    folder = files("eupg.data") / "schemas"
    known = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    if name not in known:
        raise SchemaError(f"no public schema {name!r}: choose one of {known}")
    return Schema.from_toml((folder / f"{name}.toml").read_text(encoding="utf-8"))


def content_digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of a table's values, whatever file format they came from."""
    digest = hashlib.sha256()
    for name in table.columns:
        column = table[name]
        digest.update(str(name).encode())
        if column.dtype.kind in "iuf":
            digest.update(column.to_numpy(dtype="<f8").tobytes())
        else:
            digest.update("\n".join(column.astype(str)).encode())
    return digest.hexdigest()


def _table(file: _File) -> pd.DataFrame:
    for folder in data_folders():
        for name in file.names:
            if (folder / name).is_file():
                return _checked(file, folder / name)
    return _fetch(file)


def _checked(file: _File, path: Path) -> pd.DataFrame:
    import pandas as pd

    advice = f"remove it and get the original from {file.page}"
    try:
        table = pd.read_parquet(path) if path.suffix == ".parquet" else file.read(path)
    except ValueError as error:
        raise DataError(f"{path} is not the published data set ({error}): {advice}") from error
    digest = content_digest(table)
    if digest != file.digest:
        difference = f"content {digest[:12]}…, expected {file.digest[:12]}…"
        raise DataError(f"{path} is not the published data set ({difference}): {advice}")
    return table


def _fetch(file: _File) -> pd.DataFrame:
    name, advice = file.names[-1], by_hand(file.names[-1], file.page)
    if file.url is None:
        raise SourceUnavailable(f"{name} is not here and its publisher asks for a login: {advice}")
    try:
        content = download(file.url)
        if content[:4] == b"PK\x03\x04":
            content = zipfile.ZipFile(io.BytesIO(content)).read(name)
    except FAILURES as error:
        raise SourceUnavailable(f"{name} could not be fetched ({error}): {advice}") from error
    return into_cache(name, content, lambda path: _checked(file, path), url=file.url, page=file.page)


def _expect(name: str, counts: tuple[int, int], expected: tuple[int, int]) -> None:
    if counts != expected:
        raise DataError(f"{name}: expected counts {expected}, got {counts}: the data or a library's split has changed")


def _read_adult(path: Path) -> pd.DataFrame:
    import pandas as pd

    columns = [a.name for a in public_schema("adult").attributes]
    text = path.read_text(encoding="ascii").replace(".\n", "\n")
    body = "\n".join(line for line in text.splitlines() if line and not line.startswith("|"))
    return pd.read_csv(io.StringIO(body), names=columns, skipinitialspace=True, na_filter=False)


def _read_heart(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(path, sep=";")


def _read_credit(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(path).rename(columns={"Unnamed: 0": "index"})


_ADULT_TRAIN = _File(
    names=("adult-train.parquet", "adult.data"),
    digest="ef502975f47d34bd0ae91a6e06b4289c6cecaabf71213e4d15d4672e4cb14a91",
    read=_read_adult,
    url=_UCI + "adult.data",
    page="https://archive.ics.uci.edu/dataset/2/adult",
)
_ADULT_TEST = _File(
    names=("adult-test.parquet", "adult.test"),
    digest="7c5462327cbc1442df5e8fc3f83cc2b77887553f64599429c981a32474528351",
    read=_read_adult,
    url=_UCI + "adult.test",
    page="https://archive.ics.uci.edu/dataset/2/adult",
)
_HEART = _File(
    names=("cardio.parquet", "cardio_train.csv"),
    digest="85941e7b0bbde4bd302a4840c35ad1dedb9d25bd771eb6b1d5567ebbef075da0",
    read=_read_heart,
    url=_KAGGLE + "api/v1/datasets/download/sulianova/cardiovascular-disease-dataset",
    page=_KAGGLE + "datasets/sulianova/cardiovascular-disease-dataset",
)
_CREDIT = _File(
    names=("give-me-some-credit.parquet", "cs-training.csv"),
    digest="dd07948b683c2246449c28485af8014ced568b8fd9b021dbf463cc1cf8af6e54",
    read=_read_credit,
    url=None,
    page=_KAGGLE + "c/GiveMeSomeCredit/data",
)
