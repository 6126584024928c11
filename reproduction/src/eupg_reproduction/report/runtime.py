"""Tables of cost: the time of a forget against Retrain, phases, storage, inference and memory."""

from __future__ import annotations

from statistics import fmean, median, pstdev

from eupg_reproduction.published import published
from eupg_reproduction.report.book import REPEATS, Book
from eupg_reproduction.report.quality import PLAIN, by_model, tuned_quality, views
from eupg_reproduction.report.versus import Pair, side
from eupg_reproduction.report.view import SHORT, View
from eupg_reproduction.report.words import (
    MISSING,
    MODELS,
    NONE,
    SETS,
    listed,
    ratio,
    seconds,
    signed,
    span,
    table,
    timing,
)
from eupg_reproduction.spread import Spread

FORGET = "seconds.forget"
PHASES_HEAD = ["method", "protect", "pretrain", "train or fine-tune on all", "a forget", "once", "paper", "difference"]
_PHASES = {"protect": "protect_s", "pretrain": "pretrain_s", "finetune": "finetune_s", "forget": "unlearn_s"}


def timed(book: Book) -> dict[str, View]:
    """Return the view of each model whose forgets were timed by the paper's recipe."""
    # The second grid is the MLPs' again, at smaller budgets.
    return {view.model: view for i, view in enumerate(views(book, "runtime")) if i != 1}


def runtime(book: Book) -> dict[str, str]:
    """Return the values of the section on the time of a forget."""
    found = timed(book)
    rows, values = [], dict[str, str]()
    for model, view in found.items():
        for method in view.grid.methods:
            rows += [_row(view, t, method) for t in view.grid.sets]
            rows.append(_mean_row(view, method))
            name = f"{model}_{method.split(' ')[0].lower().replace('-', '_')}{'_dp' if 'ε' in method else ''}"
            if "refreshed" in method:
                name = f"{model}_refreshed"
            values[name] = ratio(average(view, method))
            values[f"{name}_paper"] = ratio(average_published(model, method))
    head = ["model", "set", "method", "seconds", "speed-up", "paper", "difference", "inside"]
    return values | {"table": table(head, rows), "short_faster": _short_faster(list(found.values()))}


def speed_up(view: View, t: str, method: str) -> Spread | None:
    """Return how many times faster than Retrain a forget is: by medians, with the spread of single repetitions."""
    times, base = (view.book.values(view.where(t, m), FORGET) for m in (method, "Retrain"))
    if not times or not base:
        return None
    single = [b / a for a, b in zip(times, base, strict=False)]
    return Spread(median(base) / median(times), pstdev(single), min(len(times), len(base)))


def average(view: View, method: str) -> float | None:
    """Return the mean speed-up over the sets, as the paper does; None where one is missing."""
    found = [speed_up(view, t, method) for t in view.grid.sets]
    known = [one.mean for one in found if one is not None]
    return fmean(known) if len(known) == len(found) else None


def published_speed_up(t: str, model: str, method: str) -> Spread | None:
    """Return the paper's speed-up; its spread follows from those of the two times."""
    time, base = (published("efficiency_headtohead", t, model, m, "unlearn_s") for m in (method, "Retrain"))
    if time is None or base is None:
        return None
    quotient = base.mean / time.mean
    relative = ((base.std / base.mean) ** 2 + (time.std / time.mean) ** 2) ** 0.5
    # Retrain against itself varies with nothing.
    return Spread(quotient, 0.0 if method == "Retrain" else quotient * relative, time.count)


def average_published(model: str, method: str) -> float | None:
    """Return the paper's mean speed-up over the three tables; with images its own means are a little different."""
    found = [published_speed_up(t, model, method) for t in SETS]
    known = [one.mean for one in found if one is not None]
    return fmean(known) if known else None


def _row(view: View, t: str, method: str) -> list[str]:
    return [MODELS[view.model], SETS[t], *forget_row(view, t, method)]


def forget_row(view: View, t: str, method: str) -> list[str]:
    """Return a method's seconds of a forget, and its speed-up over Retrain beside the paper's."""
    times, ours = view.spread(t, method, FORGET), speed_up(view, t, method)
    paper = published_speed_up(t, view.model, method)
    compared = [NONE, NONE]
    if ours is not None and paper is not None:
        compared = [signed(ours.minus(paper), 1), "yes" if ours.agrees(paper) else "no"]
    return [
        method,
        timing(times, of=view.repeats(t, method)),
        ratio(None if ours is None else ours.mean),
        ratio(paper.mean) if paper else NONE,
        *compared,
    ]


def _mean_row(view: View, method: str) -> list[str]:
    ours, paper = average(view, method), average_published(view.model, method)
    difference = NONE if ours is None or paper is None else signed(ours - paper, 1)
    cells = [MODELS[view.model], "mean", method, NONE, ratio(ours), ratio(paper) if paper else NONE, difference, NONE]
    return [f"*{cell}*" if cell != NONE else cell for cell in cells]


def _short_faster(found: list[View]) -> str:
    """Say where a short retrain forgets faster than EUPG with k=30."""
    places, known = [], 0
    for view in found:
        for t in view.grid.sets:
            short, eupg = (view.book.values(view.where(t, m), FORGET) for m in (SHORT, "EUPG k=30"))
            if short and eupg:
                known += 1
                if median(short) < median(eupg):
                    places.append(f"{SETS[t]} {MODELS[view.model]}")
    return f"{listed(places)} ({len(places)} of {known})" if known else MISSING


def tuned(book: Book) -> dict[str, str]:
    """Return the values of the section on tuned recipes."""
    rows = []
    for view in views(book, "runtime_tuned"):
        for method in view.grid.methods:
            for t in view.grid.sets:
                rows.append(_row(view, t, method)[:5])
    times = table(["model", "set", "method", "seconds of a forget", "speed-up"], rows)
    faster = _short_faster(views(book, "runtime_tuned"))
    return tuned_quality(book) | {"times_table": times, "faster": faster, "plain_wins": _plain_wins(book)}


def _plain_wins(book: Book) -> str:
    """Say where Retrain by the plain recipe is both better and faster than the tuned EUPG with k=30."""
    clock, plain, chosen = timed(book), by_model(book, *PLAIN), by_model(book, "tuned")
    places, known = list[str](), 0
    for view in views(book, "runtime_tuned"):
        for t in view.grid.sets:
            ours = book.values(view.where(t, "EUPG k=30"), FORGET)
            theirs = book.values(clock[view.model].where(t, "Retrain"), FORGET)
            pair = Pair("", plain[view.model].spread(t, "Retrain"), chosen[view.model].spread(t, "EUPG k=30"))
            if not (ours and theirs and pair.method and pair.control):
                continue
            known += 1
            if median(theirs) < median(ours) and side(pair) == "ahead":
                places.append(f"{SETS[t]} {MODELS[view.model]}")
    return f"{listed(places)} ({len(places)} of {known})" if known else MISSING


def phases(book: Book) -> dict[str, str]:
    """Return the values of the section on EUPG's time by phase."""
    view, rows, shares = timed(book)["mlp"], list[list[str]](), list[float | None]()
    for method in ("EUPG k=30", "EUPG ε=1"):
        for t in view.grid.sets:
            rows.append([SETS[t], *phase_row(view, t, method)])
            shares.append(spent_once(view, t, method))
    rows += [[SETS[t], *phase_row(view, t, SHORT)] for t in view.grid.sets]
    return {"table": table(["set", *PHASES_HEAD], rows), "once": span(shares, 0)}


def phase_row(view: View, t: str, method: str) -> list[str]:
    """Return a method's seconds by phase beside the paper's, and the share that is spent once."""
    of = view.repeats(t, method)
    if not method.startswith("EUPG"):
        times = [view.spread(t, method, f"seconds.{phase}") for phase in ("train", "forget")]
        return [method, NONE, NONE, *(_both(one, None, of) for one in times), NONE, NONE, NONE]
    ours = {phase: view.spread(t, method, f"seconds.{phase}") for phase in _PHASES}
    paper = {p: published("efficiency_phases", t, view.model, method, name, "") for p, name in _PHASES.items()}
    cells = [_both(ours[phase], paper[phase], of) for phase in _PHASES]
    return [method, *cells, *_shares(_share(ours), _share(paper))]


def spent_once(view: View, t: str, method: str) -> float | None:
    """Return how much of training is spent once, before any record is used raw, in percent."""
    return _share({phase: view.spread(t, method, f"seconds.{phase}") for phase in _PHASES})


def _both(ours: Spread | None, paper: Spread | None, of: int) -> str:
    if paper is None:
        return timing(ours, of=of)
    beside = f" ({seconds(paper.mean)})" if of == REPEATS else f", paper {seconds(paper.mean)}"
    return timing(ours, of=of) + beside


def _share(times: dict[str, Spread | None]) -> float | None:
    """Return how much of training is spent before any record is used raw, in percent."""
    known = [times[phase] for phase in ("protect", "pretrain", "finetune")]
    means = [one.mean for one in known if one is not None]
    return 100 * sum(means[:2]) / sum(means) if len(means) == len(known) else None


def _shares(ours: float | None, paper: float | None) -> list[str]:
    shown = [MISSING if ours is None else f"{ours:.0f} %", NONE if paper is None else f"{paper:.0f} %"]
    return [*shown, NONE if ours is None or paper is None else signed(ours - paper, 0)]


def overhead(book: Book) -> dict[str, str]:
    """Return the values of the section on storage, inference and memory."""
    rows, values = [], dict[str, str]()
    plain = by_model(book, *PLAIN)
    for model, view in timed(book).items():
        for method in view.grid.methods:
            rows.append([MODELS[model], method, *_row_kept(view, plain[model], method)])
        peaks = [_peak(view, t) for t in view.grid.sets]
        values[f"peak_{model}"] = MISSING if None in peaks else span(peaks, 0)
    head = ["model", "method", "files", "models asked", *(f"{SETS[t]}, MB" for t in SETS)]
    head += [f"{SETS[t]}, µs" for t in SETS]
    slow = [_inference_ratio(view, t) for view in timed(book).values() for t in view.grid.sets]
    return values | {"table": table(head, rows), "sisa_inference": span(slow)}


def _row_kept(view: View, plain: View, method: str) -> list[str]:
    """Return files, models and sizes, which every cell of quality knows, and the time of a prediction, which few do."""
    kept = [plain.spread(view.grid.sets[0], method, f"storage.{what}") for what in ("files", "models")]
    sizes = [plain.spread(t, method, "storage.bytes") for t in view.grid.sets]
    times = [view.book.values(view.where(t, method), "inference_us_a_record") for t in view.grid.sets]
    return [
        *(MISSING if one is None else f"{one.mean:.0f}" for one in kept),
        *(MISSING if one is None else f"{one.mean / 1e6:.2f}" for one in sizes),
        *(f"{median(one):.2f}" if one else MISSING for one in times),
    ]


def _inference_ratio(view: View, t: str) -> float | None:
    sisa, plain = (view.book.values(view.where(t, m), "inference_us_a_record") for m in ("SISA", "Retrain"))
    return median(sisa) / median(plain) if sisa and plain else None


def _peak(view: View, t: str) -> float | None:
    """Return the highest memory of the processes that timed a set, in MB; they run all methods one after another."""
    found = [r.line.get("peak_mb") for m in view.grid.methods for r in view.book.runs(view.where(t, m))]
    known = [float(one) for one in found if one is not None]
    return max(known) if known else None
