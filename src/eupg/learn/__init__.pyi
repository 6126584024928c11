from .heads.model import HeadLearner as HeadLearner
from .learner import Learner as Learner
from .learner import Model as Model
from .leaves.leaf_ridge import LeafRidge as LeafRidge
from .leaves.learner import LeafLearner as LeafLearner
from .lightgbm import LightGBMLearner as LightGBMLearner
from .noisy_finetuning import GradientClipping as GradientClipping
from .noisy_finetuning import ModelClipping as ModelClipping
from .sklearn import SklearnLearner as SklearnLearner
from .torch.augment import Augment as Augment
from .torch.fast_pictures import fast_picture_learner as fast_picture_learner
from .torch.learner import TorchLearner as TorchLearner
from .torch.networks import MLP as MLP
from .torch.networks import FastResNet as FastResNet
from .torch.networks import ResNet18 as ResNet18
from .xgboost import XGBoostLearner as XGBoostLearner

__all__: list[str]
