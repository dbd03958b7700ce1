"""Looks up in the image whether every module and name that one distribution imports from another is there.

Both are read and not imported: importing the real thing would ask for a GPU.
"""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

from builder.interfaces import check_contract
from builder.smoke.inside.evidence import Wrong
from builder.sourcetree import SourceTree

if not hasattr(ast, "TryStar"):  # came with Python 3.11; before it nothing is one
    ast.TryStar = type("TryStar", (ast.stmt,), {})  # type: ignore[misc, assignment]
_DATA = ("dist-info", "egg-info", "__pycache__", "..")


def probe(importer: str, provider: str) -> dict[str, Any]:
    """Return how many uses were looked at, and what is missing, missing where that is excused, or unknown."""
    found = check_contract(_tree(importer), _tree(provider))
    return {
        "checked": found.checked,
        "missing": [str(breach) for breach in found.missing],
        "optional": [str(breach) for breach in found.optional],
        "unknown": [str(breach) for breach in found.unknown],
    }


def _tree(name: str) -> SourceTree:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise Wrong(f"the distribution {name} is not in the image") from None
    roots = _roots(distribution)
    site = Path(str(distribution.locate_file("")))
    paths = [path for root in roots for path in _below(site, root)]
    if not paths:
        raise Wrong(f"the files of the distribution {name} are not found below {site}")
    texts = {shown: path.read_bytes() for shown, path in paths if shown.endswith(".py")}
    return SourceTree(names=frozenset(shown for shown, _ in paths), texts=texts)


def _roots(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the top-level modules of a distribution, by its list of files, or else by what it says of itself."""
    listed = distribution.read_text("top_level.txt")
    files = [file.parts[0] for file in distribution.files or () if file.parts and file.suffix != ".pth"]
    named = {part for part in files if not part.endswith(_DATA) and part not in sys.builtin_module_names}
    return sorted(named or set((listed or distribution.metadata["Name"].replace("-", "_")).split()))


def _below(site: Path, root: str) -> list[tuple[str, Path]]:
    top = site / root
    found = sorted(top.rglob("*")) if top.is_dir() else [top] if top.is_file() else []
    return [
        (path.relative_to(site).as_posix(), path)
        for path in found
        if path.is_file() and "__pycache__" not in path.parts
    ]
