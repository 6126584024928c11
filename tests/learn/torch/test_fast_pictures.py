"""The fast exact retrain for pictures, on a CPU and small."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from eupg import Retrain, Seeded
from eupg.learn import Augment, FastResNet, fast_picture_learner
from eupg.manage.description import describe, rebuild
from learn.toy_pictures import toy_pictures

SMALL = replace(fast_picture_learner(width=4), batch_size=16, learning_rate=0.1, augment=Augment(1, border="reflect"))


def right(model, data) -> float:
    return float((model.predict_proba(data.X).argmax(axis=1) == data.y).mean())


def test_few_epochs_are_enough_for_pictures_that_are_easy():
    model = SMALL.fit(toy_pictures(200, 1), effort=5, rng=np.random.default_rng(1))
    assert right(model, toy_pictures(200, 2)) > 0.9


def test_forgetting_is_training_again_without_those_who_left():
    data = toy_pictures(60, 1)
    method = Retrain(SMALL, effort=2)
    rest = data.without(data.ids[:5].tolist())
    forgotten = method.forget(method.train(data, Seeded(1)), rest, Seeded(2))
    again = method.train(rest, Seeded(2))
    assert (forgotten.model.predict_proba(rest.X) == again.model.predict_proba(rest.X)).all()
    assert str(forgotten.claim).startswith("Exact")


def test_a_block_adds_its_input_and_logits_are_scaled():
    torch.manual_seed(0)
    network: Any = FastResNet(4)(3, 10).eval()
    x = torch.randn(2, 8, 16, 16)
    block = network[2]
    assert torch.equal(block(x), x + block[1](block[0](x)))
    rows = torch.randn(2, 32)
    assert torch.allclose(network[-1](rows), 0.125 * rows @ network[-1].weight.T)
    assert replace(FastResNet(4), logits=1.0)(3, 10).eval()(torch.zeros(1, 3, 8, 8)).shape == (1, 10)


def test_a_gpu_gets_half_precision_and_fused_layers():
    assert (SMALL.precision, SMALL.compile) == ("float32", False)
    learner = fast_picture_learner(device="cuda")
    assert (learner.precision, learner.compile) == ("bfloat16", True)


def test_a_workspace_can_describe_it():
    method = Retrain(SMALL, effort=2)
    assert rebuild(describe(method)) == method
