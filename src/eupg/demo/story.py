"""Run the demonstration through a workspace, from training to a verified certificate, next to its controls."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from eupg.certify.certificate import Certificate
from eupg.data.dataset import Dataset
from eupg.data.sources import Source, rand_hie
from eupg.errors import ParameterError, UnknownRecord
from eupg.forget.eupg import EUPG, Base
from eupg.forget.exact_trees import ExactTrees
from eupg.forget.private_trees.base import PrivateTrees
from eupg.forget.released import Released
from eupg.forget.retrain import Retrain
from eupg.forget.unlearner import Trained
from eupg.guarantees import Guarantee, guarantee_from_json
from eupg.learn.learner import Learner, Model
from eupg.learn.leaves.learner import LeafLearner
from eupg.learn.xgboost import XGBoostLearner
from eupg.manage.manager import Manager
from eupg.progress import Progress, Timed
from eupg.protect.kanonymity import EffectiveK, ProbabilisticKAnonymity, constant_share, effective_k
from eupg.rng import Randomness

CHOICE = (
    "The learner's settings were chosen by looking at held-out people of this table; the claim does not cover what "
    "that choice reveals."
)


@dataclass(frozen=True)
class DemoMethod:
    """One way to forget, measured: utility before and after, time of the forget, and what it claims."""

    name: str
    before: float
    after: float
    forget_s: float
    passes: str
    claim: str
    person_before: list[float]
    person_after: list[float]


@dataclass
class Story:
    """The results of the demonstration."""

    k: int
    subject: str
    train: Dataset
    test: Dataset
    person: Dataset
    seeded: bool
    claim: Guarantee
    effective: EffectiveK
    constant: dict[str, float]
    certificate: Certificate
    workspace: Path
    base_utility: float = 0.0
    person_base: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    methods: list[DemoMethod] = field(default_factory=list)
    unchanged: bool = False
    erased_s: float = 0.0

    @property
    def free(self) -> str:
        """Say what an erasure costs where the served model never saw a raw record, and what that model costs."""
        free, _, _, retrain, _ = self.methods
        assert self.unchanged
        return (
            f"A differentially private model (ε=1) that is served as it is forgets for free: the person's records left "
            f"the workspace in {self.erased_s:.2f} s, nothing was trained, and the model file is the same, byte for "
            f"byte. The price is utility: {free.after:.1f} against {retrain.after:.1f} for retraining. In return, "
            "those who stay are protected too, and a comparison of before and after shows nothing."
        )

    @property
    def times(self) -> str:
        """Say how long each stage took."""
        return ", ".join(f"{stage} {elapsed_s:.2f} s" for stage, elapsed_s in self.seconds.items())

    @property
    def verdict(self) -> str:
        """Compare EUPG with exact retraining, at full and at equal cost."""
        _, exact, eupg, retrain, short = self.methods
        faster = retrain.forget_s / eupg.forget_s
        gap = eupg.after - short.after
        words = "the same as" if abs(gap) < 0.05 else f"{abs(gap):.1f} points {'more' if gap > 0 else 'less'} than"
        return (
            f"EUPG forgot in {eupg.forget_s:.2f} s, {faster:.1f} times as fast as retraining, and scores "
            f"{eupg.after - retrain.after:+.1f} points against it. Training from scratch for the same {eupg.passes}, "
            f"in larger steps, is exact and costs about as much; EUPG scores {words} that control here. Exact "
            f"trees forget by subtraction in {exact.forget_s:.2f} s, which hardly grows with the table, and score "
            f"{exact.after:.1f}."
        )


def tell(*, k: int, subject: str | None, rng: Randomness, folder: Path, progress: Progress) -> Story:
    """Run the whole story on the RAND Health Insurance Experiment, through a workspace in the folder."""
    with progress.step("load"):
        source = rand_hie()
    # Chosen as CHOICE says. The short retrain alone takes larger steps: twenty small ones would end early.
    learner, trees, more = XGBoostLearner(max_depth=4, learning_rate=0.1), 100, 20
    brisk = replace(learner, learning_rate=0.3)
    mechanism, seconds, data = ProbabilisticKAnonymity(k), dict[str, float](), source.train
    person = data.of_subjects([subject if subject is not None else someone(data)])
    retained = data.without(person.ids)
    # The kernel is compiled on first use; that is the machine's time, not the stage's.
    with progress.step("compile"):
        mechanism.groups(data.select(np.arange(len(data)) < 3 * k))
    method = EUPG(mechanism, learner, trees, more)
    manager = Manager(_fresh(folder), method, rng=rng, progress=Timed(progress, seconds))
    manager.train(data, hold_out=source.test)
    base, before = manager.base_model, manager.served_model
    request = manager.request_erasure(subject=str(person.subjects[0]), channel="demonstration")
    manager.forget()
    certificate = manager.certify(request.id, not_covered=[CHOICE])
    with progress.step("verify the certificate"):
        manager.verify(certificate)
    story = Story(
        k=k,
        subject=str(person.subjects[0]),
        train=data,
        test=source.test,
        person=person,
        seeded=rng.seeded,
        claim=guarantee_from_json(certificate.body.claimed.claim.to_json()),
        effective=effective_k(mechanism.groups(data), data.where(person.ids), data.subjects),
        constant=constant_share(data, mechanism.groups(data)),
        certificate=certificate,
        workspace=manager.space.folder,
        base_utility=_utility(source, base),
        person_base=_says_yes(base, person),
        seconds=seconds,
    )
    after = manager.served_model
    manager.close()
    trained = method.resume(Base(base, mechanism.guarantee(data.schema), Released.of(data)), data, rng)
    with progress.step("time it"):
        _, seconds["forget"] = _median_time(lambda: method.forget(trained, retained, rng))
    story.methods.append(
        _measured(f"EUPG, k={k}", source, person, before, after, seconds["forget"], f"{more} trees", "k-anonymity")
    )
    for name, taught, effort in (("Retrain", learner, trees), ("Short retrain", brisk, more)):
        story.methods.append(_control(name, taught, effort, source, person, retained, rng, progress))
    story.methods.insert(0, _subtraction(source, person, rng, progress))
    story.methods.insert(0, _free(story, source, person, rng, folder.with_name(f"{folder.name}-private"), progress))
    return story


def _free(
    story: Story, source: Source, person: Dataset, rng: Randomness, folder: Path, progress: Progress
) -> DemoMethod:
    """Erase the person from a workspace whose model never saw a raw record."""
    method = EUPG(PrivateTrees(epsilon=1.0, max_records=5), LeafLearner(), 1, 0, exposure=0)
    manager = Manager(_fresh(folder), method, rng=rng)
    with progress.step("private trees: train"):
        manager.train(source.train, hold_out=source.test)
    before, served = manager.served_model, manager.status().served
    manager.request_erasure(subject=str(person.subjects[0]), channel="demonstration")
    with progress.step("private trees: forget"):
        story.erased_s = manager.forget().seconds
    story.unchanged = manager.status().served == served
    after = manager.served_model
    manager.close()
    return _measured("Private trees, ε=1", source, person, before, after, 0.0, "nothing", "ε=1 for the person")


def _subtraction(source: Source, person: Dataset, rng: Randomness, progress: Progress) -> DemoMethod:
    """Erase the person from counts."""
    method = ExactTrees()
    with progress.step("exact trees: train"):
        before = method.train(source.train, rng)
    with progress.step("exact trees: forget"):
        # The kernels are loaded on first use.
        method.erase(before, person)
        after, elapsed = _median_time(lambda: method.erase(before, person))
    return _measured("Exact trees", source, person, before.model, after.model, elapsed, "a subtraction", "exact")


def _fresh(folder: Path) -> Path:
    """Return a folder for a new workspace; the workspace of an earlier demonstration is removed, other files stay."""
    if (folder / "workspace.toml").is_file():
        shutil.rmtree(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ParameterError(f"{folder} holds other files: move them away, or name another folder with --out")
    return folder


def someone(data: Dataset) -> str:
    """Return the first person with the most records: several years show more than one."""
    people, counts = np.unique(data.subjects, return_counts=True)
    if not len(people):
        raise UnknownRecord("the data set is empty, so nobody can ask to be forgotten")
    return str(people[counts.argmax()])


def _control(
    name: str,
    learner: Learner,
    effort: int,
    source: Source,
    person: Dataset,
    retained: Dataset,
    rng: Randomness,
    progress: Progress,
) -> DemoMethod:
    control = Retrain(learner, effort=effort)
    with progress.step(f"{name.lower()}: train"):
        before = control.train(source.train, rng)
    with progress.step(f"{name.lower()}: forget"):
        after, elapsed = _median_time(lambda: control.forget(before, retained, rng))
    return _measured(name, source, person, before.model, after.model, elapsed, f"{effort} trees", "exact")


def _median_time(forget: Callable[[], Trained]) -> tuple[Trained, float]:
    """Forget three times, since one short run says little, and return the last result and the median time."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        after = forget()
        seconds.append(time.perf_counter() - started)
    return after, sorted(seconds)[1]


def _measured(
    name: str, source: Source, person: Dataset, before: Model, after: Model, forget_s: float, passes: str, claim: str
) -> DemoMethod:
    return DemoMethod(
        name=name,
        before=_utility(source, before),
        after=_utility(source, after),
        forget_s=forget_s,
        passes=passes,
        claim=claim,
        person_before=_says_yes(before, person),
        person_after=_says_yes(after, person),
    )


def _utility(source: Source, model: Model) -> float:
    return source.utility(model.predict_proba(source.test.X), source.test.y)


def _says_yes(model: Model, person: Dataset) -> list[float]:
    return [float(p) for p in model.predict_proba(person.X)[:, 1]]
