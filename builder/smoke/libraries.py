"""Judges what an image's programs and libraries ask of the loader. Figures in, problems out; no I/O.

The figures are those of the probes `elf_files` and `python_set`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from builder.smoke.distributions import visible
from builder.smoke.judging import Problem
from builder.smoke.pythonset import PythonSet

Figures = Mapping[str, Any]
_SHOWN = 3
# Extensions of torch are linked with its libraries and have no search path to them: `import torch` comes first.
_ALWAYS_FIRST = ("torch",)
_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 -- paths of the image


def unresolved(figures: Figures, python: Figures | None) -> Iterator[Problem]:
    """Yield the libraries that are needed and not found, each with who needs it."""
    asking: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for lack in figures["missing"]:
        if not _is_loaded_before(lack, figures["sites"], python):
            asking[lack["name"]].append(lack)
    for name, lacks in sorted(asking.items()):
        elsewhere = sorted({path for lack in lacks for path in lack["elsewhere"]})
        where = f"; it lies in {_some(elsewhere)}, where the loader does not look" if elsewhere else ""
        needs = _some([lack["asks"] for lack in lacks])
        roots = [
            f"{lack['asks']}, loaded for {root}"
            for lack in lacks
            for root in lack["roots"]
            if root != lack["asks"]
        ]
        yield Problem(
            subject=name, cause=f"{name} is not found and needed by {needs}{where}", details=tuple(roots[:12])
        )
    for each in figures["interpreters"]:
        cause = f"{each['path']} cannot start: its loader {each['interpreter']} is not in the image"
        yield Problem(subject=each["path"], cause=cause)
    for name in figures["preload"]:
        yield Problem(subject=name, cause=f"LD_PRELOAD names {name}, which is not found")


def unversioned(figures: Figures) -> Iterator[Problem]:
    """Yield the symbol versions that are needed and that no library of the image has."""
    asking: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in figures["unversioned"]:
        asking[each["library"], each["version"]].append(each["asks"])
    for (library, version), asks in sorted(asking.items()):
        yield Problem(
            subject=version, cause=f"{library} has no {version}, needed by {_some(asks)}", details=tuple(asks[:12])
        )


def twice(figures: Figures) -> Iterator[Problem]:
    """Yield libraries of one SONAME and several contents that a Python process can load, of several owners.

    What one distribution has in several versions it chooses from by itself.
    """
    for group in figures["twice"]:
        owned: dict[str, tuple[str | None, str]] = {}
        for copy in group["copies"]:
            if copy["python"]:
                owned.setdefault(copy["sha256"], (_top(copy["path"], figures["sites"]), copy["path"]))
        if len({owner for owner, _ in owned.values()}) > 1:
            paths = " and ".join(path for _, path in owned.values())
            cause = f"{group['soname']} is there {len(owned)} times with other content: {paths}"
            yield Problem(subject=group["soname"], cause=cause)


def relocated(figures: Figures) -> Iterator[Problem]:
    """Yield what makes its own code writable while it is loaded."""
    for path in figures["text_relocations"]:
        yield Problem(subject=path, cause=f"{path} has text relocations (DT_TEXTREL)")


def astray(
    figures: Figures, python: Figures | None, wanted: PythonSet | None, writable: Sequence[str]
) -> Iterator[Problem]:
    """Yield files whose own search path is writable, is relative, or leads to a folder that is not there.

    The last two count only for what is built here: published wheels keep paths of the machine that built them.
    """
    by_path: dict[str, list[str]] = defaultdict(list)
    for each in figures["paths"]:
        by_path[each["path"]].append(each["entry"])
    for path, entries in sorted(by_path.items()):
        relative = [repr(entry) for entry in entries if not entry.startswith("/")]
        open_to_all = [entry for entry in entries if _is_below(entry, (*writable, *_WRITABLE))]
        published = _is_published(path, figures["sites"], python, wanted)
        if relative and not published:
            cause = f"{path} looks for libraries in {', '.join(relative)}, relative to where its process stands"
        elif open_to_all:
            cause = f"{path} looks for libraries in {_some(open_to_all)}, which its user can write to"
        elif published:
            continue
        else:
            cause = f"{path} looks for libraries in {_some(entries)}, which is not in the image"
        yield Problem(subject=path, cause=cause)


def _is_below(entry: str, folders: Sequence[str]) -> bool:
    return any(f"{entry.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _is_published(path: str, sites: list[str], python: Figures | None, wanted: PythonSet | None) -> bool:
    """Whether a file is of a distribution whose wheel comes from an index; without a lock, of any."""
    top = _top(path, sites)
    if top is None or python is None:
        return False
    owner = next((name for name, each in visible(python).items() if top in each["tops"]), None)
    if wanted is None or wanted.foreign_base is not None:
        return owner is not None
    return any(each.project == owner and each.file is not None for each in wanted.distributions)


def _is_loaded_before(lack: Mapping[str, Any], sites: list[str], python: Figures | None) -> bool:
    """Whether a module's process has a library already: of its own distribution, one it requires, or torch."""
    asks = _top(lack["asks"], sites)
    if asks is None or python is None:
        return False
    tops = {top for path in lack["elsewhere"] if (top := _top(path, sites)) is not None}
    if tops & {asks, *_ALWAYS_FIRST}:
        return True
    owners = {top: name for name, each in visible(python).items() for top in each["tops"]}
    owner = owners.get(asks)
    return owner is not None and bool({owners.get(top) for top in tops} & _required(owner, python))


def _top(path: str, sites: list[str]) -> str | None:
    for site in sorted(sites, key=len, reverse=True):
        if path.startswith(f"{site}/"):
            return path[len(site) + 1 :].partition("/")[0]
    return None


def _required(name: str, python: Figures) -> set[str | None]:
    """Return what a distribution requires, and what that requires, whatever the markers."""
    found = visible(python)
    known: set[str | None] = set()
    waiting = [name]
    while waiting:
        each = found.get(waiting.pop())
        for line in each["requires"] if each is not None else ():
            try:
                other = canonicalize_name(Requirement(line).name)
            except InvalidRequirement:
                continue
            if other not in known:
                known.add(other)
                waiting.append(other)
    return known


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
