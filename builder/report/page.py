"""The page: sections from a report's values, one style sheet, no script, nothing from anywhere else.

Its own policy forbids whatever is not in it: the browser runs no script, fetches nothing, and takes no style but
the one whose hash is named.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from builder import compare
from builder.compare.words import headline, rounded
from builder.layering import part_of
from builder.report.drawings import colours_of, graph, treemap
from builder.report.facts import BuildReport, Layer, Patch, Step, Test
from builder.report.markup import Child, Markup, element, joined, link, style
from builder.report.steps import stages
from builder.whatchanged import in_short

_ARROWS = (
    "An arrow leads from what is needed to who needs it. What needs nothing of each other is built side by side."
)
_SHORT = 0.05  # seconds that are shown as none
_FIELD = 13  # width of the names in a difference as text


def page(report: BuildReport) -> str:
    """Return the whole page."""
    sheet = (files("builder.report") / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    parts = (
        ("ended", "What went wrong", _ended(report)),
        ("plan", "Why it was made", _reasons(report.reasons)),
        ("difference", "Difference to the last record", _difference(report)),
        ("stages", "Stages", _stages(report)),
        ("layers", "Layers by component", _layers(report.layers)),
        ("timings", "Where the time went", _timings(report)),
        ("smoke", "Smoke tests", _smoke(report.tests)),
        ("patches", "Patches", _patches(report.patches)),
    )
    shown = [(name, title, body) for name, title, body in parts if body is not None]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{report.image} {report.version}: {report.outcome}"),
        style(sheet),
    )
    body = element(
        "body",
        element("header", _head(report), element("nav", _menu(shown))),
        element("main", [element("section", element("h2", title), body, id=name) for name, title, body in shown]),
        element(
            "footer", f"Written by rocm-images {report.program}. This page has no script and fetches nothing."
        ),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _menu(shown: Sequence[tuple[str, str, Markup]]) -> list[Markup]:
    return [element("a", title, href=f"#{name}") for name, title, _ in shown]


def _head(report: BuildReport) -> list[Child]:
    state = "failed" if report.ended is not None else "passed"
    rows: list[tuple[str, Child]] = [
        ("pin", element("code", report.reference) if report.reference else "not published"),
        ("digest", element("code", report.digest) if report.digest else "none"),
        ("content key", element("code", report.content_key)),
        ("fingerprint", element("code", report.fingerprint)),
        ("GPU targets", ", ".join(report.gfx)),
    ]
    return [
        element("p", element("span", report.outcome, cls=f"state {state}"), " ", report.action, cls="outcome"),
        element("h1", report.image, " ", element("small", report.version)),
        element("p", report.description) if report.description else None,
        element("dl", [(element("dt", name), element("dd", value)) for name, value in rows]),
    ]


def _ended(report: BuildReport) -> Markup | None:
    if report.ended is None:
        return None
    return joined([
        element("p", element("strong", report.ended.message)),
        element("pre", "\n".join(report.ended.details)) if report.ended.details else None,
        element("p", "What to do: ", report.ended.hint) if report.ended.hint else None,
    ])  # fmt: skip


def _listed(lines: Sequence[str]) -> Markup:
    return element("ul", [element("li", line) for line in lines])


def _difference(report: BuildReport) -> Markup:
    if report.difference is None:
        return element("p", "There is no record of an earlier build of this image to compare with.")
    lines = compare.text(report.difference).splitlines()
    return joined([
        element("p", headline(report.difference)),
        _table(("", ""), [(line[:_FIELD].strip(), line[_FIELD + 1 :]) for line in lines], cls="pairs"),
    ])  # fmt: skip


def _reasons(reasons: Sequence[str]) -> Markup | None:
    short = in_short(reasons)
    if len(short) == len(reasons):
        return _listed(reasons)
    return joined([_listed(short), _folded(f"All {len(reasons)} reasons", _listed(reasons))])


def _stages(report: BuildReport) -> Markup | None:
    found = stages(report.dockerfile)
    if not found:
        return None
    return joined([
        element("p", _ARROWS),
        element("div", graph(found, report.steps), cls="wide"),
    ])  # fmt: skip


def _layers(layers: Sequence[Layer] | None) -> Markup:
    if not layers:
        return element("p", "Sizes of layers are known of what is published; this build was not.")
    colours, total = colours_of(layers), sum(layer.size for layer in layers)
    rows = [
        (
            (element("span", "", cls=f"dot {colours[part_of(layer.owner)]}"), " ", layer.owner),
            element("code", layer.digest),
            rounded(layer.size),
        )
        for layer in layers
    ]
    return joined([
        element("p", f"{len(layers)} layers, {rounded(total)} compressed, as a node pulls them."),
        treemap(layers),
        _folded(f"All {len(layers)} layers", _table(("layer of", "digest", "size"), rows, numbers=(2,))),
    ])  # fmt: skip


def _timings(report: BuildReport) -> Markup | None:
    ran = [step for step in report.steps if step.seconds >= _SHORT or step.state in ("failed", "stopped")]
    if not report.took and not ran:
        return None
    most = max([each.seconds for each in report.took] + [step.seconds for step in ran], default=0.0)
    rest = len(report.steps) - len(ran)
    return joined([
        _bars([(f"{'· ' * each.depth}{each.text}", each.seconds, "done") for each in report.took], most),
        element("h3", "Steps of the build") if ran else None,
        _bars([(f"{step.stage}: {_short(step)}", step.seconds, step.state) for step in ran], most),
        element("p", f"{rest} more steps came from the cache, or took no time.") if rest else None,
    ])  # fmt: skip


def _short(step: Step) -> str:
    words = [word for word in step.text.split() if not word.startswith("--")]
    text = " ".join(words)
    return text if len(text) <= 90 else f"{text[:89]}…"


def _bars(rows: Sequence[tuple[str, float, str]], most: float) -> Markup | None:
    if not rows:
        return None
    return _table(
        ("", "seconds", ""),
        [
            (
                text, f"{seconds:.1f}",
                element(
                    "svg",
                    element("rect", x=0.0, y=0.0, width=100 * seconds / most if most > 0 else 0.0, height=10.0,
                            cls=f"bar {state}"),
                    viewBox="0 0 100 10", preserveAspectRatio="none", cls="bar", aria_hidden="true",
                ),
            )
            for text, seconds, state in rows
        ],
        numbers=(1,),
    )  # fmt: skip


def _smoke(tests: Sequence[Test] | None) -> Markup:
    if tests is None:
        return element("p", "No smoke test was run.")
    counts: dict[str, int] = {}
    for test in tests:
        counts[test.outcome] = counts.get(test.outcome, 0) + 1
    rows = [
        (
            element("span", test.outcome, cls=f"state {test.outcome.replace(' ', '-')}"),
            test.tier,
            (
                test.title,
                element("p", test.cause) if test.cause else None,
                element("pre", "\n".join(test.details)) if test.details else None,
                element("p", "In production: ", test.production, cls="quiet")
                if test.production and test.outcome == "failed" else None,
            ),
            f"{test.seconds:.1f}",
        )
        for test in sorted(tests, key=lambda test: test.outcome != "failed")
    ]  # fmt: skip
    return joined([
        element("p", ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "none"),
        _table(("", "tier", "what", "seconds"), rows, numbers=(3,)),
    ])  # fmt: skip


def _patches(patches: Sequence[Patch]) -> Markup:
    if not patches:
        return element("p", "It has none.")
    rows = [
        (
            element("span", patch.state, cls=f"state {patch.state.replace(' ', '-')}"),
            patch.name,
            f"{patch.kind} on {patch.target}",
            (
                patch.reason,
                element("p", link(patch.upstream), cls="quiet") if patch.upstream else None,
                element("p", "Drop it when: ", patch.drop_when, cls="quiet") if patch.drop_when else None,
            ),
            f"{patch.before} → {patch.after}" if patch.after is not None else "",
        )
        for patch in patches
    ]
    return _table(("state", "patch", "of", "why", "probe"), rows)


def _folded(title: str, body: Markup) -> Markup:
    return element("details", element("summary", title), body)


def _table(
    head: Sequence[str], rows: Sequence[Sequence[Child]], *, numbers: Sequence[int] = (), cls: str | None = None
) -> Markup:
    def cell(place: int, child: Child) -> Markup:
        return element("td", child, cls="number" if place in numbers else None)

    top = (
        element("thead", element("tr", [element("th", name, scope="col") for name in head])) if any(head) else None
    )
    body = [element("tr", [cell(place, child) for place, child in enumerate(row)]) for row in rows]
    return element("div", element("table", top, element("tbody", body), cls=cls), cls="wide")
