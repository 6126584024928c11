"""The exposure frontier: utility against the share of people ever seen raw, beside its controls.

Run with ``python -m benchmarks.exposure run FILE [set…] [--learner NAME] [--draws 5]`` and ``… report FILE``; needs the
data sets (EUPG_DATA). Every cell is one line of JSON in FILE, written when it is done; a run goes on where it stopped.

A cell is one draw of one set, learner and guarantee: the base model is made once, then fine-tuned at each exposure by
the library's one rule (``eupg.learn.recipes``). Controls: the same rule from scratch on the same exposed people (at
100 % this is full retraining), and the short retrain. Seconds are those of the fit alone. Nothing is chosen on test
records.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from eupg import EUPG, LocalDP, ProbabilisticKAnonymity, Seeded, sources
from eupg.learn import recipes

SETS = ("adult", "heart", "credit")
LEARNERS = ("xgboost", "lightgbm", "logistic", "mlp")
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
GUARANTEES = {
    "k=10": ProbabilisticKAnonymity(10),
    "k=30": ProbabilisticKAnonymity(30),
    "k=100": ProbabilisticKAnonymity(100),
    "ε=1": LocalDP(1.0),
    "ε=4": LocalDP(4.0),
}


def timed(work):
    """Return a result and the seconds it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def control_cell(source, recipe, draw: int) -> dict:
    """Train from scratch on the people that each exposure draws, and for as short as fine-tuning."""
    rng, found = Seeded(draw), {}
    for share in SHARES:
        seen = source.train.select(
            EUPG(LocalDP(1.0), recipe.learner, exposure=share)._draw(source.train, frozenset(), rng)
        )
        model, seconds = timed(lambda seen=seen: recipe.learner.fit(seen, effort=recipe.pretrain, rng=_numbers(draw)))
        found[str(share)] = {"utility": utility(source, model), "seconds": seconds, "effort": model.effort}
    plain = recipe.learner.learners[0]
    short, seconds = timed(lambda: plain.fit(source.train, effort=recipe.finetune, rng=_numbers(draw)))
    return {"scratch": found, "short": {"utility": utility(source, short), "seconds": seconds}}


def guarantee_cell(source, recipe, mechanism, draw: int) -> dict:
    """Make a base model and fine-tune it at each exposure; time an erasure inside and outside the sample."""
    rng, found = Seeded(draw), {}
    release, protect_s = timed(lambda: mechanism.protect(source.train, rng.stage("protect")))
    base, base_s = timed(lambda: recipe.learner.fit(release, effort=recipe.pretrain, rng=_numbers(draw)))
    for share in SHARES:
        method = EUPG(mechanism, recipe.learner, 1, recipe.finetune, exposure=share, finetuner=recipe.finetuner)
        trained = method.resume(base, release.guarantee, source.train, rng)
        inside = min(trained.ids) if trained.ids else None
        outside = next((i for i in source.train.ids.tolist() if i not in trained.ids), None)
        erase = {}
        for name, record in (("inside", inside), ("outside", outside)):
            if record is not None:
                left = source.train.without([record])
                erase[name] = timed(lambda left=left, t=trained, m=method: m.forget(t, left, rng))[1]
        kept = trained.model is base
        found[str(share)] = {"utility": utility(source, trained.model), "kept_base": kept, "erase_s": erase}
    return {
        "base": {"utility": utility(source, base), "seconds": base_s, "protect_s": protect_s, "effort": base.effort},
        "served": found,
    }


def utility(source, model) -> float:
    """Return the set's utility on the test records."""
    return source.utility(model.predict_proba(source.test.X), source.test.y)


def _numbers(draw: int) -> np.random.Generator:
    return np.random.default_rng(draw)


def run(path: Path, sets, learners, draws, guarantees=("control", *GUARANTEES)) -> None:
    """Compute the cells that are not in the file yet."""
    done = {line["cell"] for line in read(path)}
    for draw in draws:
        for name in sets:
            source = getattr(sources, name)()
            for learner in learners:
                recipe = getattr(recipes, f"{learner}_recipe")()
                for guarantee in guarantees:
                    cell = f"{name}/{learner}/{guarantee}/{draw}"
                    if cell in done:
                        continue
                    if guarantee == "control":
                        found = control_cell(source, recipe, draw)
                    else:
                        found = guarantee_cell(source, recipe, GUARANTEES[guarantee], draw)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"cell": cell, **found}) + "\n")
                    print(cell, flush=True)


def read(path: Path) -> list[dict]:
    """Return the lines of a results file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def report(path: Path) -> None:
    """Print one Markdown table a set and learner: EUPG / from scratch on the same people, mean over draws."""
    lines = read(path)
    cells = {line["cell"]: line for line in lines}
    for name in SETS:
        for learner in LEARNERS:
            mine = {k: v for k, v in cells.items() if k.startswith(f"{name}/{learner}/")}
            controls = [v for k, v in mine.items() if "/control/" in k]
            if not controls:
                continue
            print(
                f"\n**{name}, {learner}** ({len(controls)} draws; full retraining "
                f"{_mean(c['scratch']['1.0']['utility'] for c in controls)}, short retrain "
                f"{_mean(c['short']['utility'] for c in controls)})\n"
            )
            print("| | base alone | " + " | ".join(f"{100 * s:g} %" for s in SHARES) + " |")
            print("| --- " * (len(SHARES) + 2) + "|")
            scratch = [_mean(c["scratch"][str(s)]["utility"] for c in controls) for s in SHARES]
            print("| from scratch | – | " + " | ".join(scratch) + " |")
            for guarantee in GUARANTEES:
                rows = [v for k, v in mine.items() if f"/{guarantee}/" in k]
                if rows:
                    served = [_mean(r["served"][str(s)]["utility"] for r in rows) for s in SHARES]
                    print(f"| {guarantee} | {_mean(r['base']['utility'] for r in rows)} | " + " | ".join(served) + " |")


def _mean(values) -> str:
    found = list(values)
    return f"{np.mean(found):.1f}" + (f" ± {np.std(found):.1f}" if np.std(found) >= 0.05 else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("file", type=Path)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--learner", action="append")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--guarantee", action="append", choices=("control", *GUARANTEES))
    parser.add_argument("--draw", type=int, action="append", help="only this draw; may be repeated")
    given = parser.parse_args()
    if given.what == "run":
        run(
            given.file,
            given.sets or SETS,
            given.learner or LEARNERS,
            given.draw or range(given.draws),
            *filter(None, [given.guarantee]),
        )
    else:
        report(given.file)
