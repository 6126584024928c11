from .batching import BatchPolicy as BatchPolicy
from .manager import Manager as Manager

__all__: list[str]
