"""Mechanisms for pictures, and the public features by which they group pictures."""
