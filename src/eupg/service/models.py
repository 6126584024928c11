"""The models: one workspace per folder, opened when it is first needed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eupg.errors import ParameterError, UnknownModel
from eupg.manage.manager import Manager
from eupg.manage.status import WorkspaceStatus

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST_ROWS = 10_000


@dataclass(frozen=True)
class Prediction:
    """What a model says about rows: a probability per class, and the rows whose values were adjusted to the schema."""

    model: str
    classes: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]
    adjusted: tuple[int, ...]


class Models:
    """The workspaces in a folder. A workspace that is added later is found without a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[Manager, threading.RLock]] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all workspaces with a trained model."""
        return sorted(
            path.name
            for path in self._folder.iterdir()
            if _NAME.fullmatch(path.name) and (path / "current.json").is_file()
        )

    @contextmanager
    def opened(self, name: str) -> Iterator[Manager]:
        """Open a workspace; one thread of this process uses it at a time."""
        if not _NAME.fullmatch(name) or not (self._folder / name / "current.json").is_file():
            raise UnknownModel("there is no model of this name here: see the list of models")
        with self._lock:
            if name not in self._open:
                self._open[name] = Manager(self._folder / name), threading.RLock()
            manager, lock = self._open[name]
        with lock:
            yield manager

    def status(self, name: str) -> WorkspaceStatus:
        """Return the status of a workspace."""
        with self.opened(name) as manager:
            return manager.status()

    def predict(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Prediction:
        """Ask the served model about rows, by column name."""
        if not 1 <= len(rows) <= _MOST_ROWS:
            raise ParameterError(f"expected 1 to {_MOST_ROWS:,} rows, got {len(rows):,}")
        with self.opened(name) as manager:
            read = manager.rows(pd.DataFrame(list(rows)))
            probabilities = manager.predict(read)
            served = manager.space.state().served
            classes = tuple(str(c) for c in manager.space.schema.label.categories)
        adjusted = tuple(int(row) for row in np.flatnonzero(read.marked))
        return Prediction(served, classes, tuple(tuple(map(float, p)) for p in probabilities), adjusted)

    def close(self) -> None:
        """Close all workspaces."""
        with self._lock:
            for manager, _ in self._open.values():
                manager.close()
            self._open.clear()
