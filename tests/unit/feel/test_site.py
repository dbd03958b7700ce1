"""The site of the docs: every link, anchor and picture leads somewhere, and every page is in the menu."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from builder import process

from .pages import PAGES, ROOT

_SPEC = importlib.util.spec_from_file_location("build_site", ROOT / "docs/build_site.py")
assert _SPEC is not None
assert _SPEC.loader is not None
site = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(site)


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.ids: set[str] = set()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.add(tag)
        self.leads += [value for key in ("href", "src") if (value := told.get(key)) is not None]
        if told.get("id"):
            self.ids.add(str(told["id"]))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    done = process.run([sys.executable, ROOT / "docs/build_site.py", out])
    assert done.status == 0, done.stderr
    return out


def test_every_page_is_there_and_every_link_in_the_site_leads_somewhere(built: Path) -> None:
    pages = {path.name: Links(path.read_text(encoding="utf-8")) for path in built.glob("*.html")}
    assert len(pages) == len(PAGES) + 1  # and the changelog
    for name, page in pages.items():
        assert not page.tags & {"script", "iframe", "object", "form", "style"}, name
        for lead in page.leads:
            if lead.startswith("https://"):
                continue
            path, _, anchor = lead.partition("#")
            assert (built / path).is_file(), (name, lead)
            if anchor:
                assert anchor in pages[path or name].ids, (name, lead)


def test_the_same_docs_give_the_same_site(built: Path, tmp_path: Path) -> None:
    assert site.build(tmp_path / "again") == []
    for path in built.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("[x](nowhere.md)", "nowhere.md: there is nothing"),
        ("[x](plan.md#no-such-heading)", "plan.md#no-such-heading: docs/plan.md has no heading #no-such-heading"),
        ("[x](#no-such-heading)", "#no-such-heading: docs/pin.md has no heading #no-such-heading"),
        ("![x](none.svg)", "none.svg: there is nothing"),
        ("![x](https://example.org/x.png)", "https://example.org/x.png: leads out of the site by other means"),
        ("[x](../../etc/passwd)", "../../etc/passwd: there is nothing"),
        ("[x](http://example.org)", "http://example.org: leads out of the site by other means than https"),
    ],
)
def test_a_link_that_leads_nowhere_fails_and_leaves_no_site(added: str, told: str, tmp_path: Path) -> None:
    copy(tmp_path)
    page = tmp_path / "docs/pin.md"
    page.write_text(page.read_text() + f"\n{added}\n")
    number = len(page.read_text().splitlines())
    (said,) = site.build(tmp_path / "out", tmp_path)
    assert said.startswith(f"docs/pin.md:{number}: {told}")
    assert not (tmp_path / "out").exists()


def test_a_new_page_is_in_the_menu_and_markup_of_a_page_is_text(tmp_path: Path) -> None:
    copy(tmp_path)
    (tmp_path / "docs/new.md").write_text("# New\n")
    page = tmp_path / "docs/pin.md"
    page.write_text(page.read_text() + "\n<script>alert(1)</script>\n")
    assert site.build(tmp_path / "out", tmp_path) == []
    pin = (tmp_path / "out/pin.html").read_text()
    assert "<script" not in pin
    assert '<a href="new.html">New</a>' in pin


def copy(folder: Path) -> None:
    names = (
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "pyproject.toml",
        "default.json",
        "docs",
        "builder/data",
        ".github",
    )
    for name in names:
        source = ROOT / name
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    for page in folder.rglob("*.md"):  # what they link to in the rest of the repository
        for address in re.findall(r"\]\(([^)#:\s]+)", page.read_text(encoding="utf-8")):
            found = (ROOT / page.relative_to(folder).parent / address).resolve()
            target = folder / found.relative_to(ROOT) if found.is_relative_to(ROOT) else None
            if target is not None and found.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.mkdir() if found.is_dir() else target.touch()


def test_every_module_that_the_page_for_contributors_names_exists() -> None:
    text = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
    picture = (ROOT / "docs/house.svg").read_text(encoding="utf-8")
    for place in re.findall(r"`(builder/[\w/.]+|tests/[\w/.]+|docs/[\w/.]+|\.github/[\w/.]+)`", text):
        assert (ROOT / place).exists(), place
    named = re.findall(r"\b([a-z]+(?:/[a-z]+)?(?:\.py|/))(?=[ ,<])", picture)
    assert len(named) > 25
    for place in named:
        assert (ROOT / "builder" / place).exists(), place
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition('name = "The pure half')[2]
    pure = picture.partition('class="pure"')[2].partition("</g>")[0]
    for place in re.findall(r"\b([a-z]+)(?:\.py|/)", pure):
        if place not in ("story",):  # a protocol, and nothing that could have an effect
            assert f'"builder.{place}"' in contract, place
