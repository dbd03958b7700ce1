"""The last column of docs/failure-catalog.md, made of the names of the tests: `python tests/unit/docs/catalog.py`.

A test of a recorded failure has its ids in its name: `test_f39_f50_what_it_says`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "failure-catalog.md"
_NAME = re.compile(r"test_((?:f[0-9]{2}_)+)[a-z]")
_ROW = re.compile(r"\| (F[0-9]{2})(\*?) \|(.*)\|(.*)\|(.*)\|$")


def by_failure(tests: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Return per failure the test files that try it, as paths below `tests`, with how many of their tests do."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for name in _functions(path):
            for identity in _ids(name):
                counts = found.setdefault(identity, {})
                shown = path.relative_to(tests).as_posix()
                counts[shown] = counts.get(shown, 0) + 1
    return {
        identity: [f"{path} ({count})" if count > 1 else path for path, count in sorted(counts.items())]
        for identity, counts in sorted(found.items())
    }


def rows(text: str) -> dict[str, tuple[bool, str, str, str]]:
    """Return per failure whether it must be caught, what it is, where it is caught, and its tests, as written."""
    found = {}
    for line in text.splitlines():
        if (row := _ROW.fullmatch(line)) is not None:
            found[row[1]] = (row[2] == "*", row[3].strip(), row[4].strip(), row[5].strip())
    return found


def renewed(text: str) -> str:
    """Return the page with the last column as the tests are."""
    known = by_failure()
    lines = []
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if row is not None:
            shown = "; ".join(f"`{path}`" for path in known.get(row[1], ())) or "none"
            line = f"| {row[1]}{row[2]} |{row[3]}|{row[4]}| {shown} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _functions(path: Path) -> Iterable[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _ids(name: str) -> list[str]:
    found = _NAME.match(name)
    return [part.upper() for part in found[1].strip("_").split("_")] if found is not None else []


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
