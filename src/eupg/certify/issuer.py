"""Who issues a certificate: the controller, as a reader would address a letter to them."""

from __future__ import annotations

from eupg.certify.parts import CertificatePart, Text, strict_dataclass
from eupg.errors import ParameterError

_LONGEST = 200


@strict_dataclass
class Issuer(CertificatePart):
    """The controller that answers for the erasure, by its own account.

    The signature covers these words. It does not prove them: who holds the key is known to those who obtained the
    public key from the issuer.

    Attributes
    ----------
    name
        The organisation.
    contact
        Where to ask questions, such as the address of the data-protection officer. Prefer a role to a person's name.
    reference
        The issuer's own name for this case, such as a file number.

    Examples
    --------
    >>> print(Issuer(name="Example Clinic", contact="privacy@clinic.example", reference="2025/117"))
    Example Clinic, privacy@clinic.example, reference 2025/117
    """

    name: Text
    contact: Text | None = None
    reference: Text | None = None

    def __post_init__(self) -> None:
        for field, text in self.to_json().items():
            if not text.strip() or len(text) > _LONGEST:
                raise ParameterError(f".{field}: expected 1 to {_LONGEST} characters, found {len(text.strip())}")

    def __str__(self) -> str:
        reference = self.reference and f"reference {self.reference}"
        return ", ".join(filter(None, (self.name, self.contact, reference)))
