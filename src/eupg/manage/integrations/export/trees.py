"""Models of trees, whatever grew them, as one kind of tree: questions about columns, and numbers in leaves.

A tree reads the schema's coding: numbers, positions of categories, NaN for a missing value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from eupg.learn.learner import Model
from eupg.learn.leaves.cells import Grid, LeafCells, Tree
from eupg.learn.leaves.leaf_ridge import LeafRidgeModel
from eupg.learn.leaves.learner import CorrectedModel, LeafModel

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Leaf:
    """What a leaf adds to margins: pairs of a margin's number and a weight; and its own number within its tree."""

    weights: tuple[tuple[int, float], ...]
    number: int = 0


@dataclass(frozen=True)
class Branch:
    """A question about one column. Rows that pass go to ``yes``, others to ``no``.

    ``test`` is a number, and a smaller value passes (with ``reached`` also an equal one); or a set of categories.
    """

    column: int
    test: float | frozenset[int]
    yes: Branch | Leaf
    no: Branch | Leaf
    missing_passes: bool
    reached: bool = False


Node = Branch | Leaf


@dataclass(frozen=True)
class Forest:
    """Trees whose leaves add up to margins, and the margins before any tree: one for two classes, else one per class.

    ``trees`` read numbers as they are. ``rounded`` read them rounded to single precision, as XGBoost does.
    """

    trees: tuple[Node, ...]
    start: tuple[float, ...]
    rounded: tuple[Node, ...] = ()

    def plus(self, other: Forest) -> Forest:
        """Return a forest whose margins are the sums of both."""
        start = tuple(a + b for a, b in zip(self.start, other.start, strict=True))
        return Forest(self.trees + other.trees, start, self.rounded + other.rounded)


def forest_of(model: Model) -> Forest | None:
    """Return a model of XGBoost, of LightGBM or of leaves as trees; None for another model."""
    if isinstance(model, LeafModel):
        return Forest(tuple(_of_cells(model.cells, model.scores)), (0.0,) * _width(model))
    if isinstance(model, LeafRidgeModel):
        public, tuned = leaf_ridge_parts(model)
        return public.plus(tuned)
    if isinstance(model, CorrectedModel):
        # A network may be the correction.
        correction, base = forest_of(cast(Model, model.correction)), forest_of(model.base)
        return None if correction is None or base is None else base.plus(correction)
    # Named by class: the framework of a model that is not of its kind may be absent.
    readers = {"XGBoostModel": _of_xgboost, "LightGBMModel": _of_lightgbm}
    reader = readers.get(type(model).__name__)
    return None if reader is None else reader(model)


def leaf_ridge_parts(model: LeafRidgeModel) -> tuple[Forest, Forest]:
    """Return the public cells, and the first trees of the base model with other numbers in their leaves."""
    cells = model.cells
    public, *parts = np.split(model.scores, np.cumsum([cells.public.count, *cells.base.leaf_counts[: cells.trees - 1]]))
    base = forest_of(cells.base)
    assert base is not None
    trees, start = base.trees or base.rounded, (0.0,) * _width(model)
    if isinstance(cells.base, LeafModel):
        trees = tuple(tree for tree in trees if isinstance(tree, Branch))
    tuned = tuple(_with_scores(tree, scores) for tree, scores in zip(trees, parts, strict=False))
    # The public cells and the base model's trees may read the same number differently: only XGBoost rounds it.
    leaves = Forest((), start, tuned) if base.rounded else Forest(tuned, start)
    return Forest(tuple(_of_cells(cells.public, public)), start), leaves


def _with_scores(node: Node, scores: NDArray[np.float64]) -> Node:
    if isinstance(node, Leaf):
        return _leaf(scores[node.number])
    return replace(node, yes=_with_scores(node.yes, scores), no=_with_scores(node.no, scores))


def _of_xgboost(model: Any) -> Forest:
    described = [json.loads(bytes(booster.save_raw("json")))["learner"] for booster in model.boosters]
    trees = []
    for learner in described:
        grown = learner["gradient_booster"]["model"]
        trees += [_xgboost_tree(tree, 0, of) for tree, of in zip(grown["trees"], grown["tree_info"], strict=True)]
    guess = np.ravel(json.loads(described[0]["learner_model_param"]["base_score"])).astype(np.float32)
    if model.schema.classes == 2:
        return Forest((), (float(np.log(guess[0] / (1 - guess[0]))),), tuple(trees))
    return Forest((), tuple(np.broadcast_to(guess, model.schema.classes).tolist()), tuple(trees))


def _xgboost_tree(tree: dict[str, Any], node: int, margin: int) -> Node:
    left, right = tree["left_children"][node], tree["right_children"][node]
    # The text of a number of single precision is a slightly different number of double precision.
    value = float(np.float32(tree["split_conditions"][node]))
    if left == -1:
        return Leaf(((margin, value),), number=tree["left_children"][:node].count(-1))
    below, above = (_xgboost_tree(tree, child, margin) for child in (left, right))
    column, missing_left = tree["split_indices"][node], bool(tree["default_left"][node])
    if not tree["split_type"][node]:
        return Branch(column, value, below, above, missing_left)
    place = tree["categories_nodes"].index(node)
    begin, size = tree["categories_segments"][place], tree["categories_sizes"][place]
    return Branch(column, frozenset(tree["categories"][begin : begin + size]), above, below, not missing_left)


def _of_lightgbm(model: Any) -> Forest:
    described, width = model.booster.dump_model(), _width(model)
    trees = [_lightgbm_tree(t["tree_structure"], i % width) for i, t in enumerate(described["tree_info"])]
    return Forest(tuple(trees), (0.0,) * width)


def _lightgbm_tree(node: dict[str, Any], margin: int) -> Node:
    if "leaf_value" in node:
        return Leaf(((margin, float(node["leaf_value"])),), number=node.get("leaf_index", 0))
    left, right = (_lightgbm_tree(node[child], margin) for child in ("left_child", "right_child"))
    if node["decision_type"] == "==":
        chosen = frozenset(int(category) for category in str(node["threshold"]).split("||"))
        return Branch(node["split_feature"], chosen, left, right, False)
    threshold = float(node["threshold"])
    # Where training saw no missing value, LightGBM reads one as 0.
    missing_left = bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0
    return Branch(node["split_feature"], threshold, left, right, missing_left, reached=True)


def _of_cells(cells: LeafCells, scores: NDArray[np.float64]) -> list[Node]:
    """Return one tree per tree of questions, then one per column with grids."""
    grids: dict[int, list[tuple[Grid, NDArray[np.float64]]]] = {}
    trees: list[Node] = []
    for group, values in zip(cells.groups, np.split(scores, cells.offsets[1:]), strict=True):
        if isinstance(group, Grid):
            grids.setdefault(group.column, []).append((group, values))
        else:
            trees.append(_tree_of_questions(group, values, 0, 0))
    return [*trees, *(_tree_of_grids(column, parts) for column, parts in grids.items())]


def _tree_of_questions(tree: Tree, scores: NDArray[np.float64], number: int, code: int) -> Node:
    if number == len(tree.questions):
        return replace(_leaf(scores[code]), number=code)
    question = tree.questions[number]
    failed, passed = (_tree_of_questions(tree, scores, number + 1, 2 * code + answer) for answer in (0, 1))
    if question.cut is None:
        return Branch(question.column, frozenset(question.categories), passed, failed, False)
    return Branch(question.column, question.cut, failed, passed, True)


def _tree_of_grids(column: int, grids: Sequence[tuple[Grid, NDArray[np.float64]]]) -> Node:
    """Return one tree for all grids of a column: a search among all their edges, after a leaf for missing values."""
    edges = np.unique(np.concatenate([grid.edges for grid, _ in grids]))
    starts = np.concatenate([[-np.inf], edges])
    sums = sum(values[np.searchsorted(grid.edges, starts, side="right")] for grid, values in grids)
    missing = sum((values[-1] for grid, values in grids if grid.missing), start=np.zeros(grids[0][1].shape[1]))
    return Branch(column, LARGEST, _search(column, edges, np.asarray(sums)), _leaf(missing), False, reached=True)


def _search(column: int, edges: NDArray[np.float64], sums: NDArray[np.float64]) -> Node:
    if not len(edges):
        return _leaf(sums[0])
    middle = len(edges) // 2
    below = _search(column, edges[:middle], sums[: middle + 1])
    above = _search(column, edges[middle + 1 :], sums[middle + 1 :])
    return Branch(column, float(edges[middle]), below, above, False)


def _leaf(weights: NDArray[np.float64]) -> Leaf:
    return Leaf(tuple(enumerate(weights.tolist())))


def _width(model: Any) -> int:
    return 1 if model.schema.classes == 2 else int(model.schema.classes)


def branches(node: Node) -> Iterator[Branch]:
    """Yield all questions of a tree."""
    if isinstance(node, Branch):
        yield node
        yield from branches(node.yes)
        yield from branches(node.no)


def plain_nodes(tree: Node) -> list[dict[str, Any]]:
    """Return a tree as a list of plain values, parents before children, each with the places of its children."""
    nodes: list[dict[str, Any]] = [{}]
    waiting = [(0, tree)]
    while waiting:
        number, node = waiting.pop()
        if isinstance(node, Leaf):
            nodes[number] = {"scores": [weight for _, weight in node.weights]}
            continue
        passed, failed = len(nodes), len(nodes) + 1
        nodes += [{}, {}]
        waiting += [(passed, node.yes), (failed, node.no)]
        about = {"column": node.column, "yes": passed, "no": failed, "missing_passes": node.missing_passes}
        if isinstance(node.test, frozenset):
            nodes[number] = about | {"categories": sorted(node.test)}
        else:
            nodes[number] = about | {"cut": node.test, "reached": node.reached}
    return nodes
