"""The figures of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from eupg.audit.membership.plot import save_figure
from eupg_reproduction.published import published
from eupg_reproduction.report.drawing import HATCHES, LOOKS, below, legend, level, line, panels, ticks, tidied, title
from eupg_reproduction.report.tables import curve
from eupg_reproduction.report.tidy import FORGET, RMIA, UTILITY, Measurements, asked, by_name, place, places
from eupg_reproduction.report.words import EUPG, MODELS, SETS, SHORT
from eupg_reproduction.spread import Spread

_LEARNERS, _OTHERS, SHARES = ("xgboost", "mlp"), ("lightgbm", "logistic"), (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
_QUALITY = {"mlp": "quality_mlp", "xgboost": "quality_xgboost", **dict.fromkeys(_OTHERS, "quality_others")}
_EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4", "10")
_EPOCHS, _CERTIFIED = (0, 3, 5, 10, 20, 30, 50), "Certified-SP"
# A logarithmic axis has no zero: the base alone stands left of it.
_NOBODY = 0.0022
_STARS = {
    f"base alone, {method}: no training": LOOKS[method].marks | {"markersize": 11, "marker": marker}
    for method, marker in (("k=30", "*"), ("synthesis ε=1", "p"))
}
# Points further below the best are named instead of drawn: they would compress all others into one line.
_REACH = 6.0
_WORDS = ("protect", "pretrain", "fine-tune on all", "a forget: fine-tune on the retained")


def served(measurements: Measurements, t: str, model: str, method: str, share: float = 0.0) -> Spread | None:
    """Return the utility of a protection at an exposure; 0 is the base alone."""
    return measurements.spread(_exposed(t, model, method, share), "utility")


def _exposed(t: str, model: str, method: str, share: float) -> dict[str, Any]:
    return {"kind": "exposure", "set": t, "model": model, "method": method, "exposure": share}


def _grid(axes: Any, models: Sequence[str]) -> Iterator[tuple[Any, str, str]]:
    """Yield a panel for each model and set, then finish it."""
    grid = panels(axes, len(models), 3)
    for row, model in zip(grid, models, strict=True):
        for one, t in zip(row, SETS, strict=True):
            yield one, t, model
            one.set_title(title(t, f", {MODELS[model]}"), fontsize=10)
            tidied(one)


def _everyone(axes: Any, measurements: Measurements, t: str, model: str) -> None:
    level(axes, served(measurements, t, model, "From scratch", 1.0), LOOKS["Retrain"], "Retrain on everyone")
    level(axes, served(measurements, t, model, SHORT, 1.0), LOOKS[SHORT], "short retrain on everyone")


def exposure(axes: Any, measurements: Measurements) -> None:
    """Draw utility against the share of people ever seen raw."""
    figure = axes.figure
    for one, t, model in _grid(axes, _LEARNERS):
        for method, label in (("k=30", "EUPG, k=30"), ("synthesis ε=1", "EUPG, synthesis ε=1")):
            points = {share or _NOBODY: served(measurements, t, model, method, share) for share in (0.0, *SHARES)}
            line(one, points, LOOKS[method], label)
        points = {share: served(measurements, t, model, "From scratch", share) for share in SHARES}
        line(one, points, LOOKS["From scratch"], "from scratch on the same people")
        _everyone(one, measurements, t, model)
        one.set_xscale("log")
        ticks(one, (_NOBODY, *SHARES), ("0", *(f"{100 * share:g}" for share in SHARES)))
    _below(figure, 3, "people ever seen raw, %", columns=3)


def _below(figure: Any, wide: int, label: str, *, columns: int) -> None:
    for one in figure.axes[-wide:]:
        one.set_xlabel(label)
    legend(figure, columns=columns)


def synthesis(axes: Any, measurements: Measurements) -> None:
    """Draw the utility of bases that never saw a raw record against ε."""
    figure = axes.figure
    for one, t, model in _grid(axes, _LEARNERS):
        points = {float(e): served(measurements, t, model, f"synthesis ε={e}") for e in _EPSILONS}
        line(one, points, LOOKS["synthesis ε=1"], "synthesis, whole records (label too)")
        level(one, served(measurements, t, model, "k=30"), LOOKS["k=30"], "k=30")
        _everyone(one, measurements, t, model)
        one.set_xscale("log")
        ticks(one, map(float, _EPSILONS), _EPSILONS)
    for one, (t, model) in zip(figure.axes, ((t, model) for model in _LEARNERS for t in SETS), strict=True):
        # Bases under local DP that lie below the panel are named instead of drawn.
        low, high = one.get_ylim()
        local = {name: spread for name in ("ε=1", "ε=4") if (spread := served(measurements, t, model, name))}
        inside = {float(name[2:]): spread for name, spread in local.items() if spread.mean > low}
        line(one, inside, LOOKS["ε=1"], "local DP, attributes only")
        one.set_ylim(low, high)
        below(one, [f"local DP {name}, {spread.mean:.1f}" for name, spread in local.items() if spread.mean <= low])
    _below(figure, 3, "ε of the base", columns=2)


def time(axes: Any, measurements: Measurements, models: tuple[str, ...] = _LEARNERS) -> None:
    """Draw utility after forgetting against the time of a forget, for all methods; by default the paper's models."""
    # Forgets that were not timed alone yet are taken from the experiments on quality.
    runs = (where for where in places("runtime") if where["finetune"] in (5, 10))
    figure, alone = axes.figure, all(measurements.values(where, FORGET) for where in runs)
    for one, t, model in _grid(axes, models):
        points = []
        usual = place("runtime", t, model, "Retrain")["finetune"]
        for method in dict.fromkeys(str(where["method"]) for where in places("runtime") if where["model"] == model):
            name = "runtime" if alone else _QUALITY[model]
            times = measurements.values(place(name, t, model, method, finetune=usual), FORGET)
            points.append((method, times, measurements.at(_QUALITY[model], t, model, method)))
        for method in ("k=30", "synthesis ε=1"):
            times = measurements.values(_exposed(t, model, method, 0.0), "seconds.erase outside")
            points.append((f"base alone, {method}: no training", times, served(measurements, t, model, method)))
        known = [(name, median(times), utility) for name, times, utility in points if times and utility]
        best = max((utility.mean for _, _, utility in known), default=0.0)
        for name, x, y in known:
            if y.mean > best - _REACH:
                marks = _STARS[name] if name in _STARS else LOOKS[name].marks | {"markersize": 7}
                one.errorbar(x, y.mean, y.std, linestyle="none", label=name, capsize=2, elinewidth=0.8, **marks)
        below(one, [f"{name}, {y.mean:.1f}" for name, _, y in known if y.mean <= best - _REACH])
        one.set_xscale("log")
        one.margins(0.12)
    for one in figure.axes[-3:]:
        one.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    _below(figure, 3, "seconds of a forget", columns=3)


def protection(axes: Any, measurements: Measurements) -> None:
    """Draw the base model's utility and audit against k and against ε."""
    grid = panels(axes, 2, 2, sharex="col", sharey="row")
    sides = (("k_sweep", "k", LOOKS["k=30"]), ("epsilon_sweep", "ε of local DP", LOOKS["ε=1"]))
    for column, (name, word, look) in enumerate(sides):
        for row, (figure, label) in enumerate((("utility", "accuracy, %"), ("audit.auc", "RMIA AUC, %"))):
            one, by_method = grid[row, column], {str(w["method"]): measurements.spread(w, figure) for w in places(name)}
            original = by_method.pop("Unprotected")
            points = {float(method.split("=")[1]): spread for method, spread in by_method.items()}
            line(one, points, look, "k-anonymous base" if word == "k" else "base under local DP")
            level(one, original, LOOKS["Retrain"], "original data")
            one.set_xscale("log")
            ticks(one, points, [f"{x:g}" for x in points])
            if not column:
                one.set_ylabel(label)
            tidied(one)
        grid[1, column].set_xlabel(word)
    legend(grid[0, 0].figure, columns=3)


def forget_ratio(axes: Any, measurements: Measurements) -> None:
    """Draw utility and audit against the share of people forgotten."""
    figure, grid = axes.figure, panels(axes, 1, 2)
    methods = tuple(dict.fromkeys(str(where["method"]) for where in places("forget_ratio")))
    shares = [float(where["forget"]) for where in by_name("forget_ratio", "Retrain")]
    for one, (name, label) in zip(grid[0], ((UTILITY, "accuracy, %"), (RMIA, "RMIA AUC, %")), strict=True):
        for i, method in enumerate(methods):
            spreads = [measurements.at("forget_ratio", "adult", "mlp", method, name, forget=share) for share in shares]
            # Slightly offset, so that error bars do not overlap.
            xs = [100 * share + 0.7 * (i - 2.5) for share in shares]
            line(one, dict(zip(xs, spreads, strict=True)), LOOKS[method], method)
        one.set_ylabel(label)
        ticks(one, [100 * s for s in shares if s != 0.05], [f"{100 * s:g}" for s in shares if s != 0.05])
        tidied(one)
    _below(figure, 2, "people forgotten, %", columns=3)


def epochs(axes: Any, measurements: Measurements) -> None:
    """Draw utility after forgetting against epochs of fine-tuning."""
    figure, grid = axes.figure, panels(axes, 1, 3)
    for one, t in zip(grid[0], SETS, strict=True):
        curves = {method: curve(measurements, t, method) for method in (*EUPG, SHORT, _CERTIFIED)}
        for method, by_epochs in curves.items():
            line(one, {float(n): spread for n, spread in by_epochs.items()}, LOOKS[method], method)
        level(one, measurements.at("quality_mlp", t, "mlp", "Retrain"), LOOKS["Retrain"], "Retrain, 50 epochs")
        one.set_title(title(t), fontsize=10)
        tidied(one)
        # A base that only guesses is left out, so that the rest can be distinguished.
        shown = {m: some for m, some in curves.items() if m != _CERTIFIED}
        known = [s.mean for m, some in shown.items() for n, s in some.items() if s and (n != 0 or m == EUPG[0])]
        base = curves[EUPG[1]].get(0)
        if known:
            one.set_ylim(min(known) - 0.3, max(known) + 0.3)
            below(one, [f"{EUPG[1]} at 0, {base.mean:.1f}"] if base and base.mean < min(known) - 0.3 else [])
    _below(figure, 3, "epochs on the retained records", columns=3)


def phases(axes: Any, measurements: Measurements) -> None:
    """Draw seconds of each phase as bars, beside a full and a short retraining."""
    figure, grid = axes.figure, panels(axes, 1, 3, sharex=False)
    for one, t in zip(grid[0], SETS, strict=True):
        times = {m: place("runtime", t, "mlp", m, finetune=5) for m in (*EUPG, "Retrain", SHORT)}
        for row, method in enumerate(reversed(EUPG)):
            left = 0.0
            for (phase, (color, hatch)), words in zip(HATCHES.items(), _WORDS, strict=True):
                spread = measurements.spread(times[method], f"seconds.{phase}")
                if spread is None:
                    continue
                # A forget comes later: it is not added to training.
                start, height = (0.0, row - 0.35) if phase == "forget" else (left, row)
                look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
                one.barh(height, spread.mean, 0.3, start, label=words, **look)
                left += 0 if phase == "forget" else spread.mean
        for method in ("Retrain", SHORT):
            if spread := measurements.spread(times[method], FORGET):
                look = {"color": LOOKS[method].color, "linestyle": LOOKS[method].line, "linewidth": 1.3}
                one.axvline(spread.mean, label=f"{method}: a forget", **look)
        one.set_yticks([0 - 0.17, 1 - 0.17], [m.replace("EUPG ", "") for m in reversed(EUPG)])
        one.set_title(SETS[t], fontsize=10)
        tidied(one)
    _below(figure, 3, "seconds", columns=3)


def _pictured(measurements: Measurements, method: str, figure: str = UTILITY, **settings: Any) -> Spread | None:
    """Return a figure of pictures by the paper's recipe or other settings; None if no experiment has them."""
    usual = place("quality_resnet18", "cifar10", "resnet18", "Retrain")
    where = {**usual, "method": method, **settings}
    return measurements.spread(where, figure) if asked(where) else None


def images_epochs(axes: Any, measurements: Measurements) -> None:
    """Draw utility after forgetting against epochs on the retained pictures; on the right the upper part only."""
    figure, (whole, upper) = axes.figure, panels(axes, 1, 2, sharex=False)[0]
    methods = (SHORT, *EUPG, _CERTIFIED)
    ours = {m: {n: spread for n in _EPOCHS if (spread := _pictured(measurements, m, finetune=n))} for m in methods}
    # Scales first: they determine the limits of an axis.
    whole.set_xscale("symlog", linthresh=3)
    upper.set_xscale("log")
    _curves(whole, measurements, ours, _EPOCHS)
    whole.set_ylabel("accuracy after forgetting, %")
    known = [one.mean for m in (SHORT, *EUPG) for count, one in ours[m].items() if count]
    if known:
        full = _pictured(measurements, "Retrain")
        _curves(upper, measurements, ours, _EPOCHS[1:])
        upper.set_ylim(min(known) - 1.0, max(known + ([full.mean] if full else [])) + 1.0)
    for one, counts, words in ((whole, _EPOCHS, "CIFAR-10, ResNet-18"), (upper, _EPOCHS[1:], "the same, upper part")):
        ticks(one, counts, map(str, counts))
        one.set_title(words, fontsize=10)
        tidied(one)
    _below(figure, 2, "epochs on the retained pictures", columns=4)


def _curves(
    axes: Any, measurements: Measurements, ours: Mapping[str, Mapping[int, Spread]], counts: Sequence[int]
) -> None:
    """Draw all methods, the paper's values with hollow markers."""
    for method, by_epochs in ours.items():
        line(axes, {float(n): by_epochs.get(n) for n in counts}, LOOKS[method], method)
        printed = {float(n): published("ft_epochs", "cifar10", "resnet18", method, "utility", epochs=n) for n in counts}
        line(axes, printed, replace(LOOKS[method], hollow=True, line=":"), f"{method}, paper")
    level(axes, _pictured(measurements, "Retrain"), LOOKS["Retrain"], "Retrain, 100 epochs")


def images_blocks(axes: Any, measurements: Measurements) -> None:
    """Draw utility and audit against the size of a permuted block, for the base alone and fine-tuned."""
    figure, grid = axes.figure, panels(axes, 1, 2)
    sizes = {
        2**i: str(where["method"]) for i, where in enumerate(w for w in places("blocks_resnet18") if w["finetune"])
    }
    look = LOOKS[EUPG[0]]
    for one, (name, label) in zip(
        grid[0], ((UTILITY, "accuracy, %"), (RMIA, "RMIA AUC after forgetting, %")), strict=True
    ):
        one.set_xscale("log", base=2)
        # Slightly offset, so that intervals do not overlap.
        for count, style, words, aside in (
            (5, look, "k=30, after 5 epochs", 1.03),
            (0, replace(look, hollow=True, line=":"), "k=30, base alone", 0.97),
        ):
            points = {aside * b: _block(measurements, m, name, count) for b, m in sizes.items()}
            line(one, points, style, words)
        short = measurements.at("better_resnet18", "cifar10", "resnet18", SHORT, name)
        level(one, short, LOOKS[SHORT], "short retrain, the same recipe")
        level(one, _pictured(measurements, "Retrain", name), LOOKS["Retrain"], "Retrain")
        if name == RMIA and one.has_data():
            level(one, Spread(50.0, 0.0, 1), LOOKS["a guess"], "a guess")
        ticks(one, sizes, [f"{block}×{block}" for block in sizes])
        one.set_ylabel(label)
        tidied(one)
    _below(figure, 2, "block of pixels that is permuted", columns=5)


def _block(measurements: Measurements, method: str, figure: str, count: int) -> Spread | None:
    """Return a figure; for an audit with half its 95 % interval, since there are few runs."""
    where = place("blocks_resnet18", "cifar10", "resnet18", method, finetune=count)
    auc, low, high = (measurements.spread(where, figure.replace(".auc", end)) for end in (".auc", ".low", ".high"))
    if auc is None or figure != RMIA or low is None or high is None:
        return auc
    return Spread(auc.mean, high.minus(low) / 2, auc.count)


class Picture(NamedTuple):
    """A drawing function, and the size of its figure in inches."""

    draw: Callable[[Any, Measurements], None]
    size: tuple[float, float]


FIGURES = {
    "exposure": Picture(exposure, (9.6, 6.2)),
    "synthesis": Picture(synthesis, (9.6, 6.2)),
    "time": Picture(time, (9.6, 6.4)),
    "time_others": Picture(partial(time, models=_OTHERS), (9.6, 6.4)),
    "protection": Picture(protection, (8.4, 5.4)),
    "epochs": Picture(epochs, (9.6, 3.6)),
    "forget_ratio": Picture(forget_ratio, (9.6, 3.8)),
    "phases": Picture(phases, (9.6, 2.9)),
    "images_epochs": Picture(images_epochs, (9.6, 4.0)),
    "images_blocks": Picture(images_blocks, (9.6, 3.8)),
}


def draw(name: str, measurements: Measurements, folder: Path, *, suffix: str = ".svg") -> Path:
    """Draw a figure and return its path; the same results and matplotlib give the same file."""
    picture = FIGURES[name]
    return save_figure(folder / f"{name}{suffix}", picture.size, lambda axes: picture.draw(axes, measurements))
