"""Who had a part in the release: by name while they are kept, by keyed digest once they are forgotten.

A claim needs to know this after the names are gone: someone whose first record was forgotten last month still has two
records behind the base model, and a record that comes back was never new to it. A digest says so without the name; the
key is drawn for this model and kept nowhere else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Set
from dataclasses import dataclass, field

import numpy as np

from eupg.data.dataset import Dataset, RecordId
from eupg.data.ids import IdMap
from eupg.errors import WrongState

_ELSEWHERE = (
    "expected a model that knows who had a part in its releases, got one whose workspace keeps that history: "
    "read the claim in the certificate that the workspace issues for the request"
)


@dataclass(frozen=True, eq=False)
class Released:
    """The records behind a release.

    Parameters
    ----------
    kept
        Records that are still kept, each with the digest of its person.
    gone
        Digests of forgotten records, each with the digest of its person.
    key
        Makes the digests; without it they say nothing.
    """

    kept: IdMap = field(default_factory=IdMap)
    gone: IdMap = field(default_factory=IdMap)
    key: bytes = field(default=b"", repr=False)

    @property
    def empty(self) -> bool:
        """Whether nobody ever had a part in a release."""
        return not self.kept and not self.gone

    @classmethod
    def of(cls, data: Dataset, *, key: bytes | None = None) -> Released:
        """Note everyone in a table that is being released; the key of the digests is drawn unless given."""
        key = os.urandom(32) if key is None else key
        people, place = np.unique(data.subjects, return_inverse=True)
        digests = [_digest(key, person) for person in people.tolist()]
        named = {name: digests[i] for name, i in zip(data.ids.tolist(), place.tolist(), strict=True)}
        return cls(IdMap(named), IdMap(), key)

    def retaining(self, ids: Set[RecordId]) -> Released:
        """Return the same for a table that holds these records: others are forgotten, some may have come back."""
        stayed = self.without(self.kept.keys() - ids)
        return stayed.joined(ids - stayed.kept.keys()) if stayed.gone and len(ids) > len(stayed.kept) else stayed

    def without(self, names: Set[RecordId]) -> Released:
        """Return the same after these records left."""
        gone = {_digest(self.key, name): self.kept[name] for name in names if name in self.kept}
        return Released(self.kept.without(names), self.gone.joined(gone), self.key)

    def joined(self, names: Set[RecordId]) -> Released:
        """Return the same after these records came: some may have had a part in the release and left since."""
        digests = {name: _digest(self.key, name) for name in names} if self.gone else {}
        back = {name: self.gone[digest] for name, digest in digests.items() if digest in self.gone}
        return Released(self.kept.joined(back), self.gone.without(digests.values()), self.key)

    def count(self, records: Dataset) -> int:
        """Count these records as far as they were released, and those of the same people forgotten before."""
        people = {_digest(self.key, person) for person in np.unique(records.subjects).tolist()}
        before = sum(person in people for person in self.gone.values())
        return before + sum(name in self.kept for name in records.ids.tolist())

    def others(self, records: Dataset) -> int:
        """Count the other records, kept and released, of the people whom these records belong to."""
        people = {_digest(self.key, person) for person in np.unique(records.subjects).tolist()}
        these = records.id_set
        return sum(person in people and name not in these for name, person in self.kept.items())


@dataclass(frozen=True, eq=False)
class HistoryElsewhere(Released):
    """Stands for a history that is kept elsewhere, such as in a workspace: it can be carried along, not asked."""

    @property
    def empty(self) -> bool:
        """Tell that there is a history, although it is not here."""
        return False

    def retaining(self, ids: Set[RecordId]) -> HistoryElsewhere:
        """Return the same: whoever keeps the history keeps it up to date."""
        return self

    def without(self, names: Set[RecordId]) -> HistoryElsewhere:
        """Return the same, as :meth:`retaining` does."""
        return self

    def joined(self, names: Set[RecordId]) -> HistoryElsewhere:
        """Return the same, as :meth:`retaining` does."""
        return self

    def count(self, records: Dataset) -> int:
        """Refuse to count records that are not known here."""
        raise WrongState(_ELSEWHERE)

    def others(self, records: Dataset) -> int:
        """Refuse to count records that are not known here."""
        raise WrongState(_ELSEWHERE)


def _digest(key: bytes, name: str) -> str:
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).hexdigest()
