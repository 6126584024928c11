"""The demonstration as a page: what was done, what changed, what is claimed, with three figures."""

from __future__ import annotations

import io
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup

from eupg.certify.render import page as certificate_page
from eupg.demo.story import CHOICE, Story
from eupg.errors import ParameterError
from eupg.pages import render

matplotlib.use("svg")
from matplotlib import pyplot as plt

_NAME = "index.html"
CERTIFICATE, CERTIFICATE_PAGE = "certificate.json", "certificate.html"
# Okabe and Ito's palette for colour-blind readers; shapes differ too, for print in grey.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#7f7f7f"
_STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def prepare(folder: Path) -> None:
    """Make the folder and check that a page can be written there, before a long run that would end without one."""
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
            f"the page cannot be written in {folder} ({error.strerror}): name another folder with --out"
        ) from error


def write_page(story: Story, folder: Path) -> Path:
    """Write the page and the certificate, and return the path of the page."""
    prepare(folder)
    with plt.rc_context(_STYLE):
        figures = {"utility": _utility(story), "times": _times(story), "person": _person(story)}
    story.certificate.save(folder / CERTIFICATE)
    (folder / CERTIFICATE_PAGE).write_text(certificate_page(story.certificate), encoding="utf-8")
    values = figures | {
        "story": story,
        "people": len(np.unique(story.train.subjects)),
        "constant": constant_sentence(story),
        "choice": CHOICE,
        "made": f"eupg {version('eupg')}, Python {platform.python_version()}, {platform.machine()}",
    }
    path = folder / _NAME
    path.write_text(render("demo.html", values), encoding="utf-8")
    return path


def constant_sentence(story: Story) -> str:
    """Name the attributes that the permutation hardly touches."""
    worst = sorted(story.constant.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{name} in {share:.0%}" for name, share in worst if share > 0.05)
    if not named:
        return "Every attribute varies inside nearly all groups."
    return f"Where a group has only one value, a permutation hides nothing: {named} of the groups."


def _svg(figure: Any) -> Markup:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    # matplotlib escapes the texts of a figure itself.
    return Markup(text[text.index("<svg") :])


def _utility(story: Story) -> Markup:
    figure, axes = plt.subplots(figsize=(6, 2.8))
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


def _times(story: Story) -> Markup:
    figure, axes = plt.subplots(figsize=(6, 2.7))
    others = [m for m in story.methods if m.forget_s and not m.name.startswith("EUPG")]
    stages = [*story.seconds.items(), *((f"{m.name.lower()}: forget", m.forget_s) for m in others)]
    names, seconds = zip(*reversed(stages), strict=True)
    colours = [_BLUE if "forget" in name else _GREY for name in names]
    axes.barh(names, seconds, color=colours, height=0.6)
    for place, value in enumerate(seconds):
        axes.text(value, place, f" {value:.2f} s", va="center")
    axes.set_xlabel("seconds")
    axes.set_xlim(0, max(seconds) * 1.15)
    return _svg(figure)


def _person(story: Story) -> Markup:
    figure, axes = plt.subplots(figsize=(6, 2.6))
    year = next(j for j, a in enumerate(story.train.schema.features) if a.name == "year")
    years = story.person.X[:, year]
    eupg_, retrain = story.methods[2], story.methods[3]
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
