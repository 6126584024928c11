import os

import numpy as np
import pytest

from eupg.errors import DataError, ParameterError
from eupg.protect.microaggregation import choice
from eupg.protect.microaggregation.choice import MDAV, MDAVBySize, Microaggregation, RefinedMDAV
from eupg.protect.microaggregation.mdav import mdav
from eupg.protect.microaggregation.refined import microaggregate

X = np.random.default_rng(0).normal(size=(500, 3))


def test_ways_are_what_they_are_called():
    np.testing.assert_array_equal(MDAV().group(X, 10), mdav(X, 10))
    np.testing.assert_array_equal(RefinedMDAV().group(X, 10), microaggregate(X, 10))
    assert (MDAV().group(X, 10) != RefinedMDAV().group(X, 10)).any()


@pytest.mark.parametrize(("exact_to", "way"), [(500, MDAV()), (501, MDAV()), (499, RefinedMDAV()), (0, RefinedMDAV())])
def test_number_of_rows_alone_decides(exact_to, way):
    np.testing.assert_array_equal(MDAVBySize(exact_to).group(X, 10), way.group(X, 10))


@pytest.mark.parametrize("way", [MDAV(), RefinedMDAV(), MDAVBySize()], ids=repr)
def test_ways_follow_the_protocol_and_refuse_bad_tables(way):
    assert isinstance(way, Microaggregation)
    with pytest.raises(DataError, match="k=20 needs at least 20 records, got 12"):
        way.group(X[:12], 20)


def test_number_of_rows_must_be_a_whole_number():
    with pytest.raises(ParameterError, match="exact_to must be a whole number of at least 0, got -1"):
        MDAVBySize(exact_to=-1)


def test_all_cores_are_used_that_the_process_may_use(monkeypatch):
    asked = []
    monkeypatch.setattr(choice, "microaggregate", lambda X, k, *, threads: asked.append(threads))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7}, raising=False)
    RefinedMDAV().group(X, 10)
    assert asked == [3]
