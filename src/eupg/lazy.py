"""Public names are imported when they are first used, so that ``import eupg`` is quick and needs no framework.

Each package lists what it offers once, in its ``__init__.pyi``, which type checkers and editors read, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

from eupg.errors import MissingFramework

# Framework → the extra that installs it.
EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "opacus": "dpsgd",
    "dp_accounting": "dpsgd",
    "onnx": "onnx",
    "tokenizers": "text",
    "ray": "ray",
    **dict.fromkeys(("fastapi", "uvicorn", "authlib", "limits", "prometheus_client", "httpx", "multipart"), "service"),
}


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its ``__init__.py``."""
    load, names, listed = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").split(".")[0])
            if extra is None:
                raise
            raise MissingFramework(f"{name} needs {error.name}: pip install 'eupg[{extra}]'") from error

    return get, names, sorted(listed, key=str.lower)
