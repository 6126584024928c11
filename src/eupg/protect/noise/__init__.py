"""Noise drawn exactly, in whole numbers."""
