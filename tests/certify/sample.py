"""Certificates to test with: three records of one person, forgotten under one claim or another."""

import dataclasses
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from eupg.certify.body import Body, CertifiedMethod, CertifiedRequest, Deletion, Derived, LedgerHead, Provenance
from eupg.certify.certificate import Certificate, sign
from eupg.certify.claimed import Claimed
from eupg.certify.issuer import Issuer
from eupg.certify.keys import PublicKey, SigningKey
from eupg.certify.measured import Measurement, MeasurementKind
from eupg.guarantees import DifferentiallyPrivate, Exact, Guarantee, KAnonymous, Unit

LABEL = "visits"
FEATURES = ("age", "gender", "income", "coinsurance", "illnesses")
SHARED = {LABEL: 0.29}
LINKING = KAnonymous(k=30, covers=FEATURES, leaves_open=(LABEL,), shared=SHARED).for_person(3)
PRIVATE = DifferentiallyPrivate(epsilon=1.0, covers=FEATURES, leaves_open=(LABEL,)).for_person(3)
EXACT = Exact()
ISSUER = Issuer(name="Example Clinic", contact="Data-protection officer, privacy@clinic.example", reference="2025/117")

AUDIT: dict[str, Any] = {
    "model": "EUPG, k=30", "attack": "RMIA", "parameters": {"gamma": 2.0, "a": 0.3}, "members": 3, "nonmembers": 800,
    "level": 0.95, "auc": 52.4, "low": 31.0, "high": 73.8, "standard_error": 11.1, "null_error": 16.7,
    "tails": [{"at": 1.0, "fpr": 1.0, "tpr": 0.0, "low": 0.0, "high": 70.8, "chance": 1.0, "resolvable": True}],
    "baseline": {"model": "retraining", "auc": 51.0}, "comparison": None,
}  # fmt: skip
TWINS = {"forgotten": 3, "retained": 16_147, "attributes": 5, "same_label": 0, "other_label": 1, "within": 0,
         "differing": 1, "tolerance": 0.1, "near": 1}  # fmt: skip


def key(seed: int = 1) -> SigningKey:
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return SigningKey(PublicKey(private.public_key().public_bytes_raw()), private)


def request(**changes: Any) -> CertifiedRequest:
    given: dict[str, Any] = {
        "id": "r-0123456789abcdef", "unit": Unit.PERSON, "digest": "5a" * 16,
        "received": "2025-01-31T09:30:00.000000+00:00", "accepted": "2025-02-01T08:00:00Z",
        "completed": "2025-02-03T16:45:12Z", "due": "2025-02-28", "identity_verified": True, "records_erased": 3,
        "people_known": True, "together": 4,
    }  # fmt: skip
    return CertifiedRequest(**(given | changes))


def measures(guarantee: Guarantee) -> list[Measurement]:
    found = [Measurement.near_duplicates(TWINS, "1 of 3 forgotten records has an identical twin.")]
    if isinstance(guarantee, KAnonymous):
        found.append(Measurement.effective_k(1, 1.0, 1.0, k=30, sentence="the effective k is 1"))
        found.append(Measurement.constant_columns({"gender": 0.94, "age": 0.01, "coinsurance": 0.31}))
        found.append(Measurement.shared_values({LABEL: 0.29}))
    found.append(Measurement.audit(AUDIT, "RMIA on EUPG, k=30: not told apart from chance, too wide to find much."))
    found.append(
        Measurement.of(
            MeasurementKind.EXPOSURE, "largest change of a prediction 0.02", "The person's predictions moved.", {"n": 3}
        )
    )
    return found


def body(guarantee: Guarantee = LINKING, *, seeded: bool = False, **changes: Any) -> Body:
    given: dict[str, Any] = {
        "issued": "2025-02-03T17:00:00Z",
        "request": request(),
        "method": CertifiedMethod(
            name="EUPG", mechanism="ProbabilisticKAnonymity(k=30)", learner="XGBoostLearner()",
            parameters={"k": 30, "pretrain": 100, "finetune": 5}, seeded=seeded,
        ),
        "claimed": Claimed.of(guarantee.to_json(), guarantee.sentence(), never_seen_raw=False, seeded=seeded),
        "measured": measures(guarantee),
        "deleted": [
            Deletion(what="earlier model", digest="ab" * 32, at="2025-02-03T16:44:00Z", event=40),
            Deletion(what="record partition", digest="cd" * 32, at="2025-02-03T16:44:01Z", event=41),
        ],
        "provenance": Provenance(
            eupg="0.1.0", python="3.11.7", libraries={"numpy": "2.3.0", "xgboost": "3.0.2"}, base_model="11" * 32,
            release="22" * 32, new_model="33" * 32, retained="44" * 32, schema="55" * 32,
            data_derived=(Derived(what="bounds of income", source="Schema.infer, 2025-01-02"),),
        ),
        "ledger": LedgerHead(number=42, digest="ef" * 32),
    }  # fmt: skip
    return Body.of(**(given | changes))


def certificate(guarantee: Guarantee = LINKING, *, seed: int = 1, **changes: Any) -> Certificate:
    return sign(body(guarantee, **changes), key(seed))


def crowded() -> Certificate:
    """A certificate with far more to say than a page holds."""
    long = "Every word of this sentence is needed and there are many of them, as lawyers and statisticians like. " * 60
    names = tuple(f"attribute number {i}" for i in range(200))
    claim = dataclasses.replace(LINKING, covers=names, leaves_open=names, caveats=(long, long, long, long))
    measured = [dataclasses.replace(m, result=long, sentence=long, does_not_show=long) for m in measures(claim)] * 4
    deleted = [Deletion(what=long, digest="ab" * 32, at="2025-02-03T16:44:00Z", event=10**12)] * 30
    whole = body(claim, seeded=True)
    return sign(
        dataclasses.replace(
            whole,
            measured=tuple(measured),
            deleted=tuple(deleted),
            assumed=(*whole.assumed, *[long] * 9),
            not_covered=(*whole.not_covered, *[long] * 9),
            method=dataclasses.replace(whole.method, name=long, mechanism=long, learner=long),
            provenance=dataclasses.replace(
                whole.provenance,
                libraries={f"library {i}": long for i in range(20)},
                data_derived=(Derived(what=long, source=long),) * 20,
            ),
        ),
        key(),
    )
