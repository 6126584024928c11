"""What the page states: pivots of the long tables, and figures in sentences, each beside its control."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import pandas as pd

from eupg_reproduction.report.audits import Coverage
from eupg_reproduction.report.tables import pick, side_of
from eupg_reproduction.report.tidy import FORGET, REPEATS, Measurements, places, reported
from eupg_reproduction.report.words import (
    EUPG,
    MISSING,
    MODELS,
    NAMES,
    NONE,
    SETS,
    SHORT,
    listed,
    of_all,
    percent,
    ratio,
    shown,
    signed,
    span,
)
from eupg_reproduction.spread import Spread

Tables = Mapping[str, pd.DataFrame]
WITHIN, KNOWN = 0.5, {("Adult", "XGBoost"): 56, ("Heart", "XGBoost"): 62}
METHODS = ("Retrain", SHORT, "SISA", "Certified-SP", *EUPG)
EIGHT, SIXTEEN = "EUPG k=30, blocks 8×8", "EUPG k=30, blocks 16×16"
ONE, FEW, MANY = "synthesis ε=1", (0.005, 0.01, 0.02, 0.05), (0.1, 1.0)
PEOPLE, IMAGES = ("quality_mlp", "quality_xgboost", "forget_ratio"), ("quality_resnet18", "epochs_resnet18")
PLAIN = ("quality_mlp", "quality_xgboost", "quality_others")
# The models of the paper; the tables have others too.
_SHOWN = ("MLP", "XGBoost")
_MEDIAN = "forget, s, median"
_GROUPS = {"trees": ("XGBoost", "LightGBM"), "mlp": ("MLP",), "logistic": ("logistic regression",)}
_SIDES = {"beaten": "behind", "level": "level", "ahead": "ahead", "one run": "not judged, with a single run,"}


def figure(row: Mapping[Any, Any], name: str = "utility after", decimals: int = 2) -> str:
    """Return a figure of a row with its deviation and its repetitions."""
    return shown(spread(row, name), decimals, of=int(row["asked"]))


def spread(row: Mapping[Any, Any], name: str) -> Spread | None:
    """Return a figure of a row as mean and deviation."""
    return None if pd.isna(row[name]) else Spread(row[name], row[f"{name} ±"], int(row["runs"]))


def only(table: pd.DataFrame, /, **where: Any) -> Mapping[str, Any]:
    """Return the one row with these values."""
    (row,) = pick(table, **where).to_dict("records")
    return {str(name): value for name, value in row.items()}


def numbers(column: pd.Series[float]) -> list[float | None]:
    """Return the values of a column, None for a missing one."""
    return [None if pd.isna(value) else float(value) for value in column]


def range_of(
    table: pd.DataFrame, column: str, /, *, decimals: int = 1, sign: bool = False, flip: bool = False, **where: Any
) -> str:
    """Return the range of a column in these rows; ``flip`` reverses the sign."""
    values = numbers(pick(table, **where)[column])
    return span([None if v is None else -v if flip else v for v in values], decimals, sign=sign)


def pivot(
    table: pd.DataFrame, columns: Iterable[str], cells: Iterable[str], *, by: str = "method", model_only: bool = False
) -> pd.DataFrame:
    """Return cells by set and model, or by model, and by the values of a column; rows keep their order."""
    place = table["model"] if model_only else table["set"] + ", " + table["model"]
    long = table.assign(cell=list(cells), place=place)
    wide = long.pivot(index="place", columns=by, values="cell").fillna(NONE)
    return wide.loc[list(dict.fromkeys(long["place"])), list(columns)].rename_axis("", axis=0).reset_index()


def quality_table(made: Tables) -> pd.DataFrame:
    """Return utility after forgetting by the paper's recipes, with the paper's means in square brackets."""
    names = ("quality_mlp", "quality_xgboost", "quality_resnet18")
    rows = pd.concat([pick(made[name], method=METHODS) for name in names])
    cells = []
    for row in rows.to_dict("records"):
        printed = row["utility after, paper"]
        cells.append(figure(row) + ("" if pd.isna(printed) else f" [{printed:.2f}]"))
    return pivot(rows, METHODS, cells)


def speed_table(made: Tables) -> pd.DataFrame:
    """Return speed-ups over Retrain by model and method, with the paper's in square brackets."""
    rows = pick(made["speed_ups"], method=METHODS[1:])
    cells = [
        ratio(ours) + ("" if pd.isna(paper) else f" [{ratio(paper)}]")
        for ours, paper in zip(rows["speed-up"], rows["speed-up, paper"], strict=True)
    ]
    return pivot(rows, METHODS[1:], cells, model_only=True)


def audit_table(made: Tables) -> pd.DataFrame:
    """Return the audits before and after by method, over all sets and models of people."""
    rows, every = [], pd.concat([made[name] for name in PLAIN])
    for method in METHODS:
        mine = pick(every, method=method)
        row = {"method": method} | {f"AUC {phase}": range_of(mine, f"AUC {phase}") for phase in ("before", "after")}
        rows.append(row | {"intervals after that cover 50": str(covered_in(mine))})
    return pd.DataFrame(rows)


def covered_in(table: pd.DataFrame) -> Coverage:
    """Count the audits after unlearning in these rows whose interval covers 50."""
    return Coverage(int(table["covers 50"].sum()), int(table["runs"].sum()))


def frontier_table(table: pd.DataFrame, method: str, shares: tuple[float, ...]) -> pd.DataFrame:
    """Return a protection and the same people from scratch, by share; bold is ahead by more than both deviations."""
    table = pick(table, model=_SHOWN)
    rows = pick(table, method=method, exposure=shares)
    rows = rows.assign(share=rows["exposure"].map(percent))
    wide = pivot(rows, map(percent, shares), map(_bold, rows.to_dict("records")), by="share")
    alone = pick(table, method=method, exposure=0.0)
    wide.insert(1, "base alone", list(map(_one_decimal, alone["utility"])))
    wide.insert(2, "short retrain, all seen", list(map(_one_decimal, alone["short retrain"])))
    return wide


def _one_decimal(value: float) -> str:
    return MISSING if pd.isna(value) else f"{value:.1f}"


def _bold(row: Mapping[Any, Any]) -> str:
    sides = {"ahead": _one_decimal(row["utility"]), "beaten": _one_decimal(row["from scratch"])}
    if set(sides.values()) == {MISSING}:
        return MISSING
    return " / ".join(f"**{text}**" if row["from scratch, side"] == side else text for side, text in sides.items())


def base_table(made: Tables) -> pd.DataFrame:
    """Return bases that saw nobody raw, beside the retrainings that see everyone."""
    every = pick(pd.concat([made["exposure"], made["synthesis"]], ignore_index=True), model=_SHOWN)
    columns = {"From scratch": "Retrain", SHORT: "short retrain", "k=10": "k=10", "ε=1": "local DP ε=1"}
    columns |= {f"synthesis ε={e}": f"synthesis ε={e}" for e in ("1", "10")}
    controls = pick(every, method=("From scratch", SHORT), exposure=1.0)
    rows = pd.concat([controls, pick(every, method=tuple(columns), exposure=0.0)]).sort_index(kind="stable")
    return pivot(rows, columns, map(_one_decimal, rows["utility"])).rename(columns=columns)


def block_table(made: Tables) -> pd.DataFrame:
    """Return the block sizes: utility of the base alone and fine-tuned, and the rows of blocks that are rebuilt."""
    rows = []
    for row in pick(made["blocks_resnet18"], finetune=5).to_dict("records"):
        size = int(row["method"].rpartition("×")[2]) if "×" in row["method"] else 1
        alone = only(made["blocks_resnet18"], method=row["method"], finetune=0)
        difference = row["short retrain, difference"]
        cells = {"block": "single pixels" if size == 1 else f"{size}×{size}", "base alone": figure(alone)}
        cells |= {"after 5 epochs": figure(row)}
        cells |= {"above the short retrain": NONE if pd.isna(difference) else signed(difference)}
        rows.append(cells | {"RMIA AUC after": figure(row, "AUC after", 1), "rows rebuilt": rebuilt(made, size, 1)})
    short = only(made["better_resnet18"], method=SHORT)
    last = ["short retrain", NONE, figure(short), NONE, figure(short, "AUC after", 1), NONE]
    return pd.DataFrame([*rows, dict(zip(rows[0], last, strict=True))])


def rebuilt(made: Tables, size: int, decimals: int = 0) -> str:
    """Return the share of rows of blocks that are joined again by their edges."""
    shares = [row["rows"] for row in made["block_linkage"].to_dict("records") if row["block"] == size]
    return f"{shares[0]:.{decimals}f} %" if shares else MISSING


def exposed_places(made: Tables) -> str:
    """Name the places where more than one repetition in five finds something after unlearning."""
    every = pick(pd.concat([made[name] for name in PLAIN]), method=METHODS)
    places = every[every["runs"] - every["covers 50"] > 1].to_dict("records")
    return listed([f"{p['set']} {p['model']} {p['method']} (mean {p['AUC after']:.1f})" for p in places], "none")


def standing(table: pd.DataFrame, method: str, *, by: str = "set", word: str = "on") -> str:
    """State where a method is behind, level with and ahead of the short retrain, with the differences in utility."""
    places: dict[str, list[str]] = {}
    for row in pick(table, method=method).to_dict("records"):
        side, difference = row["short retrain, side"], row["short retrain, difference"]
        known = _SIDES.get(side)
        places.setdefault(known or MISSING, []).append(row[by] + (f" ({signed(difference)})" if known else ""))
    if set(places) == {MISSING}:
        return f"{method}: {MISSING}"
    order = [side for side in (*_SIDES.values(), MISSING) if side in places]
    return f"{method} is " + listed([f"{side} {word} {listed(places[side])}" for side in order])


def counted(table: pd.DataFrame, method: str, shares: tuple[float, ...]) -> dict[str, str]:
    """Count where a protection is ahead of, level with and behind the same people from scratch."""
    sides = pick(table, method=method, exposure=shares)["from scratch, side"].dropna()
    return {side: of_all(int((sides == side).sum()), len(sides)) for side in ("ahead", "level", "beaten")}


def beaten(table: pd.DataFrame) -> str:
    """Count where the short retrain is ahead."""
    sides = table["short retrain, side"].dropna()
    return of_all(int((sides == "beaten").sum()), len(sides))


def best(made: Tables, t: str, method: str, exposure: float = 0.0) -> str:
    """Return the best utility over the models at an exposure; 0 is a base alone."""
    every = pd.concat([made["exposure"], made["synthesis"]])
    known = pick(every, set=t, method=method, exposure=exposure).dropna(subset="utility")
    top = max(known.to_dict("records"), key=lambda row: row["utility"], default=None)
    return MISSING if top is None else f"{top['utility']:.1f} ({top['model']})"


def worse_draws(measurements: Measurements) -> dict[str, str]:
    """Count the draws, of every protection and exposure, in which fine-tuning made the base worse; name the worst."""
    table = measurements.table
    exposed = pick(table, figure="utility", kind="exposure", set=tuple(SETS)) if len(table) else table
    drawn = exposed[exposed["repetition"] < REPEATS]
    keys = ["set", "model", "method", "repetition"]
    if drawn.empty:
        return {"worse": MISSING, "worst": MISSING}
    both = drawn[drawn["exposure"] > 0].merge(drawn[drawn["exposure"] == 0], on=keys, suffixes=("", " of the base"))
    if both.empty:
        return {"worse": MISSING, "worst": MISSING}
    both["change"] = both["value"] - both["value of the base"]
    means = both.groupby([*keys[:3], "exposure"], sort=False)["change"].mean().reset_index()
    worst = means.sort_values("change").to_dict("records")[0]
    place = f"{SETS[worst['set']]} {MODELS[worst['model']]}, {worst['method']}, {percent(worst['exposure'])} exposed"
    return {
        "worse": f"{(both['change'] < -0.1).sum():,} of {len(both):,} draws",
        "worst": f"{signed(worst['change'])} ({place})",
    }


def base_kept(table: pd.DataFrame, share: float) -> str:
    """Return how often the rule served the k-anonymous base unchanged, in percent of draws."""
    shares = pick(table, method="k=30", exposure=share).get("base kept, %", pd.Series(dtype=float)).dropna()
    return f"{shares.mean():.0f} %" if len(shares) else MISSING


def cheaper(costs: pd.DataFrame) -> dict[str, str]:
    """Return how many times cheaper an erasure is, by kind of model, and where it is very cheap and near Retrain."""
    words, columns = {}, {"training": "cheaper, training", "total": "cheaper, with bookkeeping"}
    for word, column in (columns | {"short": "cheaper than the short retrain"}).items():
        for group, models in _GROUPS.items():
            values = pick(costs, model=models).get(column, pd.Series(dtype=float)).dropna()
            ends = [f"{float(f'{end:.2g}'):,.0f}" for end in (values.min(), values.max())] if len(values) else [MISSING]
            words[f"{word}_{group}"] = " to ".join(ends)
    if "utility below Retrain" not in costs:
        return words | {"cheap": listed([])}
    good = costs[(costs["cheaper, with bookkeeping"] >= 1000) & (costs["utility below Retrain"] <= 0.3)]
    return words | {"cheap": listed(list(good["set"] + " " + good["model"]))}


def plain_wins(made: Tables) -> str:
    """Name where Retrain by the plain recipe is both better and faster than the tuned EUPG with k=30."""
    plain = pd.concat([made[name] for name in PLAIN])
    wins = {}
    for tuned in pick(made["runtime_tuned"], method=EUPG[0]).to_dict("records"):
        where = {"set": tuned["set"], "model": tuned["model"]}
        slow = only(made["runtime"], **where, method="Retrain")[_MEDIAN]
        ours = spread(only(made["tuned"], **where, method=EUPG[0]), "utility after")
        theirs = spread(only(plain, **where, method="Retrain"), "utility after")
        side = side_of(theirs, ours)
        if side and not pd.isna(slow) and not pd.isna(tuned[_MEDIAN]):
            wins[f"{tuned['set']} {tuned['model']}"] = side == "ahead" and slow < tuned[_MEDIAN]
    places = [place for place, good in wins.items() if good]
    return f"{listed(places)} ({of_all(len(places), len(wins))})" if wins else MISSING


def short_faster(times: pd.DataFrame) -> str:
    """Count the places where a short retrain forgets faster than EUPG with k=30."""
    short, eupg = (pick(times, method=m).set_index(["set", "model"])[_MEDIAN] for m in (SHORT, EUPG[0]))
    known = (short - eupg).dropna()
    return of_all(int((known < 0).sum()), len(known))


def reached(cells: pd.DataFrame) -> str:
    """Count the paper's utilities that are within half a point, or better."""
    known = cells["difference"].dropna()
    return of_all(int((known >= -WITHIN).sum()), len(known), share=True)


def agreement_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Count the paper's utilities that are close, better and missed, by its tables."""
    groups = {name: cells[cells["table"] == name] for name in PEOPLE}
    groups["all tables of people"] = cells[cells["table"].isin(PEOPLE)]
    groups |= {name: cells[cells["table"] == name] for name in IMAGES}
    rows = []
    for name, mine in groups.items():
        known = mine["difference"].dropna()
        better, worse = int((known > WITHIN).sum()), int((known < -WITHIN).sum())
        row = {"table of the paper": name, "utility cells": len(mine), "within 0.5": len(known) - better - worse}
        row |= {"better by more": better, "worse by more": worse, "not measured yet": len(mine) - len(known)}
        row |= {"inside the two spreads": int((mine["inside"] == "yes").sum())}
        rows.append({name: str(value) for name, value in row.items()})
    return pd.DataFrame(rows)


def misses(cells: pd.DataFrame) -> pd.DataFrame:
    """Return each set, model and method that misses the paper's utility, by how much, and the reason."""
    rows = []
    missed_cells = cells[cells["difference"] < -WITHIN]
    for place in dict.fromkeys(missed_cells[["set", "model", "method"]].itertuples(index=False, name=None)):
        mine = pick(missed_cells, set=place[0], model=place[1], method=place[2])
        differences = [f"{signed(one)} {when}" for one, when in zip(mine["difference"], mine["when"], strict=True)]
        rows.append((*place, listed(differences), reasons().get(place, "not explained yet")))
    return pd.DataFrame(rows, columns=["set", "model", "method", "missed by", "why"])


def missed(table: pd.DataFrame) -> str:
    """Name the misses."""
    rows = table.itertuples(index=False)
    return listed([f"{t} {model} {method} ({difference})" for t, model, method, difference, _ in rows], "none")


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why a cell misses the paper's figure, by set, model and method."""
    text = files("eupg_reproduction").joinpath("templates/misses.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["miss"]
    return {(NAMES[o["set"]], MODELS[o["model"]], o["method"]): " ".join(o["why"].split()) for o in entries}


def gains(cells: pd.DataFrame) -> str:
    """State where the paper's utility is exceeded by more than half a point, and by how much."""
    good = cells[cells["difference"] > WITHIN].groupby(["set", "model"], sort=False)["difference"]
    words = [f"{' '.join(place)}: {len(some)} cells, {span(some, sign=True)}" for place, some in good]  # type: ignore[arg-type]
    return "; ".join(words) or "none"


def goals_met(table: pd.DataFrame) -> str:
    """State how many goals are met, and name the others."""
    judged = table[table["met"] != NONE]
    words = [f"{goal} ({result})" for goal, result, good in judged.itertuples(index=False) if good == "no"]
    met = of_all(int((judged["met"] == "yes").sum()), len(judged))
    return f"{met} goals are met" + (f"; not met: {listed(words)}." if words else ".")


def ends(table: pd.DataFrame, method: str) -> str:
    """Return utility at the smallest and at the largest share of people forgotten."""
    values = pick(table, method=method).sort_values("forget")["utility after"].iloc[[0, -1]]
    return " to ".join(map(_one_decimal, values))


def by_recipe(made: Tables) -> pd.DataFrame:
    """Return pictures fine-tuned by both recipes, with the recipes named in words."""
    both = pd.concat([made["quality_resnet18"], made["better_resnet18"]], ignore_index=True)
    return both.assign(recipe=both["recipe"].map({"paper": "the paper's recipe", "better": "the better recipe"}))


def clock(measurements: Measurements) -> str:
    """State how forgets were timed."""
    alone = all(measurements.values(where, FORGET) for where in places("runtime"))
    return "one process at a time, one thread" if alone else "timed beside other processes where not timed alone yet"


def repeats() -> str:
    """State the number of repetitions, and where there are fewer."""
    fewer = {one.name: min(one.most_repeats or REPEATS, REPEATS) for one in reported()}
    images = sorted({fewer[one.name] for one in reported() if one.gpu})
    others = [f"`{one.name}`: {fewer[one.name]}" for one in reported() if not one.gpu and fewer[one.name] < REPEATS]
    return f"{REPEATS} ({'; '.join([f'images: {images[0]} or {images[-1]}', *others])})"
