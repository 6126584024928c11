"""Stages 2 and 3, pretrain and finetune: learners fit models to examples, from scratch or from another model."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
