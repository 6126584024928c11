"""Stage 5, forget: a trained model and the records that may be kept become a model without the others."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
