from .cluster import RayCluster as RayCluster
from .executor import Executor as Executor
from .executor import InProcess as InProcess
from .processes import LocalProcesses as LocalProcesses

__all__: list[str]
