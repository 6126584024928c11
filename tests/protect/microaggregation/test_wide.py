import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eupg.errors import DataError, ParameterError
from eupg.protect.microaggregation.groups import within_group_sse
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.microaggregation.wide import wide_mdav
from protect.oracle_mdav import textbook_mdav

tables = st.tuples(st.integers(1, 60), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 3).map(float))
)


def features(n, d, seed=0):
    """Clusters with directions that matter less and less, as features of pictures have them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, d))
    return (centres[rng.integers(0, 5, n)] + rng.normal(size=(n, d)) * np.linspace(2, 0.2, d)).astype(np.float32)


@pytest.mark.parametrize(("n", "d", "k"), [(59, 3, 4), (60, 3, 20), (61, 30, 20), (400, 40, 7), (700, 200, 30)])
def test_groups_are_those_of_the_textbook_where_no_distances_are_equal(n, d, k):
    X = features(n, d, seed=n)
    assert wide_mdav(X, k).tolist() == textbook_mdav(X, k).tolist()


def test_groups_stay_those_of_the_compiled_search_when_rows_are_taken_out_on_the_way():
    X = features(6000, 20)
    np.testing.assert_array_equal(wide_mdav(X, 10), mdav(X, 10))


@settings(deadline=None, max_examples=150)
@given(X=tables, k=st.integers(1, 12))
def test_sizes_are_right_whatever_rounding_does(X, k):
    if len(X) >= k:
        sizes = np.bincount(wide_mdav(X, k))
        assert (sizes[:-1] == k).all()
        assert k <= sizes[-1] < 2 * k


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1000), k=st.integers(2, 9), n=st.integers(30, 90), d=st.integers(1, 30))
def test_loss_is_that_of_the_textbook(seed, k, n, d):
    X = features(n, d, seed)
    assert within_group_sse(X, wide_mdav(X, k)) == pytest.approx(within_group_sse(X, textbook_mdav(X, k)), rel=1e-3)


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e140])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_neither_units_nor_where_zero_lies_change_the_groups(scale, shift):
    X = features(200, 12).astype(np.float64)
    np.testing.assert_array_equal(wide_mdav((X + shift) * scale, 8), textbook_mdav(X, 8))


def test_identical_rows_can_be_grouped():
    sizes = np.bincount(wide_mdav(np.ones((100, 50)), 7))
    assert sizes.tolist() == [7] * 13 + [9]


def test_row_by_row_the_search_on_a_gpu_finds_the_same(monkeypatch):
    """The GPU looks at every row for the one farthest from the centroid, where the CPU looks at the first few."""
    from eupg.protect.microaggregation import wide as module

    X = features(6000, 20, seed=1)
    expected, pack = wide_mdav(X, 10), module._Search._pack

    def pretend(self, columns, names):
        self.on_cpu = False
        pack(self, columns, names)

    monkeypatch.setattr(module._Search, "_pack", pretend)
    np.testing.assert_array_equal(wide_mdav(X, 10), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_finds_groups_as_good():
    X = features(6000, 64, seed=2)
    groups = wide_mdav(X, 10, device="cuda")
    assert (np.bincount(groups) == 10).all()
    assert within_group_sse(X, groups) == pytest.approx(within_group_sse(X, wide_mdav(X, 10)), rel=1e-3)
    np.testing.assert_array_equal(wide_mdav(X, 10, device="cuda"), groups)


def test_bad_input_is_refused():
    with pytest.raises(ParameterError, match="k must be a whole number"):
        wide_mdav(np.ones((3, 3)), 0)
    with pytest.raises(DataError, match="k=4 needs at least 4 records, got 3"):
        wide_mdav(np.ones((3, 3)), 4)
    with pytest.raises(DataError, match="finite numbers"):
        wide_mdav(np.full((8, 3), np.nan), 2)
    with pytest.raises(DataError, match=r"PyTorch cannot use the device 'abacus'.*pass device='cpu'"):
        wide_mdav(np.ones((8, 3)), 2, device="abacus")


def test_numba_is_not_needed():
    script = (
        "import sys; sys.modules['numba'] = None\n"
        "import numpy as np; from eupg.protect.microaggregation.wide import wide_mdav\n"
        "print(np.bincount(wide_mdav(np.random.default_rng(0).normal(size=(100, 9)), 9)).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([9] * 10 + [10])
