"""The report in a real browser without a network: a silent console, no wish to fetch, all of it in the DOM."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from builder.report import BuildReport, Ended, Layer, Test, page

REPORTS = Path(__file__).resolve().parents[2] / "data/reports"
BROWSERS = (
    "chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable", "chromium-browser",
)  # fmt: skip
SECONDS = 120.0
SECTIONS = ["plan", "difference", "stages", "layers", "timings", "smoke", "patches"]
HEADER = b"\x89PNG\r\n\x1a\n"
ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Shown:
    """What a browser made of a page: its DOM as text, its console, the addresses it asked for, its screenshot."""

    dom: str
    console: list[str]
    asked: set[str]
    screenshot: bytes


class Dom(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sections: list[str] = []
        self.rects: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(told["id"] or "")
        if tag == "rect":
            self.rects.append(told["class"] or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    assert found is not None, "no browser is installed: apt-get install chromium-headless-shell, as ./check does"
    return found


def shown(file: Path, tmp_path: Path, *, dark: bool = False) -> Shown:
    """Load a page in a browser of its own, in a network of its own that leads nowhere where that can be had."""
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        alone = []
    log, picture = tmp_path / "net.json", tmp_path / "page.png"
    common = [
        *alone, browser(), "--headless", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,2600",
        f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND", "--no-first-run",
        "--enable-logging=stderr", f"--log-net-log={log}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", *(["--no-sandbox"] if ROOT else []),
    ]  # fmt: skip
    read, drawn = (
        subprocess.run([*common, wish, file.as_uri()], capture_output=True, text=True, timeout=SECONDS, check=True)
        for wish in ("--dump-dom", f"--screenshot={picture}")
    )
    said = read.stderr + drawn.stderr
    return Shown(
        dom=read.stdout,
        console=[line for line in said.splitlines() if "CONSOLE" in line],
        asked=set(re.findall(r'"url":"((?:https?|wss?|ftp)://[^"]*)"', log.read_text(errors="replace"))),
        screenshot=picture.read_bytes(),
    )


def test_a_page_that_does_ask_for_something_is_seen_by_this_test(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<p>x<img src="http://127.0.0.1:9/x.png"><script>console.error("hm")</script>')
    found = shown(bad, tmp_path)
    assert any("hm" in line for line in found.console)
    assert any(address.startswith("http://127.0.0.1:9/") for address in found.asked)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_report_shows_all_of_itself_and_asks_for_nothing(dark: bool, tmp_path: Path) -> None:
    found = shown(REPORTS / "whole.html", tmp_path, dark=dark)
    assert found.console == []
    assert found.asked == set()
    dom = Dom(found.dom)
    assert dom.sections == SECTIONS
    assert len([rect for rect in dom.rects if rect.startswith("area ")]) == 3
    assert [rect for rect in dom.rects if rect.startswith("box ")].count("box done") == 2
    assert "built, tested and published" in dom.text
    assert "triton 3.5.1 -> 3.6.0" in dom.text
    assert found.screenshot.startswith(HEADER)
    assert len(found.screenshot) > 20_000  # an empty page of this size is a tenth of it


def test_light_and_dark_look_different(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    light, dark = (
        shown(REPORTS / "failed.html", tmp_path / name, dark=name == "b").screenshot for name in ("a", "b")
    )
    assert light != dark


def test_hostile_words_stay_words_in_a_browser(tmp_path: Path) -> None:
    bad = "\"'></style></title><script>console.error('ran')</script><img src=x onerror=console.error('ran')>"
    report = BuildReport(
        image=bad, version=bad, description=bad, gfx=(bad,), content_key=bad, fingerprint=bad, action=bad,
        reasons=(bad,), outcome=bad, program=bad, reference=bad, digest=bad, dockerfile="FROM x AS y",
        ended=Ended(message=bad, details=(bad,), hint=bad), layers=(Layer(owner=bad, digest=bad, size=1),),
        tests=(Test(title=bad, tier=bad, outcome="failed", seconds=1.0, production=bad, cause=bad),),
    )  # fmt: skip
    written = tmp_path / "hostile.html"
    written.write_text(page(report), encoding="utf-8")
    found = shown(written, tmp_path)
    assert found.console == []
    assert found.asked == set()
    dom = Dom(found.dom)
    assert not {"script", "img"} & set(dom.tags)
    assert dom.text.count(bad) >= 15
