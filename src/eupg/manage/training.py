"""Protect and pretrain for a workspace: a release is made, a base model comes of it, and the release is given up.

Where training itself is protected, the base model is all that is released, and its file stands for the release.
Otherwise only the release's digest is kept. A k-anonymous release holds every single value of everyone in it; nothing
needs it once the base model is trained, so there is nothing to keep safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.forget.eupg import EUPG
from eupg.forget.protected_training import ProtectedTraining
from eupg.guarantees import KAnonymous, NoGuarantee
from eupg.learn.learner import Model
from eupg.manage.current import Release
from eupg.manage.store import Digest
from eupg.protect import release
from eupg.protect.kanonymity import Groups, constant_share, with_shared
from eupg.protect.mechanism import Mechanism
from eupg.rng import Randomness
from eupg.watch import Watch

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Base:
    """A base model, the release it comes from, and the groups of that release where it has groups."""

    model: Model
    release: Release
    groups: Groups | None

    def kept_as(self, digest: Digest) -> Self:
        """Return the same once the model is kept: where it is all that was released, its digest is the release's."""
        return self if self.release.digest else replace(self, release=replace(self.release, digest=digest))


def make_base(method: EUPG, data: Dataset, rng: Randomness, watch: Watch) -> Base:
    """Protect the records and train the base model on the release alone."""
    if not len(data):
        raise DataError("there is no record to train on: bring at least one")
    promised = method.mechanism.guarantee(data.schema)
    if isinstance(promised, NoGuarantee):
        raise PrivacyError(
            f"{method.mechanism!r} claims nothing, so nothing could be certified: use one with a guarantee"
        )
    if isinstance(method.mechanism, ProtectedTraining):
        model, claimed = watch("pretrain", lambda: method.base(data, rng))
        return Base(model, Release(digest="", claim=method.claim(claimed, data).to_json(), k=None, constant={}), None)
    mechanism = method.mechanism
    made, groups = watch("protect", lambda: _protected(mechanism, data, rng.stage("protect")))
    digest = hashlib.sha256(np.ascontiguousarray(made.X).tobytes() + np.ascontiguousarray(made.y).tobytes())
    model = watch(
        "pretrain",
        lambda: method.learner.fit(made, effort=method.pretrain, rng=rng.stage("pretrain").generator()),
    )
    claim = method.claim(made.guarantee, data)
    if isinstance(claim, KAnonymous) and claim.shared is None and groups is not None:
        claim = with_shared(claim, data, groups)
    about = Release(
        digest=digest.hexdigest(),
        claim=claim.to_json(),
        k=claim.k if isinstance(claim, KAnonymous) else None,
        constant={} if groups is None else constant_share(data, groups),
    )
    return Base(model, about, groups)


def _protected(mechanism: Mechanism, data: Dataset, rng: Randomness) -> tuple[release.Release, Groups | None]:
    """Return a release, and the groups it was made in where there are some: the very ones, where they are given."""
    if hasattr(mechanism, "protect_in_groups"):
        together: tuple[release.Release, Groups] = mechanism.protect_in_groups(data, rng)
        return together
    grouped: Callable[[Dataset], Groups] | None = getattr(mechanism, "groups", None)
    return mechanism.protect(data, rng), None if grouped is None else grouped(data)


def held_apart(data: Dataset, hold_out: float | Dataset, rng: np.random.Generator) -> tuple[Dataset, Dataset]:
    """Return the records to train on, and those that no model sees: people drawn at random, or those given."""
    if not isinstance(hold_out, Dataset):
        apart = _draw(data, hold_out, rng)
        return data.select(~apart), data.select(apart)
    if hold_out.schema != data.schema:
        raise DataError("the records to hold out come under another schema: load them with that of the others")
    if np.isin(hold_out.ids, data.ids).any() or np.isin(hold_out.subjects, data.subjects).any():
        raise DataError("some people are among those to train on and those to hold out: keep them apart")
    return data, hold_out


def _draw(data: Dataset, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw people, whatever their values; True where a record is theirs."""
    if not 0 <= share < 1:
        raise ParameterError(f"hold_out is a share of people from 0 to below 1, got {share!r}")
    people = np.unique(data.subjects)
    chosen = rng.permutation(people)[: int(share * len(people))]
    return np.isin(data.subjects, chosen)
