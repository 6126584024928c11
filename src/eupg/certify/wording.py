"""Sentences that every certificate carries: what it takes for granted, and what it does not speak about."""

from __future__ import annotations

from collections.abc import Collection

from eupg.certify.claimed import SEEDED, Claimed, LinkingClaim, PrivateClaim, UnlearningClaim

# The page cuts a sentence after 160 characters: what matters most comes first.
EARLIER_MODELS = (
    "Earlier versions of the model: only the newest is covered. With both, someone erased alone is often recognised "
    "(AUC 91 in tests, 50 is chance). Measured on the Adult census table with XGBoost: 91 with EUPG, at k=30 or with a "
    "synthetic table, 71 with full retraining, 97 with a short retrain of 5 trees; 52 to 59 with 100 people erased "
    "together."
)
# What certificates said in its place before this was measured; they are still valid.
_EARLIER_MODELS_BEFORE = ("Earlier versions of the model: whoever kept one can compare. Only the newest is covered.",)
NOT_COVERED = (
    EARLIER_MODELS,
    "Backups, snapshots and copies outside the workspace: erasing them is up to the operator.",
    "The disk's blocks: that the files are gone was checked, that their blocks were overwritten was not.",
    "What others learnt before, from predictions or from data that was passed on.",
    "Keyed digests of the erased ids, and their group in the release, stay: who holds the workspace's key can test a "
    "guess.",
)
# The same words as the caveat of a claim, eupg.protect.claim.REQUESTS_APART.
REQUESTS_APART = (
    "It is assumed that no erasure request was chosen by looking at a model fitted on these records: such a choice can "
    "carry what that model showed into the newest one."
)


# Said with a claim instead of EARLIER_MODELS, where no model was ever fitted on a record but under that claim.
ALL_VERSIONS = (
    "This erasure did not change the model, and every version that was ever served carries this claim, all of them "
    "together: it holds against someone who kept earlier versions, who made requests after looking at them, and who "
    "knows the records of everyone else."
)


def says_earlier_models(sentences: Collection[str]) -> bool:
    """Tell whether it is among the sentences that earlier models are not covered, in today's words or earlier ones."""
    return any(words in sentences for words in (EARLIER_MODELS, *_EARLIER_MODELS_BEFORE))


def assumptions(claimed: Claimed, *, seeded: bool) -> tuple[str, ...]:
    """Return what the claim takes for granted, by its notion."""
    claim = claimed.claim
    found = [
        "No relation between erased and retained records is known; near-duplicates are counted, relatives are not.",
        "Schema, method and settings were chosen without looking at the records, but for what is listed as read from "
        "the data, or as not covered.",
    ]
    if REQUESTS_APART in map(as_sentence, claim.caveats):
        found.insert(1, REQUESTS_APART)
    if seeded:
        found.insert(0, SEEDED)
    elif isinstance(claim, LinkingClaim | PrivateClaim):
        what = "base model" if isinstance(claim, PrivateClaim) and claim.covers_presence else "protected copy"
        found.append(f"The random numbers behind the {what} are secret: drawn from the system, stored nowhere.")
    elif isinstance(claim, UnlearningClaim):
        found.append("The noise in training is secret: drawn from the system, stored nowhere.")
    if isinstance(claim, LinkingClaim):
        found.append(
            "Permutations are uniform and independent, groups have at least k records and rows are shuffled; the "
            "adversary knows neither the group-mates' records nor what is kept as it is, nor how the two go together."
        )
    if isinstance(claim, PrivateClaim):
        exact = f", and so is every value of {', '.join(claim.leaves_open)}" if claim.leaves_open else ""
        number = "The number of records is public and exact"
        if claim.covers_presence:
            number = "The claim is about the model: the number of records, noted exactly, is outside it"
        found.append(f"{number}{exact}.")
    return tuple(found)


def as_sentence(caveat: str) -> str:
    """Write a caveat of a claim as a sentence of its own."""
    return f"{caveat[:1].upper()}{caveat[1:]}."
