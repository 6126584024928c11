"""EUPG as a scikit-learn classifier, with ``forget``.

It works in pipelines, cross-validation and grid search. Without a schema one is inferred, and the claim says that what
was read from the data (bounds, categories) is not covered. Inferred bounds are rounded outward: no exact extreme value
of a forgotten record stays in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from eupg.data.attribute import Categorical, Listed, Role, category_text
from eupg.data.dataset import Dataset
from eupg.data.inference import check_classes
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.rows import RowReader, Rows
from eupg.data.schema import Schema, as_frame
from eupg.data.score import Probabilities
from eupg.errors import DataError, ParameterError
from eupg.forget.eupg import EUPG
from eupg.guarantees import Guarantee
from eupg.learn.learner import Learner
from eupg.learn.sklearn import SklearnLearner
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness, Secret, Seeded

_NESTED = ("guarantee", "learner")


class EUPGClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that can forget records or people, with a stated guarantee.

    In a ``Pipeline`` only this last step forgets. Fitted steps before it, such as a scaler, keep what they learnt from
    forgotten records, and no claim covers them. This classifier scales numbers and encodes categories itself: pass it
    the unchanged table.

    Parameters
    ----------
    guarantee
        A mechanism; by default ``ProbabilisticKAnonymity(k=30)``. A grid search reaches its settings by names such as
        ``guarantee__k``.
    learner
        A learner; by default logistic regression by stochastic gradient descent. A grid search reaches its settings by
        names such as ``learner__max_depth`` or ``learner__estimator__alpha``.
    pretrain, finetune
        Effort (epochs or trees) on the release and on the records.
    schema
        Public bounds and categories of the columns of a DataFrame, label included; by default inferred. The label's
        categories are compared with the classes as text: 1, 1.0 and "1" are the same.
    random_state
        None protects. Any other value makes the run repeatable, and the claim says "not private".

    Attributes
    ----------
    classes_
        The classes, sorted.
    claim_
        The claim for one forgotten record.
    record_ids_
        The ids of the records still held: positions in ``fit``, unless ids were passed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(200.0).reshape(100, 2); y = (X[:, 0] > 100).astype(int)
    >>> model = EUPGClassifier(guarantee=ProbabilisticKAnonymity(k=5), random_state=7).fit(X, y)
    >>> len(model.forget(records=["3", "4"]).record_ids_)
    98
    """

    accepts: ClassVar[Accepts] = Accepts(
        DataKind.TABLE, instead="EUPG with PixelPermutation and TorchLearner(ResNet18())"
    )

    def __init__(
        self,
        guarantee: Mechanism | None = None,
        learner: Learner | None = None,
        *,
        pretrain: int = 50,
        finetune: int = 5,
        schema: Schema | None = None,
        random_state: Any = None,
    ) -> None:
        self.guarantee = guarantee
        self.learner = learner
        self.pretrain = pretrain
        self.finetune = finetune
        self.schema = schema
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, subjects: Any = None, records: Any = None) -> Self:
        """Protect, pretrain and fine-tune.

        Parameters
        ----------
        X, y
            Features (array or DataFrame) and classes.
        subjects
            The person of each row. Without it every row is a different person.
        records
            A distinct id of each row; by default its position. Ids are stored as text, and whole numbers without a
            decimal point: 7, 7.0 and "7" are the same id.
        """
        table = self._table(X, fit=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != len(table):
            raise ParameterError(f"X has {len(table)} rows and y has {len(y)}: pass one label per row")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.schema is None:
            check_classes(len(self.classes_), len(y), "y")
        self._schema = self._declared(table, codes) if self.schema is not None else _inferred(table, len(self.classes_))
        ids = _names(records, len(table), "records")
        if len(np.unique(ids)) != len(ids):
            raise ParameterError(f"{len(ids) - len(np.unique(ids))} record ids repeat: pass distinct ids")
        people = _names(subjects, len(table), "subjects") if subjects is not None else ids
        self._rng = self._randomness()
        self._reader = RowReader(self._schema)
        coded = np.column_stack([a.encode(table[a.name]) for a in self._schema.features])
        self._records = Dataset(self._schema, coded, codes.astype(np.int64), ids, people)
        self._method = EUPG(
            self.guarantee if self.guarantee is not None else ProbabilisticKAnonymity(),
            self.learner if self.learner is not None else SklearnLearner(),
            pretrain=self.pretrain,
            finetune=self.finetune,
        )
        self._trained = self._method.train(self._records, self._rng)
        return self

    @property
    def claim_(self) -> Guarantee:
        """The claim for one forgotten record."""
        check_is_fitted(self)
        return self._trained.claim

    @property
    def record_ids_(self) -> list[str]:
        """The ids of the records still held."""
        check_is_fitted(self)
        return list(map(str, self._records.ids))

    def claim_for(self, *, records: Iterable[Any] | None = None, subjects: Iterable[Any] | None = None) -> Guarantee:
        """Return the claim for the person of these records, or for these people, once they are forgotten."""
        return self._trained.claim_for(self._records.select(self._chosen(records, subjects)))

    def forget(self, *, records: Iterable[Any] | None = None, subjects: Iterable[Any] | None = None) -> Self:
        """Forget records, or all records of people: return to the base model and fine-tune on the retained records."""
        retained = self._records.select(~self._chosen(records, subjects))
        self._trained = self._method.forget(self._trained, retained, self._rng)
        self._records = retained
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Return the probability of every class in ``classes_``.

        The columns of a table must have the names and the order that they had in ``fit``. Values outside inferred
        bounds or categories are adjusted, which happens in most cross-validations; :meth:`rows` says in which rows.
        Values outside declared ones are refused, unless the schema says what happens to them.
        """
        rows = self.rows(X)
        return self._trained.model.predict_proba(rows.X)

    def rows(self, X: Any) -> Rows:
        """Read rows as ``predict_proba`` does; ``marked`` and ``notes()`` say which were adjusted, and why."""
        check_is_fitted(self)
        table = self._table(X, fit=False)
        return self._reader.read(table, carried=table.columns)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with ``deep`` those of the guarantee and the learner, such as ``guarantee__k``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for name in _NESTED:
                params |= _settings(getattr(self, name), f"{name}__")
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the guarantee and the learner by names such as ``learner__max_depth``.

        A guarantee or a learner is replaced by a copy with the new settings; the original stays unchanged.
        """
        nested, own = _divided(params, _NESTED)
        super().set_params(**own)
        for name, changes in nested.items():
            setattr(self, name, _with_settings(getattr(self, name), changes, name))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model to predict with."""
        return hasattr(self, "_trained")

    def _chosen(self, records: Iterable[Any] | None, subjects: Iterable[Any] | None) -> NDArray[np.bool_]:
        check_is_fitted(self)
        if (records is None) == (subjects is None):
            raise ParameterError("expected either records=[…] or subjects=[…], got both or neither: pass one of them")
        if records is not None:
            return self._records.where(_requested(records, "records"))
        return self._records.where_subjects(_requested(subjects, "subjects"))

    def _randomness(self) -> Randomness:
        if self.random_state is None:
            return Secret()
        if isinstance(self.random_state, (int, np.integer)):
            return Seeded(int(self.random_state))
        return Seeded(int(check_random_state(self.random_state).randint(2**31)))

    def _table(self, X: Any, *, fit: bool) -> Any:
        """Return a DataFrame as it is, and anything else as a checked array in a DataFrame."""
        import pandas as pd

        if hasattr(X, "columns"):
            frame = as_frame(X)
            validate_data(self, frame, skip_check_array=True, reset=fit)
            return frame
        array = validate_data(self, X, reset=fit, dtype=np.float64, ensure_min_samples=2 if fit else 1)
        # After a table, an array is read as that table without its names; scikit-learn has warned about it.
        unnamed = [f"x{j}" for j in range(array.shape[1])]
        return pd.DataFrame(array, columns=unnamed if fit else getattr(self, "feature_names_in_", unnamed))

    def _declared(self, table: Any, codes: NDArray[np.intp]) -> Schema:
        assert self.schema is not None
        check_kind(self.schema, self)
        absent = [a.name for a in self.schema.features if a.name not in table.columns]
        if absent:
            raise ParameterError(
                f"the schema declares {absent[0]!r}, which is not a column of X: add the column, or change the schema"
            )
        return Schema((*self.schema.features, _label(self.schema.label, self.classes_, codes)))


def _label(declared: Listed, classes: NDArray[Any], codes: NDArray[np.intp]) -> Categorical:
    """Return the label with the classes that occur in y, in the order of ``classes_``."""
    names = _text(classes, declared.name)
    for code, name in enumerate(names):
        if name not in declared.categories:
            raise DataError(
                f"y has the class {name!r} in {(codes == code).sum()} of {len(codes)} rows, which the label "
                f"{declared.name!r} does not list: add it to its categories, or drop those rows"
            )
    # Which classes occur is read from y.
    seen = () if set(names) == set(declared.categories) else ("categories",)
    return Categorical(
        name=declared.name,
        role=Role.LABEL,
        categories=tuple(map(str, names)),
        inferred=tuple(dict.fromkeys((*declared.inferred, *seen))),
        source=declared.source,
    )


def _inferred(table: Any, classes: int) -> Schema:
    name = "label"
    while name in table.columns:
        name += "_"
    label = Categorical(
        name=name, role=Role.LABEL, categories=tuple(map(str, range(classes))), inferred=("categories",)
    )
    # Columns of X are features by the convention of scikit-learn: distinct numbers are measurements, not ids.
    return Schema.infer(table.assign(**{name: "0"}), label=name, declared=[label], features=list(table.columns))


def _names(values: Any, rows: int, what: str) -> NDArray[np.str_]:
    """Return the name of each row as text; every row needs one."""
    if values is None:
        return np.arange(rows).astype(np.str_)
    names = _text(values, what)
    if len(names) != rows:
        raise ParameterError(f"X has {rows} rows and {what} has {len(names)}: pass one per row")
    nameless = names.count(None)
    if nameless:
        raise ParameterError(f"{nameless} of {rows} rows have no name in {what}: fill them in, or drop those rows")
    return np.array(names, dtype=np.str_)


def _requested(names: Any, what: str) -> list[str]:
    """Return the names to look for, written as those of the rows are."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ParameterError(f"pass a list of names, such as {what}=['12'], not the single {names!r}")
    texts = _text(names, what)
    if not texts or None in texts:
        problem = f"{texts.count(None)} of {len(texts)} names are empty" if texts else "the list is empty"
        raise ParameterError(f"{what}=[…] does not say whom to forget: {problem}; pass one or more names, none empty")
    return [str(text) for text in texts]


def _text(values: Iterable[Any], what: str) -> list[str | None]:
    """Write names or classes as the schema writes categories: 7.0 as "7", a missing one as None."""
    import pandas as pd

    flat = values if getattr(values, "ndim", 1) == 1 else np.asarray(values).ravel()
    return list(category_text(pd.Series(list(flat)), what))


def _settings(thing: object, prefix: str) -> dict[str, Any]:
    """Return the settings of a mechanism, a learner or a part of one, with those of its parts, by full name."""
    if isinstance(thing, type):
        return {}
    if is_dataclass(thing):
        own = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
    elif hasattr(thing, "get_params"):
        own = thing.get_params(deep=False)
    else:
        return {}
    named = {f"{prefix}{name}": value for name, value in own.items()}
    for name, value in own.items():
        named |= _settings(value, f"{prefix}{name}__")
    return named


def _divided(params: dict[str, Any], heads: Collection[str]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Split off nested settings such as ``learner__max_depth``, by the name before the underscores."""
    nested: dict[str, dict[str, Any]] = {}
    own = {}
    for name, value in params.items():
        head, between, rest = name.partition("__")
        if between and head in heads:
            nested.setdefault(head, {})[rest] = value
        else:
            own[name] = value
    return nested, own


def _with_settings(thing: Any, changes: dict[str, Any], name: str) -> Any:
    """Return a copy of a mechanism, a learner or a part of one, with other settings."""
    known = [setting for setting in _settings(thing, "") if "__" not in setting]
    nested, own = _divided(changes, known)
    for setting in own:
        if setting not in known:
            has = f"{type(thing).__name__} has {known}" if known else f"{name} is {thing!r}, which has no settings"
            raise ParameterError(
                f"there is no parameter {name}__{setting}: {has}; name one of these, or pass another {name}"
            )
    for part, part_changes in nested.items():
        own[part] = _with_settings(own.get(part, getattr(thing, part)), part_changes, f"{name}__{part}")
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **own)
    return clone(thing).set_params(**own)
