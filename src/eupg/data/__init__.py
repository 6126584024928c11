"""Tables and pictures as data: schema, attributes, records and where public data sets come from."""

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
