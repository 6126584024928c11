"""Components refuse kinds of data that they do not accept and name what to use instead."""

import numpy as np
import pytest

from eupg import EUPG, EUPGClassifier, Schema, Seeded
from eupg.audit.epsilon import audit_mechanism_epsilon
from eupg.audit.releases.linkage import linkage
from eupg.cli.options import Columns
from eupg.cli.predict import _read
from eupg.cli.tables import read_records
from eupg.cli.terminal import Terminal
from eupg.data import DataKind, TableFile
from eupg.data.dataset import Dataset
from eupg.errors import DataError
from eupg.forget.dp_sgd import DPSGDBase
from eupg.learn import LightGBMLearner, SklearnLearner, XGBoostLearner
from eupg.learn.torch.learner import TorchLearner
from eupg.protect import DPSynthesis, LocalDP, PixelDP, PixelPermutation, ProbabilisticKAnonymity, learn_embeddings
from eupg.protect.kanonymity import constant_share
from people import people
from pictures import pictures

DATA = pictures(120)


@pytest.mark.parametrize(
    ("mechanism", "instead"),
    [
        (ProbabilisticKAnonymity(k=5), "PixelPermutation"),
        (LocalDP(1.0), "PixelDP"),
        (DPSynthesis(1.0), "PixelDP"),
    ],
    ids=repr,
)
def test_mechanisms_of_tables_refuse_before_and_while_they_protect(mechanism, instead):
    said = rf"{type(mechanism).__name__} works on tables, and this schema describes pictures: use {instead}"
    with pytest.raises(DataError, match=said):
        mechanism.guarantee(DATA.schema)
    with pytest.raises(DataError, match=said):
        mechanism.protect(DATA, Seeded(1))


def test_pairs_that_do_not_fit_are_refused_before_anything_is_protected():
    class Counting:
        protected = 0

        def guarantee(self, schema):
            return PixelDP(1.0, block=2).guarantee(schema)

        def protect(self, data, rng):
            self.protected += 1
            return PixelDP(1.0, block=2).protect(data, rng)

    mechanism = Counting()
    with pytest.raises(DataError, match=r"XGBoostLearner works on tables.*use TorchLearner"):
        EUPG(mechanism, XGBoostLearner()).train(DATA, Seeded(1))
    with pytest.raises(DataError, match=r"SklearnLearner works on tables"):
        EUPG(mechanism, TorchLearner(), finetuner=SklearnLearner()).train(DATA, Seeded(1))
    assert mechanism.protected == 0
    EUPG(mechanism, TorchLearner(), pretrain=1, finetune=0).train(DATA, Seeded(1))
    assert mechanism.protected == 1


@pytest.mark.parametrize("mechanism", [PixelDP(1.0), PixelPermutation(5)], ids=lambda x: type(x).__name__)
def test_mechanisms_of_pictures_refuse_tables(mechanism):
    instead = type(mechanism).accepts.instead
    with pytest.raises(DataError, match=f"works on pictures, and this schema describes tables: use {instead}"):
        mechanism.guarantee(people(10).schema)


def test_schema_knows_its_kind():
    assert DATA.schema.kind is DataKind.PICTURES
    assert people(10).schema.kind is DataKind.TABLE


def test_local_dp_has_no_channels_and_embeddings_are_not_learnt():
    with pytest.raises(DataError, match="LocalDP works on tables"):
        LocalDP(1.0).channels(DATA.schema)
    with pytest.raises(DataError, match=r"learn_embeddings works on tables.*which need no embeddings"):
        learn_embeddings(DATA, public=True)


def test_private_training_refuses():
    with pytest.raises(DataError, match=r"DPSGDBase works on tables.*PixelDP, which protects the pictures themselves"):
        DPSGDBase().pretrain(DATA, TorchLearner(), effort=1, rng=Seeded(1))


@pytest.mark.parametrize(
    "learner", [SklearnLearner(), XGBoostLearner(), LightGBMLearner()], ids=lambda x: type(x).__name__
)
def test_learners_of_tables_name_the_network(learner):
    said = rf"{type(learner).__name__} works on tables, and this schema describes pictures: use TorchLearner\(ResNet18"
    with pytest.raises(DataError, match=said):
        learner.fit(DATA, effort=1, rng=np.random.default_rng(0))


def test_audits_of_tables_name_those_of_pictures():
    with pytest.raises(DataError, match=r"linkage works on tables.*use patch_linkage"):
        linkage(ProbabilisticKAnonymity(k=5), DATA, Seeded(1))
    with pytest.raises(DataError, match=r"audit_mechanism_epsilon works on tables.*use epsilon_lower_bound"):
        audit_mechanism_epsilon(LocalDP(1.0), DATA.schema, {}, {}, 10, Seeded(1))


def test_tables_under_a_schema_of_pictures_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("picture,class\n1,dark\n2,light\n")
    (tmp_path / "schema.toml").write_text(DATA.schema.to_toml())
    said = r"Dataset\.from_table works on tables.*use read_images or image_dataset"
    with pytest.raises(DataError, match=said):
        Dataset.read(tmp_path / "t.csv", DATA.schema)
    with pytest.raises(DataError, match=said):
        read_records(tmp_path / "t.csv", Columns(schema=tmp_path / "schema.toml"), Terminal(as_json=True))
    with pytest.raises(DataError, match=r"eupg predict works on tables.*Manager\.predict in Python"):
        _read(TableFile(tmp_path / "t.csv"), DATA.schema, [], [])


def test_classifier_refuses_a_schema_of_pictures():
    X = np.random.default_rng(0).random((20, 2))
    with pytest.raises(DataError, match=r"EUPGClassifier works on tables.*EUPG with PixelPermutation and TorchLearner"):
        EUPGClassifier(schema=Schema(DATA.schema.attributes)).fit(X, np.arange(20) % 2)


def test_groups_of_one_and_the_same_picture_are_counted():
    pixels = DATA.X.copy()
    pixels[3:6] = pixels[3]
    pixels[6:9, 1:] = pixels[6, 1:]
    data = Dataset(DATA.schema, pixels, DATA.y, DATA.ids, DATA.subjects)
    assert constant_share(data, np.arange(120) // 3) == {"picture": 1 / 40}
