"""The demonstration as a page: what was done, what changed, what is claimed, with three pictures."""

from __future__ import annotations

import html
import io
import platform
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import matplotlib
import numpy as np

from eupg.certify.render import page as certificate_page
from eupg.demo.story import CHOICE, Story
from eupg.errors import ParameterError

matplotlib.use("svg")
from matplotlib import pyplot as plt

_NAME = "index.html"
CERTIFICATE, CERTIFICATE_PAGE = "certificate.json", "certificate.html"
# Okabe and Ito's palette, told apart by colour-blind readers; shapes differ too, for print in grey.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#7f7f7f"
_STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def prepare(folder: Path) -> None:
    """Make the folder and see that a page can be written there, so that a long run does not end without one."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"expected a folder for the page, got the file {folder}: name another with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if (folder / _NAME).exists():
            (folder / _NAME).open("a").close()
    except OSError as error:
        raise ParameterError(
            f"no page can be written in {folder} ({error.strerror}): name another folder with --out"
        ) from error


def write_page(story: Story, folder: Path) -> Path:
    """Write the page and return its path."""
    prepare(folder)
    with plt.rc_context(_STYLE):
        pictures = {"utility": _utility(story), "times": _times(story), "person": _person(story)}
    rows = "".join(
        _row([m.name, f"{m.before:.1f}", f"{m.after:.1f}", f"{m.forget_s:.2f} s", m.passes, m.claim])
        for m in story.methods
    )
    story.certificate.save(folder / CERTIFICATE)
    (folder / CERTIFICATE_PAGE).write_text(certificate_page(story.certificate), encoding="utf-8")
    path = folder / _NAME
    path.write_text(
        _PAGE.substitute(
            pictures,
            subject=html.escape(story.subject),
            years=len(story.person),
            people=f"{len(np.unique(story.train.subjects)):,}",
            records=f"{len(story.train):,}",
            rows=rows,
            verdict=html.escape(story.verdict),
            claim=html.escape(story.claim.sentence()),
            choice=html.escape(CHOICE),
            effective=html.escape(str(story.effective)),
            constant=html.escape(constant_sentence(story)),
            base=f"{story.base_utility:.1f}",
            made=html.escape(f"eupg {version('eupg')}, Python {platform.python_version()}, {platform.machine()}"),
        ),
        encoding="utf-8",
    )
    return path


def constant_sentence(story: Story) -> str:
    """Name the attributes that the permutation hardly touches."""
    worst = sorted(story.constant.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{name} in {share:.0%}" for name, share in worst if share > 0.05)
    if not named:
        return "Every attribute varies inside nearly all groups."
    return f"Where a group holds one value only, a permutation hides nothing: {named} of the groups."


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>"


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _utility(story: Story) -> str:
    figure, axes = plt.subplots(figsize=(6, 2.2))
    for place, method in enumerate(reversed(story.methods)):
        axes.plot([method.before, method.after], [place, place], color=_GREY, zorder=1)
        axes.scatter(method.before, place, color=_ORANGE, marker="s", s=45, label="before" if not place else None)
        axes.scatter(method.after, place, color=_BLUE, marker="o", s=45, label="after" if not place else None)
    axes.axvline(story.base_utility, color=_GREEN, linestyle=":", label="base model")
    axes.set_yticks(range(len(story.methods)), [m.name for m in reversed(story.methods)])
    axes.set_xlabel("utility on people never seen (AUC, %)")
    axes.set_ylim(-0.6, len(story.methods) - 0.4)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _svg(figure)


def _times(story: Story) -> str:
    figure, axes = plt.subplots(figsize=(6, 2.4))
    stages = [*story.seconds.items(), *((f"{m.name.lower()}: forget", m.forget_s) for m in story.methods[1:])]
    names, seconds = zip(*reversed(stages), strict=True)
    colours = [_BLUE if "forget" in name else _GREY for name in names]
    axes.barh(names, seconds, color=colours, height=0.6)
    for place, value in enumerate(seconds):
        axes.text(value, place, f" {value:.2f} s", va="center")
    axes.set_xlabel("seconds")
    axes.set_xlim(0, max(seconds) * 1.15)
    return _svg(figure)


def _person(story: Story) -> str:
    figure, axes = plt.subplots(figsize=(6, 2.6))
    year = next(j for j, a in enumerate(story.train.schema.features) if a.name == "year")
    years = story.person.X[:, year]
    eupg_, retrain = story.methods[0], story.methods[1]
    series: Any = (
        ("truth", story.person.y.astype(float), "black", "_"),
        ("served, before", eupg_.person_before, _ORANGE, "s"),
        ("served, after", eupg_.person_after, _BLUE, "o"),
        ("retrained without them", retrain.person_after, _GREEN, "^"),
        ("base model alone", story.person_base, _GREY, "x"),
    )
    for place, (name, values, colour, marker) in enumerate(series):
        axes.scatter(years + (place - 2) * 0.08, values, color=colour, marker=marker, s=45, label=name)
    axes.set_xticks(years, [f"year {int(y)}" for y in years])
    axes.set_ylim(-0.05, 1.05)
    axes.set_ylabel("P(saw a doctor)")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _svg(figure)


_PAGE = Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>One person, forgotten</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2.5rem auto; padding: 0 1rem; color: #1b1b1b; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .3rem .6rem .3rem 0;
border-bottom: 1px solid #ddd; } blockquote { border-left: 4px solid #0072B2; margin: 1rem 0; padding: .2rem 1rem;
background: #f4f8fb; } svg { max-width: 100%; height: auto; }
footer { color: #666; font-size: .85rem; margin-top: 2rem; }
</style></head><body>
<h1>Person $subject, forgotten</h1>
<p>$years yearly records of one person, erased from a model of $people people ($records records, RAND Health Insurance
Experiment). The model predicts whether someone sees a doctor in a year.</p>
<p><strong>$verdict</strong></p>
<h2>What is claimed for this person</h2>
<blockquote>$claim</blockquote>
<p>Narrower than it sounds: $effective. $constant The label and the retained records are used as they are. Only the new
model is covered; whoever kept an earlier one can compare. $choice</p>
<p>Signed and verified: <a href="certificate.html">the certificate as a page</a>, <a href="certificate.json">the signed
file</a>.</p>
<h2>Utility, before and after</h2>
<table><tr><th>Method</th><th>before</th><th>after</th><th>forget</th><th>effort</th><th>claim</th></tr>$rows</table>
<p>AUC in percent on people who are not in the training data. The base model, which saw protected data only, reaches
$base.</p>
$utility
<h2>What the model says about the person</h2>
<p>A model retrained without the person (triangles) owes them nothing. EUPG's served model (circles) starts from the
base model, which still knows what the release revealed: that, and no more, is what the claim above speaks about.</p>
$person
<h2>Time of each stage</h2>
$times
<footer>$made. Forget times are medians of three runs on this machine, without the workspace's; compare ratios.</footer>
</body></html>
"""
)
