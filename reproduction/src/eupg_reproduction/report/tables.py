"""The long tables, one row per place: figures with their deviation, the paper's values and the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median, pstdev
from typing import Any

import pandas as pd

from eupg_reproduction.cell import Value
from eupg_reproduction.exposure import CONTROLS
from eupg_reproduction.published import published
from eupg_reproduction.report.audits import audited_groups, coverage, epsilon_audits
from eupg_reproduction.report.origin import experiments, machines, versions
from eupg_reproduction.report.picture_files import search_tables
from eupg_reproduction.report.tidy import FORGET, REPEATS, Measurements, above, asked, by_name, mean_of, place, places
from eupg_reproduction.report.words import EUPG, MODELS, NAMES, SETS, SHORT, percent
from eupg_reproduction.spread import Spread

Row = dict[str, Any]
# The paper's tables by experiment, and the settings that distinguish its rows.
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
QUALITY = ("quality_mlp", "quality_xgboost", "quality_others", "tuned", "label_dp", "forget_ratio", "ft_epochs")
PICTURES = ("quality_resnet18", "sisa_resnet18", "better_resnet18", "blocks_resnet18", "epochs_resnet18")
CLOSE = 0.1


def with_paper(name: str, ours: Spread | None, paper: Spread | None) -> Row:
    """Return a figure with its deviation and, if the paper has it, the paper's, the difference, and agreement.

    Inside means that the difference is at most the sum of the two deviations.
    """
    row: Row = {name: mean_of(ours), f"{name} ±": ours.std if ours else None}
    if paper is None:
        return row
    row |= {f"{name}, paper": paper.mean, f"{name}, paper ±": paper.std, f"{name}, difference": above(ours, paper)}
    return row | {f"{name}, inside": ("yes" if ours.agrees(paper) else "no") if ours else None}


def side_of(ours: Spread | None, control: Spread | None) -> str | None:
    """Return ``ahead``, ``level`` (inside the two deviations) or ``beaten``; None if one is missing."""
    if ours is None or control is None:
        return None
    return "level" if ours.agrees(control) else "ahead" if ours.mean > control.mean else "beaten"


def against(word: str, ours: Spread | None, control: Spread | None, *, of: int = REPEATS) -> Row:
    """Return the control, the difference from it, and who is ahead; a single run has no deviation to judge by."""
    single = of < REPEATS and min((one.count for one in (ours, control) if one), default=0) < 2
    side = "one run" if single and ours and control else side_of(ours, control)
    return {word: mean_of(control), f"{word}, difference": above(ours, control), f"{word}, side": side}


def head(where: Mapping[str, Value], runs: int) -> Row:
    """Return what identifies a place, and how many of its repetitions there are."""
    settings = {name: where[name] for name in _SETTINGS if name in where}
    names = {"set": NAMES[str(where["set"])], "model": MODELS[str(where["model"])], "method": where["method"]}
    return {**names, **settings, "runs": runs, "asked": asked(where)}


def quality(measurements: Measurements, name: str) -> pd.DataFrame:
    """Return utility and audits before and after forgetting, and utility against the controls."""
    rows, (table, keys) = [], _PAPER.get(name, ("", {}))
    for where in places(name):
        t, model, method = (str(where[key]) for key in ("set", "model", "method"))
        row = head(where, len(measurements.values(where, "after.utility")))
        for metric, figure in _METRICS.items():
            for phase in ("before", "after"):
                settings: dict[str, Any] = {keys[key]: where[key] for key in keys}
                paper = published(table, t, model, method, _PRINTED[metric], phase, **settings) if table else None
                row |= with_paper(f"{metric} {phase}", measurements.spread(where, f"{phase}.{figure}"), paper)
        row["covers 50"] = coverage(measurements, where).covers if row["runs"] else None
        ours = measurements.spread(where, "after.utility")
        row["utility change"] = above(ours, measurements.spread(where, "before.utility"))
        for word, change in _controls(where).items():
            control = measurements.spread(_changed(where, change), "after.utility")
            row |= against(word, ours, control, of=row["asked"])
        rows.append(row)
    return pd.DataFrame(rows)


def _controls(where: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return the changes that lead to the controls: both retrainings, the plain method, the paper's recipe."""
    method = str(where["method"])
    controls: dict[str, dict[str, Value]] = {"short retrain": {"method": SHORT}, "Retrain": {"method": "Retrain"}}
    controls |= {"plain": {"method": EUPG[1] if "label" in method else method.partition(",")[0]}}
    controls |= {"paper's recipe": {"recipe": "paper"}} if where["recipe"] == "better" else {}
    return {word: change for word, change in controls.items() if not change.items() <= where.items()}


def _changed(where: Mapping[str, Value], change: Mapping[str, Value]) -> dict[str, Value]:
    """Return a changed place, without the epochs of a base if no experiment has it with them."""
    other = {**where, **change}
    return other if asked(other) else {key: value for key, value in other.items() if key != "pretrain"}


def base(measurements: Measurements, name: str) -> pd.DataFrame:
    """Return utility and audits of bases alone, beside the short retrain, which sees everyone raw."""
    short = place("quality_xgboost", "heart", "xgboost", SHORT)
    rows = []
    for where, prefix in (*((one, "") for one in places(name)), (short, "before.")):
        utility = measurements.spread(where, f"{prefix}utility")
        row = head(where, utility.count if utility else 0) | with_paper("utility", utility, None)
        rows.append(row | with_paper("AUC", measurements.spread(where, f"{prefix}audit.auc"), None))
    return pd.DataFrame(rows)


def exposure(measurements: Measurements, name: str) -> pd.DataFrame:
    """Return utility by protection and share of people seen raw, beside its controls."""
    rows = []
    for where in places(name):
        ours = measurements.spread(where, "utility")
        row = head(where, len(measurements.values(where, "utility"))) | with_paper("utility", ours, None)
        if where["method"] not in CONTROLS:
            scratch = {**where, "method": "From scratch"}
            whole, short = ({**where, "method": method, "exposure": 1.0} for method in CONTROLS)
            alone = {**where, "exposure": 0.0}
            controls = {"from scratch": scratch, "Retrain": whole, "short retrain": short, "base": alone}
            controls |= {name: {**where, "method": name} for name in ("k=30", "ε=1") if name != where["method"]}
            for word, other in controls.items():
                row |= against(word, ours, measurements.spread(other, "utility"))
            kept = measurements.values(where, "kept_base")
            row["base kept, %"] = 100 * sum(kept) / len(kept) if kept else None
        for phase in ("train", "finetune", "erase outside"):
            row[f"{phase}, s"] = _summary(median, measurements.values(where, f"seconds.{phase}"))
        rows.append(row)
    return pd.DataFrame(rows)


def runtime(measurements: Measurements, name: str) -> pd.DataFrame:
    """Return seconds of a forget and of every phase, speed-ups, storage, prediction time and memory."""
    rows = []
    for where in places(name):
        t, model, method = (str(where[key]) for key in ("set", "model", "method"))
        row = head(where, len(measurements.values(where, FORGET)))
        row |= with_paper("speed-up", speed_up(measurements, where), published_speed_up(t, model, method))
        for phase, printed in _PHASES.items():
            ours = measurements.spread(where, f"seconds.{phase}")
            paper = published("efficiency_phases", t, model, method, printed, "")
            row |= {f"{phase}, s": mean_of(ours), f"{phase}, s ±": ours.std if ours else None}
            row |= {f"{phase}, s, paper": mean_of(paper)}
        train = measurements.spread(where, "seconds.train")
        row |= {"train, s": mean_of(train), "train, s ±": train and train.std}
        ours_once, paper_once = (_once(row, end) for end in (", s", ", s, paper"))
        row |= {"once, %": ours_once, "once, %, paper": paper_once}
        row["once, difference"] = None if ours_once is None or paper_once is None else ours_once - paper_once
        for what in ("files", "models", "bytes"):
            size = mean_of(measurements.spread(where, f"storage.{what}"))
            row["MB" if what == "bytes" else what] = size / 1e6 if size and what == "bytes" else size
        row["prediction, µs"] = _summary(median, measurements.values(where, "inference_us_a_record"))
        row["peak, MB"] = _summary(max, measurements.values(where, "peak_mb"))
        row["forget, s, median"] = _summary(median, measurements.values(where, FORGET))
        rows.append(row)
    return pd.DataFrame(rows)


def _summary(function: Callable[[list[float]], float], values: list[float]) -> float | None:
    return function(values) if values else None


def _once(row: Row, end: str) -> float | None:
    """Return the share of training that is spent once, before any record is used raw, in percent."""
    known = [one for phase in ("protect", "pretrain", "finetune") if (one := row[f"{phase}{end}"]) is not None]
    return 100 * sum(known[:2]) / sum(known) if len(known) == 3 else None


def speed_up(measurements: Measurements, where: Mapping[str, Value]) -> Spread | None:
    """Return the speed-up of a forget over Retrain: by medians, with the deviation over single repetitions."""
    # Retrain has no fine-tuning of its own, and on pictures only the paper's recipe.
    alike = {name: where[name] for name in ("kind", "set", "model")}
    bases = {one["recipe"]: one for name in _TIMED for one in by_name(name, "Retrain") if alike.items() <= one.items()}
    retrain: Mapping[str, Value] = bases.get(where["recipe"]) or bases.get("paper") or where
    times, slow = measurements.values(where, FORGET), measurements.values(retrain, FORGET)
    if not times or not slow:
        return None
    single = [b / a for a, b in zip(times, slow, strict=False)]
    return Spread(median(slow) / median(times), pstdev(single), min(len(times), len(slow)))


def published_speed_up(t: str, model: str, method: str) -> Spread | None:
    """Return the paper's speed-up; its deviation follows from those of the two times."""
    time, slow = (published("efficiency_headtohead", t, model, m, "unlearn_s") for m in (method, "Retrain"))
    if time is None or slow is None:
        return None
    quotient = slow.mean / time.mean
    relative = ((slow.std / slow.mean) ** 2 + (time.std / time.mean) ** 2) ** 0.5
    # Retrain against itself does not vary.
    return Spread(quotient, 0.0 if method == "Retrain" else quotient * relative, time.count)


def speed_ups(times: pd.DataFrame) -> pd.DataFrame:
    """Return speed-ups over Retrain by model and method: the mean over the sets, as in the paper."""
    columns = [name for name in ("speed-up", "speed-up, paper") if name in times]
    groups = times.groupby(["model", "method"], sort=False)[columns]
    # A mean needs all sets.
    means = groups.mean().where(groups.count().eq(groups.size(), axis=0))
    means["difference"] = means["speed-up"] - means.get("speed-up, paper", float("nan"))
    return means.reset_index()


def costs(measurements: Measurements) -> pd.DataFrame:
    """Return the expected cost of one erasure at 0.5 % exposed with k=30, against both retrainings.

    One person in 200 needs training, all others need bookkeeping only.
    """
    share, rows = 0.005, []
    for where in by_name("exposure", "k=30"):
        if where["exposure"] != share:
            continue
        full, few = ({**where, "method": method, "exposure": 1.0} for method in CONTROLS)
        phases = ((full, "train"), (few, "train"), (where, "finetune"), (where, "erase outside"))
        times = [measurements.values(one, f"seconds.{phase}") for one, phase in phases]
        row = {key: value for key, value in head(where, 0).items() if key in ("set", "model")}
        if all(times):
            retrain, short, tune, bookkeeping = map(median, times)
            spent = share * tune + bookkeeping
            row |= {"Retrain, s": retrain, "short retrain, s": short, "one person in 200, s": tune}
            row |= {"everybody else, ms": 1000 * bookkeeping, "cheaper, training": retrain / (share * tune)}
            row |= {"cheaper, with bookkeeping": retrain / spent, "cheaper than the short retrain": short / spent}
            utility = (measurements.spread(one, "utility") for one in (full, where))
            row["utility below Retrain"] = above(*utility)
        rows.append(row)
    return pd.DataFrame(rows)


def budgets(measurements: Measurements) -> pd.DataFrame:
    """Return the fewest epochs within 0.1 points of EUPG at 5 epochs and of Retrain, or better, with their speed-up.

    The short retrain is compared with EUPG k=30. EUPG ε=1 takes the same steps as k=30, which was timed at every
    budget.
    """
    rows = []
    for t in SETS:
        for method in (*EUPG, SHORT):
            row: Row = {"set": SETS[t], "method": method}
            for word, other in (("EUPG at 5", EUPG[0] if method == SHORT else method), ("Retrain", "Retrain")):
                reference = measurements.at("quality_mlp", t, "mlp", other)
                count = smallest(curve(measurements, t, method), reference)
                row[f"epochs within 0.1 of {word}"] = count
                faster = None
                # Ten epochs were not timed.
                if count in (1, 2, 3, 5) and method != EUPG[1]:
                    faster = mean_of(speed_up(measurements, place("runtime", t, "mlp", method, finetune=count)))
                row[f"speed-up within 0.1 of {word}"] = faster
            rows.append(row)
    return pd.DataFrame(rows)


def curve(measurements: Measurements, t: str, method: str) -> dict[int, Spread | None]:
    """Return utility after forgetting by epochs of fine-tuning; 0 is the base alone."""
    by_epochs = {int(one["finetune"]): one for one in by_name("ft_epochs", method) if one["set"] == t}
    return {count: measurements.spread(by_epochs[count], "after.utility") for count in sorted(by_epochs)}


def smallest(by_epochs: Mapping[int, Spread | None], reference: Spread | None) -> int | None:
    """Return the fewest epochs within 0.1 points of a reference, or better; None if there are none."""
    if reference is None:
        return None
    return next((n for n, one in sorted(by_epochs.items()) if one and one.mean >= reference.mean - CLOSE), None)


def epsilons(measurements: Measurements) -> pd.DataFrame:
    """Return the lower bound on ε of every way to make a model; those without a claim are controls."""
    return pd.DataFrame(
        {"method": one.method, "set": SETS[one.table], "model": MODELS[one.model], "exposure": one.share}
        | {"canary": one.canary, "claimed ε": one.claimed, "refuted below": max(one.bounds, default=None)}
        | {"at most": max(one.mosts, default=None), "runs with and without": max(one.counts, default=None)}
        for one in epsilon_audits(measurements)
    )


def pick(table: pd.DataFrame, /, **where: Any) -> pd.DataFrame:
    """Return the rows of a table with these values; a tuple stands for any of its values."""
    for name, value in where.items():
        table = table[table[name].isin(value if isinstance(value, tuple) else (value,))]
    return table


def agreement(made: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return every utility of the paper's tables beside ours; values printed in two of its tables count once."""
    parts = []
    for name in _PAPER:
        for phase in ("before", "after"):
            table, figure = made.get(name, pd.DataFrame()), f"utility {phase}"
            if f"{figure}, paper" not in table:
                continue
            once = table["finetune"].ne(5 if "epochs" in name else -1)
            if name == "forget_ratio":
                once = table["forget"].ne(0.05)
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


def long_tables(measurements: Measurements) -> dict[str, pd.DataFrame]:
    """Return all long tables by name."""
    kinds: dict[Callable[[Measurements, str], pd.DataFrame], tuple[str, ...]] = {
        quality: (*QUALITY, *PICTURES),
        base: ("k_sweep", "epsilon_sweep"),
        exposure: ("exposure", "synthesis"),
        runtime: ("runtime", "runtime_tuned"),
    }
    made = {name: make(measurements, name) for make, names in kinds.items() for name in names}
    # SISA's row is an experiment of its own, with fewer repetitions.
    made["quality_resnet18"] = pd.concat([made["quality_resnet18"], made.pop("sisa_resnet18")], ignore_index=True)
    made["runtime_resnet18"] = pd.concat([runtime(measurements, name) for name in PICTURES[:3]], ignore_index=True)
    usual = [pick(made["runtime"], finetune=(5, 10)), pick(made["runtime_resnet18"], recipe="paper", finetune=5)]
    made["speed_ups"] = speed_ups(pd.concat(usual, ignore_index=True))
    made |= {"cost_of_an_erasure": costs(measurements), "budgets": budgets(measurements)}
    made |= {"exposure_audit": audited_groups(measurements), "epsilon_models": epsilons(measurements)}
    linkage = measurements.linkage.items()
    made["block_linkage"] = pd.DataFrame({"block": size, **shares._asdict()} for size, shares in linkage)
    if measurements.searched is not None:
        made |= {f"search_{name}": table for name, table in search_tables(measurements.searched).items()}
    made["agreement"] = agreement(made)
    origin = {"experiments": experiments, "versions": versions, "machines": machines}
    return made | {name: make(measurements) for name, make in origin.items()}
