"""Stage 6, audit: measure what a model or a release reveals, and compare it with the claim."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
