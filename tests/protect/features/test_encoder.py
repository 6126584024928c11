"""Public encoders: pinned by a digest, named in claims, and one record at a time."""

import importlib.util

import numpy as np
import pytest

from eupg.data import Categorical, Role, Texts
from eupg.data.vector import GRID
from eupg.errors import DataError, ParameterError, SourceUnavailable
from eupg.protect import GivenEncoder, PixelFeatures, WordLlama, encode_items, encode_records, file_digest
from eupg.protect.features import word_llama
from people import people
from pictures import pictures
from vectors import DIGEST, LETTERS

LABEL = Categorical(name="kind", role=Role.LABEL, categories=("ham", "spam"))
TEXTS = Texts.of(["hello there", "buy it now", ""], [0, 1, 0], label=LABEL, ids="abc", subjects=["ada", "bob", "ada"])


def test_texts_become_records_with_the_same_names():
    data = encode_records(TEXTS, LETTERS)
    assert (data.ids.tolist(), data.subjects.tolist(), data.y.tolist()) == (
        ["a", "b", "c"],
        ["ada", "bob", "ada"],
        [0, 1, 0],
    )
    assert data.schema.vector is not None
    assert (data.schema.vector.encoder, data.schema.vector.digest) == ("letters", DIGEST)
    assert data.schema.subject is not None
    assert (np.linalg.norm(data.X, axis=1) > 0.99 * GRID).all()


def test_pictures_become_records_and_the_picture_is_gone():
    data = pictures(20)
    encoded = encode_records(data, PixelFeatures(size=4))
    assert encoded.schema.picture is None
    assert encoded.X.shape == (20, 3 * 16)
    assert encoded.ids.tolist() == data.ids.tolist()
    assert encoded.schema.label == data.schema.label


def test_encoder_and_records_must_fit():
    with pytest.raises(ParameterError, match="describes pictures, and these records are texts"):
        encode_records(TEXTS, PixelFeatures())
    with pytest.raises(ParameterError, match="describes texts, and these records are pictures"):
        encode_records(people(20), LETTERS)
    with pytest.raises(DataError, match="expected pictures or texts, got tables"):
        encode_records(people(20), PixelFeatures())
    with pytest.raises(ParameterError, match="wrap a function of your own in GivenEncoder"):
        encode_records(TEXTS, len)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda texts: [[1.0]] * (len(texts) + 1),
            r"one row of finite numbers for each of 3 items, got an array of \(4, 1\)",
        ),
        (lambda texts: [[np.nan]] * len(texts), "finite"),
        (lambda texts: [1.0] * len(texts), "check the function"),
    ],
)
def test_functions_that_give_something_else_are_refused(function, said):
    with pytest.raises(DataError, match=said):
        encode_records(TEXTS, GivenEncoder(function, name="mine", digest=DIGEST, encodes="texts"))


def test_a_digest_is_needed(tmp_path):
    with pytest.raises(ParameterError, match="must be 64 hexadecimal digits, got 'latest'"):
        encode_items(GivenEncoder(len, name="mine", digest="latest", encodes="texts"), ["a"])
    (tmp_path / "weights").write_bytes(b"abc")
    assert file_digest(tmp_path / "weights").startswith("ba7816bf8f01cfea")
    with pytest.raises(DataError, match="cannot be read"):
        file_digest(tmp_path / "none")


class TestWordLlama:
    pytestmark = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="needs the extra text")

    def test_similar_texts_are_near_and_others_are_not(self):
        X = encode_items(WordLlama(), ["the dog chased a cat", "a puppy ran after the kitten", "quarterly tax report"])
        near, far = (X.astype(int) @ X.astype(int).T / GRID**2)[0, 1:]
        assert near > far + 0.2

    def test_features_do_not_depend_on_other_texts_and_empty_ones_are_zero(self):
        texts = ["one", "a much longer text " * 50, "", "two words"]
        together = WordLlama()(texts, "cpu")
        assert all((WordLlama()([text], "cpu")[0] == row).all() for text, row in zip(texts, together, strict=True))
        assert not together[2].any()

    def test_only_the_first_pieces_are_read(self):
        short, long = (encode_items(WordLlama(longest=5), [text]) for text in ("a b c d e", "a b c d e f g h"))
        assert (short == long).all()

    def test_the_package_is_not_imported(self):
        import subprocess
        import sys

        code = "from eupg.protect import WordLlama; WordLlama()(['a'], 'cpu')"
        check = "import sys; assert 'tokenizers' in sys.modules and 'wordllama' not in sys.modules"
        subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=True)

    def test_other_weights_are_refused(self, monkeypatch):
        monkeypatch.setattr(word_llama, "_DIGEST", "0" * 64)
        word_llama._loaded.cache_clear()
        with pytest.raises(DataError, match="holds other weights than expected"):
            WordLlama()(["a"], "cpu")
        word_llama._loaded.cache_clear()

    def test_a_machine_without_the_package_is_told_what_to_install(self, monkeypatch):
        monkeypatch.setattr(word_llama, "_PACKAGE", "no_such_package")
        word_llama._loaded.cache_clear()
        with pytest.raises(SourceUnavailable, match=r"pip install 'eupg\[text\]'"):
            WordLlama()(["a"], "cpu")
        word_llama._loaded.cache_clear()
