"""Import skops, and not PyTorch with it.

To list the estimators that it trusts, skops imports every package of scikit-learn. One of them is a bridge to PyTorch,
which takes as much time and memory as all the others together and offers no estimator.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_BRIDGE = "sklearn.externals.array_api_compat.torch"


def _import_skops() -> Any:
    """Return ``skops.io``; a module that is ``None`` counts as not installed, which scikit-learn expects here."""
    hidden = "torch" not in sys.modules and _BRIDGE not in sys.modules
    if hidden:
        sys.modules[_BRIDGE] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("skops.io")
    finally:
        if hidden:
            del sys.modules[_BRIDGE]


skops_io = _import_skops()
