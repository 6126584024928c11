"""Local differential privacy: every attribute of every record goes through a checked finite channel.

The budget ε is split evenly over the attributes that can take more than one value (sequential composition over the
attributes of a record). Numbers and ordered categories get clamped discrete Laplace noise on their public grid. Other
categories go through the exponential mechanism over a declared utility, or through k-ary randomised response (paper,
section 4.2 and "Privacy guarantees").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.attribute import Attribute, Categorical, Listed, Missing, Numeric
from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind, check_kind
from eupg.data.schema import Schema
from eupg.errors import ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.channel import Channel, LaplaceChannel, TableChannel, randomised_response
from eupg.protect.mechanism import require_rows
from eupg.protect.release import Release
from eupg.protect.utility import Embedding, hierarchy_utility, learn_embeddings
from eupg.rng import Randomness
from eupg.validation import check_positive

Column = NDArray[np.float64]


@dataclass(frozen=True)
class LocalDP:
    """Randomise every attribute of every record so that the whole record satisfies ε-differential privacy.

    Parameters
    ----------
    epsilon
        Budget of one record's features.
    label_epsilon
        Budget of the label, on top of ``epsilon``; without it the label is released as it is and the claim says so.
    embeddings
        Utilities for categorical attributes, by name; attributes without one use the schema's hierarchy if it
        declares one, and randomised response otherwise.
    unsafe_learn_embeddings
        Learn the other embeddings from the records to protect. The claim then says that ε does not cover them.
    """

    accepts: ClassVar[Accepts] = Accepts(DataKind.TABLE, instead="PixelDP")
    epsilon: float = 1.0
    label_epsilon: float | None = None
    embeddings: Mapping[str, Embedding] = field(default_factory=dict, hash=False)
    unsafe_learn_embeddings: bool = False

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("label_epsilon", self.label_epsilon)):
            if value is not None:
                check_positive(name, value)

    @property
    def rows_are_independent(self) -> bool:
        """Each record goes through channels of its own, unless these were learnt from all records."""
        return not self.unsafe_learn_embeddings

    def guarantee(self, schema: Schema) -> DifferentiallyPrivate:
        """Return the claim: ε for the features of one record, plus the label's budget if it has one."""
        check_kind(schema, self)
        protected, label = tuple(a.name for a in schema.features), (schema.label.name,)
        caveats = list(schema.caveats)
        if self.unsafe_learn_embeddings or any(not e.public for e in self.embeddings.values()):
            caveats.append("category utilities were learnt from private records: ε does not cover what they reveal")
        return DifferentiallyPrivate(
            epsilon=float(self.epsilon) + float(self.label_epsilon or 0.0),
            covers=protected + (label if self.label_epsilon else ()),
            leaves_open=() if self.label_epsilon else label,
            caveats=tuple(caveats),
        )

    def channels(self, schema: Schema) -> dict[str, AttributeChannel]:
        """Build and check the channel of every feature, and of the label if it has a budget.

        Embeddings that ``protect`` would learn from the records are left out: they are not known before.
        """
        return self._channels(schema, self.embeddings)

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Send every value through its channel, and shuffle the rows."""
        require_rows(data, 1)
        check_kind(data.schema, self)
        learnt = learn_embeddings(data, public=False) if self.unsafe_learn_embeddings else {}
        embeddings = learnt | dict(self.embeddings)
        channels = self._channels(data.schema, embeddings)
        X, y = np.empty_like(data.X), data.y
        for j, attribute in enumerate(data.schema.features):
            X[:, j] = channels[attribute.name].sample(data.X[:, j], rng.stage(f"attribute {j}"))
        if self.label_epsilon:
            y = channels[data.schema.label.name].value.sample(data.y, rng.stage("label"))
        return Release.shuffled(data, X, y, self.guarantee(data.schema), rng, stretched=True)

    def _channels(self, schema: Schema, embeddings: Mapping[str, Embedding]) -> dict[str, AttributeChannel]:
        check_kind(schema, self)
        unknown = set(embeddings) - {a.name for a in schema.features}
        if unknown:
            raise ParameterError(f"an embedding is given for {sorted(unknown)[0]!r}, which is not a feature: drop it")
        # A value that cannot vary reveals nothing, so it gets no share of the budget.
        varying = [a for a in schema.features if _size(a) > 1]
        # Rounded down, so that the shares never add up to more than the whole.
        share = math.nextafter(float(self.epsilon) / max(1, len(varying)), 0.0)
        channels = {a.name: _named(a, share, embeddings.get(a.name)) for a in schema.features}
        if self.label_epsilon:
            response = randomised_response(schema.classes, float(self.label_epsilon))
            channels[schema.label.name] = AttributeChannel(schema.label, response)
        return channels


@dataclass(frozen=True)
class AttributeChannel:
    """The channel of one attribute: from its values to grid positions, through noise, and back.

    A missing number has no place on the grid. Whether it is missing goes through randomised response with half of
    the attribute's budget; its value (the lower bound, if there is none) goes through the grid with the other half.
    """

    attribute: Attribute
    value: Channel
    presence: TableChannel | None = None

    @classmethod
    def build(cls, attribute: Attribute, epsilon: float, embedding: Embedding | None) -> AttributeChannel:
        """Choose and build the channel that fits the attribute."""
        keeps = attribute.missing is Missing.KEEP
        if isinstance(attribute, Categorical):
            utility = embedding.utility(attribute) if embedding else None
            if utility is None and attribute.hierarchy:
                utility = hierarchy_utility(attribute)
            if utility is None:
                return cls(attribute, randomised_response(len(attribute.categories) + keeps, epsilon))
            if keeps:
                utility = np.pad(utility, (0, 1), constant_values=-1.0)
                utility[-1, -1] = 1.0
            return cls(attribute, TableChannel.build(utility, epsilon))
        if embedding:
            raise ParameterError(f"column {attribute.name!r} is ordered: its order is its utility, drop the embedding")
        half = epsilon / 2 if keeps else epsilon
        presence = randomised_response(2, half) if keeps else None
        return cls(attribute, LaplaceChannel.build(_points(attribute), half), presence)

    @property
    def epsilon(self) -> float:
        """Budget of this attribute: its value's and, where it may be missing, its presence's; 0 if it is constant."""
        if _size(self.attribute) == 1:
            return 0.0
        return self.value.epsilon + (self.presence.epsilon if self.presence else 0.0)

    def sample(self, column: Column, rng: Randomness) -> Column:
        """Randomise a column."""
        missing = np.isnan(column)
        if isinstance(self.attribute, Numeric):
            column = self.attribute.steps(column)
        absent = self.value.size - 1 if isinstance(self.attribute, Categorical) else 0
        codes = np.rint(np.where(missing, absent, column)).astype(np.int64)
        out = self.value.sample(np.clip(codes, 0, self.value.size - 1), rng.stage("value")).astype(np.float64)
        if isinstance(self.attribute, Numeric):
            out = self.attribute.at(out)
        if self.presence:
            absences = self.presence.sample(missing.astype(np.int64), rng.stage("presence")) == 1
            return np.where(absences, np.nan, out)
        if isinstance(self.attribute, Categorical) and self.value.size > len(self.attribute.categories):
            return np.where(out == absent, np.nan, out)
        return out


def _named(attribute: Attribute, epsilon: float, embedding: Embedding | None) -> AttributeChannel:
    try:
        return AttributeChannel.build(attribute, epsilon, embedding)
    except ParameterError as error:
        if repr(attribute.name) in str(error):
            raise
        raise ParameterError(f"column {attribute.name!r}: {error}") from error


def _points(attribute: Attribute) -> int:
    assert isinstance(attribute, Numeric | Listed)
    return attribute.points


def _size(attribute: Attribute) -> int:
    return _points(attribute) + (attribute.missing is Missing.KEEP)
