"""Stage 1, protect: records become a release whose guarantee survives any later computation."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
