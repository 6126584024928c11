"""A trained network, and the file it is kept in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from eupg.data.dataset import Matrix
from eupg.data.encode import Encoder
from eupg.data.rows import as_matrix
from eupg.data.schema import Schema
from eupg.data.score import Probabilities
from eupg.errors import ModelFileError, ParameterError
from eupg.learn.envelope import read_model, write_model
from eupg.learn.pictures import Lens
from eupg.learn.torch_steps import Moments, threads_for

if TYPE_CHECKING:
    from eupg.learn.torch_learner import TorchLearner

_FORMAT = "eupg-torch-1"
_ROWS_AT_ONCE = 65_536
_PICTURES_AT_ONCE = 4_096
_MOMENT = "optimiser."
_BATCHES = "num_batches_tracked"


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A network, the encoder it was trained with, and how: by which learner, for how many epochs in all.

    ``moments`` is what the optimiser remembers, where training is to go on as if it had not stopped.
    """

    network: nn.Module
    encoder: Encoder
    schema: Schema
    learner: TorchLearner
    effort: int
    moments: Moments | None = None

    def predict_proba(self, X: Matrix) -> Probabilities:
        """Return the softmax of the network's logits; the mean of two where mirror images are asked too."""
        X = as_matrix(self.schema, X)
        self.network.eval()
        parts = []
        lens = self.learner.lens(self.encoder)
        size = _ROWS_AT_ONCE if lens is None else _PICTURES_AT_ONCE
        with torch.inference_mode(), threads_for(self.network):
            for at in range(0, len(X), size):
                views = self._views(lens, X[at : at + size])
                found = torch.stack([torch.softmax(self.network(view).double(), dim=1) for view in views])
                parts.append(found.mean(dim=0).cpu().numpy())
        return np.concatenate(parts) if parts else np.empty((0, self.schema.classes))

    def _views(self, lens: Lens | None, X: Matrix) -> list[Tensor]:
        """Return what the network is asked: the records, and their mirror images where the learner says so."""
        if lens is None:
            return [torch.from_numpy(self.encoder(X)).to(self.learner.device)]
        pixels = lens.upload(X, self.learner.device)
        return [lens.read(pixels), *([lens.read(pixels.flip(2))] if self.learner.mirror else [])]


def write_network(model: TorchModel, path: str | Path) -> None:
    """Write the weights as safetensors, and the optimiser's moments where the model carries them."""
    tensors = dict(model.network.state_dict())
    if model.moments is None:
        tensors |= _uncounted(model.network)
    tensors |= {_MOMENT + name: value for name, value in (model.moments or {}).items()}
    about = {"encoder": model.encoder.to_json(), "effort": model.effort}
    payload = safetensors.torch.save({name: value.contiguous().cpu() for name, value in tensors.items()})
    write_model(path, _FORMAT, model.schema, payload, **about)


def _uncounted(network: nn.Module) -> dict[str, Tensor]:
    """Return zeros for the numbers of batches that normalisation counts and does not predict with."""
    counts = {}
    for name, layer in network.named_modules():
        count = getattr(layer, _BATCHES, None)
        # Without a momentum the running statistics are plain means, and the count is their weight.
        if isinstance(count, Tensor) and getattr(layer, "momentum", None) is not None:
            counts[f"{name}.{_BATCHES}".removeprefix(".")] = torch.zeros_like(count)
    return counts


def read_network(path: str | Path, learner: TorchLearner, build: Callable[[Encoder, int], nn.Module]) -> TorchModel:
    """Read weights into a network that is built for the encoder and the number of classes in the file."""
    file = read_model(path, _FORMAT)
    encoder = file.encoder()
    network = build(encoder, file.schema.classes)
    try:
        tensors = safetensors.torch.load(file.payload)
        moments = {n.removeprefix(_MOMENT): v for n, v in tensors.items() if n.startswith(_MOMENT)}
        network.load_state_dict({n: v for n, v in tensors.items() if not n.startswith(_MOMENT)})
    except (RuntimeError, SafetensorError) as error:
        raise ModelFileError(f"{path} holds another network: load it with the factory it was made by") from error
    return TorchModel(network.eval(), encoder, file.schema, learner, file.effort, moments or None)


def copy_weights(state: Mapping[str, Tensor], network: nn.Module) -> None:
    """Give a network the weights and buffers of another; one of another shape is an error."""
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise ParameterError(
            "the model to go on from is another network: use the learner with the factory it was made by"
        ) from error
