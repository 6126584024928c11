"""The captured step without a GPU: a stand-in for the graph, which takes the same step again at each replay."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from eupg.learn.torch import captured, training
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.captured import CapturedStep, captured_step, train_captured
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import ResNet18
from eupg.learn.torch.training import train
from learn.toy_pictures import toy_pictures

LEARNER = TorchLearner(
    ResNet18(4), learning_rate=0.05, batch_size=16, optimiser="sgd", augment=Augment(1), schedule="one-cycle"
)
# Two full batches and one of 5 rows in a pass.
ROWS = 2 * 16 + 5


class FakeStream:
    def wait_stream(self, other):
        pass


class FakeGraph:
    """Replays the step that was taken while it was recorded, with what then stands in its buffers."""

    def __init__(self):
        self.replay, self.replays = None, 0


@pytest.fixture
def built(monkeypatch):
    """Let steps be captured on a CPU, and list them."""
    steps, take = [], CapturedStep._take

    def recorded(step, loss, pixels, labels):
        take(step, loss, pixels, labels)
        graph = getattr(step, "_graph", None)
        if graph is not None and graph.replay is None:
            steps.append(step)

            def replay():
                graph.replays += 1
                take(step, loss, step._pixels, step._labels)

            graph.replay = replay

    monkeypatch.setattr(CapturedStep, "_take", recorded)
    for name, fake in {
        "Stream": lambda device: FakeStream(),
        "current_stream": lambda device: FakeStream(),
        "stream": lambda stream: nullcontext(),
        "CUDAGraph": FakeGraph,
        "graph": lambda graph: nullcontext(),
        "device": lambda device: nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    captured.drop_captured()
    yield steps
    captured.drop_captured()


def prepared(learner, seed: int = 0, rows: int = ROWS):
    from eupg.data.encode import Encoder

    data = toy_pictures(rows, seed)
    encoder = Encoder.fit(data)
    return (learner._network(encoder, 4, seed), *learner._tensors(encoder, data))


def both(learner, *, seed: int = 0, steps: int = 9, part=(0.0, 1.0), moments=None):
    """Return weights and statistics after captured and after plain steps."""
    ends = []
    for fast in (True, False):
        network, X, y = prepared(learner, seed)
        how = {"steps": steps, "generator": torch.Generator().manual_seed(3), "part": part, "moments": moments}
        if fast:
            with captured_step(network, X, learner._rule, factory=learner.network) as step:
                train_captured(step, network, X, y, learner._rule, keep=False, **how)
        else:
            train(network, X, y, learner._rule, **how)
        ends.append(torch.cat([t.flatten().double() for t in network.state_dict().values()]))
    return ends


@pytest.mark.parametrize("changed", [{}, {"nesterov": True}, {"momentum": 0.0}, {"label_smoothing": 0.2}])
def test_captured_steps_are_plain_steps(built, changed):
    torch.testing.assert_close(*both(replace(LEARNER, **changed)), rtol=1e-4, atol=1e-5)


def test_only_full_batches_go_through_the_graph(built):
    both(LEARNER)
    assert [step._graph.replays for step in built] == [6]


def test_step_is_kept_for_other_fits_whatever_their_rate(built):
    both(LEARNER)
    ends = both(replace(LEARNER, learning_rate=0.01, schedule="cosine"), seed=1)
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-5)
    assert len(built) == 1


@pytest.mark.parametrize(
    "changed", [{"momentum": 0.5}, {"batch_size": 8}, {"weight_decay": 0.1}, {"network": ResNet18(5)}]
)
def test_what_is_built_into_a_graph_needs_another(built, changed):
    both(LEARNER)
    both(replace(LEARNER, **changed))
    assert len(built) == 2


def test_nothing_stays_in_a_kept_step(built):
    both(LEARNER)
    (step,) = captured._kept.values()
    memory = [value for state in step.optimiser.state.values() for value in state.values()]
    tensors = [*step.network.parameters(), *step.network.buffers(), *memory, step._pixels, step._labels]
    assert len(memory) > 50
    assert not any(t.any() for t in tensors)


def test_step_that_fails_while_it_is_lent_is_not_kept(built):
    network, X, _ = prepared(LEARNER)
    with pytest.raises(KeyError), captured_step(network, X, LEARNER._rule, factory=LEARNER.network):
        raise KeyError
    assert not captured._kept


def test_few_steps_are_kept(built):
    network, X, _ = prepared(LEARNER)
    for size in range(4, 12):
        with captured_step(network, X, replace(LEARNER._rule, batch_size=size), factory=LEARNER.network):
            pass
    assert [step._pixels.shape[0] for step in captured._kept.values()] == [8, 9, 10, 11]


def test_moments_go_in_and_come_out(built):
    network, X, y = prepared(LEARNER)
    generator, moments = torch.Generator().manual_seed(1), None
    for part in ((0.0, 0.5), (0.5, 1.0)):
        with captured_step(network, X, LEARNER._rule, factory=LEARNER.network) as step:
            moments = train_captured(
                step, network, X, y, LEARNER._rule, steps=6, generator=generator, part=part, moments=moments, keep=True
            )
    whole, X, y = prepared(LEARNER)
    train(whole, X, y, LEARNER._rule, steps=12, generator=torch.Generator().manual_seed(1))
    for one, other in zip(network.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert {name.split(".")[0] for name in moments} == {"momentum_buffer"}


def test_capture_that_fails_is_told_once_and_plain_steps_follow(built, monkeypatch):
    def fail(graph):
        raise RuntimeError("driver too old\nand more")

    monkeypatch.setattr(torch.cuda, "graph", fail)
    network, X, _ = prepared(LEARNER)
    with (
        pytest.warns(RuntimeWarning, match="as a CUDA graph .RuntimeError: driver too old.: training continues"),
        captured_step(network, X, LEARNER._rule, factory=LEARNER.network) as step,
    ):
        assert step is None
    with captured_step(network, X, LEARNER._rule, factory=LEARNER.network) as step:
        assert step is None


def test_cpu_trains_without_capturing(monkeypatch):
    monkeypatch.setattr(training, "WORTH_CAPTURING", 0)
    monkeypatch.setattr(training, "captured_step", None)
    LEARNER.fit(toy_pictures(ROWS), effort=1, rng=np.random.default_rng(1))
