"""From what a failing program said to its cause in words, the package to blame, the stage it belongs to, a remedy.

Knows the messages of compilers, linkers, Python and torch, and the recipe's package lists. It looks only at
text: not at an image, a disk or a clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from builder.providers import Provider, for_header, for_library, for_module, for_program

BUILD = "base.build"
RUNTIME = "base.runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A cause (a fact in lower case), what to do, and the package and recipe stage concerned, where known."""

    cause: str
    hint: str
    package: str | None = None
    stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known about an image beside the failure.

    `stages` maps `base.build` and `base.runtime` to their apt lists, and is empty for an image without a
    recipe. `writable` are the declared directories, `env` is what ENV says, `user` is who it runs as. `needed_in`
    is the stage that failed, to which what is missing has to be added.
    """

    stages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    needed_in: str = RUNTIME


def diagnose(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    """Return the innermost cause that the evidence shows, or None when it shows none that is known here.

    `evidence` is an exception chain with the innermost first, then the compiler's lines. What wraps a cause
    ("Failed to load …", "Error building extension …") matches no rule, so it never wins.
    """
    for rule in _RULES:
        found = rule(evidence, circumstances)
        if found is not None:
            return found
    return None


def diagnose_build(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    """Return the innermost cause that the lines of a build step show, or None when nothing known is shown."""
    for rule in _BUILD_RULES:
        found = rule(evidence, circumstances)
        if found is not None:
            return found
    return None


def _full_disk(evidence: str, _circumstances: Circumstances) -> Diagnosis | None:
    if "No space left on device" not in evidence:
        return None
    return Diagnosis(cause="the engine's disk is full", hint="rocm-images engine free; df -h shows which disk")


def _out_of_memory(evidence: str, _circumstances: Circumstances) -> Diagnosis | None:
    if re.search(r"Killed signal terminated program|\bKilled\b|LLVM ERROR: out of memory", evidence) is None:
        return None
    return Diagnosis(
        cause="a compiler was killed: the machine has too little memory for as many of them side by side",
        hint="raise build.memory-per-job in the recipe, by which fewer run at the same time",
    )


def _hanging_lock(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    if "Timeout (" not in evidence or "file_baton.py" not in evidence:
        return None
    cache = circumstances.env.get("TORCH_EXTENSIONS_DIR", "~/.cache/torch_extensions")
    return Diagnosis(
        cause=f"the extension loader waits for ever for a lock file that somebody left in {cache}",
        hint=f"remove the files named 'lock' below {cache} from the image, or its volume",
    )


def _missing_header(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(
        r"fatal error: (?P<gcc>[^\s:'\"]+): No such file or directory"
        r"|fatal error: '(?P<clang>[^']+)' file not found"
        r"|[Cc]ould not find standard C\+\+ header '(?P<told>[^']+)'",
        evidence,
    )
    if found is None:
        return None
    header = found["gcc"] or found["clang"] or found["told"]
    return _placed(f"the header {header}", header, for_header(header), circumstances)


def _missing_library(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(r"(?:cannot find|unable to find library) -l(?!:)([\w+.-]+?)(?::|\s|$)", evidence)
    if found is None:
        return None
    return _placed(f"the library for -l{found[1]}", found[1], for_library(found[1]), circumstances)


def _missing_ninja(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    if "Ninja is required to load C++ extensions" not in evidence:
        return None
    provider = for_program("ninja")
    if provider is None or provider.among(circumstances.stages.get(RUNTIME, ())) is None:
        return _placed("ninja, on the PATH as served,", "ninja", provider, circumstances)
    path = circumstances.env.get("PATH", "the engine's default")
    return Diagnosis(
        cause=f"ninja is not on the PATH as served ({path}) although {provider.package} is in {RUNTIME}.apt",
        hint="add the folder of ninja to PATH in image.env",
        package=provider.package,
        stage=RUNTIME,
    )


_MISSING_PROGRAMS = (
    r"\b(?:ba|da)?sh: (?:\d+: |line \d+: )?(?P<name>[\w+./-]+): (?:command not found|not found|No such file)",
    r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[\w+.-]+|/[^']*/bin/[\w+.-]+)'",
    r"cannot execute [\u2018'\"](?P<name>cc1plus|cc1|as|collect2)",
    r"Executable \"(?P<name>[\w+./-]+)\" doesn't exist",
    r"-fuse-ld=(?P<name>\w+)'",
    r"\bwhich: no (?P<name>\S+) in ",
    r"(?P<name>Failed to find C compiler)",
)
_SPOKEN_OF = {"Failed to find C compiler": "gcc", "cc1plus": "g++", "cc1": "gcc", "collect2": "gcc"}


def _missing_program(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    for pattern in _MISSING_PROGRAMS:
        if (found := re.search(pattern, evidence)) is not None:
            name = _SPOKEN_OF.get(found["name"], PurePosixPath(found["name"]).name)
            return _placed(f"the program {name}", name, for_program(name), circumstances)
    return None


def _unknown_target(evidence: str, _circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(
        r"(?:invalid target ID|unsupported HIP gpu architecture:|unknown target CPU) '?([\w:+-]+)", evidence
    )
    if found is None:
        return None
    return Diagnosis(
        cause=f"the compiler does not know {found[1]}",
        hint=f"take a compiler that does (LLVM 18 or newer for gfx12), or drop {found[1]} from the targets",
    )


def _missing_hip_part(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    if "cannot find HIP runtime" in evidence:
        return _placed("the HIP runtime", "hip", for_library("amdhip64"), circumstances)
    if "cannot find ROCm device library" in evidence:
        provider = Provider(
            need="device libraries",
            kind="library",
            packages=("rocm-device-libs",),
            also=("rocm-device-libs-[0-9]*", "hipcc"),
        )
        return _placed("the ROCm device library", "amdgcn bitcode", provider, circumstances)
    return None


def _not_executable(evidence: str, _circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(r"(/\S+?): failed to map segment from shared object", evidence)
    if found is None:
        return None
    folder = str(PurePosixPath(found[1]).parent)
    return Diagnosis(
        cause=f"what is compiled into {folder} cannot be loaded: it is mounted without exec",
        hint=f"mount {folder} with exec",
    )


def _refused_relative(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(r"\[Errno 30\] Read-only file system: '(?!/)([^']+)'", evidence)
    if found is None:
        return None
    empty = [name for name, value in sorted(circumstances.env.items()) if not value]
    suspects = f"; these are empty: {', '.join(empty)}" if empty else ""
    return Diagnosis(
        cause=f"{found[1]} is written relative to the working directory, which is read-only{suspects}",
        hint="give the variable that names the directory an absolute path inside image.writable",
    )


def _refused_write(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(
        r"(?:\[Errno \d+\] |(?<!\w))(?P<why>Permission denied|Read-only file system|No space left on device)"
        r": '(?P<python>/[^']*)'"
        r"|[\u2018'\"\s](?P<tool>/[^\s'\u2019\":]*)['\u2019\"]?: "
        r"(?P<reason>Permission denied|Read-only file system|No space left on device)",
        evidence,
    )
    if found is None:
        return None
    path, why = found["python"] or found["tool"], (found["why"] or found["reason"]).lower()
    variable = _pointing_at(path, circumstances.env)
    origin = f" ({variable}={circumstances.env[variable]})" if variable else ""
    top = next((top for top in circumstances.writable if PurePosixPath(path).is_relative_to(top)), None)
    who = f"user {circumstances.user}" if circumstances.user else "the image's user"
    if "space" in why:
        return Diagnosis(cause=f"{path} is full{origin}", hint=f"give {top or path} more room")
    if top is not None:
        return Diagnosis(
            cause=f"{path} cannot be written by {who}{origin}: {why}, although {top} is in image.writable",
            hint=f"let the image make {top} and give it to its user",
        )
    target = circumstances.env[variable] if variable and circumstances.env[variable] != "/" else path
    inside = f", or point {variable} into one of them" if variable and circumstances.writable else ""
    declared = ", ".join(circumstances.writable) or "none"
    return Diagnosis(
        cause=f"{path} cannot be written by {who}{origin}: {why}, it is in none of image.writable ({declared})",
        hint=f'add "{target}" to image.writable{inside}',
    )


def _missing_module(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(r"No module named '?([\w.]+)", evidence)
    if found is None:
        return None
    provider = for_module(found[1])
    if provider is not None:
        return _placed(f"the Python module {found[1]}", found[1], provider, circumstances)
    return Diagnosis(
        cause=f"the Python module {found[1]} is not in the image",
        hint=f"add the distribution that brings {found[1]} to the recipe's components, then rocm-images lock",
    )


def _broken_binary(evidence: str, circumstances: Circumstances) -> Diagnosis | None:
    if (found := re.search(r"(lib[\w+.-]+?)\.so([\w.]*): cannot open shared object file", evidence)) is not None:
        name = f"{found[1]}.so{found[2]}"
        provider = for_library(found[1].removeprefix("lib")) if not found[2] else None
        if provider is not None:
            return _placed(f"the library {name}", name, provider, circumstances)
        return Diagnosis(
            cause=f"the library {name} is not in the image, or not where the loader looks",
            hint=f"find its package with: apt-file search {name}; then add it to {RUNTIME}.apt",
        )
    if (found := re.search(r"version [`']([\w.]+)' not found \(required by ([^)]+)\)", evidence)) is not None:
        return Diagnosis(
            cause=f"{found[2]} needs {found[1]}, which this image's system libraries do not have",
            hint="take a file built for this distribution, or a newer base",
        )
    if (found := re.search(r"(\S+\.so\S*): undefined symbol: (\S+)", evidence)) is not None:
        return Diagnosis(
            cause=f"{found[1]} was built against other libraries than the image has: undefined symbol {found[2]}",
            hint="pin it to a version built for the torch in this recipe",
        )
    if (found := re.search(r"operator (torchvision::\w+) does not exist", evidence)) is not None:
        return Diagnosis(
            cause=f"torchvision does not fit torch: its operator {found[1]} is not registered",
            hint="pin torchvision to the release made for this torch, from the same index",
        )
    return None


def _nameless_user(evidence: str, _circumstances: Circumstances) -> Diagnosis | None:
    found = re.search(r"getpwuid\(\): uid not found: (\d+)", evidence)
    if found is None:
        return None
    return Diagnosis(
        cause=f"uid {found[1]} has no entry in /etc/passwd and the program asks for its name",
        hint="set USER, and the cache variable concerned, in image.env",
    )


# A compiler's own word is certain and comes first; a refused write may be a mere warning beside it.
_RULES: tuple[Callable[[str, Circumstances], Diagnosis | None], ...] = (
    _hanging_lock,
    _missing_header,
    _missing_library,
    _missing_ninja,
    _missing_program,
    _unknown_target,
    _missing_hip_part,
    _not_executable,
    _refused_write,
    _refused_relative,
    _missing_module,
    _broken_binary,
    _nameless_user,
)


_BUILD_RULES: tuple[Callable[[str, Circumstances], Diagnosis | None], ...] = (
    _full_disk,
    _out_of_memory,
    _missing_header,
    _missing_library,
    _missing_program,
    _unknown_target,
    _missing_hip_part,
)


def _placed(what: str, need: str, provider: Provider | None, circumstances: Circumstances) -> Diagnosis:
    """Say what is missing and, by the recipe's lists, why: in no stage, in the wrong one, or there and gone."""
    stages, here = circumstances.stages, circumstances.needed_in
    other, word = (BUILD, "runtime") if here == RUNTIME else (RUNTIME, "build")
    if provider is None:
        return Diagnosis(
            cause=f"{what} is missing, and no Debian package is known to bring it",
            hint=f"find out what brings it (apt-file search {need}) and add that to the {word} stage",
        )
    package = provider.package
    if not stages:
        return Diagnosis(
            cause=f"{what} is missing from the image",
            hint=f"install {package} in the image's final stage",
            package=package,
        )
    if (there := provider.among(stages.get(here, ()))) is not None:
        return Diagnosis(
            cause=f"{what} is missing although {there} is in {here}.apt: something took it out of the image",
            hint=f"look for what deletes it, for example with: dpkg --verify {there}",
            package=there,
            stage=here,
        )
    if (there := provider.among(stages.get(other, ()))) is not None:
        return Diagnosis(
            cause=f"{what} is missing: {there} is installed in {other} only, and the {word} stage needs it",
            hint=f'add "{there}" to {here}.apt',
            package=there,
            stage=here,
        )
    return Diagnosis(
        cause=f"{what} is missing: {package} is in no stage, and the {word} stage needs it",
        hint=f'add "{package}" to {here}.apt',
        package=package,
        stage=here,
    )


def _pointing_at(path: str, env: Mapping[str, str]) -> str | None:
    """Return the variable whose value is the longest folder above a path; PATH-like lists are none."""
    above = [
        (len(value), name)
        for name, value in sorted(env.items())
        if value.startswith("/") and ":" not in value and PurePosixPath(path).is_relative_to(value)
    ]
    return max(above)[1] if above else None
