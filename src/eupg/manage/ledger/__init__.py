"""The ledger: what happened, in order, in a form in which no change goes unnoticed."""
