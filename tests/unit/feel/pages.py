"""Reads the pages of docs: the commands that they tell people to type, in blocks and in lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SHELLS = ("console", "sh", "bash", "shell", "")
_FENCE = re.compile(r"^( *)```([a-z]*)\s*$")
_INLINE = re.compile(r"(?<!`)`((?:[A-Z_]+=\S+ )*rocm-images [a-z-][^`<]*)`(?!`)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A line that has a command, and where it stands. A `synopsis` has optional and alternative words."""

    page: str
    line: int
    text: str
    synopsis: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def shown(page: Path) -> Iterator[Shown]:
    """Yield every line of a page that has a command: those of blocks for a shell, and those in running text."""
    name = page.relative_to(ROOT).as_posix()
    language: str | None = None
    waiting = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if (fence := _FENCE.match(line)) is not None:
            language = fence[2] if language is None else None
            continue
        if language is None:
            for text in _INLINE.findall(line.replace("\\|", "|")):
                yield Shown(page=name, line=number, text=text, synopsis=True)
        elif language in SHELLS:
            waiting += line.strip()
            if waiting.endswith("\\"):
                waiting = waiting[:-1]
                continue
            text, waiting = waiting, ""
            if re.match(r"(?:[$#] )?(?:[A-Z_]+=\S+ )*(?:\S+/)?rocm-images ", text):
                yield Shown(page=name, line=number, text=text, synopsis=False)


def variants(text: str) -> list[str]:
    """Return what a synopsis stands for: without optional words, and with all of them; of a choice the first."""
    words = re.sub(r"(?<=\w)(?:…|\.\.\.)(?=\]|$| )", "", text).replace(" …", " WORD")
    words = re.sub(r"(?<=[\w\]])\|[^\s\]]+", "", words)
    without = re.sub(r"\s*\[[^\]]*\]", "", words)
    return list(dict.fromkeys((without, words.replace("[", "").replace("]", ""))))
