"""The goals of the reproduction: what each asks, the result beside its control, and whether it is met."""

from __future__ import annotations

import pandas as pd

from eupg_reproduction.report.findings import (
    KNOWN,
    METHODS,
    PEOPLE,
    PLAIN,
    WITHIN,
    Tables,
    covered_in,
    figure,
    numbers,
    only,
    reached,
    spread,
)
from eupg_reproduction.report.tables import pick
from eupg_reproduction.report.words import EUPG, MISSING, NONE, SHORT, ratio, shown, span

# 5 of 50 epochs cannot be more than ten times faster; nine times counts as about that.
_FASTER = {"MLP": (9.0, "about 10×, at 5 of 50 epochs"), "XGBoost": (2.7, "at least the paper's 2.7×")}
_LEAST = {EUPG[0]: 85.4, EUPG[1]: 83.2}
Goal = tuple[str, str, str]


def goals(made: Tables) -> pd.DataFrame:
    """Return one row per goal."""
    rows = [*_people(made), *_times(made), *_pictures(made)]
    return pd.DataFrame(rows, columns=["goal", "found", "met"])


def _met(good: object) -> str:
    return MISSING if good is None else "yes" if good else "no"


def _people(made: Tables) -> list[Goal]:
    cells = pick(made["agreement"], table=PEOPLE)
    known = cells["difference"].dropna()
    good = (known >= -WITHIN).mean() >= 0.9 if len(known) else None
    words = "at least 90 % of the paper's utility cells on tables of people within 0.5 points, or better"
    every = pd.concat([pick(made[name], method=METHODS) for name in PLAIN])
    rows = [(words, reached(cells), _met(good)), _coverage(every)]
    for (t, model), least in KNOWN.items():
        auc = spread(only(made[f"quality_{model.lower()}"], set=t, method="Retrain"), "AUC before")
        words = f"exposure found before unlearning, {t} {model}: AUC at least {least}"
        rows.append((words, shown(auc, 1), _met(auc and auc.mean >= least)))
    return rows


def _coverage(table: pd.DataFrame, prefix: str = "") -> Goal:
    total = covered_in(table)
    good = total.covers >= 0.9 * total.total if total.total else None
    return f"{prefix}audits after unlearning: at least 90 % of their 95 % intervals cover 50", str(total), _met(good)


def _times(made: Tables) -> list[Goal]:
    rows = []
    for model, (least, words) in _FASTER.items():
        eupg, short = (only(made["speed_ups"], model=model, method=m)["speed-up"] for m in (EUPG[0], SHORT))
        result = MISSING if pd.isna(eupg) else f"{ratio(eupg)} (short retrain {ratio(short)})"
        goal = f"a forget by EUPG k=30 against Retrain, {model}: {words}"
        rows.append((goal, result, _met(None if pd.isna(eupg) else eupg >= least)))
    words = "the smallest budget of EUPG k=30 within 0.1 points of its 5 epochs, MLP: faster than Retrain by"
    eupg, short = (_budget(made, method) for method in (EUPG[0], SHORT))
    return [*rows, (words, f"{eupg} (short retrain {short})", NONE)]


def _budget(made: Tables, method: str) -> str:
    mine = pick(made["budgets"], method=method)
    ratios = mine[mine["epochs within 0.1 of EUPG at 5"] > 0]["speed-up within 0.1 of EUPG at 5"]
    return NONE if ratios.empty else MISSING if ratios.isna().any() else f"{span(numbers(ratios))}×"


def _pictures(made: Tables) -> list[Goal]:
    paper, better = made["quality_resnet18"], made["better_resnet18"]
    full, sisa = only(paper, method="Retrain"), only(paper, method="SISA")
    every = pd.concat([paper, better, made["blocks_resnet18"], made["epochs_resnet18"]])
    every = every.drop_duplicates(["method", "recipe", "finetune", "pretrain"])
    after, change = spread(full, "utility after"), sisa["utility change"]
    fell = " → ".join(f"{sisa[f'utility {phase}, paper']:.1f}" for phase in ("before", "after"))
    texts = " → ".join(figure(sisa, f"utility {phase}") for phase in ("before", "after"))
    collapse = f"images, SISA does not collapse: after unlearning within 2 points of before (paper: {fell})"
    return [
        ("images, Retrain after unlearning: at least 94", figure(full), _met(after and after.mean >= 94)),
        *(_reaches(paper, better, method, least) for method, least in _LEAST.items()),
        _best_block(made),
        (collapse, *((MISSING, MISSING) if pd.isna(change) else (texts, _met(abs(change) <= 2)))),
        # Bases alone have unlearned nothing.
        _coverage(every[every["finetune"] > 0], "images, "),
    ]


def _reaches(paper: pd.DataFrame, better: pd.DataFrame, method: str, least: float) -> Goal:
    """Ask of both recipes whether EUPG is as good as in the paper, beside its control."""
    results, known = [], []
    for name, table in (("the paper's recipe", paper), ("the better", better)):
        row = only(table, method=method)
        results.append(f"{name} {figure(row)}, short retrain {figure(only(table, method=SHORT))}")
        known += [one.mean] if (one := spread(row, "utility after")) else []
    words = f"images, {method} after unlearning, 5 epochs by either recipe: at least the paper's {least:g}"
    return words, "; ".join(results) if known else MISSING, _met(max(known) >= least if known else None)


def _best_block(made: Tables) -> Goal:
    """Ask whether the best block size, chosen by this very figure, is good and ahead of its control."""
    words = "images, k=30 with its best block by this figure, 5 epochs: above 90, and above the short retrain of the "
    words += "same recipe by more than 1 point and the two spreads together"
    tuned = pick(made["blocks_resnet18"], finetune=5).dropna(subset="utility after")
    if tuned.empty:
        return words, MISSING, MISSING
    best = max(tuned.to_dict("records"), key=lambda row: row["utility after"])
    row = only(made["better_resnet18"], method=SHORT)
    ours, short = spread(best, "utility after"), spread(row, "utility after")
    assert ours is not None
    good = None if short is None else ours.mean > 90 and ours.minus(short) > 1 and not ours.agrees(short)
    return words, f"{figure(best)} ({best['method']}); short retrain {figure(row)}", _met(good)
