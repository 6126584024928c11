from .certified_sp import CertifiedSP as CertifiedSP
from .dp_sgd import DPSGDBase as DPSGDBase
from .durable import Durable as Durable
from .eupg import EUPG as EUPG
from .exact_head import ExactHead as ExactHead
from .exact_trees import ExactTrees as ExactTrees
from .private_head.base import PrivateHead as PrivateHead
from .private_head.public_network import PrivateNetwork as PrivateNetwork
from .private_head.public_network import PublicNetwork as PublicNetwork
from .private_trees.base import PrivateTrees as PrivateTrees
from .protected_training import ProtectedTraining as ProtectedTraining
from .retrain import Retrain as Retrain
from .sisa.method import SISA as SISA
from .sisa.method import Aggregate as Aggregate
from .unlearner import Trained as Trained
from .unlearner import Unlearner as Unlearner

__all__: list[str]
