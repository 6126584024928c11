"""Tables of sweeps: strength of the protection, epochs of fine-tuning, share of people forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from eupg_reproduction.cell import Value
from eupg_reproduction.experiment import Grid
from eupg_reproduction.experiments import experiment
from eupg_reproduction.published import published
from eupg_reproduction.report.book import Book, place
from eupg_reproduction.report.quality import EUPG, views
from eupg_reproduction.report.runtime import FORGET, timed
from eupg_reproduction.report.versus import Pair, verdict
from eupg_reproduction.report.view import SHORT, UTILITY, View, above, sentences
from eupg_reproduction.report.words import MISSING, NONE, SETS, against, mean, percent, ratio, shown, span, table
from eupg_reproduction.spread import Spread

CLOSE = 0.1
ORIGINAL = "Unprotected"


def protection(book: Book) -> dict[str, str]:
    """Return the values of the section on the strength of the protection."""
    values = {}
    for name in ("k_sweep", "epsilon_sweep"):
        (view,) = views(book, name)
        found = {
            m: (view.spread("heart", m, "utility"), view.spread("heart", m, "audit.auc")) for m in view.grid.methods
        }
        rows = [[m, shown(utility), shown(auc, 1)] for m, (utility, auc) in found.items()]
        rows.append([f"{SHORT}, everyone seen raw", *_control(book)])
        values[f"{name}_table"] = table(["base model", "utility", "RMIA AUC"], rows)
        swept = [method for method in found if method != ORIGINAL]
        values[f"{name}_first"], values[f"{name}_first_auc"] = (mean(one) for one in found[swept[0]])
        values[f"{name}_last"] = mean(found[swept[-1]][0])
        values[f"{name}_audits"] = span(auc.mean for m, (_, auc) in found.items() if m != ORIGINAL and auc)
        values["original"], values["original_auc"] = (mean(one) for one in found[ORIGINAL])
    short = views(book, "quality_xgboost")[0].spread("heart", SHORT)
    thirty = views(book, "k_sweep")[0].spread("heart", "k=30", "audit.auc")
    return values | {"short": mean(short), "auc_k30": mean(thirty)}


def _control(book: Book) -> list[str]:
    (view,) = views(book, "quality_xgboost")
    return [
        shown(view.spread("heart", SHORT, "before.utility")),
        shown(view.spread("heart", SHORT, "before.audit.auc"), 1),
    ]


def forget_ratio(book: Book) -> dict[str, str]:
    """Return the values of the section on the share of people forgotten."""
    grid = experiment("forget_ratio").grids[0]
    shares = swept(grid, "forget")
    rows, verdicts = list[list[str]](), list[str]()
    for share in shares:
        view = View(book, grid, "mlp", {"forget": share})
        for method in grid.methods:
            cells = []
            for metric, figure in (("utility", UTILITY), ("mia_auc", "after.audit.auc")):
                paper = published("sensitivity_forget_ratio", "adult", "mlp", method, metric, forget=float(share))
                cells += against(view.spread("adult", method, figure), paper)
            rows.append([percent(float(share)), method, *cells])
    for method in EUPG:
        pairs = [Pair(percent(float(share)), *(_at(book, grid, share, m) for m in (method, SHORT))) for share in shares]
        verdicts.append(verdict(method, pairs).replace(" on ", " at "))
    marks = [mark for row in rows for mark in (row[5],) if mark != NONE]
    head = ["forgotten", "method", "utility", "paper", "difference", "inside"]
    values = {
        "table": table([*head, "RMIA AUC", "paper", "difference", "inside"], rows),
        "inside": f"{marks.count('yes')} of {len(marks)}",
        "control": sentences(verdicts),
    }
    for word, method in (("retrain", "Retrain"), ("short", SHORT), ("eupg", EUPG[0]), ("sisa", "SISA")):
        values[f"{word}_few"], values[f"{word}_most"] = (
            mean(_at(book, grid, s, method)) for s in (shares[0], shares[-1])
        )
    return values


def _at(book: Book, grid: Grid, share: Value, method: str) -> Spread | None:
    return View(book, grid, "mlp", {"forget": share}).spread("adult", method)


def epochs(book: Book) -> dict[str, str]:
    """Return the values of the section on fine-tuning epochs, and the smallest budget that keeps utility."""
    rows = []
    methods = (SHORT, *EUPG, "Certified-SP")
    counts = [0, *swept(experiment("ft_epochs").grids[0], "finetune")]
    for t in SETS:
        curves = {method: curve(book, t, method) for method in methods}
        for count in counts:
            cells = [shown(curves[m][count]) if count in curves[m] else NONE for m in methods]
            rows.append([SETS[t], str(count), *cells])
    values = {"table": table(["set", "epochs", *methods], rows)}
    return values | {
        "control": View(book, experiment("ft_epochs").grids[0], "mlp", {"finetune": 1}).control(EUPG),
        "base_alone": span(_climb(curve(book, t, EUPG[0])) for t in SETS),
        **budget(book),
    }


def curve(book: Book, t: str, method: str, figure: str = UTILITY) -> dict[Value, Spread | None]:
    """Return a figure by epochs of fine-tuning; 0 is the base alone."""
    sweep, zero = experiment("ft_epochs").grids
    found = {n: book.spread(place(sweep, t, "mlp", method, {"finetune": n}), figure) for n in swept(sweep, "finetune")}
    if method in zero.methods:
        return {0: book.spread(place(zero, t, "mlp", method), figure)} | found
    return found


def smallest(by_epochs: Mapping[Value, Spread | None], reference: Spread | None) -> int | None:
    """Return the fewest epochs within 0.1 points of a reference, or better; None where none is, or it is missing."""
    if reference is None:
        return None
    for count, found in sorted(by_epochs.items()):
        if found is not None and found.mean >= reference.mean - CLOSE:
            return int(count)
    return None


def budget(book: Book) -> dict[str, str]:
    """Return the table of the smallest budgets, each with its speed-up over Retrain."""
    (quality,), rows = views(book, "quality_mlp"), list[list[str]]()
    ratios: dict[str, list[float | None]] = {"eupg": [], "retrain": [], "short": []}
    for t in SETS:
        for method in (*EUPG, SHORT):
            cells = []
            own = quality.spread(t, EUPG[0] if method == SHORT else method)
            for word, reference in (("eupg", own), ("retrain", quality.spread(t, "Retrain"))):
                by_epochs = curve(book, t, method)
                count = smallest(by_epochs, reference)
                cells += _budget(book, t, method, count, known=reference is not None and any(by_epochs.values()))
                if method == EUPG[0] and count:
                    ratios[word].append(budget_speed_up(book, t, method, count))
                if method == SHORT and word == "eupg" and count:
                    ratios["short"].append(budget_speed_up(book, t, method, count))
            rows.append([SETS[t], method, *cells])
    head = ["set", "method", "epochs within 0.1 of EUPG at 5", "speed-up", "epochs within 0.1 of Retrain", "speed-up"]
    return {
        "budget_table": table(head, rows),
        **{f"budget_{word}": "–" if not some else _times(some) for word, some in ratios.items()},
    }


def _times(some: list[float | None]) -> str:
    return MISSING if None in some else f"{span(some)}×"


def _budget(book: Book, t: str, method: str, count: int | None, *, known: bool) -> list[str]:
    if not known:
        return [MISSING, NONE]
    if count is None:
        return ["none tried", NONE]
    if count == 0:
        return [str(count), "no training"]
    faster = budget_speed_up(book, t, method, count)
    # Of EUPG k=30 alone was timed at every budget.
    return [str(count), NONE if faster is None and method == EUPG[1] else ratio(faster)]


def budget_speed_up(book: Book, t: str, method: str, count: int) -> float | None:
    """Return how many times faster than Retrain a forget with so many epochs is; None where it was not timed."""
    view = timed(book)["mlp"]
    spent = book.values({**view.where(t, method), "finetune": count}, FORGET)
    base = book.values(view.where(t, "Retrain"), FORGET)
    return median(base) / median(spent) if spent and base else None


def swept(grid: Grid, name: str) -> tuple[Value, ...]:
    """Return the values that a grid sweeps."""
    values = grid.settings[name]
    return values if isinstance(values, tuple) else (values,)


def _climb(by_epochs: Mapping[Value, Spread | None]) -> float | None:
    return above(by_epochs.get(5), by_epochs.get(0))
