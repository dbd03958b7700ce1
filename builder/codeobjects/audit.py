"""Judges the GPU code of a set of files against the targets that it should have. Values only.

What is judged one by one is a part: a program or library, which has to work alone, or a folder of loose code
objects, of which each is for one target and only all together have to cover what is wanted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from builder.codeobjects import processors
from builder.codeobjects.bundle import Bundle
from builder.codeobjects.reading import FileCode

_MOST_PROBLEMS = 5
_MANY_FOLDERS = 8  # as many side by side are one collection with a folder for each kernel
# Folders per target (`hsa/gfx942/`) and per compiled kernel (Triton's cache) belong to one part.
_PER_TARGET = re.compile(r"gfx[0-9a-z:_+-]+|[A-Z2-7]{52}|[0-9a-f]{32,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file with GPU code, and who owns it. What is not `judged` is shown and fails nothing."""

    path: str
    code: FileCode
    owner: str
    judged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetBytes:
    """How much code a part has for a target, uncompressed, in how many bundles, and whether it is of any use."""

    target: str
    bytes: int
    bundles: int
    surplus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partly:
    """A wanted target that some bundles of a program have and others lack."""

    target: str
    without: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A program, or a folder of loose code objects, with what it has and lacks. `stored` are bytes in files."""

    owner: str
    judged: bool
    path: str
    files: int
    bundles: int
    stored: int
    targets: tuple[TargetBytes, ...]
    missing: tuple[str, ...]
    partly: tuple[Partly, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The parts by owner and path. `wanted` is empty where nobody said what is wanted: then nothing is missing."""

    wanted: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def failed(self) -> tuple[Part, ...]:
        """The judged parts that lack a wanted target."""
        return tuple(part for part in self.parts if part.judged and part.missing)

    @property
    def components(self) -> dict[str, tuple[Part, ...]]:
        """The parts per owner."""
        owners = dict.fromkeys(part.owner for part in self.parts)
        return {owner: tuple(part for part in self.parts if part.owner == owner) for owner in owners}

    def plain(self) -> dict[str, object]:
        """Return the audit as a table for JSON."""
        return {
            "wanted": list(self.wanted),
            "passed": not self.failed,
            "components": [
                {
                    "name": owner,
                    "judged": any(part.judged for part in parts),
                    "stored": sum(part.stored for part in parts),
                    "targets": [asdict(each) for each in totals(parts)],
                    "missing": _listed(target for part in parts for target in part.missing),
                    "surplus": [each.target for each in totals(parts) if each.surplus],
                    "parts": [asdict(part) for part in parts],
                }
                for owner, parts in self.components.items()
            ],
        }


def audit(found: Iterable[Found], wanted: Sequence[str], own: Mapping[str, Sequence[str]] | None = None) -> Audit:
    """Judge files with GPU code against the wanted target IDs, or those that an owner has of its `own`."""
    files = sorted(found, key=lambda each: each.path)
    folders = _folders(each.path for each in files if each.code.kind != "program")
    groups: dict[tuple[bool, str, str], list[Found]] = {}
    for each in files:
        place = folders.get(each.path, each.path)
        groups.setdefault((not each.judged, each.owner, place), []).append(each)
    parts = [
        _part(owner, place, those, tuple((own or {}).get(owner, wanted)))
        for (_, owner, place), those in sorted(groups.items())
    ]
    return Audit(wanted=tuple(wanted), parts=tuple(part for part in parts if part is not None))


def _folders(paths: Iterable[str]) -> dict[str, str]:
    """Return for each loose code object the folder of those that belong together."""
    nearest = {path: _above_targets(PurePosixPath(path).parent) for path in paths}
    siblings = Counter(folder.parent for folder in set(nearest.values()))
    found = {
        path: folder.parent if siblings[folder.parent] >= _MANY_FOLDERS else folder
        for path, folder in nearest.items()
    }
    return {path: f"{folder}/" for path, folder in found.items()}


def _above_targets(folder: PurePosixPath) -> PurePosixPath:
    """Cut a folder's path where folders begin that are named for a target or by a hash."""
    for number, name in enumerate(folder.parts):
        if _PER_TARGET.fullmatch(name):
            return PurePosixPath(*folder.parts[:number])
    return folder


def totals(parts: Iterable[Part]) -> tuple[TargetBytes, ...]:
    """Add up the code per target."""
    sums: dict[str, TargetBytes] = {}
    for each in (each for part in parts for each in part.targets):
        known = sums.get(each.target)
        sums[each.target] = TargetBytes(
            target=each.target, surplus=each.surplus, bytes=each.bytes + (known.bytes if known else 0),
            bundles=each.bundles + (known.bundles if known else 0),
        )  # fmt: skip
    return tuple(sorted(sums.values(), key=lambda each: processors.order(each.target)))


def _part(owner: str, place: str, files: Sequence[Found], wanted: tuple[str, ...]) -> Part | None:
    # A bundle with nothing but a host entry is of a source without kernels.
    bundles = [each for file in files for each in file.code.bundles if each.objects or each.problem]
    problems = [f"{file.path}: {problem}" for file in files for problem in _problems(file.code)]
    if not bundles and not problems:
        return None
    sizes: dict[str, list[int]] = {}
    for each in (each for bundle in bundles for each in bundle.objects):
        sizes.setdefault(each.target, []).append(each.size)
    present = set(sizes)
    # Where no bundle was found there is a problem, and no saying that any code should be there.
    missing = _listed(lack for target in wanted if bundles for lack in processors.lacking(target, present))
    alone = files[0].code.kind == "program"
    without = {
        target: sum(bool(processors.lacking(target, _targets(bundle))) for bundle in bundles)
        for target in wanted
        if alone and not processors.lacking(target, present)
    }
    more = len(problems) - _MOST_PROBLEMS
    return Part(
        owner=owner,
        judged=files[0].judged,
        path=place,
        files=len(files),
        bundles=len(bundles),
        stored=sum(bundle.stored for bundle in bundles),
        targets=tuple(
            TargetBytes(
                target=target,
                bytes=sum(sizes[target]),
                bundles=len(sizes[target]),
                surplus=bool(wanted) and not processors.helps(target, wanted),
            )
            for target in sorted(present, key=processors.order)
        ),
        missing=tuple(missing),
        partly=tuple(Partly(target=target, without=count) for target, count in without.items() if count),
        problems=(*problems[:_MOST_PROBLEMS], *([f"and {more} more like these"] if more > 0 else [])),
    )


def _targets(bundle: Bundle) -> set[str]:
    return {each.target for each in bundle.objects}


def _problems(code: FileCode) -> Iterable[str]:
    yield from code.problems
    for bundle in code.bundles:
        if bundle.problem is not None:
            yield f"{bundle.compression}: {bundle.problem}" if bundle.compression else bundle.problem


def _listed(targets: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(targets), key=processors.order)
