"""Where independent pieces of work run: in this process, in several, or on a cluster."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
