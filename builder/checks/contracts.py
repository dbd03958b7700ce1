"""The contracts between an image's components: what one imports from another exists in the locked files.

Like inventories, outcomes are remembered in the state folder, by the hash of both sides and of the code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from builder.checks.trees import Fetch, locked_tree
from builder.interfaces import check_contract
from builder.lockfile import Lock
from builder.recipe import Recipe
from builder.workspace import Workspace, write_atomic

_CODE = (
    "interfaces.py", "namespaces.py", "pynames.py", "sourcetree.py", "sources/trees.py", "checks/trees.py",
    "checks/contracts.py",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a contract came to, each breach in words: needed and gone, gone where that is excused, undecidable."""

    checked: int
    missing: tuple[str, ...]
    optional: tuple[str, ...]
    unknown: tuple[str, ...]


def contract(
    workspace: Workspace, recipe: Recipe, lock: Lock, pair: tuple[str, str], *, fetch: Fetch | None = None
) -> Outcome | None:
    """Return whether the first component of a pair finds what it imports from the second.

    None where the files of one are not on this machine and there is no leave to fetch them, or where the
    distribution or the base brings it. Raises `LockError` or `EngineError` when fetching fails.
    """
    importer, provider = (locked_tree(workspace, recipe, lock, name) for name in pair)
    if importer is None or provider is None:
        return None
    words = [importer.identity, provider.identity, *(t.component.subdirectory or "" for t in (importer, provider))]
    key = hashlib.sha256("\0".join([*words, _code()]).encode()).hexdigest()
    known = workspace.state / "contracts" / f"{key}.json"
    if (kept := _kept(known)) is not None:
        return kept
    sides = importer.read(fetch), provider.read(fetch)
    if sides[0] is None or sides[1] is None:
        return None
    found = check_contract(sides[0], sides[1])
    outcome = Outcome(
        checked=found.checked,
        missing=tuple(str(breach) for breach in found.missing),
        optional=tuple(str(breach) for breach in found.optional),
        unknown=tuple(str(breach) for breach in found.unknown),
    )
    table = {
        "checked": outcome.checked, "missing": outcome.missing, "optional": outcome.optional,
        "unknown": outcome.unknown,
    }  # fmt: skip
    write_atomic(known, json.dumps(table))
    return outcome


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for name in _CODE:
        digest.update((Path(str(files("builder"))) / name).read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> Outcome | None:
    try:
        table = json.loads(path.read_text())
        return Outcome(
            checked=int(table["checked"]), missing=tuple(table["missing"]), optional=tuple(table["optional"]),
            unknown=tuple(table["unknown"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
