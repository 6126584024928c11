"""Tables of exposure: utility against the share of people ever seen raw, protected bases beside their controls."""

from __future__ import annotations

from statistics import fmean, median

from eupg.learn.recipes import MODELS as LEARNERS
from eupg_reproduction.cell import Value
from eupg_reproduction.experiments import experiment
from eupg_reproduction.exposure import CONTROLS
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.versus import Pair, side
from eupg_reproduction.report.words import (
    MISSING,
    MODELS,
    NONE,
    SETS,
    listed,
    mean,
    percent,
    shown,
    signed,
    span,
    table,
)
from eupg_reproduction.spread import Spread

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
FEW = SHARES[:4]
PLACES = tuple((t, model) for t in SETS for model in LEARNERS)
_CLOSE, _CHEAPER, _WORSE = 0.3, 1000, 0.1


def where(t: str, model: str, method: str, share: float) -> dict[str, Value]:
    """Return a configuration of the kind ``exposure``."""
    return {"kind": "exposure", "set": t, "model": model, "method": method, "exposure": share}


def served(book: Book, t: str, model: str, method: str, share: float) -> Spread | None:
    """Return the utility of a protection at an exposure; 0 is the base alone."""
    return book.spread(where(t, model, method, share), "utility")


def scratch(book: Book, t: str, model: str, share: float) -> Spread | None:
    """Return the utility of training from scratch on the same people; with everyone it is full retraining."""
    return served(book, t, model, "From scratch", share)


def short(book: Book, t: str, model: str) -> Spread | None:
    """Return the utility of the short retrain on everyone."""
    return served(book, t, model, "Short retrain", 1.0)


def exposure(book: Book) -> dict[str, str]:
    """Return the values of the section on the exposure frontier."""
    return {
        "base_table": _base_table(book),
        "frontier_table": frontier_table(book, "k=30", SHARES),
        **{f"below_{t}": span(_below(book, t, "k=10"), sign=True) for t in SETS},
        **{f"below30_{t}": span(_below(book, t, "k=30"), sign=True) for t in SETS},
        **counted(book, "k=30", FEW, "few"),
        **counted(book, "k=30", SHARES[4:], "many"),
        "one_percent": span((gain(book, t, m, "k=30", 0.01) for t, m in PLACES), sign=True),
        **{f"kept_{i}": _kept(book, share) for i, share in enumerate(SHARES[:-1])},
        "spoilt": _spoilt(book),
        **_worse(book),
        **{f"local_{t}": span(_means(book, t, ("ε=1", "ε=4"))) for t in SETS},
        **costs(book),
    }


def _base_table(book: Book) -> str:
    names = ("k=10", "k=30", "k=100", "ε=1", "ε=4", "synthesis ε=1")
    rows = []
    for t, model in PLACES:
        controls = [shown(scratch(book, t, model, 1.0), 1), shown(short(book, t, model), 1)]
        rows.append(
            [f"{SETS[t]}, {MODELS[model]}", *controls, *(shown(served(book, t, model, n, 0.0), 1) for n in names)]
        )
    words = [n.replace("ε", "local DP ε") if n.startswith("ε") else n for n in names]
    return table(["", "Retrain", "short retrain", *words], rows)


def frontier_table(book: Book, method: str, shares: tuple[float, ...]) -> str:
    """Return a table of a protection and the same people from scratch; who is ahead of both spreads is bold."""
    rows = []
    for t, model in PLACES:
        cells = [_pair(served(book, t, model, method, s), scratch(book, t, model, s)) for s in shares]
        rows.append([f"{SETS[t]}, {MODELS[model]}", *cells])
    return table(["", *map(percent, shares)], rows)


def _pair(one: Spread | None, control: Spread | None) -> str:
    texts = [mean(one), mean(control)]
    if one is not None and control is not None:
        winner = {"ahead": 0, "beaten": 1, "level": None}[side(Pair("", one, control))]
        texts = [f"**{text}**" if i == winner else text for i, text in enumerate(texts)]
    return " / ".join(texts) if texts != [MISSING, MISSING] else MISSING


def gain(book: Book, t: str, model: str, method: str, share: float) -> float | None:
    """Return how far a protection lies above the same people from scratch."""
    one, control = served(book, t, model, method, share), scratch(book, t, model, share)
    return None if one is None or control is None else one.minus(control)


def counted(book: Book, method: str, shares: tuple[float, ...], word: str) -> dict[str, str]:
    """Count where a protection is ahead of, level with and beaten by the same people from scratch."""
    sides: dict[str, list[str]] = {"ahead": [], "level": [], "beaten": []}
    for t, model in PLACES:
        for share in shares:
            pair = Pair("", served(book, t, model, method, share), scratch(book, t, model, share))
            if pair.method is not None and pair.control is not None:
                apart = signed(pair.method.minus(pair.control), 1)
                sides[side(pair)].append(f"{SETS[t]} {MODELS[model]} at {percent(share)} ({apart})")
    known = sum(map(len, sides.values()))
    found = {f"{word}_{name}": f"{len(some)} of {known}" if known else MISSING for name, some in sides.items()}
    return found | {f"{word}_beaten_list": listed(sides["beaten"])}


def _below(book: Book, t: str, method: str) -> list[float | None]:
    found = []
    for model in LEARNERS:
        base, full = served(book, t, model, method, 0.0), scratch(book, t, model, 1.0)
        found.append(None if base is None or full is None else base.minus(full))
    return found


def _means(book: Book, t: str, methods: tuple[str, ...]) -> list[float | None]:
    found = [served(book, t, model, method, 0.0) for model in LEARNERS for method in methods]
    return [None if one is None else one.mean for one in found]


def _kept(book: Book, share: float) -> str:
    """Say how often the rule kept the k-anonymous base as it was, in percent of draws."""
    kept = [v for t, m in PLACES for v in book.values(where(t, m, "k=30", share), "kept_base")]
    return f"{100 * sum(kept) / len(kept):.0f} %" if kept else MISSING


def _spoilt(book: Book) -> str:
    """Name where fine-tuning on few people made the base worse by more than the two spreads."""
    found = []
    for t, model in PLACES:
        for share in FEW:
            pair = Pair("", served(book, t, model, "k=30", share), served(book, t, model, "k=30", 0.0))
            if pair.method is not None and pair.control is not None and side(pair) == "beaten":
                apart = signed(pair.method.minus(pair.control), 1)
                found.append(f"{SETS[t]} {MODELS[model]} at {percent(share)} ({apart})")
    return listed(found)


def _worse(book: Book) -> dict[str, str]:
    """Count the draws, of every protection and exposure, in which fine-tuning made the base worse; name the worst."""
    draws, losses = list[float](), dict[str, float]()
    for place in _tuned_places():
        base, after = ({run.cell.repetition: run.metrics["utility"] for run in book.runs(at)} for at in _both(place))
        apart = [after[draw] - base[draw] for draw in after if draw in base]
        draws += apart
        if apart:
            who = f"{SETS[str(place['set'])]} {MODELS[str(place['model'])]}"
            losses[f"{who}, {place['method']}, {percent(float(place['exposure']))} exposed"] = fmean(apart)
    worst = min(losses, key=lambda name: losses[name], default=None)
    count = sum(apart < -_WORSE for apart in draws)
    return {
        "worse": f"{count:,} of {len(draws):,} draws" if draws else MISSING,
        "worst": MISSING if worst is None else f"{signed(losses[worst])} ({worst})",
    }


def _both(place: dict[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    return {**place, "exposure": 0.0}, place


def _tuned_places() -> list[dict[str, Value]]:
    """Return every configuration in which a base is fine-tuned on people who are exposed."""
    cells = [cell for name in ("exposure", "synthesis") for cell in experiment(name).cells(1)]
    served = [cell for cell in cells if cell.method not in CONTROLS and float(cell.get("exposure")) > 0]
    return [{name: value for name, value in cell.config.items() if name != "repetition"} for cell in served]


def costs(book: Book) -> dict[str, str]:
    """Say what one erasure costs at 0.5 % exposed with k=30, against Retrain and the short retrain by the same rule."""
    rows, good = [], list[str]()
    ratios: dict[str, list[float | None]] = {}
    for t, model in PLACES:
        place = where(t, model, "k=30", SHARES[0])
        train, brief = (
            book.values(where(t, model, m, 1.0), "seconds.train") for m in ("From scratch", "Short retrain")
        )
        tuning = book.values(place, "seconds.finetune")
        keeping = book.values(place, "seconds.erase outside")
        name = f"{SETS[t]}, {MODELS[model]}"
        if not (train and brief and tuning and keeping):
            rows.append([name, *[MISSING] * 4, NONE, NONE, NONE])
            continue
        full, few, tune, keep = (median(times) for times in (train, brief, tuning, keeping))
        spent = SHARES[0] * tune + keep
        found = {"training": full / (SHARES[0] * tune), "total": full / spent, "short": few / spent}
        group = "mlp" if model == "mlp" else "logistic" if model == "logistic" else "trees"
        for word, ratio in found.items():
            ratios.setdefault(f"{word}_{group}", []).append(ratio)
        times = [f"{full:.3g} s", f"{few:.3g} s", f"{tune:.3g} s", f"{1000 * keep:.3g} ms"]
        rows.append([name, *times, *(f"{ratio:,.0f}×" for ratio in found.values())])
        base, whole = served(book, t, model, "k=30", SHARES[0]), scratch(book, t, model, 1.0)
        if found["total"] >= _CHEAPER and base and whole and base.mean >= whole.mean - _CLOSE:
            good.append(name.replace(",", ""))
    head = ["", "Retrain", "short retrain", "one person in 200", "everybody else", "cheaper, training"]
    head += ["cheaper, with bookkeeping", "cheaper than the short retrain"]
    words = [f"{word}_{group}" for word in ("training", "total", "short") for group in ("trees", "mlp", "logistic")]
    return {
        "cost_table": table(head, rows),
        "cheap": listed(good),
        **{word: MISSING if word not in ratios else _whole(ratios[word]) for word in words},
    }


def _whole(values: list[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    return f"{float(f'{known[0]:.2g}'):,.0f} to {float(f'{known[-1]:.2g}'):,.0f}"
