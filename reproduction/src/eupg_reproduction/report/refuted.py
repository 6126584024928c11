"""Which ε the models of one person made to be found refute: every claim, and the controls that must be found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eupg.protect.synthesis import DPSynthesis
from eupg_reproduction import methods
from eupg_reproduction.cell import Value
from eupg_reproduction.epsilon_models import NEVER, UNPROTECTED
from eupg_reproduction.experiments import experiment
from eupg_reproduction.report.book import Book, place
from eupg_reproduction.report.words import MISSING, MODELS, NONE, SETS, listed, percent, span, table
from eupg_reproduction.results import Result

_HEAD = ["protection", "set", "model", "exposed", "canary", "claimed ε", "refuted below", "at most", "runs"]


class Tried(NamedTuple):
    """One way to make a model, attacked in some repetitions; ``claimed`` is None for a control."""

    method: str
    table: str
    model: str
    share: float
    canary: str
    claimed: float | None
    runs: Sequence[Result]

    @property
    def bounds(self) -> list[float]:
        """What each repetition refutes: every ε below."""
        return [float(run.metrics["bound"]["epsilon"]) for run in self.runs]

    @property
    def most(self) -> float:
        """The largest ε that any repetition could have refuted."""
        return max(float(run.metrics["most"]) for run in self.runs)

    @property
    def base(self) -> float | None:
        """The ε of the base alone, whatever it was fine-tuned on; None where nothing is protected."""
        mechanism = None if self.method == UNPROTECTED else methods.mechanism(self.method)
        return mechanism.epsilon if isinstance(mechanism, DPSynthesis) else None

    def __str__(self) -> str:
        """Name it, with what was found."""
        way = f"{percent(self.share)} exposed, {self.canary}" if self.base is not None else "all seen raw"
        return f"{self.method}, {SETS[self.table]} {MODELS[self.model]}, {way} ({_below(self.bounds)})"


def refuted(book: Book) -> dict[str, str]:
    """Return the table of lower bounds on ε, and in words which claims and which controls they refute."""
    found = list(tried(book))
    settings = experiment("epsilon_models").grids[0].settings
    return {
        "epsilon_table": table(_HEAD, [_row(one) for one in found]),
        "epsilon_people": str(settings["people"]),
        "epsilon_runs": str(settings["runs"]),
        "epsilon_claims": _claims([one for one in found if one.claimed is not None and one.runs]),
        "epsilon_controls": _controls([one for one in found if one.claimed is None and one.runs]),
    }


def tried(book: Book) -> Iterator[Tried]:
    """Yield every way of the experiment, claims and controls, whether it was measured or not."""
    for grid in experiment("epsilon_models").grids:
        shares, canary = grid.settings["exposure"], str(grid.settings["canary"])
        for method in grid.methods:
            for t in grid.sets:
                for model in grid.models:
                    for share in shares if isinstance(shares, tuple) else (shares,):
                        changed: dict[str, Value] = {"exposure": share}
                        one = Tried(method, t, model, float(share), canary, None, ())
                        runs = book.runs(place(grid, t, model, method, changed))
                        yield one._replace(runs=runs, claimed=one.base if canary == NEVER else None)


def _row(one: Tried) -> list[str]:
    claimed = f"{one.claimed:g}" if one.claimed is not None else f"{NONE} (control)"
    most = span((float(run.metrics["most"]) for run in one.runs), 2)
    runs = sorted({int(run.metrics["runs"]) for run in one.runs})
    counts = " / ".join(f"{n} + {n}" for n in runs) if runs else MISSING
    place = [one.method, SETS[one.table], MODELS[one.model], percent(one.share), one.canary]
    return [*place, claimed, _below(one.bounds), most, counts]


def _below(bounds: Sequence[float]) -> str:
    return "nothing" if bounds and not any(bounds) else span(bounds, 2)


def _claims(known: Sequence[Tried]) -> str:
    """Say which claims are refuted, or how near any came to it."""
    if not known:
        return f"Claims: {MISSING}."
    broken = [one for one in known if one.claimed is not None and max(one.bounds) > one.claimed]
    if broken:
        return f"**{len(broken)} of {len(known)} claims are refuted** (below what): {listed(_named(broken))}."
    top = max(known, key=lambda one: max(one.bounds))
    largest = f"the largest bound is that of {top}" if max(top.bounds) else "no bound is above 0"
    # An ε above what so many runs can show stands whatever they find.
    safe = sum(one.claimed is not None and one.claimed >= one.most for one in known)
    return (
        f"None of the {len(known)} claims is refuted; {largest}. {safe} of them claim more than these runs can refute."
    )


def _controls(known: Sequence[Tried]) -> str:
    """Say in which controls the canary is found, and in which it is not."""
    if not known:
        return f"Controls: {MISSING}."
    bare = [one for one in known if one.base is None]
    raw = [one for one in known if one.base is not None]
    # Above the ε of the base a bound can only come from what was seen raw.
    sure = [one for one in raw if one.base is not None and max(one.bounds) > one.base]
    lost = [one for one in known if not max(one.bounds)]
    return (
        f"Controls: without protection the bound is {span((b for one in bare for b in one.bounds), 2)}. Of {len(raw)} "
        f"served models that see the canary raw, {len(sure)} exceed the ε of their base, so that it was the raw record "
        f"that showed: {listed(_named(sure), 'none')}. Controls in which nothing is found: "
        f"{listed(_named(lost), 'none')}."
    )


def _named(some: Sequence[Tried]) -> list[str]:
    return [str(one) for one in some]
