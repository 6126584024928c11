"""Who wins where, in plain sentences computed from the summary of the comparison; where this library loses comes first.

Every sentence states its direction by the figures: if they turn, so does the sentence.
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median

import pandas as pd

from eupg_reproduction.people.tables import TITLES
from eupg_reproduction.report.words import MISSING, listed
from eupg_reproduction.rivals.methods import RIVALS


class Findings:
    """The sentences about one summary.

    Parameters
    ----------
    rows
        One row per method and table, from :func:`eupg_reproduction.rivals.summary.summary`.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._cells = {(row["table"], row["method"]): row for row in rows.to_dict("records")}
        self.tables = [table for table in TITLES if any((table, method) in self._cells for method in RIVALS)]

    def figure(self, table: str, method: str, name: str) -> float | None:
        """Return a figure, if it was measured."""
        row = self._cells.get((table, method))
        return None if row is None or pd.isna(row[name]) else float(row[name])

    def pairs(self, first: str, second: str, name: str = "utility") -> dict[str, tuple[float, float]]:
        """Return the figures of two methods on the tables that have both."""
        both = {t: (self.figure(t, first, name), self.figure(t, second, name)) for t in self.tables}
        return {t: (a, b) for t, (a, b) in both.items() if a is not None and b is not None}

    def all_of(self, method: str, name: str) -> dict[str, float]:
        """Return a method's figures by table."""
        known = {t: self.figure(t, method, name) for t in self.tables}
        return {t: value for t, value in known.items() if value is not None}

    def notion(self, method: str) -> str:
        """Return the kind of a method's claim."""
        return next(str(row["notion"]) for (_, name), row in self._cells.items() if name == method)

    def sentences(self) -> list[str]:
        """Return the ten sentences."""
        return [
            self._best_utility(),
            self._short_against_eupg(),
            self._dare_against_exact(),
            self._privacy_costs(),
            self._versions_reveal(),
            self._base_adds(),
            self._time_is_small(),
            self._free_erasures(),
            self._private_bases(),
            self._certificates(),
        ]

    def _best_utility(self) -> str:
        winners, gaps = Counter[str](), {}
        for table in self.tables:
            scores = {m: self.figure(table, m, "utility") for m in RIVALS}
            known = {m: score for m, score in scores.items() if score is not None}
            mine = [score for m, score in known.items() if RIVALS[m].ours]
            if not mine:
                continue
            best = max(known, key=lambda m: known[m])
            winners[best] += 1
            gaps[table] = known[best] - max(mine)
        theirs = sum(count for m, count in winners.items() if not RIVALS[m].ours)
        named = listed([f"{RIVALS[m].label} {count}" for m, count in winners.most_common()])
        worst = max(gaps, key=lambda t: gaps[t])
        return (
            f"On {theirs} of {len(gaps)} tables a method that is not ours has the best utility ({named}); our "
            f"best is {fmean(gaps.values()):.2f} points behind on average, at most {gaps[worst]:.2f} on "
            f"{TITLES[worst]}."
        )

    def _short_against_eupg(self) -> str:
        scores = self.pairs("short-retrain", "eupg-k30")
        seconds = self.pairs("short-retrain", "eupg-k30", "one, s")
        if not scores:
            return f"The short retrain against EUPG k=30: {MISSING}."
        ahead = sum(a > b for a, b in scores.values())
        gap = fmean(a - b for a, b in scores.values())
        faster = sum(a < b for a, b in seconds.values())
        verdict = ": where everyone may be seen raw, it is the one to beat" if 2 * ahead > len(scores) else ""
        return (
            f"The short retrain, which is exact, is better than EUPG k=30 with the paper's XGBoost on {ahead} of "
            f"{len(scores)} tables ({gap:+.2f} points on average) and cheaper per erasure on {faster}{verdict}."
        )

    def _dare_against_exact(self) -> str:
        scores = self.pairs("dare", "exact-trees")
        seconds = self.pairs("dare", "exact-trees", "one, s")
        storage = self.pairs("dare", "exact-trees", "storage, bytes")
        ahead, faster = sum(a > b for a, b in scores.values()), sum(a < b for a, b in seconds.values())
        times = median(1000 * a for a, _ in seconds.values()), median(1000 * b for _, b in seconds.values())
        sizes = median(a / 1e6 for a, _ in storage.values()), median(b / 1e6 for _, b in storage.values())
        return (
            f"Against exact trees, a DaRE forest has the better utility on {ahead} of {len(scores)} tables and erases "
            f"a person faster on {faster} (medians {times[0]:.1f} and {times[1]:.1f} ms); it keeps every record and "
            f"{sizes[0]:.0f} MB, exact trees keep counts of {sizes[1]:.0f} MB."
        )

    def _privacy_costs(self) -> str:
        gaps = {t: a - b for t, (a, b) in self.pairs("retrain", "private-trees").items()}
        few = {t: gap for t, gap in gaps.items() if (self.figure(t, "retrain", "people") or 0) < 3_000}
        many = {t: gap for t, gap in gaps.items() if t not in few}
        worst = max(gaps, key=lambda t: gaps[t])
        people = self.figure(worst, "retrain", "people") or 0
        apart = _behind(fmean(few.values())) if few else MISSING
        return (
            f"Private trees at ε=1 pay for their claim: with fewer than 3,000 training people they are {apart} Retrain "
            f"on average, with more {_behind(fmean(many.values()))} it; the largest loss is {gaps[worst]:.1f} points "
            f"on {TITLES[worst]} ({people:,.0f} people)."
        )

    def _versions_reveal(self) -> str:
        names = ("exact-trees", "eupg-subtracts", "dare", "retrain", "short-retrain", "eupg-k30")
        means = {m: fmean(known.values()) for m in names if (known := self.all_of(m, "versions, one"))}
        ranked = sorted(means, key=lambda m: -means[m])
        named = listed([f"{RIVALS[m].label} {means[m]:.0f}" for m in ranked])
        return (
            "Whoever holds the models from before and after one person's erasure often recognises that person, with "
            f"our exact methods as with others' (mean AUC, where 50 is chance: {named})."
        )

    def _base_adds(self) -> str:
        scores = self.pairs("eupg-subtracts", "exact-trees")
        ahead, gap = sum(a > b for a, b in scores.values()), fmean(a - b for a, b in scores.values())
        return (
            f"EUPG by subtraction is better than exact trees, its control without a protected base, on {ahead} of "
            f"{len(scores)} tables ({gap:+.2f} points on average), and its claim is weaker."
        )

    def _time_is_small(self) -> str:
        month = self.all_of("retrain", "month of 1,000, s")
        slowest = max(month, key=lambda t: month[t])
        return (
            "On tables of this size time is no reason for unlearning: a full retraining of XGBoost for each of 1,000 "
            f"requests per month takes {median(month.values()) / 60:.1f} minutes of one core (median of the tables), "
            f"at most {month[slowest] / 60:.1f} on {TITLES[slowest]}."
        )

    def _free_erasures(self) -> str:
        mine = self.all_of("private-trees", "versions, one")
        unmoved = sum(value == 50 for value in mine.values())
        best = [m for m in RIVALS if (known := self.all_of(m, "versions, one")) and set(known.values()) == {50.0}]
        return (
            f"Private models win where versions may be compared: private trees give the same answers before and after "
            f"on {unmoved} of {len(mine)} tables, so an erasure reveals nothing; this holds everywhere for "
            f"{listed([RIVALS[m].label for m in best], 'no method')}."
        )

    def _private_bases(self) -> str:
        scores = self.pairs("private-trees", "dp-ebm")
        if not scores:
            return f"Private trees against DP-EBM at the same ε: {MISSING}."
        ahead = sum(a > b for a, b in scores.values())
        several = [t for t in scores if (self.figure(t, "dp-ebm", "ε") or 0) > 1]
        most = max((self.figure(t, "dp-ebm", "ε") or 0) for t in scores)
        return (
            f"At ε=1, private trees are better than DP-EBM on {ahead} of {len(scores)} tables; on the {len(several)} "
            "where people have several records, ours holds ε=1 for the person and DP-EBM's grows with their number, "
            f"up to ε={most:.0f}."
        )

    def _certificates(self) -> str:
        scores = self.pairs("retrain", "rewind")
        after, once = self.all_of("rewind", "ε after 5 %"), self.all_of("rewind", "ε")
        if not scores:
            return f"Rewind-to-Delete: {MISSING}."
        within = sum(value <= 1.01 for value in once.values())
        return (
            f"Rewind-to-Delete is {_behind(fmean(a - b for a, b in scores.values()))} Retrain on average; its "
            f"certificate says ε≤1 for everyone on {within} of {len(once)} tables, and after 5 % have left the "
            f"smallest ε of any table is {min(after.values()):.0f}."
        )


def _behind(gap: float) -> str:
    return f"{abs(gap):.1f} points {'behind' if gap >= 0 else 'ahead of'}"
