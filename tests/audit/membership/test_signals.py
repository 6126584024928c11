"""Signals: what is computed from probabilities, and what is refused before an attack sees it."""

import numpy as np
import pytest

from eupg.audit.membership.attack import check_signals
from eupg.audit.membership.lira import LiRA
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.signals import (
    FLOOR,
    SignalKind,
    Signals,
    check_balanced,
    check_members,
    measure,
    scaled_logit,
    taylor_softmax,
    true_class_probability,
)
from eupg.errors import DataError

TARGET = np.array([[0.9], [0.4]])
REFERENCES = np.array([[[0.5], [0.4]], [[0.7], [0.6]]])
INSIDE = np.array([[False, True], [True, False]])


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_scaled_logit_is_the_logit_of_the_true_class(classes):
    rng = np.random.default_rng(classes)
    p, y = softmax(rng.normal(size=(50, classes))), rng.integers(0, classes, 50)
    own = true_class_probability(p, y)
    assert own == pytest.approx([p[i, y[i]] for i in range(50)])
    assert scaled_logit(p, y) == pytest.approx(np.log(own / (1 - own)))


def test_scaled_logit_survives_both_ends():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-9]])
    found = scaled_logit(p, np.zeros(3, dtype=int))
    assert found[:2] == pytest.approx([-np.log(FLOOR), np.log(FLOOR)])
    # 1 − p would have rounded to zero in single precision; the sum of the others did not.
    assert found[2] == pytest.approx(9 * np.log(10))


@pytest.mark.parametrize("classes", [2, 10])
def test_surer_never_means_a_lower_taylor_softmax(classes):
    """Without the hold at the polynomial's minimum this fails for two classes from p = 0.9997 on."""
    logits = np.zeros((400, classes))
    logits[:, 0] = np.linspace(-25, 25, 400)
    found = taylor_softmax(softmax(logits), np.zeros(400, dtype=int))
    assert (np.diff(found) > -1e-12).all()
    assert 0 < found[0] < 0.2
    assert 0.9 < found[-1] < 1


def test_each_kind_is_measured_by_its_own_function():
    p, y = np.array([[0.6, 0.3, 0.1]]), np.array([0])
    expected = {
        SignalKind.PROBABILITY: true_class_probability,
        SignalKind.MARGIN: scaled_logit,
        SignalKind.TAYLOR: taylor_softmax,
    }
    assert {kind: measure(p, y, kind=kind)[0] for kind in SignalKind} == {k: f(p, y)[0] for k, f in expected.items()}
    assert len({round(measure(p, y, kind=kind)[0], 6) for kind in SignalKind}) == 3


@pytest.mark.parametrize(
    ("probabilities", "labels", "cause"),
    [
        ([[0.5, np.nan]], [0], "1 values that are not finite"),
        ([[1.4, -0.4]], [0], "between 0 and 1, got -0.4 to 1.4"),
        ([[0.5, 0.4]], [0], "add up to one, record 0's add up to 0.9"),
        ([0.5, 0.5], [0], r"\(records, classes\)"),
        ([[1.0]], [0], "two classes"),
        (np.empty((0, 2)), np.empty(0, dtype=int), r"got \(0, 2\)"),
        ([[0.5, 0.5]], [2], "labels must lie between 0 and 1"),
        ([[0.5, 0.5]], [0, 1], "1 whole numbers"),
        ([[0.5, 0.5]], [0.0], "whole numbers"),
    ],
)
def test_bad_probabilities_are_refused_by_name(probabilities, labels, cause):
    for function in (true_class_probability, scaled_logit, taylor_softmax):
        with pytest.raises(DataError, match=cause):
            function(np.array(probabilities), np.array(labels))


def test_single_precision_rounding_is_not_an_error():
    p = np.array([[1.0 + 1e-7, -1e-7]])
    assert true_class_probability(p, np.array([0])) == 1.0


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"target": TARGET[:, 0]}, r"target\[:, None\]"),
        ({"target": np.empty((0, 1))}, r"at least one of each, got \(0, 1\)"),
        ({"target": TARGET + 0.2}, "target must hold values between 0 and 1, got 0.6 to 1.1"),
        ({"target": np.array([[np.nan], [0.4]])}, r"target has 1 values that are not finite .*at \(0, 0\)"),
        ({"references": REFERENCES[:, :1]}, r"references must be \(models, 2, 1\), got \(2, 1, 1\)"),
        ({"references": np.full((2, 2, 1), np.inf)}, "references has 4 values"),
        ({"inside": INSIDE[:1]}, r"shape \(2, 2\) \(models, records\), got bool of shape \(1, 2\)"),
        ({"inside": INSIDE.astype(int)}, "got int64"),
    ],
)
def test_bad_signals_are_refused_by_name(changes, cause):
    with pytest.raises(DataError, match=cause):
        Signals(**({"target": TARGET, "references": REFERENCES, "inside": INSIDE} | changes))


def test_population_must_be_seen_by_the_same_models_as_the_same_kind():
    one = Signals(TARGET, REFERENCES[:1], INSIDE[:1])
    margins = Signals(TARGET, REFERENCES, INSIDE, kind=SignalKind.MARGIN)
    for population in (one, margins):
        with pytest.raises(DataError, match="same 2 reference models"):
            Signals(TARGET, REFERENCES, INSIDE, population=population)
    nested = Signals(TARGET, REFERENCES, INSIDE, population=Signals(TARGET, REFERENCES, INSIDE))
    with pytest.raises(DataError, match="must not have a population of its own"):
        Signals(TARGET, REFERENCES, INSIDE, population=nested)


def test_signals_cannot_be_changed():
    signals = Signals(TARGET, REFERENCES, INSIDE)
    for values in (signals.target, signals.references, signals.inside):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    assert TARGET.flags.writeable


@pytest.mark.parametrize(
    ("attack", "kind"),
    [
        (RMIA(a=1.0, by_ratio=True), SignalKind.MARGIN),
        (LiRA(), SignalKind.PROBABILITY),
        (LossAttack(), SignalKind.TAYLOR),
    ],
)
def test_attack_refuses_the_wrong_kind_of_signal(attack, kind):
    signals = Signals(TARGET, REFERENCES, np.zeros((2, 2), dtype=bool), kind=kind)
    with pytest.raises(DataError, match=f"{type(attack).__name__} needs signals of kind .*, got {kind}"):
        attack.score(signals)


@pytest.mark.parametrize(
    ("attack", "kind", "least", "trained"),
    [
        (RMIA(), SignalKind.PROBABILITY, 2, "without"),
        (LiRA(), SignalKind.MARGIN, 2, "without"),
        (LiRA(fixed_variance=False), SignalKind.MARGIN, 3, "without"),
        (LiRA(online=True), SignalKind.MARGIN, 2, "with"),
    ],
)
def test_too_few_reference_models_are_counted(attack, kind, least, trained):
    # Record 0 has one model on the side asked for, record 1 has three.
    if trained == "without":
        inside = np.array([[True, False]] * 3 + [[True, True]] * 2 + [[False, True]])
    else:
        inside = np.array([[False, True]] * 3 + [[False, False]] * 2 + [[True, False]])
    signals = Signals(np.full((2, 1), 0.5), np.full((6, 2, 1), 0.5), inside, kind=kind)
    cause = rf"at least {least} reference models trained {trained} each record, but 1 of 2 .*the fewest: 1\)"
    with pytest.raises(DataError, match=cause):
        check_signals(attack, signals)


def test_unequal_out_counts_are_refused_with_both_means():
    members = np.array([True, True, False, False])
    halves = np.array([[True, False, True, False], [False, True, False, True]])
    check_balanced(halves, members)
    with pytest.raises(DataError, match=r"members are left out by 2\.00 on average and non-members by 1\.50"):
        check_balanced(np.array([[False, False, True, False], [False, False, False, False]]), members)
    # Equal on average is not enough: the exact rule is per record.
    with pytest.raises(DataError, match=r"1\.50 on average and non-members by 1\.50 \(from 1 to 2\)"):
        check_balanced(np.array([[True, False, True, False], [False] * 4]), members)
    with pytest.raises(DataError, match="boolean array"):
        check_balanced(halves.astype(float), members)


@pytest.mark.parametrize(
    ("members", "cause"),
    [
        (np.array([True, True]), "there are no non-members"),
        (np.array([False, False]), "there are no members"),
        (np.array([True]), r"shape \(2,\)"),
        (np.array([1, 0]), "boolean"),
    ],
)
def test_a_side_must_not_be_empty(members, cause):
    with pytest.raises(DataError, match=cause):
        check_members(members, 2)
