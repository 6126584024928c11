"""A model of a workspace as MLflow loads it: ``mlflow.pyfunc.load_model("models:/credit@production")``.

A version holds the model's own file, named by its digest, and a description of the method that reads it. MLflow passes
their folder to :func:`_load_pyfunc`. No object is pickled: the code is that of the installed library.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eupg import __version__
from eupg.data.attribute import Listed, Numeric
from eupg.data.kind import DataKind
from eupg.data.rows import RowReader
from eupg.data.schema import Schema
from eupg.errors import ModelFileError
from eupg.learn.learner import Model
from eupg.manage.description import rebuild
from eupg.manage.ledger.events import Json
from eupg.manage.storage.store import Digest
from eupg.manage.storage.workspace import Workspace
from eupg.temporary import TemporaryFolder

if TYPE_CHECKING:
    import pandas as pd

_METHOD = "method.json"
# The extras that parts of a method need.
_NEEDS = {"DPSGDBase": "dpsgd", "LightGBMLearner": "lightgbm", "TorchLearner": "torch", "XGBoostLearner": "xgboost"}
_ADDRESS = "MLFLOW_TRACKING_URI"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that takes raw rows and returns a table with one column per class."""

    schema: Schema
    model: Model

    def predict(self, table: Any) -> pd.DataFrame:
        """Return the probabilities of every class, as :meth:`eupg.Manager.predict` does."""
        import pandas as pd

        rows = RowReader(self.schema).read(table)
        rows.warn(stacklevel=2)
        return pd.DataFrame(self.model.predict_proba(rows.X), columns=list(self.schema.label.categories))


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> ServedModel:
    """Load a version; MLflow calls this.

    ``model_config={"trusted": […]}`` names further types that a file of scikit-learn may hold.
    """
    folder = Path(path)
    (file,) = (one for one in folder.iterdir() if one.name != _METHOD)
    if hashlib.sha256(file.read_bytes()).hexdigest() != file.name:
        raise ModelFileError(f"{file} does not match its name, which is its digest: download the version again")
    method = rebuild(json.loads((folder / _METHOD).read_bytes()), trusted=(model_config or {}).get("trusted", ()))
    model: Any = method.load(file)
    return ServedModel(model.schema, model)


def save_pyfunc(folder: Path, space: Workspace, digest: Digest, *, tracking_uri: str) -> None:
    """Write a model of a workspace as MLflow keeps one: with a signature, and a made-up row as an example."""
    pyfunc: Any = importlib.import_module("mlflow.pyfunc")
    with TemporaryFolder() as scratch, _default_address(tracking_uri):
        data = scratch / "eupg"
        data.mkdir()
        shutil.copyfile(space.store.path(digest), data / digest)
        (data / _METHOD).write_text(json.dumps(space.settings.method), encoding="utf-8")
        table = space.schema.kind is DataKind.TABLE
        pyfunc.save_model(
            folder,
            loader_module=__name__,
            data_path=str(data),
            pip_requirements=[_requirement(space.settings.method)],
            signature=_signature(space.schema) if table else None,
            input_example=_example(space.schema) if table else None,
        )


@contextmanager
def _default_address(uri: str) -> Iterator[None]:
    """Name MLflow's address: without one it makes a database in the current folder, even to save a model elsewhere."""
    before = os.environ.get(_ADDRESS)
    os.environ[_ADDRESS] = before or uri
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ADDRESS]


def _requirement(method: Json) -> str:
    """Return what must be installed to load a model: the frameworks of every part of its method."""
    described = json.dumps(method)
    extras = [extra for name, extra in _NEEDS.items() if f'"{name}"' in described]
    return f"eupg[{','.join(extras)}]=={__version__}" if extras else f"eupg=={__version__}"


def _signature(schema: Schema) -> Any:
    """Return the names of the inputs, and the type of the outputs.

    Inputs have no type: MLflow would refuse whole numbers for a number, and numbers for a category. The model itself
    checks them.
    """
    types: Any = importlib.import_module("mlflow.types.schema")
    inputs = types.Schema([types.ColSpec(types.AnyType(), a.name) for a in schema.features])
    outputs = types.Schema([types.ColSpec(types.DataType.double, name) for name in schema.label.categories])
    return importlib.import_module("mlflow.models").ModelSignature(inputs=inputs, outputs=outputs)


def _example(schema: Schema) -> pd.DataFrame:
    """Return a row that follows from the schema alone: the middle of bounds, the first of categories."""
    import pandas as pd

    row: dict[str, Any] = {}
    for attribute in schema.features:
        if isinstance(attribute, Numeric):
            (row[attribute.name],) = attribute.decode(np.array([(attribute.lower + attribute.upper) / 2]))
        elif isinstance(attribute, Listed):
            row[attribute.name] = attribute.categories[0]
    return pd.DataFrame([row])
