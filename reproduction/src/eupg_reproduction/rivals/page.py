"""The page of the comparison, its table as a CSV file and its figure, made from the results file alone."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd

from eupg.errors import StorageError
from eupg_reproduction.people.tables import TABLES, TITLES
from eupg_reproduction.report import words
from eupg_reproduction.report.page import csv, filled
from eupg_reproduction.rivals.findings import Findings
from eupg_reproduction.rivals.methods import RIVALS
from eupg_reproduction.rivals.published import HEADLINES
from eupg_reproduction.rivals.summary import failures, runs, summary

_CLAIMS = {
    "exact": ("o", "exact"),
    "(ε, δ)-unlearning": ("^", "(ε, δ)-unlearning"),
    "differential privacy": ("*", "differential privacy"),
    "probabilistic k-anonymity": ("s", "k-anonymous base"),
}
_REASONS = {
    "rand_hie": "The library's own example: five years of a health experiment.",
    "adult": "The paper's first table.",
    "heart": "The paper's second table.",
    "credit": "The paper's third table.",
}


class Page:
    """What the template of the page asks for."""

    def __init__(self, path: Path) -> None:
        self.rows = summary(runs(path))
        self.failed = failures(path)
        self.found = Findings(self.rows)
        self.sentences = self.found.sentences()

    @property
    def methods(self) -> list[str]:
        """The methods that were measured, in order."""
        return [m for m in RIVALS if (self.rows["method"] == m).any()]

    def counts(self) -> str:
        """Say how many runs there are per figure."""
        low, high = int(self.rows["runs"].min()), int(self.rows["runs"].max())
        return f"{low}" if low == high else f"{low} to {high}"

    def missing(self) -> str:
        """Say how many places of the comparison have no run."""
        asked = len(RIVALS) * len(TITLES)
        absent = asked - len(self.rows)
        if not absent:
            return f"All {asked} pairs of a method and a table were measured."
        return (
            f"{absent} of {asked} pairs of a method and a table are not measured yet (– below, or no column at all); "
            "means and medians are over the tables that a method has, so they do not compare like with like there."
        )

    def utility(self) -> str:
        """Return utility after erasing 5 % by method and table, the best of a table in bold, and the runs."""
        known = {t: [v for m in self.methods if (v := self.found.figure(t, m, "utility"))] for t in self.found.tables}
        best = {t: f"{max(values):.1f}" for t, values in known.items()}
        table = []
        for method in self.methods:
            row = {"": RIVALS[method].label}
            for t in self.found.tables:
                text = self._shown(t, method, "utility", 1)
                row[TITLES[t]] = f"**{text}**" if text == best[t] else text
            table.append(row)
        table.append({"": "runs"} | {TITLES[t]: self._runs(t) for t in self.found.tables})
        return words.markdown(pd.DataFrame(table))

    def change(self) -> str:
        """Return the largest change of the utility by an erasure of 5 %, either way."""
        changes = (self.rows["utility"] - self.rows["utility before"]).abs()
        place = self.rows.iloc[int(changes.to_numpy().argmax())]
        return f"{changes.max():.1f} points ({RIVALS[place['method']].label} on {TITLES[place['table']]})"

    def costs(self) -> str:
        """Return what erasures cost by method: medians over the tables, and the range for one person."""
        table = []
        for method in self.methods:
            one = [1000 * value for value in self.found.all_of(method, "one, s").values()]
            row = {
                "": RIVALS[method].label,
                "one person, ms": f"{_short(median(one))} ({_short(min(one))}–{_short(max(one))})",
            }
            row["5 % at once, s"] = _short(self._median(method, "5 %, s"))
            row["month of 10, s"] = _short(self._median(method, "month of 10, s"))
            row["month of 1,000, s"] = _short(self._median(method, "month of 1,000, s"))
            row["training, s"] = _short(self._median(method, "train, s"))
            row["kept, MB"] = _short(self._median(method, "storage, bytes") / 1e6)
            row["peak, MB"] = f"{self._median(method, 'peak, MB'):.0f}"
            table.append(row)
        return words.markdown(pd.DataFrame(table))

    def attacks(self) -> str:
        """Return the attacks by method: means over the tables, with the range."""
        table = []
        for method in self.methods:
            row = {"": RIVALS[method].label}
            for name in ("RMIA before", "RMIA", "versions, one", "versions, 5 %"):
                values = list(self.found.all_of(method, name).values())
                row[name] = f"{fmean(values):.1f} ({min(values):.1f}–{max(values):.1f})"
            lows = self.found.all_of(method, "RMIA low")
            row["RMIA above chance"] = words.of_all(sum(low > 50 for low in lows.values()), len(lows))
            table.append(row)
        names = {
            "RMIA": "RMIA after",
            "versions, one": "two versions, one person",
            "versions, 5 %": "two versions, 5 %",
        }
        return words.markdown(pd.DataFrame(table).rename(columns=names))

    def claims(self) -> str:
        """Return each method's claim: its unit, and ε for whoever has the most records among those who left."""
        table = []
        for method in self.methods:
            mine = self.rows[self.rows["method"] == method]
            epsilons, later = mine["ε"].dropna(), mine["ε after 5 %"].dropna()
            row = {"": RIVALS[method].label, "claim": str(mine["notion"].iloc[0]), "unit": RIVALS[method].unit}
            row["ε for one person"] = _range(epsilons.tolist())
            row["ε after 5 % left"] = _range(later.tolist()) if RIVALS[method].adds_up else "the same"
            if epsilons.empty:
                row["ε after 5 % left"] = words.NONE
            table.append(row)
        return words.markdown(pd.DataFrame(table))

    def people(self) -> str:
        """Return the tables: their size, the most records of one person among those erased, and the reason."""
        table = []
        for t in self.found.tables:
            mine = self.rows[self.rows["table"] == t].iloc[0]
            row = {
                "table": TITLES[t],
                "training records": f"{mine['records']:,.0f}",
                "people": f"{mine['people']:,.0f}",
            }
            most = self.rows.loc[self.rows["table"] == t, "most records"].max()
            row["most records of one"] = f"{most:.0f}"
            row["utility"] = "accuracy" if t in ("adult", "heart") else "AUC"
            row["why"] = TABLES[t].reason if t in TABLES else _REASONS[t]
            table.append(row)
        return words.markdown(pd.DataFrame(table))

    def headlines(self) -> str:
        """Return what each method's authors report, what was measured here, and why they differ."""
        table = []
        for method, headline in HEADLINES.items():
            if method in self.methods:
                row = {"": RIVALS[method].label, "published": headline.text, "here": self._here(method)}
                table.append(row | {"reason": headline.reason})
        return words.markdown(pd.DataFrame(table))

    def _here(self, method: str) -> str:
        speed = [a / max(b, 1e-9) for a, b in _both(self.found, "train, s", method)]
        gap = fmean(a - b for a, b in self.found.pairs(method, "retrain").values())
        ends = f"{_short(min(speed))}–{_short(max(speed))}"
        times = f"{_short(median(speed))} times as fast as its own training (median; {ends})"
        if RIVALS[method].unchanged:
            times = "the model stays"
        return f"one erasure: {times}; utility {words.signed(gap, 1)} points from Retrain (mean)"

    def _median(self, method: str, name: str) -> float:
        return median(self.found.all_of(method, name).values())

    def _shown(self, table: str, method: str, name: str, decimals: int) -> str:
        value = self.found.figure(table, method, name)
        return words.NONE if value is None else f"{value:.{decimals}f}"

    def _runs(self, table: str) -> str:
        counts = self.rows.loc[self.rows["table"] == table, "runs"]
        low, high = int(counts.min()), int(counts.max())
        return f"{low}" if low == high else f"{low}–{high}"


def page(path: Path) -> str:
    """Return the page as Markdown."""
    text = files("eupg_reproduction").joinpath("templates/rivals.md.j2").read_text(encoding="utf-8")
    return filled(text, {"page": Page(path), "listed": words.listed}).strip() + "\n"


def write(path: Path, folder: Path) -> list[Path]:
    """Write the page, its table and its figure into a folder; return the paths."""
    made = Page(path)
    texts = {folder / "rivals.md": page(path), folder / "rivals.csv": csv(made.rows)}
    figure = folder / "figures" / "rivals.svg"
    try:
        for place, text in texts.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        figure.parent.mkdir(parents=True, exist_ok=True)
        draw(made.found, figure)
    except OSError as error:
        raise StorageError(f"cannot write to {folder} ({error}): name another folder with --out") from error
    return [*texts, figure]


def draw(found: Findings, path: Path) -> None:
    """Draw utility, as the distance from Retrain, against the time of one erasure; the marker shows the claim."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "eupg", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(9.5, 5), layout="constrained")
        claims, colours = {}, (*mpl.color_sequences["tab10"], "black", "gold")
        for number, method in enumerate(RIVALS):
            gaps = {t: a - b for t, (a, b) in found.pairs(method, "retrain").items()}
            if not gaps:
                continue
            seconds = {t: found.figure(t, method, "one, s") or 0 for t in gaps}
            marker, claim = _CLAIMS[found.notion(method)]
            look: dict[str, Any] = {"color": colours[number], "marker": marker}
            axes.scatter(list(seconds.values()), list(gaps.values()), s=14, alpha=0.35, linewidths=0, **look)
            large = look | {"s": 90, "edgecolors": "black", "linewidths": 0.8, "label": RIVALS[method].label}
            axes.scatter(median(seconds.values()), fmean(gaps.values()), zorder=3, **large)
            claims[claim] = axes.scatter([], [], marker=marker, color="white", edgecolors="black")
        axes.axhline(0, color="#6b6b6b", linewidth=0.8, linestyle="--")
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1)
        axes.set_yticks([-30, -10, -3, -1, 0, 1], ["−30", "−10", "−3", "−1", "0", "+1"])
        axes.set_xlabel("processor seconds for one person's erasure")
        axes.set_ylabel("utility after erasing 5 %, points from Retrain")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(claims.values(), claims, frameon=False, loc="lower left", title="claim")
        figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside right upper", labelspacing=0.9)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def _both(found: Findings, name: str, method: str) -> list[tuple[float, float]]:
    values, seconds = found.all_of(method, name), found.all_of(method, "one, s")
    return [(values[t], seconds[t]) for t in values if t in seconds]


def _short(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _range(values: list[float]) -> str:
    if not values:
        return words.NONE
    low, high = (f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"
