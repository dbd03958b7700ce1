"""The report of a build: the same page for the same values, nothing from outside, nothing that is not escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builder.errors import BuildError, SmokeError
from builder.plan import Action, Plan
from builder.project import Prepared
from builder.recipe import Recipe
from builder.report import BuildReport, page
from builder.report.drawings import Rectangle, squarified, treemap
from builder.report.markup import element, escaped, joined, link
from builder.report.steps import FINAL, stages, steps
from builder.reporting import Run, Timed, write_report
from builder.story import Silent
from builder.workspace import Workspace

from ..recipe import samples
from . import reports

GOLDENS = Path(__file__).resolve().parents[2] / "data/reports"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "nav", "a", "main", "section", "footer", "h1",
    "h2", "h3", "small", "p", "span", "strong", "dl", "dt", "dd", "code", "pre", "ul", "li", "table", "thead",
    "tbody", "tr", "th", "td", "div", "details", "summary", "svg", "g", "rect", "path", "text",
}  # fmt: skip


class Read(HTMLParser):
    """Reads a page as a browser would: its elements, their attributes, its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", ["whole", "failed"])
def test_the_page_is_the_one_that_was_looked_at(name: str) -> None:
    """Where it is to differ: python -m tests.unit.feel.test_report writes the pages anew; look at them."""
    made: BuildReport = getattr(reports, name)()
    assert page(made) == (GOLDENS / f"{name}.html").read_text(encoding="utf-8")
    assert page(made) == page(getattr(reports, name)())


@pytest.mark.parametrize("name", ["whole", "failed", "hostile"])
def test_nothing_in_a_page_runs_or_comes_from_elsewhere(name: str) -> None:
    text = page(getattr(reports, name)())
    text.encode()
    read = Read(text)
    assert {tag for tag, _ in read.elements} <= TAGS
    for tag, attributes in read.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            assert key not in ("style", "src", "srcset", "action", "data", "xlink:href"), (tag, key)
            if key == "href":
                assert value is not None
                assert re.fullmatch(r"#[a-z]+|https://[^\s\"'<>]+", value)
    policy = next(a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in text
    assert "@import" not in text


def test_an_attack_is_shown_and_does_nothing() -> None:
    text = page(reports.hostile())
    read = Read(text)
    assert "<script" not in text.lower()
    assert "<img" not in text.lower()
    shown = reports.ATTACK.replace("\u202e", "[U+202E]").replace("\x1b", "[U+001B]")
    shown = shown.replace("\x00", "[U+0000]").replace("\udcff", "[U+DCFF]")
    assert read.text.count(shown) >= 20
    assert not set(text) & set("\u202e\x1b\x00\udcff")
    assert len([tag for tag, _ in read.elements if tag == "style"]) == 1


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_stays_text(text: str) -> None:
    made = element("p", text, title=text)
    read = Read(made)
    assert [tag for tag, _ in read.elements] == ["p"]
    assert read.text == read.elements[0][1]["title"]
    assert escaped(text) in made


def test_markup_is_made_of_names_and_numbers_that_are_some() -> None:
    assert element("rect", x=1.0, y=0.123456, cls="a", hidden=None) == '<rect x="1" y="0.12" class="a"></rect>'
    assert joined(["a<b", None, [1, 2.5]]) == "a&lt;b12.5"
    assert link("https://x.example/a?b=1").startswith('<a href="https://x.example/a?b=1" rel=')
    assert link("javascript:alert(1)") == "javascript:alert(1)"
    assert link('https://x.example/"onclick=') == "https://x.example/&quot;onclick="
    with pytest.raises(ValueError, match="names no element"):
        element("p onclick=x")


def test_stages_and_what_they_need_are_read_out_of_the_dockerfile() -> None:
    assert [(stage.name, stage.needs) for stage in stages(reports.DOCKERFILE)] == [
        ("runtime-packages", ("base-runtime",)),
        ("build", ("base-build",)),
        ("component-triton", ("build",)),
        ("component-kernels", ("build", "component-triton")),
        (FINAL, ("runtime-packages", "component-triton", "component-kernels")),
    ]


@pytest.mark.parametrize(
    "dockerfile", sorted(GOLDENS.parent.glob("goldens/*/Dockerfile")), ids=lambda p: p.parent.name
)
def test_every_stage_of_every_rendered_dockerfile_needs_a_stage_or_a_context(dockerfile: Path) -> None:
    found = stages(dockerfile.read_text(encoding="utf-8"))
    known = {"base-build", "base-runtime"}
    for stage in found:
        assert set(stage.needs) <= known
        known.add(stage.name)
    assert found[-1].name == FINAL


def test_steps_are_read_out_of_what_buildkit_says_and_not_out_of_what_steps_say() -> None:
    found = steps(reports.LOG.splitlines())
    assert [(step.stage, step.seconds, step.state) for step in found] == [
        ("runtime-packages", 12.3, "done"),
        ("component-triton", 0.0, "cached"),
        ("component-kernels", 0.0, "failed"),
        (FINAL, 0.0, "stopped"),
        ("export", 3.5, "done"),
    ]


def test_of_two_equal_steps_buildkit_tells_the_end_of_one_and_neither_was_stopped() -> None:
    log = [line for line in reports.LOG.splitlines() if not line.startswith(("#5", "#6"))]
    log.append('#8 [build 1/1] RUN --network=none ["sh", "/media/install-debs.sh", "0"]')
    assert [(step.stage, step.state) for step in steps(log)] == [
        ("runtime-packages", "done"), ("component-triton", "cached"), ("export", "done"), ("build", "untold"),
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=10**11), max_size=16))
@example([1, 46637, 73507, 45958, 75550, 131817, 31927404, 10_498_705_445])  # a sliver a billionth as large
def test_areas_of_the_treemap_are_as_large_as_the_layers_and_lie_side_by_side(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    inside = Rectangle(x=3.0, y=5.0, width=940.0, height=340.0)
    areas = squarified(sizes, inside)
    whole = inside.width * inside.height
    assert len(areas) == len(sizes)
    for size, area in zip(sizes, areas, strict=True):
        assert area.width * area.height == pytest.approx(whole * size / sum(sizes), rel=1e-6, abs=1e-3)
        assert inside.x - 1e-6 <= area.x
        assert area.x + area.width <= inside.x + inside.width + 1e-6
        assert inside.y - 1e-6 <= area.y
        assert area.y + area.height <= inside.y + inside.height + 1e-6
    for place, one in enumerate(areas):
        for other in areas[place + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            high = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide <= 1e-6 or high <= 1e-6


def test_the_layers_of_a_component_lie_together_in_one_colour() -> None:
    drawn = treemap(reports.whole().layers or ())
    assert drawn.count("<rect") == 3  # that without bytes has no area
    assert len(re.findall(r'class="area c1"', drawn)) == 2
    assert "triton: 180.0 MB of 200.0 MB" in drawn


class Told(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(f"warning: {text}")


def prepared(recipe: Recipe) -> Prepared:
    lock = samples.lock(recipe)
    return Prepared(
        recipe=recipe, lock=lock, lock_hash="0" * 64, inputs={}, content_key="c" * 64, test_key="t" * 64,
        fingerprint="f" * 16, below={},
    )  # fmt: skip


def run_of(recipe: Recipe) -> Run:
    plan = Plan(
        image=recipe.name, content_key="c" * 64, fingerprint="f" * 16, action=Action.BUILD, reasons=("new",)
    )
    return Run(prepared=prepared(recipe), plan=plan)


def test_a_failed_build_leaves_a_report_with_its_words_and_its_steps(tmp_path: Path) -> None:
    workspace, story = Workspace(root=tmp_path), Told()
    told = Timed(story)
    with told.step("building probe"), told.step("inside"):
        pass
    run = run_of(samples.recipe())
    run.built = True
    (tmp_path / "dist/probe").mkdir(parents=True)
    (tmp_path / "dist/probe/build.log").write_bytes(reports.LOG.encode() + b"\xff\xfe\n")
    failure = BuildError("the build failed in [x]", details=("a.c:1: error: <no>",), hint="look")
    write_report(run, told, workspace=workspace, failure=failure)
    assert story.said == ["report: dist/probe/report.html"]
    read = Read((tmp_path / "dist/probe/report.html").read_text(encoding="utf-8"))
    for words in (
        "the build failed in [x]", "a.c:1: error: <no>", "What to do: look", "component-kernels: RUN [",
        "No smoke test was run.", "There is no record of an earlier build", "building probe", "· inside",
    ):  # fmt: skip
        assert words in read.text
    assert ("rect", "box failed") in {(tag, attributes.get("class")) for tag, attributes in read.elements}


def test_smoke_tests_of_this_run_alone_are_told(tmp_path: Path) -> None:
    workspace, told = Workspace(root=tmp_path), Timed(Silent())
    folder = tmp_path / "dist/probe"
    folder.mkdir(parents=True)
    test = {
        "title": "it starts", "tier": "cpu", "outcome": "failed", "seconds": 1.0, "production": "It would not.",
        "finding": {"cause": "a <header> is missing", "details": ["x.cpp"]},
    }  # fmt: skip
    (folder / "smoke.json").write_text(json.dumps({"tests": [test]}))
    run = run_of(samples.recipe())
    write_report(run, told, workspace=workspace, failure=SmokeError("no"))
    assert "it starts" not in (folder / "report.html").read_text()
    run.tested = True
    write_report(run, told, workspace=workspace, failure=SmokeError("no"))
    text = Read((folder / "report.html").read_text()).text
    assert all(words in text for words in ("it starts", "a <header> is missing", "x.cpp", "It would not."))


def test_a_report_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("a file where a folder should be")
    story = Told()
    write_report(run_of(samples.recipe()), Timed(story), workspace=Workspace(root=tmp_path), failure=None)
    assert len(story.said) == 1
    assert story.said[0].startswith("warning: dist/probe/report.html: the report was not written: ")


def test_a_run_that_had_nothing_to_do_leaves_the_report_that_there_is(tmp_path: Path) -> None:
    write_report(Run(), Timed(Silent()), workspace=Workspace(root=tmp_path), failure=None)
    assert list(tmp_path.iterdir()) == []


if __name__ == "__main__":
    GOLDENS.mkdir(exist_ok=True)
    for each in ("whole", "failed"):
        (GOLDENS / f"{each}.html").write_text(page(getattr(reports, each)()), encoding="utf-8")
