"""EUPG: forget a person's data fast, with a privacy guarantee that is stated exactly and can be checked.

The flow, one word per stage: protect → pretrain → finetune → deploy → forget → audit → certify.

>>> from eupg import EUPG, Seeded, sources
>>> from eupg.learn import SklearnLearner
>>> from eupg.protect import ProbabilisticKAnonymity
>>> data = sources.rand_hie().train
>>> method = EUPG(ProbabilisticKAnonymity(k=30), SklearnLearner(), pretrain=2, finetune=1)
>>> trained = method.train(data, Seeded(7))             # protect, pretrain on the release, finetune on the records
>>> person = data.of_subjects(["125024"])
>>> print(trained.claim_for(person).sentence()[:32])
Probabilistic k-anonymity (k=30)
>>> trained = method.forget(trained, data.without(person.ids), Seeded(7))
>>> trained.ids.isdisjoint(person.ids)
True

The rest of the package is found by stage: ``eupg.data``, ``eupg.protect``, ``eupg.learn``, ``eupg.forget``,
``eupg.audit``, ``eupg.certify``, ``eupg.guarantees`` and ``eupg.manage``.
"""

import logging

from eupg.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

__version__ = "0.2.0.dev0"

# Silent unless the application that uses the library says where messages go.
logging.getLogger(__name__).addHandler(logging.NullHandler())
