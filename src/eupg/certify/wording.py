"""Sentences that certificates carry about what they cover and what they do not."""

from __future__ import annotations

from collections.abc import Collection

# The page cuts a text after 160 characters: what matters most comes first.
EARLIER_MODELS = (
    "Earlier versions of the model: only the newest is covered. Comparing both often reveals a person erased alone "
    "(AUC 91 in tests; 50 is chance). Measured on the Adult census table with XGBoost: 91 with EUPG, at k=30 or with a "
    "synthetic table, 71 with full retraining, 97 with a short retrain of 5 trees; 52 to 59 with 100 people erased "
    "together."
)
NOT_COVERED = (
    EARLIER_MODELS,
    "Backups, snapshots and copies outside the workspace: erasing them is up to the operator.",
    "Disk blocks: it was checked that the files are gone, not that their blocks were overwritten.",
    "Anything that others learnt earlier, from predictions or from data that was passed on.",
    "Keyed digests of the erased ids, and their group where records were grouped, stay in the workspace: anyone who "
    "holds its key can test a guess.",
)
# Part of a claim, in place of EARLIER_MODELS, where no model was ever fitted on a record except under that claim.
ALL_VERSIONS = (
    "This erasure did not change the model. The claim covers every version that was ever served, all of them together: "
    "it holds against someone who kept earlier versions, made requests after looking at them, and knows everyone "
    "else's records."
)
# Certificates that carry a required sentence in the words of an earlier version are still valid.
_EARLIER_WORDS = {
    EARLIER_MODELS: (
        "Earlier versions of the model: only the newest is covered. With both, someone erased alone is often "
        "recognised (AUC 91 in tests, 50 is chance). Measured on the Adult census table with XGBoost: 91 with EUPG, at "
        "k=30 or with a synthetic table, 71 with full retraining, 97 with a short retrain of 5 trees; 52 to 59 with "
        "100 people erased together.",
        "Earlier versions of the model: whoever kept one can compare. Only the newest is covered.",
    ),
    ALL_VERSIONS: (
        "This erasure did not change the model, and every version that was ever served carries this claim, all of them "
        "together: it holds against someone who kept earlier versions, who made requests after looking at them, and "
        "who knows the records of everyone else.",
    ),
}


def says(texts: Collection[str], required: str) -> bool:
    """Tell whether a list of sentences, or a text, holds a required sentence in today's words or in earlier ones."""
    return any(words in texts for words in (required, *_EARLIER_WORDS.get(required, ())))
