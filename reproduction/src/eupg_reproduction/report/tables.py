"""The long tables, one row per place: figures with their spread, the paper's beside them, and their controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median, pstdev
from typing import Any

import pandas as pd

from eupg_reproduction.cell import Value
from eupg_reproduction.exposure import CONTROLS
from eupg_reproduction.published import published
from eupg_reproduction.report.audits import audited_groups, covered, tried
from eupg_reproduction.report.beside import search_tables
from eupg_reproduction.report.origin import experiments, machines, versions
from eupg_reproduction.report.tidy import FORGET, REPEATS, Book, above, asked, by_name, mean_of, place, places
from eupg_reproduction.report.words import EUPG, MODELS, NAMES, SETS, SHORT, judge, percent
from eupg_reproduction.spread import Spread

Row = dict[str, Any]
# The paper's tables by experiment, and the settings that tell its rows apart.
_PAPER = {
    "quality_mlp": ("quality_mlp", {}),
    "quality_xgboost": ("quality_xgboost", {}),
    "quality_resnet18": ("quality_resnet18", {}),
    "sisa_resnet18": ("quality_resnet18", {}),
    "forget_ratio": ("sensitivity_forget_ratio", {"forget": "forget"}),
    "epochs_resnet18": ("ft_epochs", {"finetune": "epochs"}),
}
_METRICS = {"utility": "utility", "AUC": "audit.auc", "TPR at 1 %": "audit.tpr_at_1"}
_PRINTED = {"utility": "utility", "AUC": "mia_auc", "TPR at 1 %": "tpr_at_1fpr"}
_PHASES = {"protect": "protect_s", "pretrain": "pretrain_s", "finetune": "finetune_s", "forget": "unlearn_s"}
_TIMED = ("runtime", "runtime_tuned", "quality_resnet18")
_SETTINGS = ("recipe", "pretrain", "finetune", "forget", "exposure")
CLOSE = 0.1


def beside(name: str, ours: Spread | None, paper: Spread | None) -> Row:
    """Return a figure with its deviation and, where the paper has it, the paper's, the difference, and if it is inside.

    Inside means that the difference is no more than the two deviations together.
    """
    row: Row = {name: mean_of(ours), f"{name} ±": ours.std if ours else None}
    if paper is None:
        return row
    row |= {f"{name}, paper": paper.mean, f"{name}, paper ±": paper.std, f"{name}, difference": above(ours, paper)}
    return row | {f"{name}, inside": ("yes" if ours.agrees(paper) else "no") if ours else None}


def versus(word: str, ours: Spread | None, control: Spread | None, *, of: int = REPEATS) -> Row:
    """Return how far a figure lies above its control's, and who is ahead; level is inside the two deviations.

    Where few repetitions are asked for, a single one has no spread to judge by.
    """
    single = of < REPEATS and min((one.count for one in (ours, control) if one), default=0) < 2
    side = "one run" if single and ours and control else judge("", ours, control).side
    return {word: mean_of(control), f"{word}, difference": above(ours, control), f"{word}, side": side}


def head(where: Mapping[str, Value], runs: int) -> Row:
    """Return what a place is, and how many of its repetitions there are."""
    settings = {name: where[name] for name in _SETTINGS if name in where}
    names = {"set": NAMES[str(where["set"])], "model": MODELS[str(where["model"])], "method": where["method"]}
    return {**names, **settings, "runs": runs, "asked": asked(where)}


def quality(book: Book, name: str) -> pd.DataFrame:
    """Return utility and membership inference before and after forgetting, and utility against both controls."""
    rows, (table, keys) = [], _PAPER.get(name, ("", {}))
    for where in places(name):
        t, model, method = (str(where[key]) for key in ("set", "model", "method"))
        row = head(where, len(book.values(where, "after.utility")))
        for metric, figure in _METRICS.items():
            for phase in ("before", "after"):
                settings: dict[str, Any] = {keys[key]: where[key] for key in keys}
                paper = published(table, t, model, method, _PRINTED[metric], phase, **settings) if table else None
                row |= beside(f"{metric} {phase}", book.spread(where, f"{phase}.{figure}"), paper)
        row["covers 50"] = covered(book, where).covers if row["runs"] else None
        ours = book.spread(where, "after.utility")
        row["utility change"] = above(ours, book.spread(where, "before.utility"))
        for word, change in _controls(where).items():
            row |= versus(word, ours, book.spread(_near(where, change), "after.utility"), of=row["asked"])
        rows.append(row)
    return pd.DataFrame(rows)


def _controls(where: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return what is changed of a place to find its controls: both retrainings, plain method, the paper's recipe."""
    method = str(where["method"])
    controls: dict[str, dict[str, Value]] = {"short retrain": {"method": SHORT}, "Retrain": {"method": "Retrain"}}
    controls |= {"plain": {"method": EUPG[1] if "label" in method else method.partition(",")[0]}}
    controls |= {"paper's recipe": {"recipe": "paper"}} if where["recipe"] == "better" else {}
    return {word: change for word, change in controls.items() if not change.items() <= where.items()}


def _near(where: Mapping[str, Value], change: Mapping[str, Value]) -> dict[str, Value]:
    """Return a changed place; what has no base of its own recipe, or only the paper's, has no epochs of it either."""
    other = {**where, **change}
    return other if asked(other) else {key: value for key, value in other.items() if key != "pretrain"}


def base(book: Book, name: str) -> pd.DataFrame:
    """Return utility and what an attack finds of bases alone, beside the short retrain, which sees everyone raw."""
    rows = [
        head(where, len(book.values(where, "utility")))
        | beside("utility", book.spread(where, "utility"), None)
        | beside("AUC", book.spread(where, "audit.auc"), None)
        for where in places(name)
    ]
    short = place("quality_xgboost", "heart", "xgboost", SHORT)
    row = head(short, len(book.values(short, "before.utility")))
    row |= beside("utility", book.spread(short, "before.utility"), None)
    rows.append(row | beside("AUC", book.spread(short, "before.audit.auc"), None))
    return pd.DataFrame(rows)


def exposure(book: Book, name: str) -> pd.DataFrame:
    """Return utility by protection and share of people seen raw, beside the same people from scratch and the rest."""
    rows = []
    for where in places(name):
        ours = book.spread(where, "utility")
        row = head(where, len(book.values(where, "utility"))) | beside("utility", ours, None)
        if where["method"] not in CONTROLS:
            scratch = {**where, "method": "From scratch"}
            whole, short = ({**where, "method": method, "exposure": 1.0} for method in CONTROLS)
            alone = {**where, "exposure": 0.0}
            controls = {"from scratch": scratch, "Retrain": whole, "short retrain": short, "base": alone}
            controls |= {name: {**where, "method": name} for name in ("k=30", "ε=1") if name != where["method"]}
            for word, other in controls.items():
                row |= versus(word, ours, book.spread(other, "utility"))
            kept = book.values(where, "kept_base")
            row["base kept, %"] = 100 * sum(kept) / len(kept) if kept else None
        for phase in ("train", "finetune", "erase outside"):
            row[f"{phase}, s"] = _of(median, book.values(where, f"seconds.{phase}"))
        rows.append(row)
    return pd.DataFrame(rows)


def runtime(book: Book, name: str) -> pd.DataFrame:
    """Return seconds of a forget and of every phase, speed-ups, storage, time of a prediction and memory."""
    rows = []
    for where in places(name):
        t, model, method = (str(where[key]) for key in ("set", "model", "method"))
        row = head(where, len(book.values(where, FORGET)))
        row |= beside("speed-up", speed_up(book, where), published_speed_up(t, model, method))
        for phase, printed in _PHASES.items():
            ours = book.spread(where, f"seconds.{phase}")
            paper = published("efficiency_phases", t, model, method, printed, "")
            row |= {f"{phase}, s": mean_of(ours), f"{phase}, s ±": ours.std if ours else None}
            row |= {f"{phase}, s, paper": mean_of(paper)}
        row |= {"train, s": mean_of(train := book.spread(where, "seconds.train")), "train, s ±": train and train.std}
        row["once, %"] = once({phase: row[f"{phase}, s"] for phase in _PHASES})
        row["once, %, paper"] = once({phase: row[f"{phase}, s, paper"] for phase in _PHASES})
        row["once, difference"] = minus(row["once, %"], row["once, %, paper"])
        for what in ("files", "models", "bytes"):
            size = mean_of(book.spread(where, f"storage.{what}"))
            row["MB" if what == "bytes" else what] = size / 1e6 if size and what == "bytes" else size
        row["prediction, µs"] = _of(median, book.values(where, "inference_us_a_record"))
        row["peak, MB"] = _of(max, book.values(where, "peak_mb"))
        row["forget, s, median"] = _of(median, book.values(where, FORGET))
        rows.append(row)
    return pd.DataFrame(rows)


def _of(summary: Callable[[list[float]], float], values: list[float]) -> float | None:
    return summary(values) if values else None


def minus(one: float | None, other: float | None) -> float | None:
    """Return a difference, where both are known."""
    return None if one is None or other is None else one - other


def once(times: Mapping[str, float | None]) -> float | None:
    """Return how much of training is spent once, before any record is used raw, in percent."""
    known = [one for phase in ("protect", "pretrain", "finetune") if (one := times[phase]) is not None]
    return 100 * sum(known[:2]) / sum(known) if len(known) == 3 else None


def speed_up(book: Book, where: Mapping[str, Value]) -> Spread | None:
    """Return how many times faster than Retrain a forget is: by medians, with the spread of single repetitions."""
    # Retrain has no fine-tuning of its own, and on pictures only the paper's recipe.
    alike = {name: where[name] for name in ("kind", "set", "model")}
    bases = {one["recipe"]: one for name in _TIMED for one in by_name(name, "Retrain") if alike.items() <= one.items()}
    base: Mapping[str, Value] = bases.get(where["recipe"]) or bases.get("paper") or where
    times, slow = book.values(where, FORGET), book.values(base, FORGET)
    if not times or not slow:
        return None
    single = [b / a for a, b in zip(times, slow, strict=False)]
    return Spread(median(slow) / median(times), pstdev(single), min(len(times), len(slow)))


def published_speed_up(t: str, model: str, method: str) -> Spread | None:
    """Return the paper's speed-up; its spread follows from those of the two times."""
    time, slow = (published("efficiency_headtohead", t, model, m, "unlearn_s") for m in (method, "Retrain"))
    if time is None or slow is None:
        return None
    quotient = slow.mean / time.mean
    relative = ((slow.std / slow.mean) ** 2 + (time.std / time.mean) ** 2) ** 0.5
    # Retrain against itself varies with nothing.
    return Spread(quotient, 0.0 if method == "Retrain" else quotient * relative, time.count)


def speed_ups(times: pd.DataFrame) -> pd.DataFrame:
    """Return speed-ups over Retrain by model and method: the mean over the sets, as the paper averages."""
    columns = ["speed-up", "speed-up, paper"]
    columns = [name for name in columns if name in times]
    groups = times.groupby(["model", "method"], sort=False)[columns]
    # A mean needs all sets.
    means = groups.mean().where(groups.count().eq(groups.size(), axis=0))
    means["difference"] = means["speed-up"] - means.get("speed-up, paper", float("nan"))
    return means.reset_index()


def costs(book: Book) -> pd.DataFrame:
    """Return what one erasure costs at 0.5 % exposed with k=30, against both controls by the same rule.

    One person in 200 is trained for, everybody else is bookkeeping; expected over people.
    """
    share, rows = 0.005, []
    for where in by_name("exposure", "k=30"):
        if where["exposure"] != share:
            continue
        full, few = ({**where, "method": method, "exposure": 1.0} for method in CONTROLS)
        phases = ((full, "train"), (few, "train"), (where, "finetune"), (where, "erase outside"))
        times = [book.values(one, f"seconds.{phase}") for one, phase in phases]
        row = {key: value for key, value in head(where, 0).items() if key in ("set", "model")}
        if all(times):
            retrain, short, tune, keep = map(median, times)
            spent = share * tune + keep
            row |= {"Retrain, s": retrain, "short retrain, s": short, "one person in 200, s": tune}
            row |= {"everybody else, ms": 1000 * keep, "cheaper, training": retrain / (share * tune)}
            row |= {"cheaper, with bookkeeping": retrain / spent, "cheaper than the short retrain": short / spent}
            row["utility below Retrain"] = above(book.spread(full, "utility"), book.spread(where, "utility"))
        rows.append(row)
    return pd.DataFrame(rows)


def budgets(book: Book) -> pd.DataFrame:
    """Return the fewest epochs within 0.1 points of EUPG at 5 epochs and of Retrain, or better, with their speed-up.

    The short retrain is held against EUPG k=30. EUPG ε=1 takes the steps of k=30, which was timed at every budget.
    """
    rows = []
    for t in SETS:
        for method in (*EUPG, SHORT):
            row: Row = {"set": SETS[t], "method": method}
            for word, other in (("EUPG at 5", EUPG[0] if method == SHORT else method), ("Retrain", "Retrain")):
                reference = book.at("quality_mlp", t, "mlp", other)
                count = smallest(curve(book, t, method), reference)
                row[f"epochs within 0.1 of {word}"] = count
                faster = None
                # Ten epochs were not timed.
                if count in (1, 2, 3, 5) and method != EUPG[1]:
                    faster = mean_of(speed_up(book, place("runtime", t, "mlp", method, finetune=count)))
                row[f"speed-up within 0.1 of {word}"] = faster
            rows.append(row)
    return pd.DataFrame(rows)


def curve(book: Book, t: str, method: str) -> dict[int, Spread | None]:
    """Return utility after forgetting by epochs of fine-tuning; 0 is the base alone."""
    found = {int(one["finetune"]): one for one in by_name("ft_epochs", method) if one["set"] == t}
    return {count: book.spread(found[count], "after.utility") for count in sorted(found)}


def smallest(by_epochs: Mapping[int, Spread | None], reference: Spread | None) -> int | None:
    """Return the fewest epochs within 0.1 points of a reference, or better; None where none is, or it is missing."""
    least = None if reference is None else reference.mean - CLOSE
    good = (n for n, one in sorted(by_epochs.items()) if one and least is not None and one.mean >= least)
    return next(good, None)


def epsilons(book: Book) -> pd.DataFrame:
    """Return which ε a canary refutes of every way to make a model; where nothing is claimed it is a control."""
    return pd.DataFrame(
        {"method": one.method, "set": SETS[one.table], "model": MODELS[one.model], "exposure": one.share}
        | {"canary": one.canary, "claimed ε": one.claimed, "refuted below": max(one.bounds, default=None)}
        | {"at most": max(one.mosts, default=None), "runs with and without": max(one.counts, default=None)}
        for one in tried(book)
    )


def linkage(book: Book) -> pd.DataFrame:
    """Return what blocks of pictures show to two adversaries, in percent; see :mod:`.beside`."""
    return pd.DataFrame({"block": size, **found._asdict()} for size, found in book.linkage.items())


def pick(table: pd.DataFrame, /, **where: Any) -> pd.DataFrame:
    """Return the rows of a table with these values; a tuple stands for any of its values."""
    for name, value in where.items():
        table = table[table[name].isin(value if isinstance(value, tuple) else (value,))]
    return table


def agreement(made: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return every utility of the paper's tables beside ours; what two of its tables print alike counts once."""
    parts = []
    for name in _PAPER:
        for phase in ("before", "after"):
            table, figure = made.get(name, pd.DataFrame()), f"utility {phase}"
            if f"{figure}, paper" not in table:
                continue
            once = (
                table["forget"].ne(0.05)
                if name == "forget_ratio"
                else table["finetune"].ne(5 if "epochs" in name else -1)
            )
            mine = table[table[f"{figure}, paper"].notna() & once]
            when = [_when(name, phase, row) for row in mine.to_dict("records")]
            columns = {figure: "ours", **{f"{figure}{end}": end[2:] for end in (", paper", ", difference", ", inside")}}
            part = mine[["set", "model", "method", *columns]].rename(columns=columns)
            parts.append(part.assign(table=name.replace("sisa", "quality"), when=when))
    return pd.concat(parts, ignore_index=True)


def _when(name: str, phase: str, row: Mapping[Any, Any]) -> str:
    if name == "forget_ratio":
        return f"{percent(row['forget'])} forgotten"
    return f"after {row['finetune']} epochs" if "epochs" in name else phase


QUALITY = ("quality_mlp", "quality_xgboost", "quality_others", "tuned", "label_dp", "forget_ratio", "ft_epochs")
PICTURES = ("quality_resnet18", "sisa_resnet18", "better_resnet18", "blocks_resnet18", "epochs_resnet18")


def tables(book: Book) -> dict[str, pd.DataFrame]:
    """Return all tables by name."""
    kinds: dict[Callable[[Book, str], pd.DataFrame], tuple[str, ...]] = {
        quality: (*QUALITY, *PICTURES),
        base: ("k_sweep", "epsilon_sweep"),
        exposure: ("exposure", "synthesis"),
        runtime: ("runtime", "runtime_tuned"),
    }
    made = {name: make(book, name) for make, names in kinds.items() for name in names}
    # SISA's row is an experiment of its own, of fewer repetitions.
    made["quality_resnet18"] = pd.concat([made["quality_resnet18"], made.pop("sisa_resnet18")], ignore_index=True)
    made["runtime_resnet18"] = pd.concat([runtime(book, name) for name in PICTURES[:3]], ignore_index=True)
    usual = [pick(made["runtime"], finetune=(5, 10)), pick(made["runtime_resnet18"], recipe="paper", finetune=5)]
    made["speed_ups"] = speed_ups(pd.concat(usual, ignore_index=True))
    made |= {"cost_of_an_erasure": costs(book), "budgets": budgets(book), "exposure_audit": audited_groups(book)}
    made |= {"epsilon_models": epsilons(book), "block_linkage": linkage(book)}
    if book.searched is not None:
        made |= {f"search_{name}": table for name, table in search_tables(book.searched).items()}
    made["agreement"] = agreement(made)
    return made | {"experiments": experiments(book), "versions": versions(book), "machines": machines(book)}
