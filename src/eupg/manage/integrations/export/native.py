"""A model as a folder that needs no EUPG: the framework's own file, its preprocessing, and a program that predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from eupg.errors import ParameterError
from eupg.learn.learner import Model
from eupg.manage.integrations.export.columns import column_rules
from eupg.manage.integrations.export.graph import perceptron_layers

_SUPPORTED = "a model of XGBoost, LightGBM, scikit-learn or of leaves, or a perceptron of PyTorch, for tables"
_README = """# A model from an EUPG workspace

`{file}` is the model, in the format of {framework}. `preprocessing.json` says how a raw row becomes its input: one
rule per column, in the model's order. `predict.py` applies the rules and predicts. It does not need EUPG:

    pip install {packages}
    python predict.py rows.csv probabilities.csv

{notice}
"""


@dataclass(frozen=True)
class _Native:
    """A model in its framework's own format, and what the program that predicts must know."""

    kind: str
    file: str
    content: bytes
    framework: str
    packages: str
    about: dict[str, Any] = field(default_factory=dict)


def native_files(model: Model, notice: str) -> dict[str, bytes]:
    """Return the files of the folder by name; ``notice`` is for its readers."""
    schema: Any = getattr(model, "schema", None)
    writer = _WRITERS.get(type(model).__name__)
    native = None if writer is None else writer(model)
    if native is None:
        raise ParameterError(
            f"expected {_SUPPORTED}, got a {type(model).__name__}: try the format 'onnx', or hand over the workspace's "
            "own file with eupg export"
        )
    rules = column_rules(schema, getattr(model, "encoder", None))
    about: dict[str, Any] = {"model": native.kind, "file": native.file, "label": schema.label.name}
    about |= {"classes": list(schema.label.categories), "columns": [rule.to_json() for rule in rules], **native.about}
    if hasattr(model, "encoder"):
        about["inputs"] = [name for rule in rules for name in rule.inputs]
    readme = _README.format(**vars(native), notice=notice)
    return {
        native.file: native.content,
        "preprocessing.json": json.dumps(about, indent=1, ensure_ascii=False).encode() + b"\n",
        "predict.py": resources.files(__package__).joinpath("predict.py").read_bytes(),
        "README.md": readme.encode(),
    }


def _xgboost(model: Any) -> _Native:
    content = bytes(_joined(model.boosters).save_raw("ubj"))
    return _Native("XGBoost", "model.ubj", content, "XGBoost", "numpy pandas xgboost")


def _joined(boosters: tuple[Any, ...]) -> Any:
    """Return ensembles, each of which starts from the margins of those before it, as one."""
    first, *others = (json.loads(bytes(booster.save_raw("json"))) for booster in boosters)
    trees = first["learner"]["gradient_booster"]["model"]
    for other in others:
        further = other["learner"]["gradient_booster"]["model"]
        end = trees["iteration_indptr"][-1]
        trees["iteration_indptr"] += [end + number for number in further["iteration_indptr"][1:]]
        trees["trees"] += [tree | {"id": end + tree["id"]} for tree in further["trees"]]
        trees["tree_info"] += further["tree_info"]
    trees["gbtree_model_param"]["num_trees"] = str(len(trees["trees"]))
    joined = type(boosters[0])()
    joined.load_model(bytearray(json.dumps(first).encode()))
    return joined


def _lightgbm(model: Any) -> _Native:
    from eupg.learn.lightgbm import without_statistics

    content = without_statistics(model.booster.model_to_string()).encode()
    return _Native("LightGBM", "model.txt", content, "LightGBM", "numpy pandas lightgbm")


def _sklearn(model: Any) -> _Native:
    import skops.io

    content: bytes = skops.io.dumps(model.estimator)
    about = {"trusted": list(model.learner.trusted)}
    return _Native(
        "scikit-learn", "model.skops", content, "scikit-learn, written by skops", "numpy pandas skops", about
    )


def _network(model: Any) -> _Native | None:
    import safetensors.torch

    layers = perceptron_layers(model)
    if layers is None:
        return None
    weights = {name: value.contiguous().cpu() for name, value in model.network.state_dict().items()}
    content = safetensors.torch.save(weights)
    return _Native(
        "perceptron",
        "model.safetensors",
        content,
        "PyTorch (safetensors)",
        "numpy pandas safetensors",
        {"layers": layers},
    )


def _leaves(model: Any) -> _Native:
    values = {"groups": model.cells.to_json(), "scores": model.scores.tolist()}
    return _Native("leaves", "model.json", json.dumps(values).encode(), "EUPG's models of leaves", "numpy pandas")


def _leaf_ridge(model: Any) -> _Native:
    from eupg.manage.integrations.export.trees import leaf_ridge_parts, plain_nodes

    tuned = leaf_ridge_parts(model)[1]
    cells = model.cells.public
    values = {
        "groups": cells.to_json(),
        "scores": model.scores[: cells.count].tolist(),
        "trees": [plain_nodes(tree) for tree in (*tuned.trees, *tuned.rounded)],
        "rounded": bool(tuned.rounded),
    }
    return _Native("leaves", "model.json", json.dumps(values).encode(), "EUPG's models of leaves", "numpy pandas")


# Named by class: the framework of a model of another kind may be absent.
_WRITERS: dict[str, Callable[[Any], _Native | None]] = {
    "XGBoostModel": _xgboost,
    "LightGBMModel": _lightgbm,
    "SklearnModel": _sklearn,
    "TorchModel": _network,
    "LeafModel": _leaves,
    "LeafRidgeModel": _leaf_ridge,
}
