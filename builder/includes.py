"""Which headers the C, C++, HIP and CUDA files of a tree ask for, as a ROCm compiler would meet them.

Conditions of the preprocessor are weighed with what is known of a ROCm build (`USE_ROCM` is defined,
`__CUDACC__` is not); an unknown condition counts as taken. Macros are not expanded, and which of the files a
compile really starts from is not known here: every shipped source counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from posixpath import normpath

from builder.providers import for_header
from builder.sourcetree import NATIVE, SourceTree

_DEFINED = frozenset(
    {"USE_ROCM", "__HIP__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_PLATFORM_HCC__", "HIP_VERSION",
     "TORCH_HIP_VERSION", "HIPCC", "__linux__", "__GNUC__", "__cplusplus"}
)  # fmt: skip
_UNDEFINED = frozenset(
    {"USE_CUDA", "__CUDACC__", "__NVCC__", "__CUDA_ARCH__", "CUDA_VERSION", "CUDART_VERSION", "__CUDACC_RTC__",
     "USE_MUSA", "__MUSACC__", "USE_XPU", "SYCL_LANGUAGE_VERSION", "_WIN32", "_WIN64", "WIN32", "_MSC_VER",
     "__APPLE__", "__ANDROID__", "__aarch64__", "__arm__", "__ARM_NEON", "__ARM_NEON__", "__powerpc__",
     "__riscv", "__s390x__"}
)  # fmt: skip
# Headers of CUDA and of libraries that exist for CUDA only.
_NVIDIA = (
    "cuda.h", "cuda_*.h", "cuda_*.hpp", "cuda/*", "cudaTypedefs.h", "cuda*.h", "cub/*", "cutlass/*", "cute/*",
    "cooperative_groups.h", "cooperative_groups/*", "nvrtc.h", "nvfunctional", "nvml.h", "nvToolsExt.h", "nvtx3/*",
    "nccl.h", "nv/*", "cublas*", "cudnn*", "curand*", "cusparse*", "cusolver*", "cufft*", "cufile.h",
    "math_constants.h", "mma.h", "sm_*.h", "crt/*", "device_launch_parameters.h", "driver_types.h",
    "ATen/cuda/*", "c10/cuda/*", "torch/csrc/cuda/*", "flashinfer/*", "tensorrt_llm/*", "nv_internal/*",
    "NvInfer*.h", "nvshmem*", "nvcomp*", "gdrapi.h",
)  # fmt: skip
# The part of them that PyTorch's translation to HIP leaves alone: a source that needs one is for CUDA only.
_UNTRANSLATED = (
    "cuda/*", "cutlass/*", "cute/*", "nv/*", "cublasdx*", "nvshmem*", "flashinfer/*", "tensorrt_llm/*",
    "nv_internal/*", "NvInfer*.h", "nvcomp*", "nvfunctional",
)  # fmt: skip
_ENDS = frozenset({"", "&&", "||", ")"})
_SYSTEM_PACKAGES = frozenset({"g++", "gcc", "libc6-dev", "linux-libc-dev"})

_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_CONTINUED = re.compile(rb"\\\r?\n")
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif|include)\b[ \t]*(.*)")
_INCLUDED = re.compile(r"<\s*([^>]+?)\s*>|\"\s*([^\"]+?)\s*\"")
_TOKEN = re.compile(r"\s*(defined\b|&&|\|\||[()!]|[A-Za-z_]\w*|\d+|\S)")


class Truth(IntEnum):
    """What is known of a condition. The least of two is their "and", the greatest their "or"."""

    NO = 0
    MAYBE = 1
    YES = 2

    @property
    def inverse(self) -> Truth:
        """What is known of the contrary."""
        return Truth(2 - self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Include:
    """One `#include` of a file: the name, whether in quotes, and whether a ROCm build skips it."""

    name: str
    quoted: bool
    skipped: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderNeed:
    """A header from outside the tree and of no C or C++ standard library, with the files that include it.

    `cuda_only`: it is a CUDA header, or all that include it are sources or blocks a ROCm build leaves out.
    """

    header: str
    files: tuple[str, ...]
    cuda_only: bool


def find_headers(tree: SourceTree, inline: Mapping[str, bytes]) -> tuple[HeaderNeed, ...]:
    """Return the third-party headers of the shipped sources and of the source texts in Python files (`inline`)."""
    found = {path: tuple(includes_of(data)) for path, data in [*tree.files(NATIVE), *sorted(inline.items())]}
    inside = _Inside(tree)
    cuda_files = _cuda_only_files(found, inside)
    users: dict[str, dict[str, bool]] = {}
    for path, includes in found.items():
        for include in includes:
            if is_standard(include.name) or inside.candidates(path, include):
                continue
            skipped = include.skipped or path in cuda_files or is_nvidia(include.name)
            known = users.setdefault(include.name, {})
            known[path] = known.get(path, True) and skipped
    return tuple(
        HeaderNeed(
            header=header,
            files=tuple(sorted(path for path, skipped in files.items() if not skipped) or sorted(files)),
            cuda_only=all(files.values()),
        )
        for header, files in sorted(users.items())
    )


def includes_of(data: bytes) -> Iterator[Include]:
    """Yield the includes of one file in order, comments and line continuations removed."""
    text = _COMMENT.sub(_blank, _CONTINUED.sub(b"", data)).decode("utf-8", errors="replace")
    stack: list[_Block] = []
    for found in filter(None, map(_DIRECTIVE.match, text.splitlines())):
        word, rest = found[1], found[2]
        match word:
            case "if" | "ifdef" | "ifndef":
                stack.append(_Block.opened(_condition(word, rest)))
            case "elif" | "elifdef" | "elifndef" | "else" if stack:
                stack[-1] = stack[-1].next(
                    Truth.YES if word == "else" else _condition(word.removeprefix("el"), rest)
                )
            case "endif" if stack:
                stack.pop()
            case "include" if (named := _INCLUDED.match(rest)) is not None:
                skipped = any(block.taken is Truth.NO for block in stack)
                yield Include(name=named[1] or named[2], quoted=named[1] is None, skipped=skipped)
            case _:
                pass


def is_standard(header: str) -> bool:
    """Return whether a header comes with the compiler, its C and C++ libraries or the kernel's interface."""
    provider = for_header(header)
    if header.startswith("arm_"):  # intrinsics of another processor, which compilers bring for theirs
        return True
    return provider is not None and provider.package in _SYSTEM_PACKAGES


def is_nvidia(header: str) -> bool:
    """Return whether a header is CUDA's, or of a library that exists for CUDA only."""
    return any(fnmatchcase(header, pattern) for pattern in _NVIDIA)


@dataclass(frozen=True, slots=True)
class _Block:
    """An open conditional: whether this branch is taken, and whether it or one before it is."""

    taken: Truth
    settled: Truth

    @classmethod
    def opened(cls, condition: Truth) -> _Block:
        return cls(taken=condition, settled=condition)

    def next(self, condition: Truth) -> _Block:
        return _Block(taken=min(self.settled.inverse, condition), settled=max(self.settled, condition))


class _Inside:
    """Finds the files of the tree an include may mean."""

    def __init__(self, tree: SourceTree) -> None:
        self._names = tree.names
        self._by_last: dict[str, list[str]] = {}
        for name in sorted(tree.names):
            if name.endswith(NATIVE):
                self._by_last.setdefault(PurePosixPath(name).name, []).append(name)

    def candidates(self, path: str, include: Include) -> tuple[str, ...]:
        """Return the file beside the including one, or else every file whose path ends like the include."""
        beside = normpath(str(PurePosixPath(path).parent / include.name))
        if include.quoted and beside in self._names:
            return (beside,)
        tail = normpath(include.name).lstrip("./")
        same = self._by_last.get(PurePosixPath(tail).name, ())
        return tuple(name for name in same if name == tail or name.endswith(f"/{tail}"))


def _cuda_only_files(found: Mapping[str, tuple[Include, ...]], inside: _Inside) -> frozenset[str]:
    """Return the files that cannot be compiled for ROCm, because of what they include, directly or not."""
    needs: dict[str, list[tuple[str, ...]]] = {}
    cuda: set[str] = set()
    for path, includes in found.items():
        for include in includes:
            if include.skipped:
                continue
            own = inside.candidates(path, include)
            if own:
                needs.setdefault(path, []).append(own)
            elif any(fnmatchcase(include.name, pattern) for pattern in _UNTRANSLATED):
                cuda.add(path)
    grown = True
    while grown:
        more = {
            path for path, groups in needs.items() if path not in cuda and any(cuda.issuperset(g) for g in groups)
        }
        grown = bool(more)
        cuda |= more
    return frozenset(cuda)


def _blank(found: re.Match[bytes]) -> bytes:
    """Replace a comment by as many line breaks as it had; strings stay, they may hold `//`."""
    text = found[0]
    return text if text.startswith(b'"') else b" " + b"\n" * text.count(b"\n")


def _condition(word: str, rest: str) -> Truth:
    match word:
        case "ifdef":
            return _defined(rest.split()[0] if rest.split() else "")
        case "ifndef":
            return _defined(rest.split()[0] if rest.split() else "").inverse
        case _:
            return _Expression(_TOKEN.findall(rest)).value()


def _defined(name: str) -> Truth:
    return Truth.YES if name in _DEFINED else Truth.NO if name in _UNDEFINED else Truth.MAYBE


class _Expression:
    """Weighs the words of an `#if` expression."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def value(self) -> Truth:
        result = self._either()
        return result if self._at == len(self._words) else Truth.MAYBE

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _either(self) -> Truth:
        result = self._both()
        while self._peek() == "||":
            self._take()
            result = max(result, self._both())
        return result

    def _both(self) -> Truth:
        result = self._one()
        while self._peek() == "&&":
            self._take()
            result = min(result, self._one())
        return result

    def _one(self) -> Truth:
        match self._take():
            case "!":
                return self._one().inverse
            case "(":
                result = self._either()
                return self._alone(result) if self._take() == ")" else Truth.MAYBE
            case "defined":
                bracketed = self._peek() == "("
                if bracketed:
                    self._take()
                result = _defined(self._take())
                if bracketed:
                    self._take()
                return result
            case word if word.isdigit():
                return self._alone(Truth.NO if int(word) == 0 else Truth.YES)
            case word if word in _UNDEFINED:
                return self._alone(Truth.NO, compared=Truth.NO if self._peek() in {">", "="} else Truth.MAYBE)
            case _:
                return self._alone(Truth.MAYBE)

    def _alone(self, value: Truth, *, compared: Truth = Truth.MAYBE) -> Truth:
        """Return the value of an operand, or `compared` when it is part of arithmetic, which is passed over.

        A name that is not defined counts as zero, so `CUDA_VERSION >= 12000` does not hold.
        """
        if self._peek() in _ENDS:
            return value
        depth = 0
        while self._at < len(self._words):
            word = self._peek()
            if depth == 0 and word in _ENDS:
                break
            depth += (word == "(") - (word == ")")
            self._at += 1
        return compared
