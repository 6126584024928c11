"""Stage 0, records: what a table means, the rows themselves, and where the public data sets come from."""
