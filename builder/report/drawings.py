"""The two drawings of a report as SVG: the stages of a build as a graph, its layers as a treemap.

Coordinates are computed here, without a clock and without chance: the same values give the same drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder.compare.words import rounded
from builder.layering import part_of
from builder.report.facts import Layer, Step
from builder.report.markup import Markup, element
from builder.report.steps import Stage

WIDTH = 940.0
_MAP_HEIGHT = 340.0
_BOX, _ROW, _GAP = 38.0, 50.0, 46.0  # height of a stage, of its row; room between columns
_CHARACTER = 7.0  # width of one, at the size of the labels
_COLOURS = 8


def graph(stages: Sequence[Stage], steps: Iterable[Step]) -> Markup:
    """Return the stages, each to the right of those it needs, with the time each took."""
    made = {stage.name: stage for stage in stages}
    contexts = list(dict.fromkeys(need for stage in stages for need in stage.needs if need not in made))
    depth = dict.fromkeys(contexts, 0)
    for stage in stages:  # a stage needs earlier ones alone
        depth[stage.name] = 1 + max((depth.get(need, 0) for need in stage.needs), default=0)
    columns: dict[int, list[str]] = {}
    for name in (*contexts, *made):
        columns.setdefault(depth[name], []).append(name)
    told = _told(steps)
    width = (WIDTH - _GAP * (len(columns) - 1)) / max(len(columns), 1)
    width = max(min(width, 190.0), 96.0)
    places = {
        name: (number * (width + _GAP), row * _ROW + 6)
        for number, column in enumerate(columns[key] for key in sorted(columns))
        for row, name in enumerate(column)
    }
    lines = [_edge(places[need], places[stage.name], width) for stage in stages for need in stage.needs]
    boxes = [_box(name, places[name], width, told.get(name)) for name in (*contexts, *made)]
    whole = max((x for x, _ in places.values()), default=0.0) + width + 2
    height = max((y for _, y in places.values()), default=0.0) + _BOX + 8
    return element(
        "svg", element("title", "Stages of the build and what each needs"), lines, boxes, role="img",
        viewBox=f"0 0 {whole:.0f} {height:.0f}", width=f"{whole:.0f}", cls="graph",
    )  # fmt: skip


def _told(steps: Iterable[Step]) -> dict[str, tuple[str, str]]:
    """Return per stage its state and the words for it."""
    states: dict[str, list[Step]] = {}
    for step in steps:
        states.setdefault(step.stage, []).append(step)
    found: dict[str, tuple[str, str]] = {}
    for stage, own in states.items():
        kinds = {step.state for step in own}
        seconds = sum(step.seconds for step in own)
        state = next(kind for kind in ("failed", "stopped", "done", "cached", "untold") if kind in kinds)
        words = {"cached": "from the cache", "untold": "with an equal one"}
        found[stage] = (state, words.get(state, f"{state}, {seconds:.1f} s"))
    return found


def _edge(start: tuple[float, float], end: tuple[float, float], width: float) -> Markup:
    x, y, to_x, to_y = start[0] + width, start[1] + _BOX / 2, end[0], end[1] + _BOX / 2
    bend = max((to_x - x) / 2, 18.0)
    return element(
        "path",
        cls="edge",
        d=f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}",
    )


def _box(name: str, place: tuple[float, float], width: float, told: tuple[str, str] | None) -> Markup:
    x, y = place
    state, words = told or ("given", "nothing ran")
    return element(
        "g",
        element("title", f"{name}: {words}"),
        element("rect", x=x, y=y, width=width, height=_BOX, rx=5.0, cls=f"box {state}"),
        element("text", _cut(name.removeprefix("component-"), width - 12), x=x + 7, y=y + 16, cls="name"),
        element("text", _cut(words, width - 12), x=x + 7, y=y + 30, cls="told"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Rectangle:
    """A part of a plane."""

    x: float
    y: float
    width: float
    height: float


def treemap(layers: Sequence[Layer]) -> Markup:
    """Return the layers as areas as large as their bytes, those of one owner together and in one colour."""
    owners: dict[str, list[Layer]] = {}
    for layer in layers:
        if layer.size > 0:
            owners.setdefault(part_of(layer.owner), []).append(layer)
    sizes = {owner: sum(layer.size for layer in own) for owner, own in owners.items()}
    order = sorted(sizes, key=lambda owner: (-sizes[owner], owner))
    total = sum(sizes.values())
    whole = Rectangle(x=0.0, y=0.0, width=WIDTH, height=_MAP_HEIGHT)
    areas = []
    colours = colours_of(layers)
    for owner, place in zip(order, squarified([sizes[owner] for owner in order], whole), strict=True):
        own = sorted(owners[owner], key=lambda layer: (-layer.size, layer.digest))
        share = f"{100 * sizes[owner] / total:.1f} %"
        parts = squarified([layer.size for layer in own], place)
        areas += [
            element(
                "g",
                element(
                    "title", f"{layer.owner}: {rounded(layer.size)} of {rounded(sizes[owner])}, {layer.digest}"
                ),
                element(
                    "rect", x=part.x, y=part.y, width=part.width, height=part.height,
                    cls=f"area {colours[owner]}",
                ),
            )
            for layer, part in zip(own, parts, strict=True)
        ]  # fmt: skip
        if place.height > 20 and place.width > 40:
            areas.append(element("text", _cut(owner, place.width - 12), x=place.x + 7, y=place.y + 17, cls="name"))
        if place.height > 36 and place.width > 90:
            words = _cut(f"{rounded(sizes[owner])}, {share}", place.width - 12)
            areas.append(element("text", words, x=place.x + 7, y=place.y + 32, cls="told"))
    return element(
        "svg", element("title", "Layers by compressed size"), areas, role="img",
        viewBox=f"0 0 {WIDTH:.0f} {_MAP_HEIGHT:.0f}", cls="treemap",
    )  # fmt: skip


def colours_of(layers: Iterable[Layer]) -> Mapping[str, str]:
    """Return the class that colours an owner, by the place of its first layer."""
    owners = dict.fromkeys(part_of(layer.owner) for layer in layers)
    return {owner: f"c{number % _COLOURS}" for number, owner in enumerate(owners)}


def squarified(sizes: Sequence[float], inside: Rectangle) -> tuple[Rectangle, ...]:
    """Divide a rectangle into areas as large as `sizes`, largest first, each as near to a square as it goes.

    The way is that of Bruls, Huizing and van Wijk: rows along the shorter side, closed when one more would make
    the worst of them narrower.
    """
    total = float(sum(sizes))
    if total <= 0:
        return tuple(Rectangle(x=inside.x, y=inside.y, width=0.0, height=0.0) for _ in sizes)
    scale = inside.width * inside.height / total
    areas = [size * scale for size in sizes]
    placed: list[Rectangle] = []
    x, y, width, height = inside.x, inside.y, inside.width, inside.height
    start = 0
    while start < len(areas):
        side = min(width, height)
        end = start + 1
        while end < len(areas) and _worst(areas[start : end + 1], side) <= _worst(areas[start:end], side):
            end += 1
        row = areas[start:end]
        # What is left has the rounding of all before it: a sliver must not become longer than that.
        thick = min(sum(row) / side, max(width, height)) if side > 0 else 0.0
        along = 0.0
        for area in row:
            long = side * area / sum(row)
            placed.append(
                Rectangle(x=x, y=y + along, width=thick, height=long) if width >= height
                else Rectangle(x=x + along, y=y, width=long, height=thick)
            )  # fmt: skip
            along += long
        if width >= height:
            x, width = x + thick, max(width - thick, 0.0)
        else:
            y, height = y + thick, max(height - thick, 0.0)
        start = end
    return tuple(placed)


def _worst(row: Sequence[float], side: float) -> float:
    """Return how far the narrowest area of a row is from a square: 1 is one."""
    whole, low, high = sum(row), min(row), max(row)
    if whole <= 0 or low <= 0 or side <= 0:
        return float("inf")
    return max(side * side * high / (whole * whole), whole * whole / (side * side * low))


def _cut(text: str, width: float) -> str:
    most = max(int(width / _CHARACTER), 1)
    return text if len(text) <= most else f"{text[: most - 1]}…"
