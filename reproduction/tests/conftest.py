"""Hypothesis draws the same examples everywhere in continuous integration; compiled kernels may be slow at first."""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
