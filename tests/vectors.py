"""Made-up records of public features, and encoders that need no download."""

import numpy as np

from eupg.data.attribute import Attribute, Categorical, Key, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.data.vector import Vector, on_grid
from eupg.protect import GivenEncoder

DIGEST = "ab" * 32
PERSON = Key(name="person", role=Role.SUBJECT)


def vector_schema(dimension: int = 8, classes: int = 2, *, named: bool = True) -> Schema:
    """Describe vectors of a made-up encoder."""
    label = Categorical(name="kind", role=Role.LABEL, categories=tuple(f"c{i}" for i in range(classes)))
    vector = Vector(name="text", dimension=dimension, encoder="toy", digest=DIGEST)
    people: tuple[Attribute, ...] = (PERSON,) if named else ()
    return Schema((vector, *people, label))


def vectors(
    rows: int = 300, dimension: int = 8, classes: int = 2, *, seed: int = 0, named: bool = True, each: int = 3
) -> Dataset:
    """Return records whose class follows from the direction of their vector, ``each`` of them per person."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, dimension)) * 2
    y = rng.integers(0, classes, rows)
    X = on_grid(centres[y] + rng.normal(size=(rows, dimension)) + 1.0)
    ids = np.array([f"r{i}" for i in range(rows)])
    subjects = np.array([f"p{i // each}" for i in range(rows)]) if named else ids
    return Dataset(vector_schema(dimension, classes, named=named), X, y, ids, subjects)


def letters(texts: list[str]) -> list[list[int]]:
    """Count a few letters."""
    return [[1 + text.count(letter) for letter in "aeioustn"] for text in texts]


LETTERS = GivenEncoder(letters, name="letters", digest=DIGEST, encodes="texts")
