"""A method as plain values, so that a workspace can be opened again without unpickling anything.

Objects of this library are described by class and fields, and only classes listed here are built again. A method with a
part of your own is noted by its ``repr``: open such a workspace with the same method in hand.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.forget.eupg import EUPG
from eupg.manage.events import Json

_CLASSES = {
    "EUPG": "eupg.forget.eupg",
    "ProbabilisticKAnonymity": "eupg.protect.kanonymity",
    "LocalDP": "eupg.protect.local_dp",
    "DPSynthesis": "eupg.protect.synthesis",
    "DPSGDBase": "eupg.forget.dp_sgd",
    "PrivateTrees": "eupg.forget.private_trees.base",
    "PixelPermutation": "eupg.protect.pixels",
    "PixelDP": "eupg.protect.pixel_dp",
    "EfficientNetLite0": "eupg.protect.public_features",
    "TorchvisionResNet18": "eupg.protect.public_features",
    "PixelFeatures": "eupg.protect.public_features",
    "Unprotected": "eupg.protect.mechanism",
    "LeafLearner": "eupg.learn.leaves.learner",
    "XGBoostLearner": "eupg.learn.xgboost_learner",
    "LightGBMLearner": "eupg.learn.lightgbm_learner",
    "SklearnLearner": "eupg.learn.sklearn_learner",
    "TorchLearner": "eupg.learn.torch_learner",
    "BestOf": "eupg.learn.best_of",
    "MLP": "eupg.learn.networks",
    "ResNet18": "eupg.learn.resnet",
    "Augment": "eupg.learn.augment",
    "SGDClassifier": "sklearn.linear_model",
    "LogisticRegression": "sklearn.linear_model",
}

# The first version described an empty mapping so.
_NO_SETTINGS = {"opaque": "{}"}


def describe(thing: object) -> Json:
    """Return plain values for an object; what cannot be built from them again is described by its ``repr``."""
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (tuple, list)):
        return [describe(part) for part in thing]
    if isinstance(thing, Mapping) and all(isinstance(key, str) for key in thing):
        return {"mapping": {key: describe(value) for key, value in thing.items()}}
    name = type(thing).__name__
    if name in _CLASSES and type(thing).__module__.split(".")[0] == _CLASSES[name].split(".")[0]:
        if is_dataclass(thing):
            return {"class": name, "with": {f.name: describe(getattr(thing, f.name)) for f in fields(thing) if f.init}}
        changed = {k: describe(v) for k, v in thing.get_params(deep=False).items()}  # type: ignore[attr-defined]
        return {"class": name, "with": changed}
    return {"opaque": repr(thing)}


def agrees(method: object, noted: Json) -> bool:
    """Tell whether a method is the one that was described, perhaps before it had all the options it has now.

    Every setting is written down, so that another default in a later version changes no workspace. An option that came
    to be later does, left alone, what was done before there was one: a description without it means its default.
    """
    return describe(method) == _completed(noted)


def _completed(noted: Json) -> Json:
    """Return a description with the options that its classes got since."""
    if isinstance(noted, list):
        return [_completed(part) for part in noted]
    if not isinstance(noted, Mapping):
        return noted
    if noted == _NO_SETTINGS:
        return {"mapping": {}}
    parts = {key: _completed(value) for key, value in noted.items()}
    name, said = parts.get("class"), parts.get("with")
    if isinstance(said, dict) and isinstance(name, str) and name in _CLASSES:
        kind = getattr(importlib.import_module(_CLASSES[name]), name)
        since = [f for f in fields(kind) if f.init and f.name not in said] if is_dataclass(kind) else []
        parts["with"] = said | {f.name: describe(f.default) for f in since if f.default is not MISSING}
    return parts


def rebuild(values: Json, *, trusted: Sequence[str] = ()) -> EUPG:
    """Return the method that was described.

    Which types a model file may hold is for the caller to say, never for the workspace: whoever made a foreign
    workspace would otherwise choose what runs when its model is loaded.
    """
    found = _build(_trusting(values, list(trusted)))
    if not isinstance(found, EUPG):
        raise WorkspaceDamaged(f"the workspace describes no method but {values!r}: restore it from a backup")
    return found


def _trusting(values: Json, trusted: list[Json]) -> Json:
    """Return a description in which every list of trusted types is the caller's."""
    if isinstance(values, list):
        return [_trusting(value, trusted) for value in values]
    if not isinstance(values, Mapping):
        return values
    return {key: trusted if key == "trusted" else _trusting(value, trusted) for key, value in values.items()}


def _build(values: Json) -> Any:
    if isinstance(values, list):
        return tuple(_build(v) for v in values)
    if not isinstance(values, Mapping):
        return values
    if values == _NO_SETTINGS:
        return {}
    if "opaque" in values:
        raise ParameterError(
            f"this workspace uses {values['opaque']}, which only you can build: open it with Manager(folder, method)"
        )
    if isinstance(mapping := values.get("mapping"), Mapping):
        return {key: _build(value) for key, value in mapping.items()}
    name, arguments = str(values.get("class")), values.get("with")
    if name not in _CLASSES or not isinstance(arguments, Mapping):
        raise WorkspaceDamaged(f"the workspace describes an unknown {name!r}: restore it, or update eupg")
    kind = getattr(importlib.import_module(_CLASSES[name]), name)
    return kind(**{k: _build(v) for k, v in arguments.items()})
