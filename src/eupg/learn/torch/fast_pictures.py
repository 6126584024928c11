"""Settings under which a small network learns small pictures in seconds on a GPU: the fast exact retrain.

Where every picture may be seen raw, training again without those who left is exact. It is the control for every method
that forgets pictures faster than a plain training would.
"""

from __future__ import annotations

from eupg.learn.torch.augment import Augment
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import FastResNet


def fast_picture_learner(*, device: str = "cpu", width: int = 64) -> TorchLearner:
    """Return a learner for small pictures that needs 10 to 24 epochs: a small network and a steep learning rate.

    Nesterov's momentum, one cycle of the learning rate, softened labels, shifts by up to two pixels, mirror images in
    training and prediction. On a GPU layers are computed in bfloat16 and fused.

    Parameters
    ----------
    device
        Where tensors live: "cpu", "cuda", "cuda:1"…
    width
        Channels of the first layer of :class:`~eupg.learn.FastResNet`.

    Examples
    --------
    >>> from eupg import Retrain
    >>> Retrain(fast_picture_learner(), effort=16).effort
    16
    """
    on_gpu = not device.startswith("cpu")
    return TorchLearner(
        FastResNet(width),
        learning_rate=0.4,
        batch_size=512,
        weight_decay=5e-4,
        device=device,
        optimiser="sgd",
        nesterov=True,
        schedule="one-cycle",
        warm_up=0.2,
        augment=Augment(padding=2, border="reflect"),
        precision="bfloat16" if on_gpu else "float32",
        label_smoothing=0.1,
        mirror=True,
        compile=on_gpu,
    )
