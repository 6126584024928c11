"""Networks that learn pictures, on a CPU and small."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from eupg import Schema
from eupg.data.encode import Encoder
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn import MLP, TorchLearner
from eupg.learn.envelope import read_model
from eupg.learn.learner import Staged
from eupg.learn.noisy_finetuning import GradientClipping
from eupg.learn.torch import learner as torch_learner
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.inputs import Pictures
from eupg.learn.torch.networks import ResNet18
from eupg.learn.torch.training import head, train
from learn.toy_pictures import toy_pictures
from people import people

SGD = TorchLearner(ResNet18(4), learning_rate=0.1, batch_size=16, optimiser="sgd", augment=Augment(1))


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def right(model, data) -> float:
    return float((model.predict_proba(data.X).argmax(axis=1) == data.y).mean())


@pytest.mark.parametrize(
    "learner",
    [
        SGD,
        replace(SGD, schedule="one-cycle", nesterov=True, label_smoothing=0.1),
        replace(SGD, precision="bfloat16"),
        replace(SGD, optimiser="adam", learning_rate=0.01, augment=None),
        TorchLearner(MLP((32,)), batch_size=16, augment=Augment(1, border="reflect")),
        TorchLearner(MLP((32,)), batch_size=16, precision="bfloat16"),
    ],
    ids=["sgd", "one cycle", "bfloat16", "adam", "perceptron", "perceptron in bfloat16"],
)
def test_pictures_are_learnt(learner):
    model = learner.fit(toy_pictures(200, 1), effort=5, rng=rng())
    assert right(model, toy_pictures(200, 2)) > 0.9
    assert all(p.dtype is torch.float32 for p in model.network.parameters())


def test_grey_pictures_of_any_shape_are_learnt():
    """In one channel two of the four classes look the same: told apart is which half is bright."""
    data = toy_pictures(150, size=6, channels=1)
    model = SGD.fit(data, effort=5, rng=rng())
    assert (model.predict_proba(data.X).argmax(axis=1) % 2 == data.y % 2).mean() > 0.9


def test_any_factory_is_told_the_channels_and_takes_pictures():
    def factory(channels: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, classes))

    data = toy_pictures(150)
    model = TorchLearner(factory, batch_size=16).fit(data, effort=5, rng=rng())
    assert model.network[0].in_channels == 3
    assert right(model, data) > 0.9


@pytest.mark.parametrize("learner", [SGD, replace(SGD, network=MLP((8,)))], ids=["resnet", "perceptron"])
def test_predictions_are_those_of_the_network_on_encoded_pictures(learner, monkeypatch):
    data = toy_pictures(50)
    model = learner.fit(data, effort=1, rng=rng())
    encoded = torch.from_numpy(model.encoder(data.X))
    shape = (50, -1) if isinstance(learner.network, MLP) else (50, 3, 8, 8)
    with torch.inference_mode():
        expected = torch.softmax(model.network.eval()(encoded.view(shape)).double(), dim=1).numpy()
    found = model.predict_proba(data.X)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == np.float64
    monkeypatch.setattr(torch_learner, "_PICTURES_AT_ONCE", 7)
    # Another part of the batch may be summed in another order.
    np.testing.assert_allclose(model.predict_proba(data.X), found, atol=1e-5)
    assert model.predict_proba(data.X[:0]).shape == (0, 4)


def test_prediction_of_scaled_numbers_is_refused():
    model = SGD.fit(toy_pictures(50), effort=1, rng=rng())
    with pytest.raises(DataError, match="whole numbers from 0 to 255"):
        model.predict_proba(toy_pictures(5).X / 255)


def test_fit_follows_from_its_generator_and_leaves_pytorch_as_it_was():
    data, before = toy_pictures(60), torch.get_rng_state()
    one, again, other = (SGD.fit(data, effort=2, rng=rng(seed)).predict_proba(data.X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert torch.equal(before, torch.get_rng_state())


def state(network: nn.Module) -> torch.Tensor:
    return torch.cat([t.detach().double().flatten() for t in network.state_dict().values()])


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
def test_two_parts_are_the_whole(optimiser, schedule):
    """Weights, moments, rate, shuffles and crops go on, bit for bit: 54 rows are 4 steps a pass, with one of 6 rows."""
    learner, data = replace(SGD, optimiser=optimiser, schedule=schedule, learning_rate=0.02), toy_pictures(54)
    encoder, ends = Encoder.fit(data), []
    X, y = learner._tensors(encoder, data)
    for parts in (((0.0, 1.0),), ((0.0, 0.5), (0.5, 1.0))):
        network, moments = learner._network(encoder, 4, 3), None
        generator = torch.Generator().manual_seed(5)
        for part in parts:
            moments = train(
                network,
                X,
                y,
                learner._rule,
                factory=learner.network,
                steps=16 // len(parts),
                generator=generator,
                part=part,
                moments=moments,
                keep=True,
            )
        ends.append(state(network))
    torch.testing.assert_close(*ends, rtol=0, atol=0)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_file_carries_on_where_training_stopped(optimiser, tmp_path):
    learner, data = replace(SGD, optimiser=optimiser, learning_rate=0.02), toy_pictures(60)
    assert isinstance(learner, Staged)
    one = learner.fit_part(data, effort=2, rng=rng(1), part=(0.0, 0.5))
    learner.save(one, tmp_path / "model")
    loaded = learner.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.X), one.predict_proba(data.X))
    bare = dataclasses.replace(one, moments=None)
    ends = [
        state(learner.fit_part(data, effort=2, rng=rng(2), part=(0.5, 1.0), start=m).network)
        for m in (one, loaded, bare)
    ]
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_file_of_another_width_is_refused(tmp_path):
    SGD.save(SGD.fit(toy_pictures(40), effort=1, rng=rng()), tmp_path / "model")
    with pytest.raises(ModelFileError, match="another network"):
        replace(SGD, network=ResNet18(5)).load(tmp_path / "model")


def test_model_files_describe_pictures_in_json_and_those_in_toml_are_still_read(tmp_path):
    path, data = tmp_path / "model", toy_pictures(40)
    model = SGD.fit(data, effort=1, rng=rng())
    SGD.save(model, path)
    line, _, payload = path.read_bytes().partition(b"\n")
    about = json.loads(line)
    assert Schema.from_json(about["schema"]) == data.schema
    about["schema"] = data.schema.to_toml()
    del about["sha256"]
    spelled = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
    about["sha256"] = hashlib.sha256(spelled + b"\n" + payload).hexdigest()
    path.write_bytes(json.dumps(about).encode() + b"\n" + payload)
    assert read_model(path, "eupg-torch-1").schema == data.schema
    np.testing.assert_array_equal(SGD.load(path).predict_proba(data.X), model.predict_proba(data.X))


NOISE = GradientClipping(start=5.0, gradient=1.0, decay=0.1, step_size=0.1, steps=5)


def noisy(learner, data, start, *, effort=2, sigma=1e-3):
    return learner.fit_noisy(data, effort=effort, noise=NOISE, sigma=sigma, rng=rng(2), start=start)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_noisy_steps_are_taken_on_pictures(precision):
    data = toy_pictures(100, 1)
    learner = replace(SGD, precision=precision)
    base = learner.fit(data, effort=3, rng=rng())
    before = state(base.network)
    after = noisy(learner, data, base, effort=8)
    assert torch.equal(before, state(base.network))
    assert right(after, toy_pictures(100, 2)) > 0.6
    assert after.moments is None


def test_statistics_after_noisy_steps_are_those_of_the_retained_pictures_as_they_are():
    """Five steps are all of one pass: no training follows that would move the statistics on."""
    data, learner = toy_pictures(80, 1), replace(SGD, augment=Augment(3))
    after = noisy(learner, data, learner.fit(data, effort=1, rng=rng()), effort=1)
    seen = []
    first = after.network[0].eval()
    with torch.no_grad():
        for rows in range(0, 80, 16):
            inputs = torch.from_numpy(after.encoder(data.X[rows : rows + 16])).view(-1, 3, 8, 8)
            seen.append(first(inputs).mean(dim=(0, 2, 3)))
    torch.testing.assert_close(after.network[1].running_mean, torch.stack(seen).mean(dim=0), rtol=1e-4, atol=1e-5)


def test_buffers_of_the_start_make_no_difference_to_noisy_steps():
    data = toy_pictures(80, 1)
    base = SGD.fit(data, effort=1, rng=rng())
    other = SGD.fit(data, effort=1, rng=rng())
    for name, buffer in other.network.named_buffers():
        if name.endswith("running_mean"):
            buffer.add_(3.0)
    ends = [state(noisy(SGD, data, start).network) for start in (base, other)]
    assert torch.equal(*ends)


def test_only_the_head_moves_where_that_is_asked_for():
    data = toy_pictures(60)
    base = SGD.fit(data, effort=1, rng=rng())
    further = replace(SGD, head_only=True).fit(data, effort=2, rng=rng(), start=base)
    moved = [
        name
        for (name, one), other in zip(base.network.named_parameters(), further.network.parameters(), strict=True)
        if not torch.equal(one, other)
    ]
    assert moved == ["13.weight", "13.bias"]


def test_several_tables_of_pictures_are_fitted_one_by_one():
    tables = [toy_pictures(40, seed) for seed in range(2)]
    models = SGD.fit_many(tables, effort=1, rngs=[rng(1), rng(2)])
    alone = SGD.fit(tables[1], effort=1, rng=rng(2))
    np.testing.assert_array_equal(models[1].predict_proba(tables[0].X), alone.predict_proba(tables[0].X))


@pytest.mark.parametrize(
    ("network", "device", "batches"), [(MLP(), "cuda", True), (MLP(), "cpu", False), (ResNet18(), "cuda", False)]
)
def test_only_perceptrons_on_a_gpu_are_trained_together(network, device, batches):
    learner = TorchLearner(network, device=device)
    assert (learner.batches, learner.in_process) == (batches, device == "cuda")


def test_pictures_of_another_size_are_refused_as_a_start():
    base = SGD.fit(toy_pictures(40), effort=1, rng=rng())
    with pytest.raises(ParameterError, match=r"size of 'picture': \(3, 8, 8\) in the model and \(3, 6, 6\)"):
        SGD.fit(toy_pictures(40, size=6), effort=1, rng=rng(), start=base)


def test_augmenting_a_table_is_refused():
    with pytest.raises(ParameterError, match="these records are a table: leave it out"):
        TorchLearner(augment=Augment()).fit(people(60), effort=1, rng=rng())


@pytest.mark.parametrize(("channels", "size"), [(1, 8), (3, 32), (4, 9)])
def test_resnet_gives_one_logit_a_class_for_pictures_of_any_size(channels, size):
    network = ResNet18(2)(channels, 7).eval()
    assert network(torch.zeros(2, channels, size, size)).shape == (2, 7)
    assert [tuple(p.shape) for p in head(network)] == [(7, 16), (7,)]


def test_resnet_without_channels_is_refused():
    with pytest.raises(ParameterError, match="width must be a whole number of at least 1, got 0"):
        ResNet18(0)
    with pytest.raises(ParameterError, match="scale"):
        ResNet18(scale=0)


def test_smaller_first_weights_compute_the_same_at_first():
    small, plain = (replace(SGD, network=ResNet18(4, scale=s)) for s in (0.5, 1.0))
    made = [learner._network(Encoder.fit(toy_pictures(20)), 2, seed=1).train() for learner in (small, plain)]
    weights = [next(network.parameters()) for network in made]
    torch.testing.assert_close(weights[0], weights[1] / 2)
    inputs = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(made[0](inputs), made[1](inputs), rtol=1e-3, atol=1e-3)
    assert (repr(ResNet18(4)), repr(ResNet18(4, 0.5))) == ("ResNet18(width=4)", "ResNet18(width=4, scale=0.5)")


def test_a_mirrored_prediction_is_the_same_for_a_picture_and_its_mirror_image():
    data = toy_pictures(60)
    model = replace(SGD, mirror=True).fit(data, effort=2, rng=np.random.default_rng(0))
    plain = replace(model, learner=SGD)
    turned = data.schema.picture.images(data.X)[..., ::-1].reshape(len(data), -1)
    np.testing.assert_allclose(model.predict_proba(data.X), model.predict_proba(turned), atol=1e-12)
    mean = (plain.predict_proba(data.X) + plain.predict_proba(turned)) / 2
    np.testing.assert_allclose(model.predict_proba(data.X), mean, atol=1e-12)
    assert not np.allclose(plain.predict_proba(data.X), plain.predict_proba(turned), atol=1e-4)


def test_pixels_stay_bytes_on_the_device():
    X, _ = SGD._tensors(Encoder.fit(toy_pictures(10)), toy_pictures(10))
    assert isinstance(X, Pictures)
    assert (X.pixels.dtype, tuple(X.pixels.shape)) == (torch.uint8, (10, 10, 10, 3))


_WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
sys.path[:0] = {places!r}
from eupg import Retrain, Seeded, SISA
from eupg.learn import TorchLearner
from eupg.learn.torch.networks import ResNet18
from learn.toy_pictures import toy_pictures
small, data = TorchLearner(ResNet18(4), batch_size=16, optimiser="sgd"), toy_pictures(60)
for method in (Retrain(small, effort=1), SISA(small, effort=2, shards=2, slices=2)):
    trained = method.train(data, Seeded(1))
    after = method.forget(trained, data.without(data.ids[:3].tolist()), Seeded(1))
    assert after.model.predict_proba(data.X).shape == (60, 4)
"""


def test_pictures_are_learnt_and_forgotten_with_pytorch_and_little_else():
    tests = Path(__file__).parents[2]
    absent = [
        "numba",
        "xgboost",
        "lightgbm",
        "rich",
        "tomli_w",
        "skops",
        "opacus",
        "dp_accounting",
        "narwhals",
        "typer",
    ]
    code = _WITHOUT.format(absent=absent, places=[str(tests), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
