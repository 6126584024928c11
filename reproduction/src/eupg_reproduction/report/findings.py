"""What the page says: pivots of the long tables, and figures in sentences, each beside its control."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import pandas as pd

from eupg_reproduction.report.audits import Covered
from eupg_reproduction.report.tables import pick
from eupg_reproduction.report.tidy import FORGET, REPEATS, Book, measured, places
from eupg_reproduction.report.words import (
    EUPG,
    MISSING,
    MODELS,
    NAMES,
    NONE,
    SETS,
    SHORT,
    Judged,
    judge,
    listed,
    of_all,
    percent,
    ratio,
    sentences,
    shown,
    signed,
    span,
    verdict,
)
from eupg_reproduction.spread import Spread

Tables = Mapping[str, pd.DataFrame]
WITHIN, KNOWN = 0.5, {("Adult", "XGBoost"): 56, ("Heart", "XGBoost"): 62}
METHODS = ("Retrain", SHORT, "SISA", "Certified-SP", *EUPG)
REFRESHED, EIGHT, SIXTEEN = "EUPG k=30, leaves refreshed", "EUPG k=30, blocks 8×8", "EUPG k=30, blocks 16×16"
ONE, FEW, MANY = "synthesis ε=1", (0.005, 0.01, 0.02, 0.05), (0.1, 1.0)
PEOPLE, IMAGES = ("quality_mlp", "quality_xgboost", "forget_ratio"), ("quality_resnet18", "epochs_resnet18")
PLAIN = ("quality_mlp", "quality_xgboost", "quality_others")
# The models of the paper; tables have the others too.
_SHOWN = ("MLP", "XGBoost")
_MEDIAN = "forget, s, median"
_GROUPS = {"trees": ("XGBoost", "LightGBM"), "mlp": ("MLP",), "logistic": ("logistic regression",)}


def figure(row: Mapping[Any, Any], name: str = "utility after", decimals: int = 2) -> str:
    """Show a figure of a row with its spread and its repetitions."""
    return shown(spread(row, name), decimals, of=int(row["asked"]))


def spread(row: Mapping[Any, Any], name: str) -> Spread | None:
    """Return a figure of a row as mean and deviation."""
    return None if pd.isna(row[name]) else Spread(row[name], row[f"{name} ±"], int(row["runs"]))


def only(table: pd.DataFrame, /, **where: Any) -> Mapping[str, Any]:
    """Return the one row with these values."""
    (row,) = pick(table, **where).to_dict("records")
    return {str(name): value for name, value in row.items()}


def numbers(column: pd.Series[float]) -> list[float | None]:
    """Return the values of a column, None where one is missing."""
    return [None if pd.isna(value) else float(value) for value in column]


def range_of(
    table: pd.DataFrame, column: str, /, *, decimals: int = 1, sign: bool = False, flip: bool = False, **where: Any
) -> str:
    """Say from where to where a column goes in these rows; flipped, by how much the control is ahead."""
    values = numbers(pick(table, **where)[column])
    return span([None if v is None else -v if flip else v for v in values], decimals, sign=sign)


def pivot(
    table: pd.DataFrame,
    columns: Iterable[str],
    cells: Iterable[str],
    *,
    by: str = "method",
    places: pd.Series[str] | None = None,
) -> pd.DataFrame:
    """Return cells by place, by default set and model, and by what stands in a column; places keep their order."""
    long = table.assign(cell=list(cells), place=table["set"] + ", " + table["model"] if places is None else places)
    wide = long.pivot(index="place", columns=by, values="cell").fillna(NONE)
    return wide.loc[list(dict.fromkeys(long["place"])), list(columns)].rename_axis("", axis=0).reset_index()


def quality_table(made: Tables) -> pd.DataFrame:
    """Return utility after forgetting by the paper's recipes, with the paper's own means in square brackets."""
    names = ("quality_mlp", "quality_xgboost", "quality_resnet18")
    rows = pd.concat([pick(made[name], method=(*METHODS, REFRESHED)) for name in names])
    cells = []
    for row in rows.to_dict("records"):
        printed = row["utility after, paper"]
        cells.append(figure(row) + ("" if pd.isna(printed) else f" [{printed:.2f}]"))
    return pivot(rows, (*METHODS, REFRESHED), cells)


def speed_table(made: Tables) -> pd.DataFrame:
    """Return speed-ups over Retrain by model and method; the paper's in square brackets."""
    rows = pick(made["speed_ups"], method=(*METHODS[1:], REFRESHED))
    cells = [
        (MISSING if pd.isna(ours) else ratio(ours)) + ("" if pd.isna(paper) else f" [{ratio(paper)}]")
        for ours, paper in zip(rows["speed-up"], rows["speed-up, paper"], strict=True)
    ]
    return pivot(rows, (*METHODS[1:], REFRESHED), cells, places=rows["model"])


def audit_table(made: Tables) -> pd.DataFrame:
    """Return what membership inference finds before and after, by method over all sets and models of people."""
    rows, every = [], pd.concat([made[name] for name in PLAIN])
    for method in METHODS:
        mine = pick(every, method=method)
        before, after = (span(numbers(mine[f"AUC {phase}"])) for phase in ("before", "after"))
        row = {"method": method, "AUC before": before, "AUC after": after}
        rows.append(row | {"intervals after that cover 50": str(covered_in(mine))})
    return pd.DataFrame(rows)


def covered_in(table: pd.DataFrame) -> Covered:
    """Count the audits after unlearning in these rows whose interval covers 50."""
    return Covered(int(table["covers 50"].sum()), int(table["runs"].sum()))


def frontier_table(table: pd.DataFrame, method: str, shares: tuple[float, ...]) -> pd.DataFrame:
    """Return a protection and the same people from scratch, by share; who is ahead of both spreads is bold."""
    table = pick(table, model=_SHOWN)
    rows = pick(table, method=method, exposure=shares)
    rows = rows.assign(share=rows["exposure"].map(percent))
    wide = pivot(rows, map(percent, shares), map(_bold, rows.to_dict("records")), by="share")
    alone = pick(table, method=method, exposure=0.0)
    for place, (column, word) in enumerate(
        {"utility": "base alone", "short retrain": "short retrain, all seen"}.items()
    ):
        wide.insert(1 + place, word, [MISSING if pd.isna(v) else f"{v:.1f}" for v in alone[column]])
    return wide


def _bold(row: Mapping[Any, Any]) -> str:
    both = {"ahead": row["utility"], "beaten": row["from scratch"]}
    words = [MISSING if pd.isna(value) else f"{value:.1f}" for value in both.values()]
    if words == [MISSING, MISSING]:
        return MISSING
    return " / ".join(
        f"**{text}**" if row["from scratch, side"] == side else text for side, text in zip(both, words, strict=True)
    )


def base_table(made: Tables) -> pd.DataFrame:
    """Return bases that saw nobody raw, beside what sees everyone."""
    every = pick(pd.concat([made["exposure"], made["synthesis"]], ignore_index=True), model=_SHOWN)
    columns = {"From scratch": "Retrain", SHORT: "short retrain", "k=10": "k=10", "ε=1": "local DP ε=1"}
    columns |= {f"synthesis ε={e}": f"synthesis ε={e}" for e in ("0.1", "1", "10")}
    controls = pick(every, method=("From scratch", SHORT), exposure=1.0)
    rows = pd.concat([controls, pick(every, method=tuple(columns), exposure=0.0)]).sort_index(kind="stable")
    cells = (MISSING if pd.isna(value) else f"{value:.1f}" for value in rows["utility"])
    return pivot(rows, columns, cells).rename(columns=columns)


def block_table(made: Tables) -> pd.DataFrame:
    """Return the sizes of permuted blocks: utility of the base alone and fine-tuned, and how many rows are rebuilt."""
    rows = []
    for row in pick(made["blocks_resnet18"], finetune=5).to_dict("records"):
        size = int(row["method"].rpartition("×")[2]) if "×" in row["method"] else 1
        alone = only(made["blocks_resnet18"], method=row["method"], finetune=0)
        shows = made["block_linkage"][made["block_linkage"].get("block", pd.Series()) == size]
        rebuilt = MISSING if shows.empty else f"{shows['rows'].iloc[0]:.1f} %"
        apart = row["short retrain, difference"]
        cells = {"block": "single pixels" if size == 1 else f"{size}×{size}", "base alone": figure(alone)}
        cells |= {"after 5 epochs": figure(row), "above the short retrain": NONE if pd.isna(apart) else signed(apart)}
        rows.append(cells | {"RMIA AUC after": figure(row, "AUC after", 1), "rows put together again": rebuilt})
    short = only(made["better_resnet18"], method=SHORT)
    last = ["short retrain", NONE, figure(short), NONE, figure(short, "AUC after", 1), NONE]
    return pd.DataFrame([*rows, dict(zip(rows[0], last, strict=True))])


def outside(made: Tables) -> str:
    """Name the places where more than one repetition in five finds something after unlearning."""
    every = pick(pd.concat([made[name] for name in PLAIN]), method=METHODS)
    some = every[every["runs"] - every["covers 50"] > 1].to_dict("records")
    words = [
        f"{row['set']} {row['model']} {row['method']} (mean {row['AUC after']:.1f}, {row['covers 50']:.0f} of "
        f"{row['runs']} cover 50)"
        for row in some
    ]
    return listed(words, "none")


def judged(table: pd.DataFrame, control: str, *, places: Iterable[str]) -> list[Judged]:
    """Return who is ahead in the rows of a table, each by the name of its place."""
    columns = (table[f"{control}, side"], numbers(table[f"{control}, difference"]))
    return [
        Judged(place, None if pd.isna(side) else str(side), apart)
        for place, side, apart in zip(places, *columns, strict=True)
    ]


def control(table: pd.DataFrame, methods: Iterable[str], *, by: str = "set", word: str = "on") -> str:
    """Say of each method where the short retrain beats it, by utility after forgetting."""
    verdicts = []
    for method in methods:
        mine = pick(table, method=method)
        verdicts.append(verdict(method, judged(mine, "short retrain", places=mine[by].map(str)), word=word))
    return sentences(verdicts)


def counted(table: pd.DataFrame, method: str, shares: tuple[float, ...]) -> dict[str, str]:
    """Count where a protection is ahead of, level with and beaten by the same people from scratch."""
    rows = pick(table, method=method, exposure=shares)
    places = rows["set"] + " " + rows["model"] + " at " + rows["exposure"].map(percent)
    known = [one for one in judged(rows, "from scratch", places=places) if one.side]
    by_side = {side: [one.named(1) for one in known if one.side == side] for side in ("ahead", "level", "beaten")}
    counts = {side: of_all(len(some), len(known)) for side, some in by_side.items()}
    return counts | {"beaten_list": listed(by_side["beaten"])}


def best(made: Tables, t: str, method: str, exposure: float = 0.0) -> str:
    """Name the best utility over the models at an exposure; 0 is a base alone."""
    every = pd.concat([made["exposure"], made["synthesis"]])
    known = pick(every, set=t, method=method, exposure=exposure).dropna(subset="utility")
    top = max(known.to_dict("records"), key=lambda row: row["utility"], default=None)
    return MISSING if top is None else f"{top['utility']:.1f} ({top['model']})"


def spoilt(book: Book) -> dict[str, str]:
    """Count the draws, of every protection and exposure, in which fine-tuning made the base worse; name the worst."""
    exposed = pick(book.table, figure="utility", kind="exposure", set=tuple(SETS)) if len(book.table) else book.table
    drawn = exposed[exposed["repetition"] < REPEATS]
    if drawn.empty:
        return {"worse": MISSING, "worst": MISSING}
    keys = ["set", "model", "method", "repetition"]
    both = drawn[drawn["exposure"] > 0].merge(drawn[drawn["exposure"] == 0], on=keys, suffixes=("", " of the base"))
    if both.empty:
        return {"worse": MISSING, "worst": MISSING}
    both["apart"] = both["value"] - both["value of the base"]
    means = both.groupby([*keys[:3], "exposure"], sort=False)["apart"].mean().reset_index()
    worst = means.sort_values("apart").to_dict("records")[0]
    place = f"{SETS[worst['set']]} {MODELS[worst['model']]}, {worst['method']}, {percent(worst['exposure'])} exposed"
    return {
        "worse": f"{(both['apart'] < -0.1).sum():,} of {len(both):,} draws",
        "worst": f"{signed(worst['apart'])} ({place})",
    }


def cheaper(costs: pd.DataFrame) -> dict[str, str]:
    """Say how many times cheaper an erasure is, by kind of model, and where it is very cheap and near Retrain."""
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
    """Say where Retrain by the plain recipe is both better and faster than the tuned EUPG with k=30."""
    plain = pd.concat([made[name] for name in PLAIN])
    wins = {}
    for tuned in pick(made["runtime_tuned"], method=EUPG[0]).to_dict("records"):
        where = {"set": tuned["set"], "model": tuned["model"]}
        slow = only(made["runtime"], **where, method="Retrain")[_MEDIAN]
        ours = spread(only(made["tuned"], **where, method=EUPG[0]), "utility after")
        theirs = spread(only(plain, **where, method="Retrain"), "utility after")
        side = judge("", theirs, ours).side
        if side and not pd.isna(slow) and not pd.isna(tuned[_MEDIAN]):
            wins[f"{tuned['set']} {tuned['model']}"] = side == "ahead" and slow < tuned[_MEDIAN]
    return _places(wins)


def _places(known: Mapping[str, bool]) -> str:
    places = [place for place, good in known.items() if good]
    return f"{listed(places)} ({of_all(len(places), len(known))})" if known else MISSING


def short_faster(times: pd.DataFrame) -> str:
    """Say where a short retrain forgets faster than EUPG with k=30."""
    places = {}
    for short, eupg in zip(*(pick(times, method=m).to_dict("records") for m in (SHORT, EUPG[0])), strict=True):
        if not pd.isna(short[_MEDIAN]) and not pd.isna(eupg[_MEDIAN]):
            places[f"{short['set']} {short['model']}"] = bool(short[_MEDIAN] < eupg[_MEDIAN])
    return _places(places)


def reached(cells: pd.DataFrame) -> str:
    """Say how many of the paper's utilities are within half a point, or better."""
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
        rows.append(
            {k: str(v) for k, v in (row | {"inside the two spreads": int((mine["inside"] == "yes").sum())}).items()}
        )
    return pd.DataFrame(rows)


def misses(cells: pd.DataFrame) -> pd.DataFrame:
    """Return each set, model and method that misses the paper's utility, by how much, and the reason from the notes."""
    rows = []
    missed_cells = cells[cells["difference"] < -WITHIN]
    for place in dict.fromkeys(missed_cells[["set", "model", "method"]].itertuples(index=False, name=None)):
        mine = pick(missed_cells, set=place[0], model=place[1], method=place[2])
        apart = [f"{signed(one)} {when}" for one, when in zip(mine["difference"], mine["when"], strict=True)]
        rows.append((*place, listed(apart), reasons().get(place, "not explained yet")))
    return pd.DataFrame(rows, columns=["set", "model", "method", "missed by", "why"])


def missed(table: pd.DataFrame) -> str:
    """Name the misses in one sentence."""
    return listed(
        [f"{t} {model} {method} ({apart})" for t, model, method, apart, _ in table.itertuples(index=False)], "none"
    )


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why a cell misses the paper's figure, by set, model and method."""
    text = files("eupg_reproduction").joinpath("templates/misses.toml").read_text(encoding="utf-8")
    listed_reasons = tomllib.loads(text)["miss"]
    return {(NAMES[o["set"]], MODELS[o["model"]], o["method"]): " ".join(o["why"].split()) for o in listed_reasons}


def goals_met(table: pd.DataFrame) -> str:
    """Say how many goals are met, and name those that are not."""
    asked = table[table["met"] != NONE]
    words = [f"{goal} ({found})" for goal, found, good in asked.itertuples(index=False) if good == "no"]
    return f"{of_all(int((asked['met'] == 'yes').sum()), len(asked))} goals are met. Not met: {listed(words, 'none')}."


def gains(cells: pd.DataFrame) -> str:
    """Say where the paper's utility is passed by more than half a point, and by how much."""
    good = cells[cells["difference"] > WITHIN].groupby(["set", "model"], sort=False)["difference"]
    words = [f"{' '.join(place)}: {len(some)} cells, {span(some, sign=True)}" for place, some in good]  # type: ignore[arg-type]
    return "; ".join(words) or "none"


def beaten(table: pd.DataFrame) -> str:
    """Count where the short retrain is ahead."""
    known = table["short retrain, side"].dropna()
    return of_all(int((known == "beaten").sum()), len(known))


def kept(table: pd.DataFrame, share: float) -> str:
    """Say how often the rule kept the k-anonymous base as it was, in percent of draws."""
    shares = pick(table, method="k=30", exposure=share).get("base kept, %", pd.Series(dtype=float)).dropna()
    return f"{shares.mean():.0f} %" if len(shares) else MISSING


def mean_speed(made: Tables, model: str, method: str) -> str:
    """Return the speed-up over Retrain, the mean over the sets."""
    value = only(made["speed_ups"], model=model, method=method)["speed-up"]
    return MISSING if pd.isna(value) else ratio(value)


def rebuilt(made: Tables, size: int) -> str:
    """Say how many rows of blocks are put together again by their edges."""
    found = [row for row in made["block_linkage"].to_dict("records") if row["block"] == size]
    return f"{found[0]['rows']:.0f} %" if found else MISSING


def ends(table: pd.DataFrame, method: str) -> str:
    """Return a utility at the smallest and at the largest share of people forgotten."""
    values = pick(table, method=method).sort_values("forget")["utility after"].iloc[[0, -1]]
    return " to ".join(MISSING if pd.isna(value) else f"{value:.1f}" for value in values)


def by_recipe(made: Tables) -> pd.DataFrame:
    """Return pictures fine-tuned by both recipes, these named in words."""
    both = pd.concat([made["quality_resnet18"], made["better_resnet18"]], ignore_index=True)
    return both.assign(recipe=both["recipe"].map({"paper": "the paper's recipe", "better": "the better recipe"}))


def clock(book: Book) -> str:
    """Say how forgets were timed."""
    alone = all(book.values(where, FORGET) for where in places("runtime"))
    return "one process at a time, one thread" if alone else "timed beside other processes where not timed alone yet"


def repeats() -> str:
    """Say how many repetitions there are, and where fewer."""
    fewer = {one.name: min(one.most_repeats or REPEATS, REPEATS) for one in measured()}
    images = sorted({fewer[one.name] for one in measured() if one.gpu})
    others = [f"`{one.name}`: {fewer[one.name]}" for one in measured() if not one.gpu and fewer[one.name] < REPEATS]
    return f"{REPEATS} ({'; '.join([f'images: {images[0]} or {images[-1]}', *others])})"
