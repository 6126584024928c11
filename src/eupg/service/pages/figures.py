"""The figures of the pages, as SVG without scripts or styles: colours come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup, escape
from scipy.stats import norm

from eupg.audit.membership.report import AuditReport
from eupg.manage.quality import Estimate
from eupg.service.pages import words

_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 44
# Marks of model versions need this much room to be told apart.
_MOST_MARKS = 60


@dataclass
class _Drawing:
    """An SVG that is drawn piece by piece."""

    label: str
    width: int = _WIDTH
    height: int = _HEIGHT
    pieces: list[Markup] = field(default_factory=list)

    def add(self, tag: str, content: str = "", **attributes: object) -> None:
        names = (f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
        self.pieces.append(Markup(f"<{tag}{''.join(names)}>{escape(content)}</{tag}>"))

    def text(self, x: float, y: float, content: str, anchor: str = "start", class_: str = "tick") -> None:
        self.add("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        self.add("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)

    def svg(self) -> Markup:
        head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="figure">').format(
            self.width, self.height, self.label
        )
        return head + Markup("").join(self.pieces) + Markup("</svg>")


def quality_figure(points: Sequence[tuple[str, Estimate]], name: str) -> Markup:
    """Draw a figure of quality over the versions of a model, each with its interval."""
    points = points[-_MOST_MARKS:]
    low = min(estimate.low for _, estimate in points)
    high = max(estimate.high for _, estimate in points)
    step = _nice(max(high - low, 0.02) / 4)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    top = top if top > bottom else bottom + step
    first, last = points[0][1].value, points[-1][1].value
    drawing = _Drawing(
        f"{name} of {words.count(len(points), 'version')} of the model on people held out: "
        f"{first:.1%} at first, {last:.1%} now"
    )

    def across(i: int) -> float:
        share = 0.5 if len(points) == 1 else i / (len(points) - 1)
        return _LEFT + 24 + share * (_WIDTH - _LEFT - _RIGHT - 48)

    def up(value: float) -> float:
        return _TOP + (top - value) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)

    for i in range(round((top - bottom) / step) + 1):
        value = bottom + i * step
        drawing.line(_LEFT, up(value), _WIDTH - _RIGHT, up(value), "grid")
        drawing.text(_LEFT - 8, up(value) + 4, f"{100 * value:.4g} %", "end")
    for i, (_, estimate) in enumerate(points):
        drawing.line(across(i), up(estimate.low), across(i), up(estimate.high), "range")
    path = " ".join(f"{across(i):.1f},{up(estimate.value):.1f}" for i, (_, estimate) in enumerate(points))
    drawing.add("polyline", points=path, class_="line")
    for i, (_, estimate) in enumerate(points):
        drawing.add("circle", cx=f"{across(i):.1f}", cy=f"{up(estimate.value):.1f}", r=4.5, class_="mark")
    ends = [(0, "start" if len(points) > 1 else "middle")] + ([(len(points) - 1, "end")] if len(points) > 1 else [])
    for i, anchor in ends:
        drawing.text(
            across(i) + {"start": -24, "end": 24}.get(anchor, 0), _HEIGHT - 14, words.day(points[i][0]), anchor
        )
    return drawing.svg()


def roc_points(report: AuditReport) -> Markup:
    """Draw the points of an attack's ROC curve that the ledger keeps, on logarithmic axes.

    The measured curve would need the scores of single records. Those are personal data and are never stored, so only
    the rates with their exact intervals remain. The lines are curves of normal scores with the measured AUC.
    """
    least = 10.0 ** math.floor(math.log10(min(1 / report.nonmembers, 1 / report.members, 1e-2) / 1.5))
    decades = round(-math.log10(least))
    height = 380
    label = (
        f"Members found against false alarms, for {report.attack}: AUC {report.auc:.1f} percent, "
        f"interval {report.low:.1f} to {report.high:.1f}; 50 is chance"
    )
    drawing = _Drawing(label, 640, height)

    def across(share: float) -> float:
        return _LEFT + (math.log10(max(share, least)) / decades + 1) * (_WIDTH - _LEFT - _RIGHT)

    def up(share: float) -> float:
        return _TOP - math.log10(max(share, least)) / decades * (height - _TOP - _BOTTOM - 12)

    edge = across(1 / report.nonmembers)
    drawing.add(
        "rect", x=_LEFT, y=_TOP, width=f"{edge - _LEFT:.1f}", height=f"{up(least) - _TOP:.1f}", class_="hidden-area"
    )
    for i in range(decades + 1):
        share = 10.0**-i
        drawing.line(_LEFT, up(share), _WIDTH - _RIGHT, up(share), "grid")
        drawing.line(across(share), _TOP, across(share), up(least), "grid")
        drawing.text(_LEFT - 8, up(share) + 4, f"{100 * share:g} %", "end")
        drawing.text(across(share), up(least) + 18, f"{100 * share:g} %", "end" if i == 0 else "middle")
    drawing.line(across(least), up(least), across(1), up(1), "chance")
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    drawing.text(middle, height - 6, "people wrongly taken for members (false alarms)", "middle", "axis")
    for other in (report.baseline, report):
        if other is not None:
            smooth = ((x, _normal_curve(x, other.auc / 100)) for x in np.logspace(-decades, 0, 80))
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in smooth)
            drawing.add("polyline", points=path, class_="curve model" if other is report else "curve baseline")
            for x, y, low, high in _rates(other):
                kind = "model" if other is report else "baseline"
                shift = 4 if other is report else -4
                drawing.line(across(x) + shift, up(low), across(x) + shift, up(high), f"range {kind}")
                if kind == "model":
                    drawing.add("circle", cx=f"{across(x) + shift:.1f}", cy=f"{up(y):.1f}", r=5.5, class_=kind)
                else:
                    corner = {"x": f"{across(x) + shift - 4.5:.1f}", "y": f"{up(y) - 4.5:.1f}"}
                    drawing.add("rect", **corner, width=9, height=9, class_=kind)
    return drawing.svg()


def _rates(report: AuditReport) -> Iterator[tuple[float, float, float, float]]:
    for tail in report.tails:
        if tail.resolvable:
            yield tail.at / 100, tail.tpr / 100, tail.low / 100, tail.high / 100


def _normal_curve(share: float, auc: float) -> float:
    """Return the share of members found where scores are normal, with equal spread and this AUC."""
    return float(norm.cdf(norm.ppf(share) + math.sqrt(2) * norm.ppf(min(max(auc, 1e-6), 1 - 1e-6))))


def _nice(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step - 1e-12)
