"""Reading a guarantee back from plain JSON values, strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
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
    # Imported here: pydantic takes longer to import than all of this package.
    from eupg.strict_json import plain, read

    values = plain(values, where)
    notion = values.pop("notion", None) if isinstance(values, dict) else None
    kind = _NOTIONS.get(notion) if isinstance(notion, str) else None
    if kind is None:
        raise ParameterError(
            f"{where}: unknown notion: expected an object with the notion {', '.join(_NOTIONS)}; found {notion!r}: "
            "read it with the version of eupg that wrote it"
        )
    # The defaults are for those who state a claim. Whoever wrote one wrote it in full, but for what came later.
    absent = sorted({f.name for f in fields(kind) if f.default is not None} - values.keys())
    if absent:
        raise ParameterError(f"{where}: expected the field {', '.join(absent)}, found none")
    return read(kind, values, where)
