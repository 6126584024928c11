from . import audit as audit
from .certify.certificate import Certificate as Certificate
from .certify.verification import verify as verify
from .data import sources as sources
from .data.dataset import Dataset as Dataset
from .data.schema import Schema as Schema
from .errors import EupgError as EupgError
from .estimator import EUPGClassifier as EUPGClassifier
from .forget.eupg import EUPG as EUPG
from .forget.exact_trees import ExactTrees as ExactTrees
from .forget.private_trees.base import PrivateTrees as PrivateTrees
from .forget.retrain import Retrain as Retrain
from .forget.sisa.method import SISA as SISA
from .manage.manager import Manager as Manager
from .rng import Secret as Secret
from .rng import Seeded as Seeded

__version__: str

__all__: list[str]
