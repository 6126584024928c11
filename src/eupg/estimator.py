"""The scikit-learn face: a classifier with ``forget``.

It fits into pipelines, cross-validation and grid search. Where no schema is given one is inferred, and the claim says
that what was read from the data (bounds, categories) is not covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from eupg.data.attribute import Attribute, Categorical, Missing, Numeric, Outside, Role, category_text
from eupg.data.dataset import Dataset, Matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.learn.learner import Learner
from eupg.learn.sklearn_learner import SklearnLearner
from eupg.protect.guarantee import Guarantee
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness, Secret, Seeded


class EUPGClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that can forget records or people, with a stated guarantee.

    Parameters
    ----------
    guarantee
        A mechanism; by default ``ProbabilisticKAnonymity(k=30)``.
    learner
        A learner; by default logistic regression by stochastic gradient descent.
    pretrain, finetune
        Effort (epochs or trees) on the release and on the records.
    schema
        Public bounds and categories of the columns of a DataFrame, label included; inferred if not given.
    random_state
        Leave it at None for protection; any other value makes the run repeatable, and the claim says "not private".

    Attributes
    ----------
    classes_
        The classes, sorted.
    claim_
        What holds for one forgotten record.
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
        """Protect, pre-train and fine-tune.

        Parameters
        ----------
        X, y
            Features (array or DataFrame) and classes.
        subjects
            The person of each row; without it every row is a person of its own.
        records
            A distinct id for each row; without it the row's position.
        """
        table = self._table(X, fit=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != len(table):
            raise ParameterError(f"X has {len(table)} rows and y has {len(y)}: pass one label a row")
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._schema = self._declared(table) if self.schema is not None else _inferred(table, len(self.classes_))
        ids = _names(records, len(table), "records")
        if len(np.unique(ids)) != len(ids):
            raise ParameterError(f"{len(ids) - len(np.unique(ids))} record ids repeat: pass distinct ids")
        people = _names(subjects, len(table), "subjects") if subjects is not None else ids
        self._rng = self._randomness()
        self._records = Dataset(self._schema, self._matrix(table), codes.astype(np.int64), ids, people)
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
        """What holds for one forgotten record."""
        check_is_fitted(self)
        return self._trained.claim

    @property
    def record_ids_(self) -> list[str]:
        """The ids of the records still held."""
        check_is_fitted(self)
        return list(map(str, self._records.ids))

    def claim_for(self, *, records: Iterable[Any] | None = None, subjects: Iterable[Any] | None = None) -> Guarantee:
        """Return what will hold for the person these records belong to, or for these people, once forgotten."""
        return self._trained.claim_for(self._records.ids[self._chosen(records, subjects)].tolist())

    def forget(self, *, records: Iterable[Any] | None = None, subjects: Iterable[Any] | None = None) -> Self:
        """Forget records, or all records of people: back to the base model, fine-tuned on what is left."""
        retained = self._records.select(~self._chosen(records, subjects))
        self._trained = self._method.forget(self._trained, retained, self._rng)
        self._records = retained
        return self

    def predict_proba(self, X: Any) -> Probabilities:
        """Return the probability of every class in ``classes_``."""
        check_is_fitted(self)
        return self._trained.model.predict_proba(self._matrix(self._table(X, fit=False)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there is a model to serve."""
        return hasattr(self, "_trained")

    def _chosen(self, records: Iterable[Any] | None, subjects: Iterable[Any] | None) -> NDArray[np.bool_]:
        check_is_fitted(self)
        if (records is None) == (subjects is None):
            raise ParameterError("name either records=[…] or subjects=[…]")
        if isinstance(records, str) or isinstance(subjects, str):
            raise ParameterError("pass a list of names, such as records=['12'], not one text")
        if records is not None:
            return self._records.where(str(r) for r in records)
        return self._records.where_subjects(str(s) for s in subjects or ())

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
            frame = X.to_pandas() if hasattr(X, "to_pandas") else X
            frame = frame.rename(columns=str)
            validate_data(self, frame, skip_check_array=True, reset=fit)
            return frame
        array = validate_data(self, X, reset=fit, dtype=np.float64, ensure_min_samples=2 if fit else 1)
        return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])

    def _declared(self, table: Any) -> Schema:
        assert self.schema is not None
        found = tuple(map(str, self.classes_))
        public = set(found) == set(self.schema.label.categories)
        label = replace(self.schema.label, categories=found, inferred=() if public else ("categories",))
        absent = [a.name for a in self.schema.features if a.name not in table.columns]
        if absent:
            raise ParameterError(f"the schema declares {absent[0]!r}, which is not a column of X")
        return Schema((*self.schema.features, label))

    def _matrix(self, table: Any) -> Matrix:
        """Encode a table; a category that was not there when an inferred schema was made counts as missing."""
        columns = []
        for attribute in self._schema.features:
            column = table[attribute.name]
            if self.schema is None and isinstance(attribute, Categorical):
                text = category_text(column, attribute.name)
                column = column.where(np.isin(text, np.array(attribute.categories, dtype=object)), None)
            columns.append(attribute.encode(column))
        return np.column_stack(columns)


def _inferred(table: Any, classes: int) -> Schema:
    name = "label"
    while name in table.columns:
        name += "_"
    label = Categorical(
        name=name, role=Role.LABEL, categories=tuple(map(str, range(classes))), inferred=("categories",)
    )
    looked = Schema.infer(table.assign(**{name: "0"}), label=name, declared=[label])
    return Schema((*map(_lenient, looked.features), label))


def _lenient(attribute: Attribute) -> Attribute:
    """Let rows to predict lie outside what the training rows showed."""
    if isinstance(attribute, Numeric):
        return replace(attribute, outside=Outside.CLIP)
    return replace(attribute, missing=Missing.KEEP)


def _names(values: Any, rows: int, what: str) -> NDArray[np.str_]:
    if values is None:
        return np.arange(rows).astype(np.str_)
    names = np.asarray(values).ravel()
    if len(names) != rows:
        raise ParameterError(f"X has {rows} rows and {what} has {len(names)}: pass one a row")
    return names.astype(np.str_)
