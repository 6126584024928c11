"""A whole training step as one CUDA graph: launching the kernels of a small network takes longer than running them.

The graph works on its own network, optimiser and batch at fixed addresses; a fit copies its weights in and out. A few
captured steps are kept, so that many short fits do not capture again. Between fits, weights, gradients, moments and the
last batch are wiped. Intermediate values of the graph, scaled pixels among them, stay in its GPU memory until its next
step or :func:`drop_captured`. A batch of another size takes the same step without the graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import chain, islice

import torch
from torch import Tensor, nn

from eupg.learn.torch.inputs import Pictures, shuffled, tuned
from eupg.learn.torch.optimiser import Moments, TrainingRule, moments_of

# Capturing takes about as long as this many steps.
WORTH_CAPTURING = 20
_WARM_UPS = 3
_MOST_KEPT = 4
_kept: dict[Hashable, CapturedStep] = {}
_failed: set[Hashable] = set()


class CapturedStep:
    """One step of a rule on batches of one size."""

    def __init__(self, network: nn.Module, X: Pictures, rule: TrainingRule) -> None:
        self.network = X.reader.lay_out(deepcopy(network).train())
        self._rule, self._reader = rule, X.reader
        channels, height, width = X.reader.picture.shape
        self._pixels = torch.zeros((rule.batch_size, height, width, channels), dtype=torch.uint8, device=X.device)
        self._labels = torch.zeros(rule.batch_size, dtype=torch.int64, device=X.device)
        self._rate = torch.zeros((), device=X.device)
        self.optimiser = rule.build(self.network.parameters(), rate=self._rate)
        loss = torch.compile(self._loss, fullgraph=True, dynamic=False) if rule.compile else self._loss
        stream = torch.cuda.Stream(X.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(X.device))
        # Steps at a learning rate of 0 create the moments, choose the kernels and allocate memory.
        with torch.cuda.stream(stream), tuned(X.device, on=True):
            for _ in range(_WARM_UPS):
                self._take(loss, self._pixels, self._labels)
        torch.cuda.current_stream(X.device).wait_stream(stream)
        self.network.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph), tuned(X.device, on=True):
            self._take(loss, self._pixels, self._labels)
        # The graph writes gradients to these addresses for as long as it lives.
        self._slopes = [p.grad for p in self.network.parameters() if p.grad is not None]

    def _loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        return self._rule.loss(self.network, self._reader.read(pixels), labels)

    def _take(self, loss: Callable[[Tensor, Tensor], Tensor], pixels: Tensor, labels: Tensor) -> None:
        self.network.zero_grad(set_to_none=True)
        torch.autograd.backward(loss(pixels, labels))
        self.optimiser.step()

    def take(self, pixels: Tensor, labels: Tensor, rate: float) -> None:
        """Take one step; nothing waits for the GPU."""
        self._rate.fill_(rate)
        if len(labels) == len(self._labels):
            self._pixels.copy_(pixels)
            self._labels.copy_(labels)
            self._graph.replay()
        else:
            # Sizes of last batches differ from fit to fit, so a search for the fastest kernels would not pay.
            with tuned(pixels.device, on=False):
                self._take(self._loss, pixels, labels)

    @torch.no_grad()
    def begin(self, network: nn.Module, moments: Moments | None) -> None:
        """Copy in the weights and buffers of a network, and an optimiser's moments or zeros."""
        for own, other in zip(_tensors(self.network), _tensors(network), strict=True):
            own.copy_(other)
        for name, parameter in self.network.named_parameters():
            for kind, value in self._memory(parameter):
                before = (moments or {}).get(f"{kind}.{name}")
                value.zero_() if before is None else value.copy_(before)

    @torch.no_grad()
    def end(self, network: nn.Module, *, keep: bool) -> Moments | None:
        """Copy weights and buffers out to the network, wipe everything, and return the moments if asked to."""
        for own, other in zip(_tensors(self.network), _tensors(network), strict=True):
            other.copy_(own)
        moments = moments_of(self.optimiser, self.network) if keep else None
        memory = (value for parameter in self.network.parameters() for _, value in self._memory(parameter))
        self.network.zero_grad(set_to_none=True)
        for value in chain(_tensors(self.network), memory, self._slopes, (self._pixels, self._labels)):
            value.zero_()
        return moments

    def _memory(self, parameter: nn.Parameter) -> Iterator[tuple[str, Tensor]]:
        state = self.optimiser.state[parameter]
        return ((kind, value) for kind, value in state.items() if isinstance(value, Tensor))


def train_captured(
    step: CapturedStep,
    network: nn.Module,
    X: Pictures,
    y: Tensor,
    rule: TrainingRule,
    *,
    steps: int,
    generator: torch.Generator,
    part: tuple[float, float],
    moments: Moments | None,
    keep: bool,
) -> Moments | None:
    """Train as :func:`eupg.learn.torch.training.train` does."""
    step.begin(network, moments)
    for number, (pixels, labels) in enumerate(islice(shuffled(X, y, rule.batch_size, generator), steps)):
        step.take(pixels, labels, rule.rate_at(number, steps, part))
    return step.end(network, keep=keep)


@contextmanager
def captured_step(
    network: nn.Module, X: Pictures, rule: TrainingRule, *, factory: object
) -> Iterator[CapturedStep | None]:
    """Lend a kept or a new captured step for this network; None, with a warning, if capturing fails.

    A step is lent to one user at a time. After an error it is not kept.
    """
    key = _key(network, X, rule, factory)
    step = _kept.pop(key, None) if key is not None else None
    with torch.cuda.device(X.device):
        if step is None and (key is None or key not in _failed):
            step = _capture(network, X, rule)
            if step is None and key is not None:
                _failed.add(key)
        yield step
    if step is not None and key is not None:
        _kept[key] = step
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)


def drop_captured() -> None:
    """Free the GPU memory of all kept captured steps."""
    _kept.clear()
    _failed.clear()


def _capture(network: nn.Module, X: Pictures, rule: TrainingRule) -> CapturedStep | None:
    try:
        return CapturedStep(network, X, rule)
    except RuntimeError as error:
        what = "compiled" if rule.compile else "captured as a CUDA graph"
        reason = next(iter(str(error).strip().splitlines()), "no reason given")
        warnings.warn(
            f"the training step cannot be {what} ({type(error).__name__}: {reason}): training continues, slower",
            RuntimeWarning,
            stacklevel=2,
        )
    return _capture(network, X, replace(rule, compile=False)) if rule.compile else None


def _key(network: nn.Module, X: Pictures, rule: TrainingRule, factory: object) -> Hashable | None:
    """Return what two fits must have in common to share a captured step; the rate is set at each step."""
    same = replace(rule, learning_rate=1.0, schedule="cosine", warm_up=0.5)
    named = chain(network.named_parameters(), network.named_buffers())
    shape = tuple((name, tuple(t.shape), t.dtype, t.requires_grad) for name, t in named)
    key = (factory, same, X.reader, X.device, shape)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _tensors(network: nn.Module) -> Iterator[Tensor]:
    return chain(network.parameters(), network.buffers())
