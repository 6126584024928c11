"""Tables of unlearning quality: utility and membership inference before and after forgetting, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eupg_reproduction.experiments import experiment
from eupg_reproduction.published import published
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.view import SHORT, View, above, flat
from eupg_reproduction.report.words import MODELS, NONE, SETS, against, mean, most, shown, span, table

EUPG = ("EUPG k=30", "EUPG ε=1")
PLAIN = ("quality_mlp", "quality_xgboost", "quality_others")
REFRESHED = ("EUPG k=30, leaves refreshed", "EUPG ε=1, leaves refreshed")
FIGURES = {"utility": "utility", "mia_auc": "audit.auc", "tpr_at_1fpr": "audit.tpr_at_1"}
COMPARED = ["method", "before", "paper", "difference", "inside", "after", "paper", "difference", "inside"]
_PLAIN = ["set", "model", "method", "before", "after", "RMIA before", "RMIA after"]
AUC = "before.audit.auc"


def views(book: Book, name: str) -> list[View]:
    """Return one view a model of an experiment."""
    return [View(book, grid, model) for grid in experiment(name).grids for model in grid.models]


def by_model(book: Book, *names: str) -> dict[str, View]:
    """Return the view of each model in these experiments."""
    return {view.model: view for name in names for view in views(book, name)}


def quality_mlp(book: Book) -> dict[str, str]:
    """Return the values of the section on MLPs."""
    (view,) = views(book, "quality_mlp")
    return compared(view, "quality_mlp") | {
        "control": view.control((*EUPG, "Certified-SP")),
        "apart": most(flat([view.differences(m, SHORT) for m in EUPG])),
        "short_over_retrain": span(view.differences(SHORT, "Retrain"), sign=True),
        "calibration": span(view.differences("Certified-SP, published calibration", "Certified-SP"), sign=True),
        "ends": _ends(view, ("Retrain", SHORT, "Certified-SP", *EUPG)),
        "sisa": span(view.differences("SISA", "Retrain"), sign=True),
        "sisa_fall": span(
            (above(view.spread(t, "SISA"), view.spread(t, "SISA", "before.utility")) for t in SETS), 2, sign=True
        ),
        "before_retrain": span(view.means("Retrain", AUC)),
        "before_eupg": span(flat([view.means(m, AUC) for m in EUPG])),
        "before_short": span(view.means(SHORT, AUC)),
    }


def _ends(view: View, methods: tuple[str, ...]) -> str:
    """Return how far methods are apart on the set where they are most."""
    means = zip(*(view.means(method) for method in methods), strict=True)
    found = [[value for value in some if value is not None] for some in means]
    return most([max(some) - min(some) if some else None for some in found])


def quality_xgboost(book: Book) -> dict[str, str]:
    """Return the values of the section on XGBoost."""
    (view,) = views(book, "quality_xgboost")
    return compared(view, "quality_xgboost") | {
        "control": view.control((*EUPG, *REFRESHED)),
        "gain": span(view.differences(REFRESHED[0], EUPG[0]), sign=True),
        "gain_dp": span(view.differences(REFRESHED[1], EUPG[1]), sign=True),
        "refreshed_retrain": span(view.differences(REFRESHED[0], "Retrain"), sign=True),
        "sisa": span(view.differences("SISA", "Retrain"), sign=True),
        "before_retrain": span(view.means("Retrain", AUC)),
        "before_eupg": span(flat([view.means(m, AUC) for m in EUPG])),
        "before_refreshed": span(flat([view.means(m, AUC) for m in REFRESHED])),
        "before_short": span(view.means(SHORT, AUC)),
    }


def quality_others(book: Book) -> dict[str, str]:
    """Return the values of the section on models that the paper lacks."""
    found = views(book, "quality_others")
    tuned = by_model(book, "tuned")
    return {
        "table": plain(found),
        **{f"control_{view.model}": view.control(EUPG) for view in found},
        **{f"brisk_{v.model}_{t}": mean(tuned[v.model].spread(t, SHORT)) for v in found for t in SETS},
    }


def tuned_quality(book: Book) -> dict[str, str]:
    """Return the values of the section on tuned recipes that are about quality."""
    found = views(book, "tuned")
    values = {"table": plain(found)}
    for view in found:
        values[f"control_{view.model}"] = view.control(EUPG)
    for name in ("mlp", "xgboost"):
        (mine,) = (view for view in found if view.model == name)
        (paper,) = views(book, f"quality_{name}")
        for word, method in (("retrain", "Retrain"), ("short", SHORT), ("eupg", EUPG[0])):
            gains = [above(mine.spread(t, method), paper.spread(t, method)) for t in SETS]
            values[f"gain_{word}_{name}"] = span(gains, sign=True)
    strong = [view for view in found if view.model != "logistic"]
    for word, method in (("retrain", "Retrain"), ("short", SHORT), ("eupg", EUPG[0])):
        values[f"before_{word}"] = span(flat([view.means(method, AUC) for view in strong]))
    return values


def label_dp(book: Book) -> dict[str, str]:
    """Return the values of the section on labels that are protected too."""
    found, rows, values = views(book, "label_dp"), list[list[str]](), dict[str, str]()
    for view in found:
        (paper,) = views(book, f"quality_{view.model}")
        for t in SETS:
            rows.append(_row(paper, t, EUPG[1]))
            rows += [_row(view, t, method) for method in view.grid.methods]
        costs = [above(view.spread(t, m), paper.spread(t, EUPG[1])) for m in _labelled(view) for t in SETS]
        values[f"cost_{view.model}"] = span(costs, sign=True)
        values[f"control_{view.model}"] = view.control(_labelled(view))
    return values | {"table": table(_PLAIN, rows)}


def compared(view: View, name: str) -> dict[str, str]:
    """Return three tables beside the paper's, and how many of its figures lie inside the two spreads."""
    found = {}
    for metric in FIGURES:
        rows = []
        for t in view.grid.sets:
            for method in view.grid.methods:
                rows.append([SETS[t], method, *beside_paper(view, name, t, method, metric)])
        marks = [mark for row in rows for mark in (row[5], row[9]) if mark != NONE]
        found[f"table_{metric}"] = table(["set", *COMPARED], rows)
        found[f"inside_{metric}"] = f"{marks.count('yes')} of {len(marks)}"
    return found


def beside_paper(view: View, name: str, t: str, method: str, metric: str) -> list[str]:
    """Return eight cells: a figure before and after forgetting, each beside that of one of the paper's tables."""
    cells = []
    for phase in ("before", "after"):
        ours = view.spread(t, method, f"{phase}.{FIGURES[metric]}")
        paper = published(name, t, view.model, method, metric, phase)
        cells += against(ours, paper, of=view.repeats(t, method))
    return cells


def plain(found: Iterable[View]) -> str:
    """Return a table of what the paper does not have."""
    return table(_PLAIN, [_row(view, t, method) for view in found for t in SETS for method in view.grid.methods])


def _row(view: View, t: str, method: str) -> list[str]:
    return [SETS[t], MODELS[view.model], method, *_before_after(view, t, method)]


def _before_after(view: View, t: str, method: str) -> Iterator[str]:
    for figure, decimals in (("utility", 2), ("audit.auc", 1)):
        for phase in ("before", "after"):
            yield shown(view.spread(t, method, f"{phase}.{figure}"), decimals)


def _labelled(view: View) -> list[str]:
    return [method for method in view.grid.methods if "label" in method]
