"""The JIT inventory of an engine: what it compiles while it serves, and what that needs in the runtime image.

Call sites come from `builder.callsites`, headers from `builder.includes`; here they become one value, its short
form for the lock, the difference between two versions, and the comparison with a runtime stage's packages.
Nothing is read from disk and nothing is executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from builder.callsites import CallSite, find_call_sites
from builder.compiling import KIND_HEADERS, KIND_MODULES, KIND_PROGRAMS, NATIVE_KINDS
from builder.errors import LockError
from builder.includes import HeaderNeed, find_headers
from builder.providers import Provider, for_header, for_library, for_module, for_program
from builder.sourcetree import SourceTree

# Libraries of CUDA, as written after -l: no package of a ROCm image brings them.
_NVIDIA_LIBRARIES = ("cuda", "cudart", "cublas*", "cudnn*", "cufft*", "curand", "cusolver*", "cusparse*", "nccl",
                     "nvrtc*", "nvToolsExt", "nvidia-ml", "nvshmem*")  # fmt: skip
# What Python distributions bring with them, so that no package has to: headers, programs, and their own module.
_BUNDLED: Mapping[str, tuple[str, ...]] = {
    "apache-tvm-ffi": ("tvm/ffi/*", "dlpack/*"),
    "ninja": ("ninja",),
    "numpy": ("numpy/*",),
    "pybind11": ("pybind11/*",),
    "setuptools": ("setuptools",),
    "torch": ("torch/*", "ATen/*", "c10/*", "caffe2/*", "pybind11/*"),
}
_LISTS = ("headers", "libraries", "programs", "unparsed")


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryNeed:
    """A library that compiled code is linked with (`-lNAME`), and the Python files that say so."""

    library: str
    files: tuple[str, ...]
    cuda_only: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """An inventory as the lock keeps it: counts per kind, and sorted names. No lines, so that it stays calm."""

    sites: Mapping[str, int]
    headers: tuple[str, ...]
    cuda_headers: int
    libraries: tuple[str, ...]
    programs: tuple[str, ...]
    unparsed: tuple[str, ...]

    def plain(self) -> dict[str, object]:
        """Return it as TOML can hold it."""
        return {
            "sites": dict(sorted(self.sites.items())),
            "headers": list(self.headers),
            "cuda-headers": self.cuda_headers,
            "libraries": list(self.libraries),
            "programs": list(self.programs),
            "unparsed": list(self.unparsed),
        }

    @classmethod
    def from_plain(cls, table: Mapping[str, object], *, where: str) -> Summary:
        """Read it from a lock's table; `where` names file and key. Raises `LockError` for any other shape."""
        if unknown := sorted(set(table) - {"sites", "cuda-headers", *_LISTS}):
            raise LockError(f"{where}: unknown key {unknown[0]!r}")
        sites = table.get("sites", {})
        if not isinstance(sites, Mapping) or not all(isinstance(n, int) for n in sites.values()):
            raise LockError(f"{where}.sites: expected a table of numbers")
        cuda_headers = table.get("cuda-headers", 0)
        if not isinstance(cuda_headers, int):
            raise LockError(f"{where}.cuda-headers: expected a number")
        lists = {key: _names(table.get(key, []), f"{where}.{key}") for key in _LISTS}
        return cls(
            sites=dict(sites),
            headers=lists["headers"],
            cuda_headers=cuda_headers,
            libraries=lists["libraries"],
            programs=lists["programs"],
            unparsed=lists["unparsed"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """What an engine compiles at run time. `unparsed` maps Python files to why they could not be read."""

    sites: tuple[CallSite, ...]
    loaders: tuple[str, ...]
    headers: tuple[HeaderNeed, ...]
    libraries: tuple[LibraryNeed, ...]
    unparsed: Mapping[str, str]

    @property
    def kinds(self) -> dict[str, int]:
        """How many call sites there are per kind, by name of kind."""
        return dict(sorted(Counter(site.kind for site in self.sites).items()))

    @property
    def native_sites(self) -> tuple[CallSite, ...]:
        """The call sites that hand C++ to a compiler; the rest is kernels written in Python."""
        return tuple(site for site in self.sites if site.kind in NATIVE_KINDS)

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that its compiling systems, or itself, start."""
        own = {site.name for site in self.sites if site.kind == "program"}
        return tuple(sorted(own.union(*(KIND_PROGRAMS.get(kind, ()) for kind in self.kinds))))

    def summary(self) -> Summary:
        """Return the short form for the lock."""
        return Summary(
            sites=self.kinds,
            headers=tuple(need.header for need in self.headers if not need.cuda_only),
            cuda_headers=sum(need.cuda_only for need in self.headers),
            libraries=tuple(need.library for need in self.libraries if not need.cuda_only),
            programs=self.programs,
            unparsed=tuple(self.unparsed),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class InventoryDifference:
    """What changed from an older inventory to a newer one, as far as a ROCm image is concerned."""

    headers: tuple[HeaderNeed, ...]
    libraries: tuple[LibraryNeed, ...]
    programs: tuple[str, ...]
    gone: tuple[str, ...]
    sites: Mapping[str, tuple[int, int]]
    unparsed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.headers or self.libraries or self.programs or self.gone or self.sites or self.unparsed)

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages to advise for the new needs, sorted."""
        found = (
            *(for_header(need.header) for need in self.headers if distribution_for(need.header) is None),
            *(for_library(need.library) for need in self.libraries),
            *map(for_program, self.programs),
        )
        return tuple(sorted({provider.package for provider in found if provider is not None}))

    def lines(self) -> tuple[str, ...]:
        """Say it in words, one fact a line, new needs first."""
        said = [
            *(
                f"new header {n.header} ({_header_advice(n.header)}), included by {_some(n.files)}"
                for n in self.headers
            ),
            *(
                f"new library -l{n.library} ({_advice(for_library(n.library))}), linked by {_some(n.files)}"
                for n in self.libraries
            ),
            *(f"new program {program} ({_advice(for_program(program))})" for program in self.programs),
            *(f"no longer needed: {name}" for name in self.gone),
            *(f"{kind} call sites: {before} -> {after}" for kind, (before, after) in sorted(self.sites.items())),
            *(f"cannot be read any more: {path}" for path in self.unparsed),
        ]
        return tuple(said)


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingPackage:
    """A package the runtime stage lacks, others that would do `instead`, and what asks for it, with the file."""

    package: str
    instead: tuple[str, ...]
    needs: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.needs) - 3} more" if len(self.needs) > 3 else ""
        return f"{self.package} is missing in the runtime stage: needed for {', '.join(self.needs[:3])}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageCheck:
    """The runtime stage's packages against an inventory: what lacks, and needs nobody is known to bring."""

    missing: tuple[MissingPackage, ...]
    unknown: tuple[str, ...]


def take_inventory(tree: SourceTree) -> Inventory:
    """Take the inventory of an engine's Python tree: what a wheel installs, or the package folder of a source."""
    found = find_call_sites(tree)
    return Inventory(
        sites=found.sites,
        loaders=found.loaders,
        headers=find_headers(tree, found.inline),
        libraries=tuple(
            LibraryNeed(library=name, files=files, cuda_only=_matches(name, _NVIDIA_LIBRARIES))
            for name, files in found.libraries.items()
        ),
        unparsed=found.unparsed,
    )


def difference(old: Summary | Inventory, new: Inventory) -> InventoryDifference:
    """Compare an inventory with an older one, for example the one in the lock."""
    before = old if isinstance(old, Summary) else old.summary()
    after = new.summary()
    kinds = sorted(before.sites.keys() | after.sites.keys())
    counts = {kind: (before.sites.get(kind, 0), after.sites.get(kind, 0)) for kind in kinds}
    gone = [
        *(header for header in before.headers if header not in after.headers),
        *(f"-l{library}" for library in before.libraries if library not in after.libraries),
        *(program for program in before.programs if program not in after.programs),
    ]
    return InventoryDifference(
        headers=tuple(n for n in new.headers if not n.cuda_only and n.header not in before.headers),
        libraries=tuple(n for n in new.libraries if not n.cuda_only and n.library not in before.libraries),
        programs=tuple(program for program in after.programs if program not in before.programs),
        gone=tuple(gone),
        sites={kind: pair for kind, pair in counts.items() if pair[0] != pair[1]},
        unparsed=tuple(path for path in after.unparsed if path not in before.unparsed),
    )


def missing_packages(
    inventory: Inventory, runtime_packages: Iterable[str], *, distributions: Collection[str] = ()
) -> PackageCheck:
    """Compare an inventory's needs with the packages of the runtime stage.

    `runtime_packages` are apt names, with what the stage's base is known to carry; `distributions` the Python
    distributions of the image, some of which bring what is needed with them. Packages of a build stage are no
    help: the compile happens where the engine serves.
    """
    listed = tuple(runtime_packages)
    bundled = tuple(pattern for name in distributions for pattern in _BUNDLED.get(name, ()))
    missing: dict[Provider, list[str]] = {}
    unknown: list[str] = []
    for need, provider, why in _needs(inventory):
        if _matches(need, bundled):
            continue
        if provider is None:
            unknown.append(f"{need} ({why})")
        elif provider.among(listed) is None:
            same = next((known for known in missing if known.packages == provider.packages), provider)
            missing.setdefault(same, []).append(f"{need} ({why})")
    return PackageCheck(
        missing=tuple(
            MissingPackage(
                package=provider.package, instead=provider.packages[1:], needs=tuple(dict.fromkeys(sorted(needs)))
            )
            for provider, needs in sorted(missing.items(), key=lambda item: item[0].package)
        ),
        unknown=tuple(sorted(set(unknown))),
    )


def _needs(inventory: Inventory) -> Iterable[tuple[str, Provider | None, str]]:
    """Yield everything a ROCm image must have: what it is called, what brings it, who asks."""
    for header in inventory.headers:
        if not header.cuda_only:
            yield header.header, for_header(header.header), _some(header.files)
    for library in inventory.libraries:
        if not library.cuda_only:
            yield f"-l{library.library}", for_library(library.library), _some(library.files)
    for kind in inventory.kinds:
        for name in KIND_HEADERS.get(kind, ()):
            yield name, for_header(name), f"every {kind} compile"
        for program in KIND_PROGRAMS.get(kind, ()):
            yield program, for_program(program), f"every {kind} compile"
        for module in KIND_MODULES.get(kind, ()):
            yield module, for_module(module), f"every {kind} compile"
    for site in inventory.sites:
        if site.kind == "program":
            yield site.name, for_program(site.name), f"{site.file}:{site.line}"


def distribution_for(header: str) -> str | None:
    """Return the Python distribution that brings a header with it, None where none is known to."""
    return next((name for name, patterns in _BUNDLED.items() if _matches(header, patterns)), None)


def _header_advice(header: str) -> str:
    distribution = distribution_for(header)
    return f"comes with {distribution}" if distribution is not None else _advice(for_header(header))


def _advice(provider: Provider | None) -> str:
    return provider.package if provider is not None else "no known package"


def _some(files: tuple[str, ...]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise LockError(f"{where}: expected a list of names")
    return tuple(value)
