"""EUPG: forget a person's data fast, with a privacy guarantee that is stated exactly and can be checked.

The flow, one word a stage: protect → pretrain → finetune → deploy → forget → audit.

>>> from eupg import EUPG, ProbabilisticKAnonymity, Seeded, SklearnLearner, sources
>>> data = sources.rand_hie().train
>>> method = EUPG(ProbabilisticKAnonymity(k=30), SklearnLearner(), pretrain=2, finetune=1)
>>> trained = method.train(data, Seeded(7))             # protect, pretrain on the release, finetune on the records
>>> person = data.of_subjects(["125024"])
>>> print(trained.claim_for(person).sentence()[:32])
Probabilistic k-anonymity (k=30)
>>> trained = method.forget(trained, data.without(person.ids), Seeded(7))
>>> trained.ids.isdisjoint(person.ids)
True

Names below are imported when first used, so that ``import eupg`` is quick and needs no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eupg import audit
    from eupg.audit.lira import LiRA
    from eupg.audit.loss import LossAttack
    from eupg.audit.queries import PictureQueries
    from eupg.audit.references import ReferenceStore
    from eupg.audit.report import AuditReport
    from eupg.audit.rmia import RMIA
    from eupg.audit.versions import VersionsReport, compare_versions
    from eupg.certify.certificate import Certificate
    from eupg.certify.verify import verify
    from eupg.data import sources
    from eupg.data.attribute import Attribute, Categorical, Key, Listed, Missing, Numeric, Ordinal, Outside, Role
    from eupg.data.dataset import Dataset, Examples
    from eupg.data.images import image_dataset, read_images
    from eupg.data.picture import Picture
    from eupg.data.schema import Schema
    from eupg.errors import EupgError
    from eupg.estimator import EUPGClassifier
    from eupg.forget.certified_sp import CertifiedSP
    from eupg.forget.dp_sgd import DPSGDBase
    from eupg.forget.eupg import EUPG
    from eupg.forget.private_trees.base import PrivateTrees
    from eupg.forget.protected_training import ProtectedTraining
    from eupg.forget.retrain import Retrain
    from eupg.forget.sisa import SISA, Aggregate
    from eupg.forget.unlearner import Trained, Unlearner
    from eupg.guarantees import CertifiedUnlearning, DifferentiallyPrivate, Exact, Guarantee, KAnonymous, NoGuarantee
    from eupg.learn.augment import Augment
    from eupg.learn.learner import Learner, Model
    from eupg.learn.leaves.learner import LeafLearner
    from eupg.learn.lightgbm_learner import LightGBMLearner
    from eupg.learn.networks import MLP
    from eupg.learn.noisy import GradientClipping, ModelClipping
    from eupg.learn.resnet import ResNet18
    from eupg.learn.resnet_recipes import resnet18_finetuner, resnet18_learner
    from eupg.learn.sklearn_learner import SklearnLearner
    from eupg.learn.torch_learner import TorchLearner
    from eupg.learn.xgboost_learner import XGBoostLearner
    from eupg.manage.manager import Manager
    from eupg.protect.kanonymity import ProbabilisticKAnonymity, effective_k
    from eupg.protect.local_dp import LocalDP
    from eupg.protect.mechanism import Mechanism, Unprotected
    from eupg.protect.pixel_dp import PixelDP
    from eupg.protect.pixels import PixelPermutation
    from eupg.protect.public_features import EfficientNetLite0, PixelFeatures, PublicFeatures, TorchvisionResNet18
    from eupg.protect.release import Release
    from eupg.protect.synthesis import DPSynthesis
    from eupg.protect.utility import Embedding, learn_embeddings
    from eupg.rng import Randomness, Secret, Seeded

_MODULES = {"audit": "eupg.audit", "sources": "eupg.data.sources"}
_HOMES = {
    "eupg.audit.lira": ("LiRA",),
    "eupg.audit.loss": ("LossAttack",),
    "eupg.audit.references": ("ReferenceStore",),
    "eupg.audit.report": ("AuditReport",),
    "eupg.audit.rmia": ("RMIA",),
    "eupg.audit.versions": ("VersionsReport", "compare_versions"),
    "eupg.data.attribute": (
        "Attribute",
        "Categorical",
        "Key",
        "Listed",
        "Missing",
        "Numeric",
        "Ordinal",
        "Outside",
        "Role",
    ),
    "eupg.data.dataset": ("Dataset", "Examples"),
    "eupg.data.schema": ("Schema",),
    "eupg.errors": ("EupgError",),
    "eupg.estimator": ("EUPGClassifier",),
    "eupg.forget.eupg": ("EUPG",),
    "eupg.forget.certified_sp": ("CertifiedSP",),
    "eupg.forget.dp_sgd": ("DPSGDBase",),
    "eupg.forget.private_trees.base": ("PrivateTrees",),
    "eupg.forget.protected_training": ("ProtectedTraining",),
    "eupg.forget.retrain": ("Retrain",),
    "eupg.forget.sisa": ("SISA", "Aggregate"),
    "eupg.forget.unlearner": ("Trained", "Unlearner"),
    "eupg.learn.learner": ("Learner", "Model"),
    "eupg.learn.leaves.learner": ("LeafLearner",),
    "eupg.learn.lightgbm_learner": ("LightGBMLearner",),
    "eupg.learn.networks": ("MLP",),
    "eupg.learn.noisy": ("GradientClipping", "ModelClipping"),
    "eupg.learn.sklearn_learner": ("SklearnLearner",),
    "eupg.learn.torch_learner": ("TorchLearner",),
    "eupg.learn.xgboost_learner": ("XGBoostLearner",),
    "eupg.manage.manager": ("Manager",),
    "eupg.certify.certificate": ("Certificate",),
    "eupg.certify.verify": ("verify",),
    "eupg.guarantees": (
        "CertifiedUnlearning",
        "DifferentiallyPrivate",
        "Exact",
        "Guarantee",
        "KAnonymous",
        "NoGuarantee",
    ),
    "eupg.protect.kanonymity": ("ProbabilisticKAnonymity", "effective_k"),
    "eupg.protect.local_dp": ("LocalDP",),
    "eupg.protect.mechanism": ("Mechanism", "Unprotected"),
    "eupg.protect.release": ("Release",),
    "eupg.protect.synthesis": ("DPSynthesis",),
    "eupg.protect.utility": ("Embedding", "learn_embeddings"),
    "eupg.rng": ("Randomness", "Secret", "Seeded"),
    "eupg.audit.queries": ("PictureQueries",),
    "eupg.data.images": (
        "image_dataset",
        "read_images",
    ),
    "eupg.data.picture": ("Picture",),
    "eupg.learn.augment": ("Augment",),
    "eupg.learn.resnet": ("ResNet18",),
    "eupg.learn.resnet_recipes": (
        "resnet18_finetuner",
        "resnet18_learner",
    ),
    "eupg.protect.pixel_dp": ("PixelDP",),
    "eupg.protect.pixels": ("PixelPermutation",),
    "eupg.protect.public_features": (
        "EfficientNetLite0",
        "PixelFeatures",
        "PublicFeatures",
        "TorchvisionResNet18",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_EXTRAS = {"torch": "torch", "safetensors": "torch", "xgboost": "xgboost", "lightgbm": "lightgbm"}
_EXTRAS |= {"opacus": "dpsgd", "dp_accounting": "dpsgd"}

__version__ = "0.2.0.dev0"
__all__ = [  # noqa: RUF022 (sorted without regard to case)
    "Aggregate",
    "Attribute",
    "audit",
    "AuditReport",
    "Augment",
    "Categorical",
    "Certificate",
    "CertifiedSP",
    "CertifiedUnlearning",
    "compare_versions",
    "Dataset",
    "DifferentiallyPrivate",
    "DPSGDBase",
    "DPSynthesis",
    "effective_k",
    "EfficientNetLite0",
    "Embedding",
    "EUPG",
    "EUPGClassifier",
    "EupgError",
    "Exact",
    "Examples",
    "GradientClipping",
    "Guarantee",
    "image_dataset",
    "KAnonymous",
    "Key",
    "LeafLearner",
    "learn_embeddings",
    "Learner",
    "LightGBMLearner",
    "LiRA",
    "Listed",
    "LocalDP",
    "LossAttack",
    "Manager",
    "Mechanism",
    "Missing",
    "MLP",
    "Model",
    "ModelClipping",
    "NoGuarantee",
    "Numeric",
    "Ordinal",
    "Outside",
    "Picture",
    "PictureQueries",
    "PixelDP",
    "PixelFeatures",
    "PixelPermutation",
    "PrivateTrees",
    "ProbabilisticKAnonymity",
    "ProtectedTraining",
    "PublicFeatures",
    "Randomness",
    "read_images",
    "ReferenceStore",
    "Release",
    "ResNet18",
    "resnet18_finetuner",
    "resnet18_learner",
    "Retrain",
    "RMIA",
    "Role",
    "Schema",
    "Secret",
    "Seeded",
    "SISA",
    "SklearnLearner",
    "sources",
    "TorchLearner",
    "TorchvisionResNet18",
    "Trained",
    "Unlearner",
    "Unprotected",
    "verify",
    "VersionsReport",
    "XGBoostLearner",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, and name the extra to install if its framework is absent."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'eupg' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        from eupg.errors import MissingFramework

        raise MissingFramework(f"{name} needs {error.name}: pip install 'eupg[{extra}]'") from error


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *__all__])
