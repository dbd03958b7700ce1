"""Judges the Python distributions of an image by what its lock promises. Figures in, problems out; no I/O.

The figures are those of the probes `python_set` and `compiled_modules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from builder.smoke.judging import Problem
from builder.smoke.pythonset import LockedDistribution, PythonSet

Figures = Mapping[str, Any]
_SHOWN = 3
# "0.0.0", "0+unknown", and the "0.1.dev7+g…" of setuptools-scm without a tag
_NO_VERSION = re.compile(r"0(\.0)*([+-].*|\.(dev|post)\d*.*)?|0\.1\.dev\d+(\+.*)?|unknown", re.IGNORECASE)
_CUDA_LOCAL = re.compile(r"\+(.*\.)?cu\d")
_CUDA_LIBRARY = re.compile(r"nvidia-.*-cu\d+")
# Import names that another distribution takes over: the one named plain `aiter` is an unrelated library.
_MEANT = {"aiter": ("amd-aiter",)}
# What the loader, or a compiled module itself, says when it does not fit to what else is there.
_MISFIT = re.compile(
    r"undefined symbol|cannot open shared object|version `[^']*' not found|cannot enable executable stack"
    r"|invalid ELF header|file too short|cannot read file data|ELF load command|ELF file's|binary incompatibility"
    r"|dynamic module does not define|compiled (using|against|with)|ABI version|operator \S+ does not exist"
    r"|symbol lookup error|cannot allocate memory in static TLS|cannot apply additional memory protection"
)
# What code says that asks for a card while it is imported. Without one nothing can be said about it here.
_NO_CARD = re.compile(
    r"no (hip|rocm|cuda|nvidia)\S* ?(-capable )?(gpu|device|driver)s?|hipErrorNoDevice|is_available\(\)"
    r"|(gpu|gfx|device)\S* (arch\S* )?(is |are |was )?not (be )?(found|detected|available)"
    r"|rocminfo|amdgpu-arch|rocm_agent",
    re.IGNORECASE,
)


def visible(figures: Figures) -> dict[str, dict[str, Any]]:
    """Return the distributions that Python finds, by normal name: the first of each along its path."""
    found: dict[str, dict[str, Any]] = {}
    for each in figures["distributions"]:
        if each["name"]:
            found.setdefault(canonicalize_name(each["name"]), each)
    return found


def versions(figures: Figures) -> dict[str, str]:
    """Return the versions of the distributions that Python finds, by normal name."""
    return {name: str(each["version"]) for name, each in visible(figures).items()}


def differing(figures: Figures, wanted: PythonSet) -> Iterator[Problem]:
    """Yield what is locked and not there, or there in another version, or hidden by another."""
    found = visible(figures)
    for each in wanted.distributions:
        mark = "protected " if each.project in wanted.protected else ""
        there = found.get(each.project)
        if there is None:
            cause = f"{mark}{each.project} {each.version} is locked and is not in the image"
        elif there["version"] != each.version:
            cause = f"{mark}{each.project} is {_told(there)}, locked is {each.version}"
        else:
            continue
        yield Problem(subject=each.project, cause=cause)
    for name, package in wanted.debian.items():
        there = found.get(name)
        if there is not None and there["package"] != package:
            yield Problem(
                subject=name, cause=f"protected {name} is {_told(there)}, and hides that of package {package}"
            )


def surplus(figures: Figures, wanted: PythonSet) -> Iterator[Problem]:
    """Yield what nobody locked and no Debian package brings, and what is there twice."""
    locked = {each.project for each in wanted.distributions}
    places: dict[tuple[str, str], str] = {}
    for each in figures["distributions"]:
        name = canonicalize_name(each["name"] or "")
        first = places.setdefault((name, each["site"]), each["path"])
        if first != each["path"]:
            cause = f"{name} is there twice: {first} and {each['path']}"
            yield Problem(subject=name, cause=cause)
        elif name and name not in locked and each["package"] is None and wanted.foreign_base is None:
            cause = f"{name} {_told(each)} is neither locked nor brought by a Debian package"
            yield Problem(subject=name, cause=cause)


def altered(figures: Figures, wanted: PythonSet | None) -> Iterator[Problem]:
    """Yield what is not as its RECORD says, or came from another wheel than the locked one."""
    locked = {each.project: each for each in wanted.distributions} if wanted is not None else {}
    for name, each in visible(figures).items():
        whose = f"{name} {each['version']}"
        yield from _altered(
            name, each, f"{whose}: {{}} not as its RECORD says", f"{whose}: {{}} of its RECORD {{}} gone"
        )
        if each["package"] is None and (problem := _other_build(each, locked.get(name))) is not None:
            yield problem
    edited = tuple(f"/{file}" for file in wanted.edited) if wanted is not None else ()
    for name, package in figures["packages"].items():
        whose = f"package {name}"
        unasked = {**package, "changed": [path for path in package["changed"] if not path.endswith(edited)]}
        yield from _altered(
            name, unasked, f"{whose}: {{}} not what Debian ships", f"{whose}: {{}} of it {{}} gone"
        )


def _altered(subject: str, state: Mapping[str, Any], changed: str, gone: str) -> Iterator[Problem]:
    if files := state["changed"]:
        words = changed.format(f"{_counted(files)} {_are(files)}")
        yield Problem(subject=subject, cause=f"{words}: {_some(files)}", details=tuple(files[:12]))
    if files := state["gone"]:
        words = gone.format(_counted(files), _are(files))
        yield Problem(subject=subject, cause=f"{words}: {_some(files)}", details=tuple(files[:12]))


def unmet(figures: Figures, wanted: PythonSet | None) -> Iterator[Problem]:
    """Yield the requirements that the image does not meet, each with who asks."""
    found = visible(figures)
    asked: dict[str, set[str]] = {name: {"", *(wanted.extras.get(name, ()) if wanted else ())} for name in found}
    waiting, done = sorted(found), set()
    while waiting:
        name = waiting.pop(0)
        lines = wanted.requires.get(name) if wanted is not None else None
        for line in found[name]["requires"] if lines is None else lines:
            for extra in sorted(asked[name]):
                if (name, line, extra) in done:
                    continue
                done.add((name, line, extra))
                try:
                    needed = Requirement(line)
                except InvalidRequirement:
                    if extra == "":
                        yield Problem(
                            subject=f"{name}: {line}", cause=f"{name}: its requirement {line!r} cannot be read"
                        )
                    continue
                if needed.marker is not None and not needed.marker.evaluate(
                    {**figures["environment"], "extra": extra}
                ):
                    continue
                other = canonicalize_name(needed.name)
                if (problem := _unmet(name, found[name], needed, found.get(other))) is not None:
                    yield problem
                elif other in asked and not needed.extras <= asked[other]:
                    asked[other] |= needed.extras
                    waiting.append(other)


def forbidden(figures: Figures, wanted: PythonSet) -> Iterator[Problem]:
    """Yield what the recipe forbids."""
    for each in figures["distributions"]:
        name = canonicalize_name(each["name"] or "")
        pattern = next((pattern for pattern in wanted.forbid if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            yield Problem(subject=name, cause=f"{name} {_told(each)} is in the image, forbidden by {pattern!r}")


def for_other_hardware(figures: Figures, torch: Figures | None, rocm: str | None) -> Iterator[Problem]:
    """Yield CUDA builds, and a torch that is not built for the ROCm of the image."""
    for name, each in visible(figures).items():
        if _CUDA_LOCAL.search(str(each["version"])):
            yield Problem(subject=name, cause=f"{name} {_told(each)} is a CUDA build")
        elif _CUDA_LIBRARY.fullmatch(name):
            yield Problem(subject=name, cause=f"{name} {_told(each)} is a library of CUDA")
    if torch is None or "version" not in torch:
        return
    if torch["cuda"] is not None and not _CUDA_LOCAL.search(torch["version"]):
        yield Problem(subject="torch", cause=f"torch {torch['version']} is built for CUDA {torch['cuda']}")
    if rocm is None:
        return
    if torch["hip"] is None:
        cause = (
            f"torch {torch['version']} is not built for HIP (torch.version.hip is None), the image has ROCm {rocm}"
        )
        yield Problem(subject="torch", cause=cause)
    elif torch["hip"].partition(".")[0] != rocm.partition(".")[0]:
        cause = f"torch {torch['version']} is built for HIP {torch['hip']}, the image has ROCm {rocm}"
        yield Problem(subject="torch", cause=cause)


def unusable(figures: Figures) -> Iterator[Problem]:
    """Yield compiled modules that do not fit: the loader refuses them, they crash, or their package fails.

    A module that raises something else, while its package imports, is an optional part (a module for Tk, one
    that its package loads under another name). A package that asks for a card cannot be judged without one.
    """
    broken = {
        name: result for name, result in figures["packages"].items() if "chain" in result or "died" in result
    }
    told = set()
    for name, result in figures["modules"].items():
        if name.partition(".")[0] in broken:
            continue
        if "died" in result or _MISFIT.search("\n".join(_chain(result))):
            where = figures["files"][name]
            yield Problem(
                subject=name, cause=f"import {name} ({where}): {_reason(result)}", details=_chain(result)
            )
            told.add(_reason(result))
    for name, result in broken.items():
        said = "\n".join(_chain(result))
        if _NO_CARD.search(said) and not _MISFIT.search(said):
            continue
        if _reason(result) not in told:  # else it imports what is told already
            yield Problem(subject=name, cause=f"import {name}: {_reason(result)}", details=_chain(result))


def misstamped(figures: Figures, wanted: PythonSet | None) -> Iterator[Problem]:
    """Yield distributions without a name, or with a version that a build stamps when it knows none."""
    locked = {(each.project, each.version) for each in wanted.distributions} if wanted is not None else set()
    for each in figures["distributions"]:
        name = canonicalize_name(each["name"] or "unknown")
        version = str(each["version"] or "unknown")
        if name == "unknown":
            yield Problem(subject=each["path"], cause=f"the distribution at {each['path']} has no name")
        elif _NO_VERSION.fullmatch(version) and (name, version) not in locked and each["package"] is None:
            cause = f"{name} is stamped {version}, which a build does that finds no version: {each['path']}"
            yield Problem(subject=name, cause=cause)


def mistaken(figures: Figures) -> Iterator[Problem]:
    """Yield files that two distributions brought, and modules that another distribution than the meant one has."""
    seen: set[tuple[str, ...]] = set()
    for claim in figures["claims"]:
        names = tuple(claim["names"])
        if names not in seen:
            seen.add(names)
            cause = f"{' and '.join(names)} have both brought {claim['path']}"
            yield Problem(subject=claim["path"], cause=cause)
    for name, each in visible(figures).items():
        for top in each["tops"]:
            if top in _MEANT and name not in _MEANT[top]:
                cause = f"import {top} gives {name} {each['version']}, which is not {' or '.join(_MEANT[top])}"
                yield Problem(subject=top, cause=cause)


def remnants(figures: Figures) -> Iterator[Problem]:
    """Yield folders that import as empty modules."""
    for path in figures["remnants"]:
        module = path.rpartition("/")[2]
        cause = f"import {module} gives an empty module: {path} has no __init__ and belongs to no distribution"
        yield Problem(subject=path, cause=cause)


def _told(each: Mapping[str, Any]) -> str:
    by = f"by {each['installer']} " if each["installer"] else ""
    return f"{each['version']} (installed {by}at {each['path']})"


def _counted(files: list[str]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _are(files: list[str]) -> str:
    return "is" if len(files) == 1 else "are"


def _some(files: list[str]) -> str:
    return ", ".join(files[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")


def _other_build(each: Mapping[str, Any], locked: LockedDistribution | None) -> Problem | None:
    name = canonicalize_name(each["name"])
    if each["identity"] is None:
        return Problem(
            subject=name, cause=f"{name} {_told(each)} has no RECORD, so nobody can say what it brought"
        )
    if locked is None or locked.record is None or locked.record == each["identity"]:
        return None
    cause = f"{name} {_told(each)} is not what the locked {locked.file} holds: its RECORD lists other files"
    return Problem(subject=name, cause=cause, details=(f"locked: sha256 {locked.sha256}",))


def _unmet(
    name: str, asks: Mapping[str, Any], needed: Requirement, there: Mapping[str, Any] | None
) -> Problem | None:
    if asks["package"] is not None and (there is None or there["package"] is not None):
        return None  # between Debian's packages the dependencies of Debian's packages count
    subject = f"{name}: {needed.name}"
    if there is None:
        return Problem(
            subject=subject, cause=f"{name} {asks['version']} asks for {needed}, which is not in the image"
        )
    if needed.specifier.contains(str(there["version"]), prereleases=True):
        return None
    cause = f"{name} {asks['version']} asks for {needed}, the image has {there['version']}"
    return Problem(subject=subject, cause=cause)


def _chain(result: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{link['type']}: {link['message']}" for link in result.get("chain", ()))


def _reason(result: Mapping[str, Any]) -> str:
    return str(result["died"]) if "died" in result else _chain(result)[0].splitlines()[0]
