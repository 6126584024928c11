"""Sentences that every certificate carries about what it does not cover."""

from __future__ import annotations

from collections.abc import Collection

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


# Said with a claim instead of EARLIER_MODELS, where no model was ever fitted on a record but under that claim.
ALL_VERSIONS = (
    "This erasure did not change the model, and every version that was ever served carries this claim, all of them "
    "together: it holds against someone who kept earlier versions, who made requests after looking at them, and who "
    "knows the records of everyone else."
)


def says_earlier_models(sentences: Collection[str]) -> bool:
    """Tell whether it is among the sentences that earlier models are not covered, in today's words or earlier ones."""
    return any(words in sentences for words in (EARLIER_MODELS, *_EARLIER_MODELS_BEFORE))
