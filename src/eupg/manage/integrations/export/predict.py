"""Predict with an exported model. This needs numpy, pandas and the model's own framework, and not EUPG.

The file ``preprocessing.json`` beside this one says how a raw row becomes the model's input. From a shell:

    python predict.py rows.csv probabilities.csv
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
# The share of a mixed scale that is linear.
LINEAR = 0.25
# Types of scikit-learn that hold plain arrays and run no code.
TRUSTED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
)


def predict_proba(table: pd.DataFrame, folder: Path = HERE) -> pd.DataFrame:
    """Return one probability per class for each row of a table; columns are matched by name."""
    about = json.loads((folder / "preprocessing.json").read_text(encoding="utf-8"))
    X = np.column_stack([read_column(table[column["name"]], column) for column in about["columns"]])
    output = np.asarray(MODELS[about["model"]](X, about, folder / about["file"]), dtype=np.float64)
    chances = np.column_stack([1 - output, output]) if output.ndim == 1 else output
    return pd.DataFrame(chances / chances.sum(axis=1, keepdims=True), columns=about["classes"], index=table.index)


def read_column(column: pd.Series, rule: dict[str, Any]) -> Any:
    """Return a column as numbers, or as positions in the list of categories; NaN is a missing value."""
    refused = np.zeros(len(column), dtype=bool)
    empty = column.isna().to_numpy(dtype=bool)
    if "categories" in rule:
        codes = {category: float(position) for position, category in enumerate(rule["categories"])}
        known = [np.nan if gone else codes.get(text(v), -1.0) for v, gone in zip(column.tolist(), empty, strict=True)]
        values = np.array(known, dtype=np.float64)
        unseen = values < 0
        if rule["unseen"] == "refuse":
            refused |= unseen
        else:
            values[unseen] = np.nan if rule["unseen"] is None else rule["unseen"]
    else:
        values = days(column, rule["date"]) if "date" in rule else pd.to_numeric(column).to_numpy(np.float64)
        refused |= np.isnan(values) & ~empty
        for side, beyond in (("below", values < rule["lower"]), ("above", values > rule["upper"])):
            refused |= beyond & (rule[side] == "refuse")
        values = np.clip(values, rule["lower"], rule["upper"])
    if rule["missing"] == "fill":
        values[empty] = rule["fill"]
    refused |= empty & (rule["missing"] == "refuse")
    if refused.any():
        raise ValueError(f"column {rule['name']!r}: {refused.sum()} of {len(refused)} rows hold values out of range")
    return values


def days(column: pd.Series, form: str) -> Any:
    """Return dates, as text in this format or as pandas has them, as days since 1 January 1970."""
    moments = pd.to_datetime(column, format=form, utc=True, errors="coerce").dt.tz_localize(None)
    return ((moments - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)).to_numpy(np.float64)


def text(value: object) -> str:
    """Write a category as text, whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def encode(X: Any, about: dict[str, Any]) -> Any:
    """Return scaled numbers and one-hot categories, as networks and linear models read them."""
    parts = []
    for values, rule in zip(X.T, about["columns"], strict=True):
        empty = np.isnan(values)
        if "scale" in rule:
            scaled = (curved(values, rule) - rule["scale"]["centre"]) / rule["scale"]["spread"]
            parts.append(np.where(empty, 0.0, scaled))
        else:
            parts += [(values == code).astype(np.float64) for code in range(len(rule["categories"]))]
        if rule.get("flag"):
            parts.append(empty.astype(np.float64))
    return np.column_stack(parts).astype(np.float32)


def curved(values: Any, rule: dict[str, Any]) -> Any:
    """Return numbers on the curve of their scale."""
    scale = rule["scale"]
    if scale["curve"] == "linear":
        return values
    logarithm = np.log1p((values - rule["lower"]) / scale["resolution"])
    if scale["curve"] == "logarithmic":
        return logarithm
    width = rule["upper"] - rule["lower"]
    whole = np.log1p(width / scale["resolution"])
    return LINEAR * ((values - rule["lower"]) / width) + (1 - LINEAR) * (logarithm / whole)


def xgboost(X: Any, about: dict[str, Any], file: Path) -> Any:
    """Predict with XGBoost, which reads categories without an order by their codes."""
    import xgboost as xgb

    kinds = ["c" if not rule.get("ordered", True) else "q" for rule in about["columns"]]
    return xgb.Booster(model_file=file).predict(xgb.DMatrix(X, feature_types=kinds, enable_categorical=True))


def lightgbm(X: Any, _about: dict[str, Any], file: Path) -> Any:
    """Predict with LightGBM."""
    import lightgbm as lgb

    return lgb.Booster(model_file=file).predict(X)


def scikit_learn(X: Any, about: dict[str, Any], file: Path) -> Any:
    """Predict with scikit-learn; the file is read by skops, which runs no code from it."""
    import skops.io

    estimator = skops.io.load(file, trusted=[*TRUSTED, *about["trusted"]])
    inputs = encode(X, about).astype(np.float64 if hasattr(estimator, "coef_") else np.float32)
    chances = np.zeros((len(X), len(about["classes"])))
    chances[:, np.asarray(estimator.classes_, dtype=np.int64)] = estimator.predict_proba(inputs)
    return chances


def network(X: Any, about: dict[str, Any], file: Path) -> Any:
    """Predict with a perceptron: layers with ReLU between them, and softmax. PyTorch can load the same file."""
    from safetensors.numpy import load_file

    weights, signal = load_file(file), encode(X, about).astype(np.float64)
    for number, layer in enumerate(about["layers"]):
        signal = signal if number == 0 else np.maximum(signal, 0.0)
        signal = signal @ weights[f"{layer}.weight"].T.astype(np.float64) + weights[f"{layer}.bias"]
    return softmax(signal)


def leaves(X: Any, _about: dict[str, Any], file: Path) -> Any:
    """Add up one number per cell in which a row lies."""
    model = json.loads(file.read_text(encoding="utf-8"))
    scores = np.array(model["scores"])
    margins, first = np.zeros((len(X), scores.shape[1])), 0
    for group in model["groups"]:
        cells, size = codes_in(group, X)
        margins += np.where(cells[:, None] < 0, 0.0, scores[first + np.maximum(cells, 0)])
        first += size
    # Trees of XGBoost read numbers of single precision.
    rounded = X.astype(np.float32).astype(np.float64) if model.get("rounded") else X
    for nodes in model.get("trees", ()):
        margins += leaf_scores(nodes, rounded, scores.shape[1])
    return 1 / (1 + np.exp(-margins[:, 0])) if scores.shape[1] == 1 else softmax(margins)


def leaf_scores(nodes: list[dict[str, Any]], X: Any, width: int) -> Any:
    """Return what the leaves of one tree, in which the rows lie, add to their margins."""
    out, waiting = np.zeros((len(X), width)), [(0, np.arange(len(X)))]
    while waiting:
        number, rows = waiting.pop()
        node = nodes[number]
        if "scores" in node:
            out[rows] = node["scores"]
            continue
        values = X[rows, node["column"]]
        if "categories" in node:
            passed = np.isin(values, node["categories"])
        else:
            passed = values <= node["cut"] if node["reached"] else values < node["cut"]
        passed = np.where(np.isnan(values), node["missing_passes"], passed)
        waiting += [(node["yes"], rows[passed]), (node["no"], rows[~passed])]
    return out


def codes_in(group: dict[str, Any], X: Any) -> tuple[Any, int]:
    """Return each row's cell in a group, −1 for none, and the number of its cells."""
    if "questions" in group:
        cells = np.zeros(len(X), dtype=np.int64)
        for question in group["questions"]:
            values, cut = X[:, question["column"]], question["cut"]
            cells = 2 * cells + (np.isin(values, question["categories"]) if cut is None else values >= cut)
        return cells, 2 ** len(group["questions"])
    values, size = X[:, group["column"]], len(group["edges"]) + 1 + group["missing"]
    cells = np.searchsorted(np.array(group["edges"]), values, side="right")
    return np.where(np.isnan(values), size - 1 if group["missing"] else -1, cells), size


def softmax(margins: Any) -> Any:
    """Return margins as probabilities."""
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


MODELS = {
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
    "scikit-learn": scikit_learn,
    "perceptron": network,
    "leaves": leaves,
}

if __name__ == "__main__":
    predict_proba(pd.read_csv(sys.argv[1])).to_csv(sys.argv[2], index=False)
