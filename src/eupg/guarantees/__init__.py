"""The one hierarchy of claims: exact, k-anonymous, differentially private, certified unlearning, or nothing.

Mechanisms and unlearning methods state their claims with these classes, and certificates read the same classes back
from JSON. Importing this package needs only the standard library; reading JSON imports pydantic.
"""

from eupg.guarantees.differential_privacy import DifferentiallyPrivate
from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee, Neighbours, Unit
from eupg.guarantees.kanonymous import KAnonymous
from eupg.guarantees.no_guarantee import NoGuarantee
from eupg.guarantees.person import Involvement, claim_for_person
from eupg.guarantees.reading import guarantee_from_json
from eupg.guarantees.unlearning import CertifiedUnlearning

__all__ = [
    "CertifiedUnlearning",
    "DifferentiallyPrivate",
    "Exact",
    "Guarantee",
    "Involvement",
    "KAnonymous",
    "Neighbours",
    "NoGuarantee",
    "Unit",
    "claim_for_person",
    "guarantee_from_json",
]
