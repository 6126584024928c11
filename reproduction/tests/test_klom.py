import json
import math

import numpy as np
import pytest
from scipy.stats import binom, entropy

from eupg.errors import DataError, ParameterError
from eupg_reproduction.audits.klom import klom, klom_report


def draws(seed: int, models: int, records: int, at: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(at, 1, (models, records))


def test_identical_samples_have_no_divergence():
    margins = draws(0, 30, 40)
    np.testing.assert_array_equal(klom(margins, margins), 0.0)
    np.testing.assert_array_equal(klom(margins, margins[::-1]), 0.0)


def test_two_values_have_a_closed_form():
    # 3 of 4 against 1 of 4: ¾·log 3 + ¼·log ⅓ = ½·log 3. And 1 of 4 against 2 of 4.
    unlearned = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    retrained = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    expected = [math.log(3) / 2, math.log(0.5) / 4 + 3 * math.log(1.5) / 4]
    np.testing.assert_allclose(klom(unlearned, retrained, bins=2), expected)


def test_discrete_distribution_over_several_bins_agrees_with_scipy():
    p, q = np.array([5, 3, 2, 10]), np.array([4, 4, 4, 8])
    unlearned, retrained = (np.repeat(np.arange(4.0), n)[:, None] for n in (p, q))
    assert klom(unlearned, retrained, bins=4)[0] == pytest.approx(entropy(p, q))


def test_bin_without_retrained_models_counts_as_the_floor():
    # Disjoint: p = (0, 1), q = (1, floor) / (1 + floor), so log((1 + floor) / floor).
    found = klom([[1.0]] * 4, [[0.0]] * 4, bins=2, floor=1e-3)
    assert found[0] == pytest.approx(math.log(1.001 / 0.001))


def test_number_of_models_may_differ():
    assert klom([[0.0], [1.0]], [[0.0], [0.0], [1.0], [1.0]], bins=2)[0] == 0.0


def test_records_are_judged_one_by_one():
    same, shifted = draws(0, 100, 2), draws(1, 100, 2)
    shifted[:, 1] += 5
    found = klom(shifted, same)
    assert found[0] < 1 < found[1]
    np.testing.assert_array_equal(found[1:], klom(shifted[:, 1:], same[:, 1:]))


def test_equal_margins_everywhere_have_no_divergence():
    assert klom([[2.0]] * 3, [[2.0]] * 5)[0] == 0.0


def test_margins_beyond_the_clip_count_as_equal():
    assert klom([[np.inf], [-np.inf]], [[100.0], [-100.0]])[0] == 0.0
    assert klom([[7.0], [7.0]], [[50.0], [6.0]], clip=5.0)[0] == 0.0


def test_normal_margins_approach_the_closed_form():
    """KL of N(1, 1) from N(0, 1) is ½; binning loses a little, 20,000 models leave an error of about 0.02."""
    found = klom(draws(0, 20_000, 20, at=1.0), draws(1, 20_000, 20))
    assert 0.45 < found.mean() < 0.55


def test_exact_method_shows_the_null_and_a_shifted_one_does_not():
    """Sign test over 40 audits of 10 records, false alarm 1e-6: matched and null are exchangeable for an exact method.

    A method whose margins are 1.5 standard deviations off is above the null each time.
    """
    above = missed = 0
    for seed in range(40):
        retrained = draws(3 * seed, 16, 10)
        exact = klom_report(draws(3 * seed + 1, 16, 10), retrained)
        off = klom_report(draws(3 * seed + 2, 16, 10, at=1.5), retrained)
        above += exact.matched[0] > exact.null[0]
        missed += off.matched[0] <= off.null[0]
    assert binom.ppf(5e-7, 40, 0.5) <= above <= binom.isf(5e-7, 40, 0.5)
    assert missed <= binom.ppf(1e-6, 40, 0.5)


def test_few_models_bias_the_estimate_upward():
    """The same two distributions: over 8 models of each kind far from 0, over 2,000 near it; hence the null."""
    few, many = (klom(draws(0, n, 50), draws(1, n, 50)).mean() for n in (8, 2000))
    assert few > 1
    assert many < 0.05
    assert klom_report(draws(0, 8, 50), draws(1, 8, 50)).null[0] > 1


def test_null_is_between_halves_of_the_retrained_models_at_equal_numbers():
    unlearned, retrained = draws(0, 3, 30), draws(1, 10, 30)
    report = klom_report(unlearned, retrained)
    one, other = retrained[0::2], retrained[1::2]
    assert report.null == tuple(np.percentile(klom(one[:3], other), (50, 95, 99)))
    assert report.matched == tuple(np.percentile(klom(unlearned, other), (50, 95, 99)))
    assert report.klom == tuple(np.percentile(klom(unlearned, retrained), (50, 95, 99)))


def test_report_reads_well_and_is_plain():
    report = klom_report(draws(0, 8, 1200, at=4), draws(1, 6, 1200), bins=10)
    text = report.sentence()
    assert text.startswith("KLOM of 1,200 records over 8 unlearned and 6 retrained models, 10 bins: median ")
    assert f"median {report.klom[0]:.2f} ({report.matched[0]:.2f} against a null of {report.null[0]:.2f})" in text
    assert "99th percentile" in text
    assert "A perfect method shows the null, not 0" in text
    plain = json.loads(json.dumps(report.to_json()))
    assert plain["percentiles"] == [50, 95, 99]
    assert plain["null"] == list(report.null)


@pytest.mark.parametrize(
    ("unlearned", "retrained", "options", "error", "message"),
    [
        (
            [1.0, 2.0],
            [[1.0]],
            {},
            DataError,
            r"margins must have one row per model, 1 or more, .* \(2,\)",
        ),
        ([[1.0]], np.empty((0, 1)), {}, DataError, r"the retrained margins must have one row per model, .* \(0, 1\)"),
        ([[]], [[]], {}, DataError, r"one column per record, got shape \(1, 0\)"),
        ([[1.0]], [[1.0, 2.0]], {}, DataError, "the same records, got 1 and 2: compute all margins on one set"),
        ([[1.0]], [[np.nan]], {}, DataError, "1 retrained margins are NaN: check the models' probabilities"),
        ([[1.0]], [[1.0]], {"bins": 1}, ParameterError, "bins must be a whole number of at least 2, got 1"),
        ([[1.0]], [[1.0]], {"bins": 2.0}, ParameterError, "bins must be a whole number of at least 2, got 2.0"),
        ([[1.0]], [[1.0]], {"clip": np.inf}, ParameterError, "clip must be a positive finite number, got inf"),
        ([[1.0]], [[1.0]], {"floor": 0}, ParameterError, "floor must lie between 0 and 1, got 0: without it one empty"),
    ],
)
def test_unusable_input_is_refused(unlearned, retrained, options, error, message):
    with pytest.raises(error, match=message):
        klom(unlearned, retrained, **options)


def test_report_refuses_what_the_measure_refuses():
    with pytest.raises(ParameterError, match="bins must be a whole number"):
        klom_report([[1.0]], [[1.0], [2.0]], bins=0)
    with pytest.raises(DataError, match="the same records, got 1 and 2"):
        klom_report([[1.0]], [[1.0, 2.0]] * 2)


def test_one_retrained_model_has_no_halves():
    with pytest.raises(DataError, match="the retrained margins must have one row per model, 2 or more"):
        klom_report([[1.0]], [[1.0]])
