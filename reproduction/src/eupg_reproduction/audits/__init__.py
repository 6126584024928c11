"""Audits that only the reproduction runs: permuted blocks of pictures, and KLOM."""
