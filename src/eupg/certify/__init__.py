"""Stage 7, certify: what was forgotten, what is claimed, measured and assumed, signed so that anyone can check it."""
