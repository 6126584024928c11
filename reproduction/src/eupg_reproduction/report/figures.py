"""The figures of the page: what each draws, and how large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from eupg.audit.plot import save_figure
from eupg_reproduction.published import published
from eupg_reproduction.report.drawing import HATCHES, LOOKS, below, legend, level, line, panels, ticks, tidied, title
from eupg_reproduction.report.tables import curve
from eupg_reproduction.report.tidy import FORGET, RMIA, UTILITY, Book, asked, by_name, place, places
from eupg_reproduction.report.words import EUPG, MODELS, SETS, SHORT
from eupg_reproduction.spread import Spread

_LEARNERS, _OTHERS, SHARES = ("xgboost", "mlp"), ("lightgbm", "logistic"), (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
_QUALITY = {"mlp": "quality_mlp", "xgboost": "quality_xgboost", **dict.fromkeys(_OTHERS, "quality_others")}
_EPSILONS = ("0.1", "0.25", "0.5", "1", "2", "4", "10")
_EPOCHS, _CERTIFIED = (0, 3, 5, 10, 20, 30, 50), "Certified-SP"
# A share of zero has no place on a logarithmic axis: the base alone stands left of it.
_NOBODY = 0.0022
_STARS = {
    f"base alone, {method}: no training": LOOKS[method].marks | {"markersize": 11, "marker": marker}
    for method, marker in (("k=30", "*"), ("synthesis ε=1", "p"))
}
# Points further below the best are named instead of drawn: they would press all others into one line.
_REACH = 6.0
_WORDS = ("protect", "pretrain", "fine-tune on all", "a forget: fine-tune on the retained")


def served(book: Book, t: str, model: str, method: str, share: float = 0.0) -> Spread | None:
    """Return the utility of a protection at an exposure; 0 is the base alone."""
    return book.spread(_exposed(t, model, method, share), "utility")


def _exposed(t: str, model: str, method: str, share: float) -> dict[str, Any]:
    return {"kind": "exposure", "set": t, "model": model, "method": method, "exposure": share}


def _grid(axes: Any, models: Sequence[str]) -> Iterator[tuple[Any, str, str]]:
    """Yield a panel for each model and set, and dress it."""
    grid = panels(axes, len(models), 3)
    for row, model in zip(grid, models, strict=True):
        for one, t in zip(row, SETS, strict=True):
            yield one, t, model
            one.set_title(title(t, f", {MODELS[model]}"), fontsize=10)
            tidied(one)


def _everyone(axes: Any, book: Book, t: str, model: str) -> None:
    level(axes, served(book, t, model, "From scratch", 1.0), LOOKS["Retrain"], "Retrain on everyone")
    level(axes, served(book, t, model, SHORT, 1.0), LOOKS[SHORT], "short retrain on everyone")


def exposure(axes: Any, book: Book) -> None:
    """Draw utility against the share of people ever seen raw."""
    figure = axes.figure
    for one, t, model in _grid(axes, _LEARNERS):
        for method, label in (("k=30", "EUPG, k=30"), ("synthesis ε=1", "EUPG, synthesis ε=1")):
            points = {share or _NOBODY: served(book, t, model, method, share) for share in (0.0, *SHARES)}
            line(one, points, LOOKS[method], label)
        points = {share: served(book, t, model, "From scratch", share) for share in SHARES}
        line(one, points, LOOKS["From scratch"], "from scratch on the same people")
        _everyone(one, book, t, model)
        one.set_xscale("log")
        ticks(one, (_NOBODY, *SHARES), ("0", *(f"{100 * share:g}" for share in SHARES)))
    _below(figure, 3, "people ever seen raw, %", columns=3)


def _below(figure: Any, wide: int, label: str, *, columns: int) -> None:
    for one in figure.axes[-wide:]:
        one.set_xlabel(label)
    legend(figure, columns=columns)


def synthesis(axes: Any, book: Book) -> None:
    """Draw the utility of bases that never saw a raw record against ε."""
    figure = axes.figure
    for one, t, model in _grid(axes, _LEARNERS):
        points = {float(e): served(book, t, model, f"synthesis ε={e}") for e in _EPSILONS}
        line(one, points, LOOKS["synthesis ε=1"], "synthesis, whole records (label too)")
        level(one, served(book, t, model, "k=30"), LOOKS["k=30"], "k=30")
        _everyone(one, book, t, model)
        one.set_xscale("log")
        ticks(one, map(float, _EPSILONS), _EPSILONS)
    for one, (t, model) in zip(figure.axes, ((t, model) for model in _LEARNERS for t in SETS), strict=True):
        # Bases under local DP are drawn where they fall into the picture, and named where they lie below it.
        low, high = one.get_ylim()
        local = {name: found for name in ("ε=1", "ε=4") if (found := served(book, t, model, name))}
        inside = {float(name[2:]): found for name, found in local.items() if found.mean > low}
        line(one, inside, LOOKS["ε=1"], "local DP, attributes only")
        one.set_ylim(low, high)
        below(one, [f"local DP {name}, {found.mean:.1f}" for name, found in local.items() if found.mean <= low])
    _below(figure, 3, "ε of the base", columns=2)


def time(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against the time of a forget, all methods, of the paper's models."""
    _time(axes, book, _LEARNERS)


def time_others(axes: Any, book: Book) -> None:
    """Draw the same of the models that the paper lacks."""
    _time(axes, book, _OTHERS)


def _time(axes: Any, book: Book, models: tuple[str, ...]) -> None:
    figure, alone = axes.figure, timed_alone(book)
    for one, t, model in _grid(axes, models):
        points = []
        usual = place("runtime", t, model, "Retrain")["finetune"]
        for method in dict.fromkeys(str(where["method"]) for where in places("runtime") if where["model"] == model):
            name = "runtime" if alone else _QUALITY[model]
            times = book.values(place(name, t, model, method, finetune=usual), FORGET)
            points.append((method, times, book.at(_QUALITY[model], t, model, method)))
        for method in ("k=30", "synthesis ε=1"):
            times = book.values(_exposed(t, model, method, 0.0), "seconds.erase outside")
            points.append((f"base alone, {method}: no training", times, served(book, t, model, method)))
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


def timed_alone(book: Book) -> bool:
    """Tell whether every forget was timed with nothing beside; else the times are taken from cells of quality."""
    return all(book.values(where, FORGET) for where in places("runtime") if where["finetune"] in (5, 10))


def protection(axes: Any, book: Book) -> None:
    """Draw the base model's utility and what an attack finds, against k and against ε."""
    grid = panels(axes, 2, 2, sharex="col", sharey="row")
    sides = (("k_sweep", "k", LOOKS["k=30"]), ("epsilon_sweep", "ε of local DP", LOOKS["ε=1"]))
    for column, (name, word, look) in enumerate(sides):
        for row, (figure, label) in enumerate((("utility", "accuracy, %"), ("audit.auc", "RMIA AUC, %"))):
            one, by_method = grid[row, column], {str(w["method"]): book.spread(w, figure) for w in places(name)}
            original = by_method.pop("Unprotected")
            points = {float(method.split("=")[1]): found for method, found in by_method.items()}
            line(one, points, look, "k-anonymous base" if word == "k" else "base under local DP")
            level(one, original, LOOKS["Retrain"], "original data")
            one.set_xscale("log")
            ticks(one, points, [f"{x:g}" for x in points])
            if not column:
                one.set_ylabel(label)
            tidied(one)
        grid[1, column].set_xlabel(word)
    legend(grid[0, 0].figure, columns=3)


def forget_ratio(axes: Any, book: Book) -> None:
    """Draw utility and what an attack finds against the share of people forgotten."""
    figure, grid = axes.figure, panels(axes, 1, 2)
    methods = tuple(dict.fromkeys(str(where["method"]) for where in places("forget_ratio")))
    shares = [float(where["forget"]) for where in by_name("forget_ratio", "Retrain")]
    for one, (name, label) in zip(grid[0], ((UTILITY, "accuracy, %"), (RMIA, "RMIA AUC, %")), strict=True):
        for i, method in enumerate(methods):
            found = [book.at("forget_ratio", "adult", "mlp", method, name, forget=share) for share in shares]
            # A little apart, so that spreads do not lie on each other.
            xs = [100 * share + 0.7 * (i - 2.5) for share in shares]
            line(one, dict(zip(xs, found, strict=True)), LOOKS[method], method)
        one.set_ylabel(label)
        ticks(one, [100 * s for s in shares if s != 0.05], [f"{100 * s:g}" for s in shares if s != 0.05])
        tidied(one)
    _below(figure, 2, "people forgotten, %", columns=3)


def epochs(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against epochs of fine-tuning."""
    figure, grid = axes.figure, panels(axes, 1, 3)
    for one, t in zip(grid[0], SETS, strict=True):
        curves = {method: curve(book, t, method) for method in (*EUPG, SHORT, _CERTIFIED)}
        for method, by_epochs in curves.items():
            line(one, {float(n): found for n, found in by_epochs.items()}, LOOKS[method], method)
        level(one, book.at("quality_mlp", t, "mlp", "Retrain"), LOOKS["Retrain"], "Retrain, 50 epochs")
        one.set_title(title(t), fontsize=10)
        tidied(one)
        # A base that only guesses is left out of the picture, so that the rest can be told apart.
        shown = {m: some for m, some in curves.items() if m != _CERTIFIED}
        known = [s.mean for m, some in shown.items() for n, s in some.items() if s and (n != 0 or m == EUPG[0])]
        base = curves[EUPG[1]].get(0)
        if known:
            one.set_ylim(min(known) - 0.3, max(known) + 0.3)
            below(one, [f"{EUPG[1]} at 0, {base.mean:.1f}"] if base and base.mean < min(known) - 0.3 else [])
    _below(figure, 3, "epochs on the retained records", columns=3)


def phases(axes: Any, book: Book) -> None:
    """Draw seconds of each phase as bars, beside a full and a short retraining."""
    figure, grid = axes.figure, panels(axes, 1, 3, sharex=False)
    for one, t in zip(grid[0], SETS, strict=True):
        times = {m: place("runtime", t, "mlp", m, finetune=5) for m in (*EUPG, "Retrain", SHORT)}
        for row, method in enumerate(reversed(EUPG)):
            left = 0.0
            for (phase, (color, hatch)), words in zip(HATCHES.items(), _WORDS, strict=True):
                found = book.spread(times[method], f"seconds.{phase}")
                if found is None:
                    continue
                # A forget comes later, alone: it is not on top of training.
                start, height = (0.0, row - 0.35) if phase == "forget" else (left, row)
                look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
                one.barh(height, found.mean, 0.3, start, label=words, **look)
                left += 0 if phase == "forget" else found.mean
        for method in ("Retrain", SHORT):
            if found := book.spread(times[method], FORGET):
                look = {"color": LOOKS[method].color, "linestyle": LOOKS[method].line, "linewidth": 1.3}
                one.axvline(found.mean, label=f"{method}: a forget", **look)
        one.set_yticks([0 - 0.17, 1 - 0.17], [m.replace("EUPG ", "") for m in reversed(EUPG)])
        one.set_title(SETS[t], fontsize=10)
        tidied(one)
    _below(figure, 3, "seconds", columns=3)


def _pictured(book: Book, method: str, figure: str = UTILITY, **settings: Any) -> Spread | None:
    """Return a figure of pictures by the paper's recipe, or by one with other settings; None where none asks for it."""
    usual = place("quality_resnet18", "cifar10", "resnet18", "Retrain")
    where = {**usual, "method": method, **settings}
    return book.spread(where, figure) if asked(where) else None


def images_epochs(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against epochs on the retained pictures; on the right the upper part alone."""
    figure, (whole, upper) = axes.figure, panels(axes, 1, 2, sharex=False)[0]
    methods = (SHORT, *EUPG, _CERTIFIED)
    ours = {m: {n: found for n in _EPOCHS if (found := _pictured(book, m, finetune=n))} for m in methods}
    # Scales first: the limits of an axis are found by its scale.
    whole.set_xscale("symlog", linthresh=3)
    upper.set_xscale("log")
    _curves(whole, book, ours, _EPOCHS)
    whole.set_ylabel("accuracy after forgetting, %")
    known = [one.mean for m in (SHORT, *EUPG) for count, one in ours[m].items() if count]
    if known:
        full = _pictured(book, "Retrain")
        _curves(upper, book, ours, _EPOCHS[1:])
        upper.set_ylim(min(known) - 1.0, max(known + ([full.mean] if full else [])) + 1.0)
    for one, counts, words in ((whole, _EPOCHS, "CIFAR-10, ResNet-18"), (upper, _EPOCHS[1:], "the same, upper part")):
        ticks(one, counts, map(str, counts))
        one.set_title(words, fontsize=10)
        tidied(one)
    _below(figure, 2, "epochs on the retained pictures", columns=4)


def _curves(axes: Any, book: Book, ours: Mapping[str, Mapping[int, Spread]], counts: Sequence[int]) -> None:
    """Draw all methods, what the paper printed beside ours with hollow markers."""
    for method, found in ours.items():
        line(axes, {float(n): found.get(n) for n in counts}, LOOKS[method], method)
        printed = {float(n): published("ft_epochs", "cifar10", "resnet18", method, "utility", epochs=n) for n in counts}
        line(axes, printed, replace(LOOKS[method], hollow=True, line=":"), f"{method}, paper")
    level(axes, _pictured(book, "Retrain"), LOOKS["Retrain"], "Retrain, 100 epochs")


def images_blocks(axes: Any, book: Book) -> None:
    """Draw utility and what an attack finds against the size of a permuted block, the base alone and fine-tuned."""
    figure, grid = axes.figure, panels(axes, 1, 2)
    sizes = {
        2**i: str(where["method"]) for i, where in enumerate(w for w in places("blocks_resnet18") if w["finetune"])
    }
    look = LOOKS[EUPG[0]]
    for one, (name, label) in zip(
        grid[0], ((UTILITY, "accuracy, %"), (RMIA, "RMIA AUC after forgetting, %")), strict=True
    ):
        one.set_xscale("log", base=2)
        # A little apart, so that intervals do not lie on each other.
        for count, style, words, aside in (
            (5, look, "k=30, after 5 epochs", 1.03),
            (0, replace(look, hollow=True, line=":"), "k=30, base alone", 0.97),
        ):
            points = {aside * b: _block(book, m, name, count) for b, m in sizes.items()}
            line(one, points, style, words)
        short = book.at("better_resnet18", "cifar10", "resnet18", SHORT, name)
        level(one, short, LOOKS[SHORT], "short retrain, the same recipe")
        level(one, _pictured(book, "Retrain", name), LOOKS["Retrain"], "Retrain")
        if name == RMIA and one.has_data():
            level(one, Spread(50.0, 0.0, 1), LOOKS["a guess"], "a guess")
        ticks(one, sizes, [f"{block}×{block}" for block in sizes])
        one.set_ylabel(label)
        tidied(one)
    _below(figure, 2, "block of pixels that is permuted", columns=5)


def _block(book: Book, method: str, figure: str, count: int) -> Spread | None:
    """Return a figure; of an audit with half its 95 % interval, since runs are few and each knows its own."""
    where = place("blocks_resnet18", "cifar10", "resnet18", method, finetune=count)
    found, low, high = (book.spread(where, figure.replace(".auc", end)) for end in (".auc", ".low", ".high"))
    if found is None or figure != RMIA or low is None or high is None:
        return found
    return Spread(found.mean, high.minus(low) / 2, found.count)


class Picture(NamedTuple):
    """What draws a figure on axes of this size, in inches."""

    draw: Callable[[Any, Book], None]
    size: tuple[float, float]


FIGURES = {
    "exposure": Picture(exposure, (9.6, 6.2)),
    "synthesis": Picture(synthesis, (9.6, 6.2)),
    "time": Picture(time, (9.6, 6.4)),
    "time_others": Picture(time_others, (9.6, 6.4)),
    "protection": Picture(protection, (8.4, 5.4)),
    "epochs": Picture(epochs, (9.6, 3.6)),
    "forget_ratio": Picture(forget_ratio, (9.6, 3.8)),
    "phases": Picture(phases, (9.6, 2.9)),
    "images_epochs": Picture(images_epochs, (9.6, 4.0)),
    "images_blocks": Picture(images_blocks, (9.6, 3.8)),
}


def draw(name: str, book: Book, folder: Path, *, suffix: str = ".svg") -> Path:
    """Draw a figure and return its path; the same results and matplotlib give the same file."""
    picture = FIGURES[name]
    return save_figure(folder / f"{name}{suffix}", picture.size, lambda axes: picture.draw(axes, book))
