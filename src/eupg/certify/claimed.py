"""What a certificate claims: the guarantee, read back strictly, and its sentence.

The guarantee is stored as ``Guarantee.to_json()`` writes it, so that reading a certificate needs none of the code that
protects or trains. An empty guarantee is refused: a signed page would lend it weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from eupg.certify.parts import CertificatePart, Text, strict_dataclass
from eupg.certify.wording import ALL_VERSIONS, says
from eupg.errors import CertificateRefused
from eupg.guarantees import DifferentiallyPrivate, Guarantee, NoGuarantee, Unit, guarantee_from_json
from eupg.guarantees.wording import SEEDED


def _read(values: Any, *, where: str = "") -> Guarantee:
    """Read a guarantee that can be certified; one that was built elsewhere is read as strictly as a file."""
    values = values.to_json() if isinstance(values, Guarantee) else values
    if isinstance(values, Mapping) and values.get("notion") == NoGuarantee.notion:
        # Said before anything else, whatever other fields there are.
        raise CertificateRefused(f"{where}: {NoGuarantee(why=str(values.get('why'))).why_empty()}")
    claim = guarantee_from_json(values, where=where)
    empty = claim.why_empty()
    if empty is not None:
        raise CertificateRefused(f"{where}: {empty}")
    return claim


@strict_dataclass
class Claimed(CertificatePart):
    """What is claimed for one request.

    Parameters
    ----------
    claim
        The guarantee for all of the person's records, as ``Trained.claim_for(records)`` returns it.
    sentence
        The same in words, as ``Guarantee.sentence()`` returns them.
    unit
        Whose presence the guarantee is about.
    neighbours
        Which two data sets it compares; None where it compares none, such as a bound on linking.
    never_seen_raw
        True when the model in use at the time of the request had never been fitted on these records directly.
    """

    claim: Annotated[Guarantee, PlainValidator(_read), PlainSerializer(Guarantee.to_json)]
    sentence: Text
    unit: Unit
    neighbours: Text | None
    never_seen_raw: bool

    @classmethod
    def of(cls, claim: Mapping[str, Any], sentence: str, *, never_seen_raw: bool, seeded: bool = False) -> Claimed:
        """Take over a guarantee; a run that was seeded anywhere says so, whatever the guarantee says."""
        guarantee = _read(claim, where="claim")
        if (seeded or guarantee.seeded) and SEEDED not in sentence:
            sentence = f"{sentence} {SEEDED}"
        private = guarantee if isinstance(guarantee, DifferentiallyPrivate) else None
        return cls(
            claim=guarantee,
            sentence=sentence,
            unit=private.unit if private else Unit.RECORD,
            neighbours=private.neighbours if private else None,
            never_seen_raw=never_seen_raw,
        )

    @property
    def covers_all_versions(self) -> bool:
        """Whether it is claimed that all versions of the model are covered, by a claim that can cover them."""
        private = isinstance(self.claim, DifferentiallyPrivate) and self.claim.covers_presence
        return private and self.never_seen_raw and says(self.sentence, ALL_VERSIONS)
