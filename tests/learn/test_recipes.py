"""How models are trained by default: the settings of the paper by table, and one careful rule for all."""

import pytest

from eupg.cli.names import LearnerName
from eupg.errors import ParameterError
from eupg.learn.recipes import EFFORTS, MODELS, careful_recipe, paper_learner, paper_recipe


def test_the_papers_settings_differ_by_table_and_any_other_table_gets_the_usual_ones():
    wide, usual = paper_recipe("mlp", "credit").learner, paper_recipe("mlp", "adult").learner
    assert (wide.network.hidden, usual.network.hidden) == ((256, 256), (128, 128))
    assert (wide.weight_decay, usual.weight_decay) == (1e-5, 1e-4)
    assert repr(paper_recipe("mlp", "my own table").learner) == repr(usual)


@pytest.mark.parametrize("model", MODELS)
def test_the_short_retrain_has_the_effort_of_a_fine_tuning(model):
    recipe = paper_recipe(model)
    assert (recipe.pretrain, recipe.finetune) == EFFORTS[model]
    assert recipe.short_effort == recipe.finetune
    # The learner of the base goes on.
    assert recipe.finetuner is None
    brisk = recipe.learner if model in ("mlp", "xgboost") else careful_recipe(model).short
    assert repr(recipe.short) == repr(brisk)


def test_the_command_line_offers_every_model():
    assert set(LearnerName) == set(MODELS)


@pytest.mark.parametrize("ask", [paper_recipe, careful_recipe, paper_learner])
def test_a_model_that_there_is_not_is_named_with_those_there_are(ask):
    with pytest.raises(ParameterError, match="no model 'forest': choose one of mlp, xgboost, lightgbm, logistic"):
        ask("forest")
