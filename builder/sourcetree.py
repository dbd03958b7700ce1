"""The files one component brings, as a value: all their names, and what is written in those that are source.

It knows paths and bytes; how they are read from a wheel, an archive or a folder is `builder.sources.trees`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

PYTHON = (".py",)
NATIVE = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hip", ".hpp", ".hxx", ".inc", ".inl")
# Folders whose files are shipped but never run by a server, so that what they need is no need of the image.
_ASIDE = frozenset({"test", "tests", "testing", "benchmark", "benchmarks", "example", "examples", "docs"})
_ASIDE_FILE = re.compile(r"(test_.*|.*_test|conftest|setup)\.\w+")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceTree:
    """Paths are relative, with `/`, as they are below `site-packages`; `texts` has the source files only."""

    names: frozenset[str]
    texts: Mapping[str, bytes]

    @classmethod
    def of(cls, texts: Mapping[str, bytes | str]) -> SourceTree:
        """Make a tree of files that are all source."""
        held = {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
        return cls(names=frozenset(held), texts=held)

    def files(self, suffixes: tuple[str, ...], *, aside: bool = False) -> Iterator[tuple[str, bytes]]:
        """Yield path and bytes of the source files with one of `suffixes`, sorted by path.

        Tests, benchmarks and examples are left out unless `aside`.
        """
        for path in sorted(self.texts):
            if path.endswith(suffixes) and (aside or serves(path)):
                yield path, self.texts[path]


def is_source(path: str) -> bool:
    """Return whether a file's contents belong into a tree."""
    return path.endswith(PYTHON + NATIVE)


def serves(path: str) -> bool:
    """Return whether a file can run while the engine serves: it is no test, benchmark, example or setup file."""
    parts = PurePosixPath(path).parts
    return _ASIDE.isdisjoint(parts[:-1]) and _ASIDE_FILE.fullmatch(parts[-1]) is None


def module_of(path: str) -> str | None:
    """Return the dotted module a Python file is imported as, None for other files."""
    if not path.endswith(".py"):
        return None
    parts = path[: -len(".py")].split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None
