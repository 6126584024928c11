"""What a certificate claims: the guarantee, read back strictly, with the words a person reads.

The guarantee comes as ``Guarantee.to_json()`` writes it, so that reading a certificate needs none of the code that
protects or trains. A guarantee that says nothing is refused: a signed page would make it look like something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from eupg.certify.parts import Part, Text
from eupg.errors import CertificateRefused
from eupg.guarantees import DifferentiallyPrivate, Guarantee, NoGuarantee, Unit, guarantee_from_json
from eupg.guarantees.wording import SEEDED
from eupg.strict import Reader


def _read(values: Mapping[str, Any], *, where: str = "claim") -> Guarantee:
    """Read a guarantee that can be certified; that nothing is claimed is said before anything else."""
    if isinstance(values, Mapping) and values.get("notion") == NoGuarantee.notion:
        raise CertificateRefused(f"{where}: {NoGuarantee(why=str(values.get('why'))).why_empty()}")
    return guarantee_from_json(values, where=where)


@dataclass(frozen=True, kw_only=True)
class Claimed(Part):
    """What is claimed for one request.

    Parameters
    ----------
    claim
        The guarantee for all of the person's records, as ``Trained.claim_for(records).to_json()`` gives it.
    sentence
        The same in words, as ``Guarantee.sentence()`` gives them.
    unit
        Whose presence the guarantee speaks of.
    neighbours
        Which two data sets it compares; None where it compares none, such as a bound on linking.
    never_seen_raw
        True when the model in use at the time of the request had never been fitted on these records directly.
    """

    claim: Annotated[Guarantee, Reader(_read)]
    sentence: Text
    unit: Unit
    neighbours: Text | None
    never_seen_raw: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        empty = self.claim.why_empty()
        if empty is not None:
            raise CertificateRefused(f"claim: {empty}")

    @classmethod
    def of(cls, claim: Mapping[str, Any], sentence: str, *, never_seen_raw: bool, seeded: bool = False) -> Claimed:
        """Take over a guarantee; a run that was seeded anywhere says so, whatever the guarantee says."""
        read = _read(claim)
        if (seeded or read.seeded) and SEEDED not in sentence:
            sentence = f"{sentence} {SEEDED}"
        private = read if isinstance(read, DifferentiallyPrivate) else None
        return cls(
            claim=read,
            sentence=sentence,
            unit=private.unit if private else Unit.RECORD,
            neighbours=private.neighbours if private else None,
            never_seen_raw=never_seen_raw,
        )
