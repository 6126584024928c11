"""The manager: one workspace on disk, from training to certificates."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
