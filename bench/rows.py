"""Draws rows of horizontal bars as SVG: shares of a whole on a logarithmic scale, two panels side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_LEFT, _WIDTH, _GAP, _TOP, _STEP, _BAR = 220, 300, 60, 60, 28, 16
_STYLE = """
text { font: 12px sans-serif; fill: #1f2328 } .title { font-weight: bold; font-size: 14px }
.paper { fill: #ffffff } .grid { stroke: #d1d9e0 } .bar { fill: #0969da }
.full { stroke: #bc4c00; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .paper { fill: #0d1117 } .grid { stroke: #3d444d } .bar { fill: #58a6ff }
.full { stroke: #f0883e } }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row: what it is about, and a share for each panel, 1 being the reference."""

    label: str
    values: tuple[float, ...]


def rows_chart(titles: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the SVG. A share below the least of the scale, or of nothing at all, has no bar."""
    shares = [value for row in rows for value in row.values if value > 0]
    low = max(math.floor(math.log10(min(shares, default=0.1))), -6)
    high = max(math.log10(max(shares, default=1.0)), 0.0) + 0.35
    low = min(low, -1)

    def across(value: float) -> float:
        return _WIDTH * (math.log10(max(value, 10.0**low)) - low) / (high - low)

    width = _LEFT + len(titles) * (_WIDTH + _GAP)
    bottom = _TOP + len(rows) * _STEP
    height = bottom + 44
    what = escape(f"{'; '.join(titles)}, in ratio to the reference", {'"': "&quot;"})
    size = f'viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{what}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    for number, row in enumerate(rows):
        parts.append(_text(_LEFT - 12, _TOP + number * _STEP + _BAR, row.label, anchor="end"))
    for panel, title in enumerate(titles):
        x = _LEFT + panel * (_WIDTH + _GAP)
        parts.append(_text(x, _TOP - 30, title, kind="title"))
        for power in range(low, 1):
            at = x + across(10.0**power)
            kind = "full" if power == 0 else "grid"
            parts.append(f'<path class="{kind}" d="M{at:.1f} {_TOP - 10}V{bottom}"/>')
            parts.append(_text(at, bottom + 18, f"{10.0 ** (power + 2):g}%", anchor="middle"))
        parts.append(_text(x, bottom + 36, "of the reference, which is the thick line; logarithmic"))
        for number, row in enumerate(rows):
            y, value = _TOP + number * _STEP, row.values[panel]
            if (long := across(value)) > 0 and value > 0:
                parts.append(f'<rect class="bar" x="{x}" y="{y + 2}" width="{long:.1f}" height="{_BAR}"/>')
            parts.append(_text(x + max(long, 0) + 6, y + _BAR - 1, _percent(value)))
    return "\n".join([*parts, "</svg>", ""])


def _percent(share: float) -> str:
    return f"{share * 100:.2g}%" if share < 1 else f"{share:.0%}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
