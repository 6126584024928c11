"""The transformer of BERT, with weights under the names of their publication.

The network is that of Devlin and others, "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding" (2019). Its layers are PyTorch's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

_EPSILON = 1e-12
# PyTorch's names of the parts of a layer, and those of the publication.
_PARTS = {
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}


class Bert(nn.Module):
    """Embeddings of word pieces and positions, then layers of attention.

    Parameters
    ----------
    pieces, positions, width, inner
        How many word pieces and positions there are, and the width of a layer outside and inside.
    depth, heads
        Number of layers, and of attention heads in each.
    """

    def __init__(self, pieces: int, positions: int, width: int, inner: int, *, depth: int, heads: int) -> None:
        super().__init__()
        self.pieces, self.positions = nn.Embedding(pieces, width), nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width, eps=_EPSILON)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, inner, activation="gelu", layer_norm_eps=_EPSILON, batch_first=True
            )
            for _ in range(depth)
        )

    def forward(self, pieces: Tensor) -> Tensor:
        """Return one row of numbers for each word piece of (texts, word pieces)."""
        x: Tensor = self.norm(self.pieces(pieces) + self.positions.weight[: pieces.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x

    def describe(self, pieces: Sequence[int]) -> Tensor:
        """Return the average of the rows of one text, scaled to length 1."""
        device = self.pieces.weight.device
        return nn.functional.normalize(self(torch.tensor([list(pieces)], device=device))[0].mean(dim=0), dim=0)


def load_bert(weights: Mapping[str, Tensor], *, heads: int) -> Bert:
    """Return the network with published weights, ready to compute; it reads one sentence, not a pair of them."""
    words, places = weights["embeddings.word_embeddings.weight"], weights["embeddings.position_embeddings.weight"]
    inner = len(weights["encoder.layer.0.intermediate.dense.bias"])
    depth = 1 + max(int(found[1]) for name in weights if (found := re.match(r"encoder\.layer\.(\d+)\.", name)))
    named = {
        "pieces.weight": words,
        # The vector that tells the first sentence of a pair is the same at all positions.
        "positions.weight": places + weights["embeddings.token_type_embeddings.weight"][0],
        **{f"norm.{kind}": weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")},
    }
    for number in range(depth):
        own, published = f"layers.{number}", f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            parts = [weights[f"{published}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            named[f"{own}.self_attn.in_proj_{kind}"] = torch.cat(parts)
            named |= {
                f"{own}.{mine}.{kind}": weights[f"{published}.{theirs}.{kind}"] for mine, theirs in _PARTS.items()
            }
    # Initial weights are drawn and replaced; PyTorch's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        network = Bert(len(words), len(places), words.shape[1], inner, depth=depth, heads=heads)
    network.load_state_dict({name: tensor.float() for name, tensor in named.items()}, assign=True)
    return network.eval().requires_grad_(False)
