"""Pictures on a GPU: the captured step against plain steps, and every method once.

Runs under pytest, or by itself where there is none: ``PYTHONPATH=src:tests python tests/learn/torch/test_cuda.py``.
"""

import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from eupg.data.encode import Encoder
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.eupg import EUPG
from eupg.forget.retrain import Retrain
from eupg.forget.sisa.method import SISA
from eupg.learn.noisy_finetuning import GradientClipping
from eupg.learn.torch import captured, training
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.inputs import PictureReader, Pictures
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import MLP, ResNet18
from eupg.protect.mechanism import Unprotected
from eupg.rng import Seeded
from learn.toy_pictures import toy_pictures

try:
    import pytest
except ModuleNotFoundError:
    pytest = None
else:
    pytestmark = [
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        pytest.mark.filterwarnings("error"),
    ]

DEVICE = "cuda"
SGD = TorchLearner(
    ResNet18(8),
    learning_rate=0.02,
    batch_size=32,
    weight_decay=5e-4,
    device=DEVICE,
    optimiser="sgd",
    augment=Augment(2),
)
ADAM = replace(SGD, optimiser="adam", learning_rate=1e-3)
# 5 full batches and one of 7 in a pass; 4 passes are 24 steps.
ROWS, EPOCHS = 5 * 32 + 7, 4


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@contextmanager
def plain_steps():
    """Train without captured steps."""
    before, training.WORTH_CAPTURING = training.WORTH_CAPTURING, 10**9
    try:
        yield
    finally:
        training.WORTH_CAPTURING = before


def _as_it_is(device, *, on):
    return nullcontext()


@contextmanager
def exact():
    """Convolve in full single precision, as matrices are multiplied anyway, and by the same kernels each time.

    Without that a rounding error grows, step by step, until nothing can be compared. Kernels that are chosen by how
    fast they are differ from process to process.
    """
    flags = torch.backends.cudnn
    with warnings.catch_warnings():
        # Newer versions of PyTorch prefer another spelling, which older ones do not know.
        warnings.simplefilter("ignore")
        before, flags.allow_tf32 = flags.allow_tf32, False
    order, flags.deterministic = flags.deterministic, True
    captured.drop_captured()
    try:
        with patch.object(captured, "tuned", _as_it_is), patch.object(training, "tuned", _as_it_is):
            yield
    finally:
        flags.allow_tf32, flags.deterministic = before, order
        captured.drop_captured()


@contextmanager
def counted():
    """Count captures."""
    built, init = [], captured.CapturedStep.__init__

    def count(step, *args):
        built.append(step)
        init(step, *args)

    captured.CapturedStep.__init__ = count
    try:
        yield built
    finally:
        captured.CapturedStep.__init__ = init


def state(model) -> torch.Tensor:
    return torch.cat([t.detach().double().flatten() for t in model.network.state_dict().values()])


def close(what: str, one, other, limit: float) -> None:
    one, other = (torch.as_tensor(t).detach().double().cpu() for t in (one, other))
    assert one.shape == other.shape, f"{what}: shapes {one.shape} and {other.shape}"
    assert all(torch.isfinite(t).all() for t in (one, other)), f"{what}: not finite"
    gap = float((one - other).abs().max())
    print(f"    {what}: largest difference {gap:.2e}, limit {limit:.0e}")
    assert gap <= limit, f"{what}: differs by {gap:.3e}, expected at most {limit:.0e}"


def both(learner, data, epochs=EPOCHS):
    """Return a model trained by captured steps, and one by plain ones."""
    with counted() as built:
        fast = learner.fit(data, effort=epochs, rng=rng())
    assert len(built) == 1, f"expected one capture, got {len(built)}"
    with plain_steps():
        return fast, learner.fit(data, effort=epochs, rng=rng())


def test_captured_steps_are_plain_steps_for_sgd():
    for learner in (SGD, replace(SGD, nesterov=True, schedule="one-cycle", label_smoothing=0.1)):
        with exact():
            fast, slow = both(learner, toy_pictures(ROWS, size=16))
        close("weights and statistics, SGD in single precision", state(fast), state(slow), 2e-3)
        assert int(fast.network[1].num_batches_tracked) == 6 * EPOCHS


def test_captured_steps_are_plain_steps_for_adam():
    data = toy_pictures(ROWS, size=16)
    with exact():
        fast, slow = both(ADAM, data)
        close("probabilities, Adam", fast.predict_proba(data.X), slow.predict_proba(data.X), 3e-2)


def test_captured_steps_are_plain_steps_in_bfloat16():
    data = toy_pictures(ROWS, size=16)
    captured.drop_captured()
    fast, slow = both(replace(SGD, precision="bfloat16"), data)
    close("weights and statistics, bfloat16", state(fast), state(slow), 0.2)
    close("probabilities, bfloat16", fast.predict_proba(data.X), slow.predict_proba(data.X), 0.2)


def test_captured_steps_are_plain_steps_for_a_perceptron():
    data = toy_pictures(ROWS)
    with exact():
        fast, slow = both(replace(SGD, network=MLP((16,))), data)
    close("weights of a perceptron", state(fast), state(slow), 1e-4)


def test_single_row_left_over_joins_the_batch_before():
    with exact():
        fast, slow = both(SGD, toy_pictures(5 * 32 + 1, size=16), epochs=5)
    close("weights, one row left over", state(fast), state(slow), 2e-3)
    assert int(fast.network[1].num_batches_tracked) == 5 * 5


def test_kept_step_serves_other_fits_as_a_fresh_one_would():
    one, other = toy_pictures(ROWS, 1, size=16), toy_pictures(3 * 32 + 20, 2, size=16)
    with exact(), counted() as built:
        first = SGD.fit(one, effort=EPOCHS, rng=rng(1))
        replace(SGD, learning_rate=0.5, schedule="one-cycle").fit(other, effort=8, rng=rng(2))
        again = SGD.fit(one, effort=EPOCHS, rng=rng(1))
        assert len(built) == 1, f"expected one capture for three fits, got {len(built)}"
        replace(SGD, momentum=0.8).fit(one, effort=EPOCHS, rng=rng(1))
        assert len(built) == 2, f"another momentum needs another capture, got {len(built)}"
    close("weights of a fit repeated after another", state(first), state(again), 2e-3)


_FRESH = """
import sys, numpy as np, torch
from learn.test_cuda import SGD, EPOCHS, ROWS, exact, rng, state
from learn.toy_pictures import toy_pictures
with exact():
    np.save(sys.argv[1], state(SGD.fit(toy_pictures(ROWS, 1, size=16), effort=EPOCHS, rng=rng(1))).cpu().numpy())
"""


def test_fit_in_a_fresh_process_is_the_same():
    root = Path(__file__).parents[3]
    with exact():
        SGD.fit(toy_pictures(ROWS, 2, size=16), effort=EPOCHS, rng=rng(2))
        here = SGD.fit(toy_pictures(ROWS, 1, size=16), effort=EPOCHS, rng=rng(1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npy"
        places = [str(root / "src"), str(root / "tests"), *sys.path]
        code = f"import sys; sys.path[:0] = {places!r}\n{_FRESH}"
        run = [sys.executable, "-c", code, str(path)]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        close("weights of a fit in a fresh process", state(here), np.load(path), 2e-3)


def test_nothing_stays_in_a_kept_step():
    captured.drop_captured()
    SGD.fit(toy_pictures(ROWS, size=16), effort=EPOCHS, rng=rng())
    (step,) = captured._kept.values()
    tensors = [*step.network.parameters(), *step.network.buffers(), *step._slopes, step._pixels, step._labels]
    tensors += [v for memory in step.optimiser.state.values() for v in memory.values()]
    assert len(tensors) > 100
    assert not any(t.any() for t in tensors)


def test_two_parts_are_the_whole_and_files_carry_the_optimiser():
    data = toy_pictures(ROWS, size=16)
    for learner in (SGD, replace(ADAM, augment=None)):
        encoder, rule = Encoder.fit(data), learner._rule
        reader = learner.reader(encoder)
        pixels = Pictures.of(reader.upload(data.X, DEVICE), reader, learner.augment)
        y, ends = torch.tensor(data.y, device=DEVICE), []
        with exact():
            for parts in (((0.0, 1.0),), ((0.0, 0.5), (0.5, 1.0))):
                network, moments = learner._network(encoder, 4, 3), None
                generator = torch.Generator().manual_seed(5)
                for part in parts:
                    moments = training.train(
                        network,
                        pixels,
                        y,
                        rule,
                        factory=learner.network,
                        steps=48 // len(parts),
                        generator=generator,
                        part=part,
                        moments=moments,
                        keep=True,
                    )
                ends.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
            limit = 5e-3 if learner.optimiser == "sgd" else 5e-2
            close(f"weights in two parts and in one, {learner.optimiser}", *ends, limit)
            one = learner.fit_part(data, effort=EPOCHS, rng=rng(1), part=(0.0, 0.5))
            with tempfile.TemporaryDirectory() as folder:
                learner.save(one, Path(folder) / "model")
                loaded = learner.load(Path(folder) / "model")
            assert set(loaded.moments) == set(one.moments)
            further = [
                learner.fit_part(data, effort=EPOCHS, rng=rng(2), part=(0.5, 1.0), start=m) for m in (one, loaded)
            ]
        close("weights after a file", *map(state, further), limit)


def test_predictions_are_those_of_a_cpu():
    data = toy_pictures(5000, size=8)
    model = SGD.fit(toy_pictures(ROWS), effort=EPOCHS, rng=rng())
    with tempfile.TemporaryDirectory() as folder:
        SGD.save(model, Path(folder) / "model")
        other = replace(SGD, device="cpu").load(Path(folder) / "model")
    slow = other.predict_proba(data.X)
    close("probabilities on GPU and CPU, as PyTorch convolves by default", model.predict_proba(data.X), slow, 2e-2)
    with exact():
        fast = model.predict_proba(data.X)
    close("probabilities on GPU and CPU, in full single precision", fast, slow, 1e-4)
    assert fast.dtype == np.float64
    assert abs(fast.sum(axis=1) - 1).max() < 1e-9


def test_augmentation_is_that_of_a_cpu_bit_for_bit():
    data = toy_pictures(300, size=16)
    for augment in (Augment(), Augment(3, border="reflect"), Augment(0), None):
        drawn = []
        for device in ("cpu", DEVICE):
            reader = PictureReader.of(Encoder.fit(data), flat=False)
            pictures = Pictures.of(reader.upload(data.X, device), reader, augment)
            generator = torch.Generator().manual_seed(3)
            drawn.append(pictures.drawn(torch.randperm(300, generator=generator), generator).cpu())
        assert torch.equal(*drawn), augment


def test_fit_repeats_and_leaves_global_state_alone():
    data = toy_pictures(ROWS, size=16)
    before = torch.get_rng_state(), torch.cuda.get_rng_state(), torch.backends.cudnn.benchmark
    with exact():
        one, again = (SGD.fit(data, effort=EPOCHS, rng=rng(7)) for _ in range(2))
    close("weights of a repeated fit", state(one), state(again), 2e-3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert torch.equal(before[1], torch.cuda.get_rng_state())
    assert before[2] == torch.backends.cudnn.benchmark


def right(model, data) -> float:
    share = float((model.predict_proba(data.X).argmax(axis=1) == data.y).mean())
    print(f"    right: {share:.3f}")
    return share


FAST = replace(SGD, precision="bfloat16", learning_rate=0.05)


def test_pictures_are_learnt():
    train, test = toy_pictures(600, 1, size=16), toy_pictures(300, 2, size=16)
    for learner in (FAST, replace(FAST, schedule="one-cycle"), replace(FAST, precision="float32", augment=None)):
        assert right(learner.fit(train, effort=6, rng=rng()), test) > 0.9


def test_every_method_forgets_on_a_gpu():
    data, test = toy_pictures(400, 1, size=16), toy_pictures(200, 2, size=16)
    gone = data.ids[:20].tolist()
    noise = GradientClipping(start=1.0, gradient=1.0, decay=0.1, step_size=0.05, steps=10)
    methods = {
        "Retrain": Retrain(FAST, effort=6),
        "SISA": SISA(FAST, effort=8, shards=2, slices=2, jobs=1),
        "CertifiedSP": CertifiedSP(FAST, effort=6, finetune=6, noise=noise, epsilon=100.0),
        "EUPG": EUPG(Unprotected(), FAST, pretrain=4, finetune=3, finetuner=replace(FAST, schedule="one-cycle")),
    }
    for name, method in methods.items():
        print(f"    {name}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Unprotected releases")
            trained = method.train(data, Seeded(1))
            after = method.forget(trained, data.without(gone), Seeded(1))
        assert after.ids.isdisjoint(gone)
        assert right(trained.model, test) > 0.6
        assert right(after.model, test) > 0.6


def test_held_back_networks_are_trained_step_by_step():
    data = toy_pictures(ROWS, size=16)
    base = SGD.fit(data, effort=EPOCHS, rng=rng())
    head = replace(SGD, head_only=True).fit(data, effort=EPOCHS, rng=rng(2), start=base)
    close("weights below the head", base.network[0].weight, head.network[0].weight, 0)
    anchored = replace(SGD, anchor=1e6).fit(data, effort=EPOCHS, rng=rng(2), start=base)
    close("weights that are anchored", base.network[0].weight, anchored.network[0].weight, 1e-4)


class Stubborn(nn.Module):
    """Refuses to be captured."""

    def __init__(self, channels: int, classes: int, how: str) -> None:
        super().__init__()
        self.inside, self.how = ResNet18(4)(channels, classes), how

    def forward(self, inputs):
        if self.how == "raises" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("not while somebody is watching")
        if self.how == "waits":
            float(inputs.sum())
        return self.inside(inputs)


def refused(how: str) -> None:
    learner = replace(SGD, network=lambda channels, classes: Stubborn(channels, classes, how))
    data = toy_pictures(ROWS, size=16)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = learner.fit(data, effort=EPOCHS, rng=rng())
        learner.fit(data, effort=EPOCHS, rng=rng())
    said = [str(w.message) for w in told if "cannot be captured as a CUDA graph" in str(w.message)]
    print(f"    warned: {said}")
    assert len(said) == 1, [str(w.message) for w in told]
    assert np.isfinite(model.predict_proba(data.X)).all()
    # And the next capture works.
    with exact():
        both(SGD, data)


def test_step_that_cannot_be_captured_is_taken_plainly_with_one_warning():
    refused("raises")


def test_z_step_that_waits_for_the_gpu_is_taken_plainly_with_one_warning():
    """Last, as an invalidated capture is the roughest thing a driver is asked to survive."""
    refused("waits")


def main() -> int:
    """Run all checks without pytest and tell what failed."""
    print(
        torch.__version__, torch.version.cuda, torch.cuda.get_device_name(), torch.backends.cudnn.version(), flush=True
    )
    warnings.simplefilter("error", RuntimeWarning)
    failed, begun = [], time.perf_counter()
    for name, check in sorted((n, c) for n, c in globals().items() if n.startswith("test_")):
        started = time.perf_counter()
        print(name, flush=True)
        try:
            check()
        except Exception:
            failed.append(name)
            traceback.print_exc(file=sys.stdout)
        word = "FAILED" if name in failed else "passed"
        print(f"  {word} in {time.perf_counter() - started:.1f} s", flush=True)
    print(f"{len(failed)} failed {failed} in {time.perf_counter() - begun:.0f} s")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
