"""Fine-tuning from private leaves: a correction starts from their margins, in memory, in files and in a workspace."""

import dataclasses
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from eupg import EUPG, Manager, PrivateTrees, Schema, Secret, Seeded
from eupg.audit import LossAttack
from eupg.certify.wording import EARLIER_MODELS
from eupg.cli import main
from eupg.errors import ModelFileError, ParameterError
from eupg.forget.scored_base import ScoredBase, base_of
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn import LeafLearner, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.learner import Correcting, Scoring
from eupg.learn.leaves.learner import CorrectedModel, LeafModel
from eupg.learn.recipes import leaf_recipe
from managed import HELD_OUT, RECORDS, person
from people import SCHEMA, people

FINETUNERS: list[Any] = [
    XGBoostLearner(max_depth=3, learning_rate=0.3),
    LightGBMLearner(leaves=8, least_records=5, learning_rate=0.3),
    TorchLearner(learning_rate=3e-3, batch_size=32),
]
NAMES = ["xgboost", "lightgbm", "torch"]
every_finetuner = pytest.mark.parametrize("finetuner", FINETUNERS, ids=NAMES)
every_number_of_classes = pytest.mark.parametrize("classes", [2, 3])


def method(finetuner, effort: int = 8, exposure: float = 1.0) -> EUPG:
    return EUPG(PrivateTrees(4.0), LeafLearner(finetuner), pretrain=1, finetune=effort, exposure=exposure)


def parts(trained: Trained) -> tuple[CorrectedModel, LeafModel]:
    """Return the served model and its base."""
    base = base_of(trained.memory)
    assert isinstance(trained.model, CorrectedModel)
    assert isinstance(base, LeafModel)
    assert trained.model.base is base
    return trained.model, base


def log_loss(model, data) -> float:
    chances = model.predict_proba(data.X)
    return float(-np.log(np.clip(chances[np.arange(len(data.y)), data.y], 1e-9, 1)).mean())


def test_storage_counts_the_leaves_and_the_correction(tmp_path):
    how = method(FINETUNERS[0])
    trained = how.train(people(300), Seeded(1))
    model, base = parts(trained)
    how.learner.save(base, tmp_path / "base")
    FINETUNERS[0].save(model.correction, tmp_path / "correction")
    leaves, correction = ((tmp_path / name).stat().st_size for name in ("base", "correction"))
    assert leaves > 1_000
    assert storage(trained).size_bytes == pytest.approx(2 * leaves + correction, rel=0.01)


@every_finetuner
@every_number_of_classes
class TestCorrection:
    def test_is_added_to_the_margins_of_the_base_and_fits_the_records_better(self, finetuner, classes):
        data = people(600, classes=classes)
        trained = method(finetuner).train(data, Seeded(1))
        model, base = parts(trained)
        margins = base.margins(data.X) + model.correction.margins(data.X)
        assert model.margins(data.X) == pytest.approx(margins)
        chances = model.predict_proba(data.X)
        assert chances.shape == (600, classes)
        assert chances.sum(axis=1) == pytest.approx(1)
        assert (np.argmax(margins, axis=1) if classes > 2 else margins > 0).astype(int).tolist() == chances.argmax(
            axis=1
        ).tolist()
        assert log_loss(model, data) < log_loss(base, data) - 0.01
        assert model.predict_proba(data.X[:0]).shape == (0, classes)

    def test_starts_from_the_scores_so_that_what_they_explain_is_not_learnt_again(self, finetuner, classes):
        data = people(400, classes=classes)
        known = 12 * (np.eye(classes)[data.y] if classes > 2 else 2.0 * data.y - 1).astype(np.float32)
        nothing = np.zeros_like(known)
        sizes = []
        for scores in (nothing, known):
            added = finetuner.fit_correction(data, effort=8, rng=np.random.default_rng(1), scores=scores)
            margins = added.margins(data.X)
            assert margins.shape == known.shape
            # With more classes a shift of all of them means nothing.
            sizes.append(np.abs(margins - (margins.mean(axis=1, keepdims=True) if classes > 2 else 0)).max())
        assert sizes[0] > 0.3
        assert sizes[1] < 0.1 * sizes[0]

    def test_base_and_corrected_model_are_saved_and_loaded_by_the_same_learner(self, finetuner, classes, tmp_path):
        data = people(300, classes=classes)
        built = method(finetuner)
        trained = built.train(data, Seeded(1))
        for model in parts(trained):
            built.learner.save(model, tmp_path / "model")
            again = built.learner.load(tmp_path / "model")
            assert isinstance(again, LeafModel | CorrectedModel)
            assert type(again) is type(model)
            assert (again.predict_proba(data.X) == model.predict_proba(data.X)).all()
            assert again.effort == model.effort
        assert b"person" not in (tmp_path / "model").read_bytes().split(b"\n")[0]

    def test_forgetting_is_fine_tuning_the_same_base_on_those_who_stay(self, finetuner, classes):
        data = people(400, classes=classes)
        built = method(finetuner, effort=3, exposure=0.5)
        trained = built.train(data, Seeded(1))
        assert isinstance(trained.memory, ScoredBase)
        unseen = data.select(~np.isin(data.subjects, data.subjects[np.isin(data.ids, list(trained.ids))]))
        stays = data.subjects != unseen.subjects[0]
        assert built.forget(trained, data.select(stays), Seeded(2)).model is trained.model
        stays = data.subjects != data.subjects[np.isin(data.ids, list(trained.ids))][0]
        after = built.forget(trained, data.select(stays), Seeded(2))
        assert after.model is not trained.model
        assert parts(after)[1] is parts(trained)[1]
        seen = data.select(np.isin(data.ids, list(after.ids)))
        fresh = built.learner.fit(
            seen, effort=3, rng=Seeded(2).stage("finetune").generator(), start=trained.memory.base
        )
        assert fresh.predict_proba(data.X) == pytest.approx(after.model.predict_proba(data.X), abs=1e-6)


class TestRefusals:
    @pytest.mark.parametrize("wrong", [SklearnLearner(), XGBoostLearner, LeafLearner()], ids=str)
    def test_a_finetuner_that_cannot_start_from_margins(self, wrong):
        with pytest.raises(ParameterError, match="expected a learner that can start from margins"):
            LeafLearner(wrong)

    def test_leaves_alone_cannot_be_continued_or_read_a_correction(self, tmp_path):
        data = people(60)
        trained = method(FINETUNERS[0], effort=2).train(data, Secret())
        with pytest.raises(ParameterError, match=r"pass LeafLearner\(XGBoostLearner\(\)\)"):
            LeafLearner().fit(data, effort=1, rng=np.random.default_rng(1), start=parts(trained)[1])
        LeafLearner(FINETUNERS[0]).save(trained.model, tmp_path / "model")
        with pytest.raises(ParameterError, match="needs the learner that fitted it"):
            LeafLearner().load(tmp_path / "model")
        with pytest.raises(ModelFileError, match="load it with the learner"):
            LeafLearner(FINETUNERS[1]).load(tmp_path / "model")

    def test_a_damaged_file(self, tmp_path):
        learner = LeafLearner(FINETUNERS[0])
        learner.save(method(FINETUNERS[0], effort=2).train(people(60), Secret()).model, tmp_path / "model")
        content = bytearray((tmp_path / "model").read_bytes())
        content[-9] ^= 1
        (tmp_path / "model").write_bytes(content)
        with pytest.raises(ModelFileError, match="damaged"):
            learner.load(tmp_path / "model")

    @every_finetuner
    def test_other_classes_and_a_wrong_number_of_scores(self, finetuner):
        base = method(finetuner).base(people(60), Secret()).model
        with pytest.raises(ParameterError, match="fitted to another table"):
            LeafLearner(finetuner).fit(people(60, classes=3), effort=1, rng=np.random.default_rng(1), start=base)
        with pytest.raises(ParameterError, match="60 examples need as many scores, got 59"):
            finetuner.fit_correction(people(60), effort=1, rng=np.random.default_rng(1), scores=np.zeros(59))

    def test_what_can_correct_is_told_apart(self):
        assert all(isinstance(one, Correcting) for one in FINETUNERS)
        assert not isinstance(SklearnLearner(), Correcting)
        assert isinstance(LeafLearner(), Scoring)
        assert not LeafLearner().uses_scores


class TestWorkspace:
    def test_from_training_to_certificate_and_audit(self, tmp_path):
        built = method(FINETUNERS[0], effort=4)
        with closing(Manager(tmp_path, built, rng=Seeded(7))) as manager:
            manager.train(RECORDS, hold_out=HELD_OUT)
            state = manager.space.state()
            assert state.served != state.base
        with closing(Manager(tmp_path, rng=Seeded(8))) as manager:
            assert manager.method == built
            before = manager.served_model
            assert isinstance(before, CorrectedModel)
            request = manager.request_erasure(subject=person(4))
            assert manager.forget().trained
            assert manager.space.state().base == state.base
            assert manager.space.state().served != state.served
            assert (manager.served_model.predict_proba(RECORDS.X) != before.predict_proba(RECORDS.X)).any()
            assert manager.audit(LossAttack(), references=0).members > 0
            body = manager.certify(request.id).body
        claim = body.claimed.claim
        assert isinstance(claim, DifferentiallyPrivate)
        assert claim.epsilon == 4.0
        assert EARLIER_MODELS in body.not_covered

    @pytest.mark.parametrize("learner", NAMES[:2])
    def test_command_line(self, learner, tmp_path, capsys):
        data = people(900)
        frame = data.to_pandas().reset_index(drop=True)
        frame.insert(0, "person", data.subjects)
        frame.to_csv(tmp_path / "people.csv", index=False)
        SCHEMA.save(tmp_path / "schema.toml")
        command = ["train", "--workspace", str(tmp_path / "w"), "--data", str(tmp_path / "people.csv")]
        command += ["--schema", str(tmp_path / "schema.toml"), "--guarantee", "private-trees", "--delta", "0"]
        command += ["--epsilon", "2", "--learner", learner, "--exposure", "0.5"]
        assert main(command) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "The served model was fine-tuned on the records of" in said
        assert "Differential privacy (ε=2):" in said
        recipe = leaf_recipe(learner)
        with closing(Manager(tmp_path / "w")) as manager:
            wanted = EUPG(PrivateTrees(2.0, 0), recipe.learner, recipe.pretrain, recipe.finetune, exposure=0.5)
            assert manager.method == dataclasses.replace(wanted, finetuner=recipe.finetuner)
            assert isinstance(manager.served_model, CorrectedModel)

    def test_a_learner_that_cannot_correct_is_refused(self, tmp_path, capsys):
        people(90).to_pandas().to_csv(tmp_path / "people.csv", index=False)
        Schema(SCHEMA.attributes[1:]).save(tmp_path / "schema.toml")
        command = ["train", "--workspace", str(tmp_path / "w"), "--data", str(tmp_path / "people.csv")]
        command += ["--schema", str(tmp_path / "schema.toml"), "--guarantee", "private-trees"]
        assert main([*command, "--learner", "logistic", "--exposure", "0.5"]) == 2
        assert "can start from margins" in " ".join(capsys.readouterr().out.split())
