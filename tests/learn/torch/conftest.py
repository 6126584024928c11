"""Networks of these tests are narrow, and some are trained without the guard of the learner (``threads_for``)."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def without_onednn():
    before = bool(torch.backends.mkldnn.enabled)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    yield
    torch.backends.mkldnn.enabled = before  # type: ignore[assignment]
