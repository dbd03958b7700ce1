"""Draws a row of panels as SVG: curves that end in their ratio, and bars on a logarithmic scale.

Colours come from a style sheet inside, for light and for dark surroundings, on a ground of its own; numbers are
rounded, so that the same values give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, GAP, LEFT, TOP = 280, 240, 90, 70, 70
_BOTTOM = 60
_STYLE = """
text { font: 12px sans-serif; fill: #1f2328 } .title { font-weight: bold; font-size: 14px }
.paper { fill: #ffffff } .axis { stroke: #59636e; fill: none } .grid { stroke: #d1d9e0 }
.line { fill: none; stroke-width: 2.5 } .s0 { stroke: #bc4c00 } .s1 { stroke: #0969da }
.f0 { fill: #bc4c00 } .f1 { fill: #0969da } .full { stroke: #59636e; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .paper { fill: #0d1117 } .axis { stroke: #9198a1 } .grid { stroke: #3d444d }
.s0 { stroke: #f0883e } .s1 { stroke: #58a6ff } .f0 { fill: #f0883e } .f1 { fill: #58a6ff }
.full { stroke: #9198a1 } }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves:
    """Sums that grow along evenly spaced places; 1 is where the first one ends."""

    title: str
    across: str
    up: str
    curves: Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """Shares of a whole for some labels, on a logarithmic scale; above 1 is more than there is."""

    title: str
    across: str
    up: str
    labels: Sequence[str]
    bars: Mapping[str, Sequence[float]]


def chart(panels: Sequence[Curves | Bars]) -> str:
    """Return the SVG with the panels side by side and one legend; all have the same two names."""
    width = LEFT + len(panels) * (WIDTH + GAP) - GAP // 2
    height = TOP + HEIGHT + _BOTTOM
    first = panels[0]
    names = tuple(first.curves if isinstance(first, Curves) else first.bars)
    what = escape("; ".join(panel.title for panel in panels), {'"': "&quot;"})
    size = f'viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{what}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    for place, name in enumerate(names):
        x = LEFT + place * 150
        parts.append(f'<rect class="f{place}" x="{x}" y="12" width="14" height="14"/>')
        parts.append(_text(x + 20, 24, name))
    for place, panel in enumerate(panels):
        parts.append(f'<g transform="translate({LEFT + place * (WIDTH + GAP)} {TOP})">')
        parts += _frame(panel)
        parts += _curves(panel) if isinstance(panel, Curves) else _bars(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _frame(panel: Curves | Bars) -> list[str]:
    return [
        _text(0, -14, panel.title, "title"),
        f'<path class="axis" d="M0 0V{HEIGHT}H{WIDTH}"/>',
        _text(WIDTH / 2, HEIGHT + 42, panel.across, anchor="middle"),
        f'<g transform="translate(-52 {HEIGHT / 2:g}) rotate(-90)">{_text(0, 0, panel.up, anchor="middle")}</g>',
    ]


def _curves(panel: Curves) -> list[str]:
    top = max(max(points) for points in panel.curves.values()) * 1.1
    parts = []
    for step in range(5):
        parts += _level(HEIGHT * (1 - step / 4 / top), f"{step / 4:g}")
    places = len(next(iter(panel.curves.values()))) - 1
    for day in range(0, places + 1, 100):
        parts.append(_text(WIDTH * day / places, HEIGHT + 18, str(day), anchor="middle"))
    ends = []
    for number, points in enumerate(panel.curves.values()):
        line = " ".join(
            f"{WIDTH * place / places:.1f},{HEIGHT * (1 - value / top):.1f}" for place, value in enumerate(points)
        )
        parts.append(f'<polyline class="line s{number}" points="{line}"/>')
        ends.append((HEIGHT * (1 - points[-1] / top) - 6, _ratio(points[-1])))
    parts += [_text(WIDTH, y, label, anchor="end") for y, label in ends]
    return parts


def _bars(panel: Bars) -> list[str]:
    values = [value for all_of in panel.bars.values() for value in all_of if value > 0]
    low = math.floor(math.log10(min(values, default=1)))
    high = max(math.ceil(math.log10(max(values, default=1))), 0)
    low = min(low, high - 1)

    def y(value: float) -> float:
        return HEIGHT * (1 - (math.log10(max(value, 10.0**low)) - low) / (high + 0.3 - low))

    parts = []
    for power in range(low, high + 1):
        parts += _level(y(10.0**power), f"{10.0 ** (power + 2):g}%")
    parts.append(_across("full", y(1.0)))
    step, bar = WIDTH / len(panel.labels), WIDTH / len(panel.labels) * 0.44
    for place, label in enumerate(panel.labels):
        parts.append(_text(step * (place + 0.5), HEIGHT + 18, label, anchor="middle"))
        for number, all_of in enumerate(panel.bars.values()):
            x, value = step * (place + 0.5) + bar * (number - 1), all_of[place]
            parts.append(
                f'<rect class="f{number}" x="{x:.1f}" y="{y(value):.1f}" width="{bar - 2:.1f}" '
                f'height="{HEIGHT - y(value):.1f}"/>'
            )
            parts.append(_text(x + bar / 2, y(value) - 4, _percent(value), anchor="middle"))
    return parts


def _level(y: float, label: str) -> list[str]:
    return [_across("grid", y), _text(-6, y + 4, label, anchor="end")]


def _across(style: str, y: float) -> str:
    return f'<path class="{style}" d="M0 {y:.1f}H{WIDTH}"/>'


def _text(x: float, y: float, text: str, style: str = "", *, anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value >= 1 or value <= 0 else f"{value:.2g} ({1 / value:.1f} times less)"


def _percent(share: float) -> str:
    return f"{share * 100:.2g}%" if share < 1 else f"{share * 100:.0f}%"
