"""Reading a guarantee back from plain JSON values, strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eupg.errors import ParameterError
from eupg.guarantees.differential_privacy import DifferentiallyPrivate
from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee
from eupg.guarantees.kanonymous import KAnonymous
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.unlearning import CertifiedUnlearning

_NOTIONS: dict[str, type[Guarantee]] = {
    kind.notion: kind for kind in (Exact, KAnonymous, DifferentiallyPrivate, CertifiedUnlearning, NoGuarantee)
}


def guarantee_from_json(values: Mapping[str, Any], *, where: str = "claim") -> Guarantee:
    """Read a guarantee back from :meth:`Guarantee.to_json`.

    A field that is missing, unknown or of another type is refused with its place.

    Examples
    --------
    >>> guarantee_from_json(Exact().to_json())
    Exact(covers=(), leaves_open=(), caveats=(), seeded=False)
    """
    if not isinstance(values, Mapping):
        raise ParameterError(f"{where}: expected an object, found {type(values).__name__}")
    notion = values.get("notion")
    kind = _NOTIONS.get(notion) if isinstance(notion, str) else None
    if kind is None:
        raise ParameterError(
            f"{where}: unknown notion: expected the notion {', '.join(_NOTIONS)}; found {notion!r}: "
            "read it with the version of eupg that wrote it"
        )
    return kind.from_json(values, where=where)
