"""A method as plain values, so that a workspace can be opened again without unpickling anything.

Objects of this library are described by class and fields, and only classes listed here are built again. A part of your
own is described by its ``repr``; open such a workspace with the same method.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from eupg.errors import ParameterError, WorkspaceDamaged
from eupg.forget.durable import Durable
from eupg.manage.ledger.events import Json

_CLASSES = {
    "EUPG": "eupg.forget.eupg",
    "Retrain": "eupg.forget.retrain",
    "SISA": "eupg.forget.sisa.method",
    "CertifiedSP": "eupg.forget.certified_sp",
    "ExactTrees": "eupg.forget.exact_trees",
    "ExactHead": "eupg.forget.exact_head",
    "ProbabilisticKAnonymity": "eupg.protect.kanonymity",
    "MDAV": "eupg.protect.microaggregation.choice",
    "RefinedMDAV": "eupg.protect.microaggregation.choice",
    "MDAVBySize": "eupg.protect.microaggregation.choice",
    "LocalDP": "eupg.protect.local_dp",
    "DPSynthesis": "eupg.protect.synthesis.mechanism",
    "DPSGDBase": "eupg.forget.dp_sgd",
    "PrivateTrees": "eupg.forget.private_trees.base",
    "PrivateHead": "eupg.forget.private_head.base",
    "PrivateNetwork": "eupg.forget.private_head.public_network",
    "PublicNetwork": "eupg.forget.private_head.public_network",
    "PixelPermutation": "eupg.protect.pictures.pixel_permutation",
    "PixelDP": "eupg.protect.pictures.pixel_dp",
    "EfficientNetLite0": "eupg.protect.pictures.public_features",
    "EfficientNetLite1": "eupg.protect.pictures.public_features",
    "EfficientNetLite2": "eupg.protect.pictures.public_features",
    "TorchvisionResNet18": "eupg.protect.pictures.public_features",
    "PixelFeatures": "eupg.protect.pictures.public_features",
    "Unprotected": "eupg.protect.mechanism",
    "LeafLearner": "eupg.learn.leaves.learner",
    "HeadLearner": "eupg.learn.heads.model",
    "LeafRidge": "eupg.learn.leaves.leaf_ridge",
    "GradientClipping": "eupg.learn.noisy_finetuning",
    "ModelClipping": "eupg.learn.noisy_finetuning",
    "Aggregate": "eupg.forget.sisa.method",
    "Unit": "eupg.guarantees",
    "XGBoostLearner": "eupg.learn.xgboost",
    "LightGBMLearner": "eupg.learn.lightgbm",
    "SklearnLearner": "eupg.learn.sklearn",
    "TorchLearner": "eupg.learn.torch.learner",
    "BestOf": "eupg.learn.best_of",
    "MLP": "eupg.learn.torch.networks",
    "ResNet18": "eupg.learn.torch.networks",
    "FastResNet": "eupg.learn.torch.networks",
    "Augment": "eupg.learn.torch.augment",
    "SGDClassifier": "sklearn.linear_model",
    "LogisticRegression": "sklearn.linear_model",
}

# The first version described an empty mapping like this.
_NO_SETTINGS = {"opaque": "{}"}
# What was done before an option existed, where that is not its default: a description without it means this.
_BEFORE: dict[str, dict[str, Json]] = {"ProbabilisticKAnonymity": {"microaggregation": {"class": "MDAV", "with": {}}}}


def describe(thing: object) -> Json:
    """Return plain values for an object; one that cannot be built from them again is described by its ``repr``."""
    name = type(thing).__name__
    if isinstance(thing, Enum) and name in _CLASSES:
        return {"class": name, "with": {"value": thing.value}}
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (tuple, list)):
        return [describe(part) for part in thing]
    if isinstance(thing, Mapping) and all(isinstance(key, str) for key in thing):
        return {"mapping": {key: describe(value) for key, value in thing.items()}}
    if name in _CLASSES and type(thing).__module__.split(".")[0] == _CLASSES[name].split(".")[0]:
        if is_dataclass(thing):
            return {"class": name, "with": {f.name: describe(getattr(thing, f.name)) for f in fields(thing) if f.init}}
        parameters = {k: describe(v) for k, v in thing.get_params(deep=False).items()}  # type: ignore[attr-defined]
        return {"class": name, "with": parameters}
    return {"opaque": repr(thing)}


def agrees(method: object, description: Json) -> bool:
    """Return whether a method is the one that was described, perhaps before it had all the options it has now.

    Every setting is written down, so a different default in a later version changes no workspace. A description
    without an option that was added later means what was done before: the option's default, or what ``_BEFORE`` says.
    """
    return describe(method) == _completed(description)


def as_described(method: Any, description: Json) -> Any:
    """Return the method, with options it leaves at their default as they were when it was described without them.

    A program that opens a workspace with the method it always had continues in the way that the workspace began, even
    where the default is another one since. An option that is not at its default is not touched.
    """
    options = description.get("with") if isinstance(description, Mapping) else None
    if not is_dataclass(method) or isinstance(method, type) or not isinstance(options, Mapping):
        return method
    before, changed = _BEFORE.get(type(method).__name__, {}), {}
    for option in (f for f in fields(method) if f.init):
        value = getattr(method, option.name)
        if option.name in options:
            new = as_described(value, options[option.name])
        else:
            new = _build(before[option.name]) if option.name in before and value == option.default else value
        if new is not value:
            changed[option.name] = new
    return replace(method, **changed) if changed else method


def _completed(description: Json) -> Json:
    """Return a description with the options that were added to its classes since."""
    if isinstance(description, list):
        return [_completed(part) for part in description]
    if not isinstance(description, Mapping):
        return description
    if description == _NO_SETTINGS:
        return {"mapping": {}}
    parts = {key: _completed(value) for key, value in description.items()}
    name, options = parts.get("class"), parts.get("with")
    if isinstance(options, dict) and isinstance(name, str) and name in _CLASSES:
        kind = getattr(importlib.import_module(_CLASSES[name]), name)
        added = [f for f in fields(kind) if f.init and f.name not in options] if is_dataclass(kind) else []
        defaults = {f.name: describe(f.default) for f in added if f.default is not MISSING}
        parts["with"] = defaults | _BEFORE.get(name, {}) | options
    return parts


def rebuild(values: Json, *, trusted: Sequence[str] = ()) -> Durable:
    """Return the method that was described.

    The caller says which types a model file may hold, never the workspace: otherwise the author of a foreign workspace
    would choose what runs when its model is loaded.
    """
    method = _build(_trusting(values, list(trusted)))
    if not isinstance(method, Durable):
        raise WorkspaceDamaged(f"the workspace does not describe a method but {values!r}: restore it from a backup")
    return method


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
    return kind(**{k: _build(v) for k, v in (_BEFORE.get(name, {}) | dict(arguments)).items()})
