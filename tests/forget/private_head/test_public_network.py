"""Fine-tuning beyond the head: a public network with a private head, on a CPU and small."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eupg import EUPG, Retrain, Seeded
from eupg.errors import ParameterError
from eupg.forget import PrivateHead, PrivateNetwork, PublicNetwork
from eupg.learn import HeadLearner, TorchLearner
from eupg.protect import NetworkEncoder, encode_records, network_digest
from learn.toy_pictures import toy_pictures
from pictures import pictures


@pytest.fixture
def encoder():
    torch.manual_seed(3)
    network = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )
    return NetworkEncoder(network, name="toy", digest=network_digest(network), size=8)


def method(encoder, **settings):
    learner = TorchLearner(PublicNetwork(encoder), learning_rate=0.01, batch_size=16)
    return EUPG(PrivateNetwork(epsilon=8.0, encoder=encoder), learner, pretrain=1, **settings)


def right(model, data) -> float:
    return float((model.predict_proba(data.X).argmax(axis=1) == data.y).mean())


@pytest.mark.parametrize("data", [pictures(300), toy_pictures(300, 1)], ids=["two classes", "four classes"])
def test_the_base_is_the_private_head_as_a_network(encoder, data):
    base = method(encoder, finetune=0, exposure=0).train(data, Seeded(5))
    head = EUPG(PrivateHead(8.0), HeadLearner(), pretrain=1, finetune=0, exposure=0)
    vectors = encode_records(data, encoder)
    expected = head.train(vectors, Seeded(5)).model.predict_proba(vectors.X)
    # The head reads features that are rounded to a grid, the network does not.
    np.testing.assert_allclose(base.model.predict_proba(data.X), expected, atol=0.02)
    assert "NetworkEncoder('toy', size=8)" in " ".join(base.claim.caveats)
    assert encoder.digest[:16] in " ".join(base.claim.caveats)


def test_finetuning_moves_the_whole_network_and_forgetting_returns_to_the_base(encoder):
    data, new = toy_pictures(300, 1), toy_pictures(200, 2)
    unlearner = method(encoder, finetune=4, exposure=0.5)
    trained = unlearner.train(data, Seeded(5))
    assert 10 <= len(trained.ids) < 300
    base = method(encoder, finetune=0, exposure=0).train(data, Seeded(5))
    before, after = base.model.network, trained.model.network
    assert not torch.equal(before.body.network[0].weight, after.body.network[0].weight)
    assert torch.equal(before.body.network[0].weight, encoder.network[0].weight)
    assert right(trained.model, new) > 0.9
    assert network_digest(encoder.network) == encoder.digest
    seen = sorted(trained.ids)[0]
    forgotten = unlearner.forget(trained, data.without([seen]), Seeded(6))
    assert seen not in forgotten.ids
    unseen = sorted(trained.kept - trained.ids)[0]
    assert unlearner.forget(trained, data.without([unseen]), Seeded(6)).model is trained.model


def test_the_control_starts_from_the_public_weights(encoder, tmp_path):
    learner = TorchLearner(PublicNetwork(encoder), learning_rate=0.01, batch_size=16)
    data = toy_pictures(200, 1)
    control = Retrain(learner, effort=4, exposure=0.5).train(data, Seeded(5))
    assert right(control.model, toy_pictures(200, 2)) > 0.8
    built: Any = PublicNetwork(encoder)(3, 4)
    assert torch.equal(built.body.network[0].weight, encoder.network[0].weight)
    assert not built.last.weight.any()
    assert all(p.requires_grad for p in built.parameters())
    learner.save(control.model, tmp_path / "model")
    again = learner.load(tmp_path / "model")
    assert (again.predict_proba(data.X) == control.model.predict_proba(data.X)).all()


def test_other_networks_are_refused(encoder):
    with pytest.raises(ParameterError, match="trains another network"):
        EUPG(PrivateNetwork(encoder=encoder), TorchLearner(), pretrain=1, finetune=1)
    with pytest.raises(ParameterError, match="expected an encoder such as"):
        PrivateNetwork(encoder=len)  # type: ignore[arg-type]
