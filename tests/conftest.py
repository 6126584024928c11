"""Hypothesis draws the same examples everywhere in continuous integration; compiled kernels may be slow at first."""

import os

import pytest
from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# Tests that reach what others reach, many times over, or in processes of their own. A tracer doubles the time of Python
# code, so where coverage is measured these run without it.
UNTRACED = ("tests/e2e", "tests/statistical", "reproduction")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Turn the tracer off in some tests; each runs once, with or without it."""
    places = [config.rootpath / name for name in UNTRACED]
    for item in items:
        if any(item.path.is_relative_to(place) for place in places):
            item.add_marker("no_cover")
