"""Differentially private synthesis: a synthetic table drawn from noisy counts."""
