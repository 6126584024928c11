"""A model with its preprocessing as one ONNX graph.

The inputs are the columns of the table, each of shape (rows, 1): double precision for numbers, with NaN for a missing
one; the same for dates, as days since 1 January 1970; and text for categories, with an empty text for a missing one.
The output ``probabilities`` has one column per class. ONNX cannot refuse a row: where :meth:`eupg.Manager.predict`
would, all probabilities of the row are NaN.

Trees are written for ``TreeEnsembleRegressor`` of ``ai.onnx.ml`` version 3, which compares in double precision. It has
no question about a set of categories, so each set becomes a further input of the trees, looked up by the category.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from eupg.data.encode import Encoder
from eupg.errors import MissingFramework, ParameterError
from eupg.forget.sisa.method import Aggregate, Ensemble
from eupg.learn.learner import Model
from eupg.manage.integrations.export.columns import ColumnRule, column_rules
from eupg.manage.integrations.export.sklearn_trees import SklearnForest, sklearn_forest_of
from eupg.manage.integrations.export.trees import Branch, Forest, Node, branches, forest_of

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_LINEAR = 0.25
_SUPPORTED = (
    "models of XGBoost, of LightGBM and of leaves, perceptrons of PyTorch, forests, gradient boosting, "
    "LogisticRegression, MLPClassifier and SGDClassifier(loss='log_loss') of scikit-learn, and means of these"
)


def onnx_bytes(model: Model, about: dict[str, str]) -> bytes:
    """Return a served model as an ONNX file; ``about`` becomes its metadata."""
    try:
        onnx: Any = importlib.import_module("onnx")
    except ModuleNotFoundError as error:
        raise MissingFramework(f"an export to ONNX needs {error.name}: pip install 'eupg[onnx]'") from error
    schema: Any = getattr(model, "schema", None)
    graph = _Graph(onnx.helper)
    rules = column_rules(schema, None)
    columns = [graph.read(rule) for rule in rules]
    chances = _chances(graph, model, columns)
    if graph.refused:
        wrong = graph.refused[0]
        for further in graph.refused[1:]:
            wrong = graph.add("Or", wrong, further)
        chances = graph.add("Where", wrong, graph.constant(np.nan), chances)
    graph.nodes.append(onnx.helper.make_node("Identity", [chances], ["probabilities"]))
    return graph.finished(onnx, rules, schema.classes, about)


def _chances(graph: _Graph, model: Model, columns: Sequence[str]) -> str:
    """Return the probabilities of a model for columns in the schema's coding."""
    if isinstance(model, Ensemble) and model.aggregate is Aggregate.MEAN:
        each = [_chances(graph, one, columns) for one in model.models]
        return graph.add("Div", graph.add("Sum", *each), graph.constant(len(each)))
    schema, forest, estimator = cast(Any, model).schema, forest_of(model), sklearn_forest_of(model)
    if forest is not None:
        return graph.link(graph.margins(forest, column_rules(schema, None), columns), len(forest.start), softmax=True)
    if estimator is not None:
        sums = graph.margins(estimator.forest, column_rules(schema, None), columns)
        return _of_estimator(graph, model, sums, estimator)
    output, rules = _output_of(model), column_rules(schema, getattr(model, "encoder", None))
    return output(graph, graph.concat([graph.encoded(*both) for both in zip(rules, columns, strict=True)]))


@dataclass
class _Graph:
    """A graph under construction; names of results begin with a slash, so that no column has such a name."""

    helper: Any
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    # One truth value per row for each rule that refuses rows.
    refused: list[str] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add one operation and return the name of its result."""
        result = f"/{operator}.{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [result], domain=domain, **attributes))
        return result

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = f"/constant.{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype=dtype)
        return name

    def cast(self, name: str, dtype: Any = np.float64) -> str:
        return self.add("Cast", name, to=self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def concat(self, names: Sequence[str]) -> str:
        return self.add("Concat", *names, axis=1)

    def read(self, rule: ColumnRule) -> str:
        """Return a column in the schema's coding, and note which rows are refused."""
        return self._category(rule) if rule.categories else self._number(rule)

    def _category(self, rule: ColumnRule) -> str:
        # −1 stands for a value that is refused.
        empty = {"keep": np.nan, "fill": rule.fill, "refuse": -1.0}[rule.missing]
        unseen = {None: np.nan, "refuse": -1.0}.get(rule.unseen, rule.unseen)  # type: ignore[arg-type]
        codes = {"": empty} | {category: float(code) for code, category in enumerate(rule.categories)}
        about = {"keys_strings": list(codes), "values_floats": list(codes.values()), "default_float": unseen}
        code = self.cast(self.add("LabelEncoder", rule.name, domain="ai.onnx.ml", **about))
        if -1.0 in (empty, unseen):
            self.refused.append(self.add("Less", code, self.constant(0.0)))
        return code

    def _number(self, rule: ColumnRule) -> str:
        value, missing = rule.name, self.add("IsNaN", rule.name)
        for bound, test, action in ((rule.lower, "Less", rule.below), (rule.upper, "Greater", rule.above)):
            beyond = self.add(test, value, self.constant(bound))
            if action == "refuse":
                self.refused.append(beyond)
            else:
                value = self.add("Where", beyond, self.constant(bound), value)
        if rule.missing == "refuse":
            self.refused.append(missing)
        return value if rule.fill is None else self.add("Where", missing, self.constant(rule.fill), value)

    def encoded(self, rule: ColumnRule, column: str) -> str:
        """Return the inputs of a column for a model that reads scaled numbers and one-hot categories."""
        if rule.scale is None:
            size = len(rule.categories)
            return self.looked_up(np.eye(size + 1, size + rule.flag), column)
        missing = self.add("IsNaN", column)
        curved = self._curved(rule, column)
        shifted = self.add("Sub", curved, self.constant(rule.scale.centre))
        scaled = self.add("Div", shifted, self.constant(rule.scale.spread))
        # The model was fitted to inputs of single precision.
        value = self.cast(self.cast(self.add("Where", missing, self.constant(0.0), scaled), np.float32))
        return self.concat([value, self.cast(missing)]) if rule.flag else value

    def _curved(self, rule: ColumnRule, column: str) -> str:
        assert rule.scale is not None
        if rule.scale.curve == "linear":
            return column
        above, width = self.add("Sub", column, self.constant(rule.lower)), rule.upper - rule.lower
        steps = self.add("Div", above, self.constant(rule.scale.resolution))
        logarithm = self.add("Log", self.add("Add", steps, self.constant(1.0)))
        if rule.scale.curve == "logarithmic":
            return logarithm
        # In the order of the encoder, so that no input lies on the other side of a tree's threshold.
        linear = self.add("Div", above, self.constant(width))
        share = self.add("Div", logarithm, self.constant(np.log1p(width / rule.scale.resolution)))
        weighted = (self.add("Mul", part, self.constant(w)) for part, w in ((linear, _LINEAR), (share, 1 - _LINEAR)))
        return self.add("Add", *weighted)

    def looked_up(self, table: NDArray[Any], column: str) -> str:
        """Return the row of a table that belongs to each category; the last row is that of a missing value."""
        code = self.add("Where", self.add("IsNaN", column), self.constant(len(table) - 1), column)
        flat = self.add("Reshape", self.cast(code, np.int64), self.constant([-1], np.int64))
        return self.add("Gather", self.constant(table), flat, axis=0)

    def margins(self, forest: Forest, rules: Sequence[ColumnRule], columns: Sequence[str]) -> str:
        """Return the margins of a model of trees."""
        every = (*forest.trees, *forest.rounded)
        asked = {(b.column, b.test, b.missing_passes): 0 for tree in every for b in branches(tree)}
        inputs, places, width = list(columns), dict[Any, int](), len(columns)
        for column, rule in enumerate(rules):
            sets = [key for key in asked if key[0] == column and isinstance(key[1], frozenset)]
            if sets:
                known = range(len(rule.categories))
                table = [[*(code in chosen for code in known), passes] for _, chosen, passes in sets]  # type: ignore[operator]
                inputs.append(self.looked_up(np.array(table, dtype=np.float64).T, columns[column]))
                places |= {key: width + number for number, key in enumerate(sets)}
                width += len(sets)
        if forest.rounded:
            inputs += [self.cast(self.cast(name, np.float32)) for name in columns]
        ensemble = _Ensemble(places)
        for number, tree in enumerate(forest.trees):
            ensemble.plant(number, tree)
        for number, tree in enumerate(forest.rounded, start=len(forest.trees)):
            ensemble.plant(number, tree, first=width)
        attributes = ensemble.attributes(self.helper, len(forest.start))
        sums = self.add("TreeEnsembleRegressor", self.concat(inputs), domain="ai.onnx.ml", **attributes)
        return self.add("Add", self.cast(sums), self.constant([forest.start]))

    def dense(self, inputs: str, weights: Any, bias: Any) -> str:
        """Return inputs times weights plus a bias."""
        return self.add("Add", self.add("MatMul", inputs, self.constant(weights)), self.constant([bias]))

    def link(self, margins: str, width: int, *, softmax: bool) -> str:
        """Return margins as probabilities; a single column is that of the second of two classes."""
        if width == 1:
            second = self.sigmoid(margins)
            return self.concat([self.add("Sub", self.constant(1.0), second), second])
        if softmax:
            return self.add("Softmax", margins, axis=1)
        each = self.sigmoid(margins)
        return self.add("Div", each, self.add("ReduceSum", each, self.constant([1], np.int64), keepdims=1))

    def sigmoid(self, margins: str) -> str:
        """Return 1 / (1 + exp(−margin)), written out: runtimes may lose small values in their own operator."""
        power = self.add("Exp", self.add("Neg", margins))
        return self.add("Div", self.constant(1.0), self.add("Add", power, self.constant(1.0)))

    def finished(self, onnx: Any, rules: Sequence[ColumnRule], classes: int, about: dict[str, str]) -> bytes:
        """Return the file, after a check of its form."""
        helper, types = self.helper, onnx.TensorProto
        kinds = {True: types.STRING, False: types.DOUBLE}
        inputs = [helper.make_tensor_value_info(r.name, kinds[bool(r.categories)], ["rows", 1]) for r in rules]
        output = helper.make_tensor_value_info("probabilities", types.DOUBLE, ["rows", classes])
        constants = [onnx.numpy_helper.from_array(values, name) for name, values in self.constants.items()]
        graph = helper.make_graph(self.nodes, "eupg", inputs, [output], constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="eupg")
        helper.set_model_props(model, about)
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


@dataclass
class _Ensemble:
    """The nodes of trees as the lists that ONNX has; ``places`` are the inputs that answer questions about sets."""

    places: Mapping[Any, int]
    nodes: list[tuple[int, int, int, str, float, int, int, int]] = field(default_factory=list)
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)

    def plant(self, tree: int, root: Node, *, first: int = 0) -> None:
        """Add a tree, parents before children; the inputs that it reads numbers from begin at ``first``."""
        waiting, count = [(0, root)], 1
        while waiting:
            number, node = waiting.pop()
            if not isinstance(node, Branch):
                self.nodes.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
                self.leaves += [(tree, number, margin, weight) for margin, weight in node.weights]
                continue
            passed, failed = count, count + 1
            count += 2
            waiting += [(passed, node.yes), (failed, node.no)]
            if isinstance(node.test, frozenset):
                place = self.places[node.column, node.test, node.missing_passes]
                self.nodes.append((tree, number, place, "BRANCH_LT", 0.5, failed, passed, 0))
            else:
                mode, missing = "BRANCH_LEQ" if node.reached else "BRANCH_LT", int(node.missing_passes)
                self.nodes.append((tree, number, first + node.column, mode, node.test, passed, failed, missing))

    def attributes(self, helper: Any, margins: int) -> dict[str, Any]:
        """Return the attributes of the operator."""
        words = ["treeids", "nodeids", "featureids", "modes", "values"]
        words += ["truenodeids", "falsenodeids", "missing_value_tracks_true"]
        lists = {f"nodes_{word}": list(v) for word, v in zip(words, zip(*self.nodes, strict=True), strict=True)}
        targets = zip(("treeids", "nodeids", "ids", "weights"), zip(*self.leaves, strict=True), strict=True)
        lists |= {f"target_{word}": list(values) for word, values in targets}
        for word in ("nodes_values", "target_weights"):
            values = np.array(lists.pop(word), dtype=np.float64)
            kind = helper.np_dtype_to_tensor_dtype(values.dtype)
            lists[f"{word}_as_tensor"] = helper.make_tensor(word, kind, values.shape, values)
        return {**lists, "n_targets": margins}


Output = Callable[[_Graph, str], str]


def _output_of(model: Model) -> Output:
    """Return how a model that reads scaled numbers and one-hot categories turns them into probabilities."""
    kind = type(model).__name__
    outputs: dict[str, Callable[[Any], Output | None]] = {"SklearnModel": _of_sklearn, "TorchModel": _of_network}
    output = outputs[kind](model) if kind in outputs else None
    if output is None:
        inner = getattr(model, "estimator", getattr(model, "network", model))
        raise ParameterError(
            f"expected {_SUPPORTED}, got a {type(inner).__name__}: export it with the format 'native', or train one "
            "of these"
        )
    return output


def _of_network(model: Any) -> Output | None:
    layers = perceptron_layers(model)
    if layers is None:
        return None
    state = {name: weights.cpu().double().numpy() for name, weights in model.network.state_dict().items()}
    parts = [(state[f"{name}.weight"].T, state[f"{name}.bias"]) for name in layers]
    return lambda graph, inputs: graph.link(_perceptron(graph, inputs, parts, "Relu"), len(parts[-1][1]), softmax=True)


def perceptron_layers(model: Any) -> list[str] | None:
    """Return the names of a network's layers, if it reads a table and is a sequence of linear layers with ReLU."""
    if not isinstance(getattr(model, "encoder", None), Encoder) or model.schema.picture is not None:
        return None
    parts = [type(layer).__name__ for layer in model.network.children()]
    alternating = ["Linear", "ReLU"] * (len(parts) // 2) + ["Linear"]
    biased = all(layer.bias is not None for layer in list(model.network.children())[::2])
    sequence = type(model.network).__name__ == "Sequential" and parts == alternating and biased
    return [str(number) for number in range(0, len(parts), 2)] if sequence else None


_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": "Identity"}


def _of_sklearn(model: Any) -> Output | None:
    estimator = model.estimator
    kind, of = type(estimator).__name__, type(estimator).__module__.split(".")[0]
    logistic = kind == "SGDClassifier" and estimator.loss == "log_loss"
    linear = logistic or (kind == "LogisticRegression" and estimator.solver != "liblinear")
    if of != "sklearn" or not (linear or kind == "MLPClassifier"):
        return None
    activation = "Identity" if linear else _ACTIVATIONS[estimator.activation]
    parts = [(estimator.coef_.T, estimator.intercept_)] if linear else []
    parts = parts or list(zip(estimator.coefs_, estimator.intercepts_, strict=True))

    def output(graph: _Graph, inputs: str) -> str:
        margins = _perceptron(graph, inputs, parts, activation)
        chances = graph.link(margins, len(parts[-1][1]), softmax=not logistic)
        return _all_classes(graph, model, chances)

    return output


def _of_estimator(graph: _Graph, model: Any, sums: str, trees: SklearnForest) -> str:
    """Return the probabilities of an ensemble of scikit-learn from the sums of its trees."""
    if not trees.averaged:
        margins = graph.add("Mul", sums, graph.constant(trees.scale))
        sums = graph.link(margins, len(trees.forest.start), softmax=True)
    return _all_classes(graph, model, sums)


def _all_classes(graph: _Graph, model: Any, chances: str) -> str:
    """Return one column per class of the schema: an estimator that saw fewer classes has fewer columns."""
    chosen = np.eye(model.schema.classes)[np.asarray(model.estimator.classes_, dtype=np.int64)]
    return graph.add("MatMul", chances, graph.constant(chosen))


def _perceptron(graph: _Graph, inputs: str, parts: Sequence[tuple[Any, Any]], activation: str) -> str:
    for number, (weights, bias) in enumerate(parts):
        inputs = graph.dense(inputs if number == 0 else graph.add(activation, inputs), weights, bias)
    return inputs
