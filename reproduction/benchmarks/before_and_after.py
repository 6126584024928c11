"""Measure who is recognised from two versions of a model: ``python -m benchmarks.before_and_after [--people N]``.

Needs Adult (EUPG_DATA). Random people are erased one at a time, each from the same first model; then others, all
together. For each method ``compare_versions`` ranks the erased against people who are still in the training data and,
apart, against people who were never in it. Beside it stands what the newest model alone gives away, which is all that a
claim covers: whether it is surer of the erased than of people who were never in it. All draws are seeded.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from eupg import EUPG, Retrain, Seeded, sources
from eupg.audit.membership.roc import auc
from eupg.audit.membership.signals import SignalKind, measure
from eupg.audit.versions import VersionsReport, compare_versions
from eupg.data.dataset import Dataset
from eupg.forget import Unlearner
from eupg.forget.unlearner import Trained
from eupg.learn import XGBoostLearner
from eupg.learn.learner import Model
from eupg.protect import DPSynthesis, ProbabilisticKAnonymity

SEED, TREES, MORE, OTHERS = 7, 100, 5, 4000


def methods() -> dict[str, Unlearner]:
    learner = XGBoostLearner(threads=1)
    return {
        "EUPG, k=30": EUPG(ProbabilisticKAnonymity(k=30), learner, TREES, MORE),
        "EUPG, synthesis, ε=1": EUPG(DPSynthesis(epsilon=1.0), learner, TREES, MORE),
        "a k=30 base served as it is": EUPG(ProbabilisticKAnonymity(k=30), learner, TREES, 0),
        "Retrain": Retrain(learner, TREES),
        f"Short retrain, {MORE} trees": Retrain(learner, MORE),
    }


def sureness(model: Model, erased: Dataset, others: Dataset) -> float:
    """Return the AUC of the newest model alone: whether it is surer of the erased than of the others."""
    both = erased.plus(others)
    scores = measure(np.asarray(model.predict_proba(both.X)), both.y, kind=SignalKind.MARGIN)
    return 100 * auc(scores, np.arange(len(both)) < len(erased))


def compared(
    method: Unlearner, first: Trained, data: Dataset, batches: Sequence[Dataset], others: Dataset, strangers: Dataset
) -> tuple[VersionsReport, VersionsReport, list[float]]:
    """Erase each batch from the first model; return how well it is recognised among others, and among strangers."""
    among, against, alone = [], [], []
    for number, erased in enumerate(batches):
        after = method.forget(first, data.without(erased.ids), Seeded(SEED).stage(f"erasure {number}"))
        among.append(compare_versions(first.model, after.model, erased, others))
        against.append(compare_versions(first.model, after.model, erased, strangers))
        alone.append(sureness(after.model, erased, strangers))
    return VersionsReport.over(among), VersionsReport.over(against), alone


def shown(report: VersionsReport) -> str:
    return f"{report.auc:.1f} ({report.low:.1f} to {report.high:.1f})"


def mean_shown(values: Sequence[float]) -> str:
    """Show a mean with Student's 95 % interval."""
    mean, reach = np.mean(values), student.isf(0.025, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.1f} ({mean - reach:.1f} to {mean + reach:.1f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=60, help="people erased one at a time")
    parser.add_argument("--together", type=int, default=100, help="people erased together")
    options = parser.parse_args()
    source = sources.adult()
    data = source.train
    order = Seeded(SEED).stage("people").permutation(len(data))
    places = np.argsort(order)
    singles = [data.select(places == i) for i in range(options.people)]
    last = options.people + options.together
    group = data.select((places >= options.people) & (places < last))
    others = data.select((places >= last) & (places < last + OTHERS))
    test_order = np.argsort(Seeded(SEED).stage("strangers").permutation(len(source.test)))
    strangers = source.test.select(test_order < OTHERS)
    print(f"| | one at a time | against strangers | newest model alone | {options.together} together | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, method in methods().items():
        started = time.perf_counter()
        first = method.train(data, Seeded(SEED))
        one, unseen, alone = compared(method, first, data, singles, others, strangers)
        many, _, _ = compared(method, first, data, [group], others, strangers)
        row = [name, shown(one), shown(unseen), mean_shown(alone), shown(many)]
        print(f"| {' | '.join(row)} | {time.perf_counter() - started:.0f} |", flush=True)


if __name__ == "__main__":
    main()
