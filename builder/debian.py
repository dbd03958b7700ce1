"""Debian bases without a registry: which packages a stage needs, and a root file system made of exactly those.

Resolution is apt's own, in a private root that knows nothing of this machine's packages; bootstrapping is
mmdebstrap's, from a local repository of the locked files, so that it needs no network and gives the same bytes.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from builder import process
from builder.debiantable import AddedSuite, DebianBase
from builder.errors import BuildError, EngineError, LockError, RecipeError
from builder.lockfile import DebianPackage
from builder.mirrors import DebianMirror

_log = logging.getLogger(__name__)

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURE = "amd64"
# Manuals and translations are of no use in a served image; licences stay.
_NOT_UNPACKED = ("/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/doc/*")
# Priorities of apt (apt_preferences(5)): above 500, that of a suite, and never chosen.
_TAKEN, _LEFT = 990, -1
_UNPACKED_ALL_THE_SAME = ("/usr/share/doc/*/copyright", "/usr/share/locale/locale.alias")
_LITTLE = 1 << 20  # bytes that a disk may have free that took no more


@dataclass(frozen=True, kw_only=True, slots=True)
class DebianSet:
    """What apt resolved: when the suite was published (seconds since 1970) and the packages per stage."""

    epoch: int
    packages: tuple[DebianPackage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What a stage adds: its apt list, and what its base has installed, None for the bootstrapped one."""

    apt: Sequence[str]
    installed: Sequence[DebianPackage] | None = None


def resolve(
    base: DebianBase, *, build: Stage | None, runtime: Stage | None, mirror: DebianMirror, file: str
) -> DebianSet:
    """Ask apt for the minimal base of a suite, where a stage starts from it, and for what each stage adds.

    A stage that is None adds nothing from this suite. `file` is the recipe, for messages. Raises `RecipeError`
    for a package the suite does not have and `EngineError` when the mirror cannot be read.
    """
    stages = {name: stage for name, stage in (("build", build), ("runtime", runtime)) if stage is not None}
    with _private_apt(base, mirror) as apt:
        for added in base.also:
            _require_all_of(apt, added, file=file)
        stanzas = _available(apt)
        minimal = sorted(
            name for name, s in stanzas.items() if s.get("Essential") == "yes" or s.get("Priority") == "required"
        )
        if not minimal:
            raise EngineError(f"the Debian mirror {mirror.url} has no packages for suite {base.suite!r}")
        bootstrapped = any(stage.installed is None for stage in stages.values())
        chosen: dict[str, dict[str, str]] = {"base": {}, "build": {}, "runtime": {}}
        if bootstrapped:
            chosen["base"] = dict(_closure(apt, [*minimal, "apt"], file=file, stage="base"))
        for name, stage in stages.items():
            for package in stage.apt:
                if package not in stanzas and not _is_virtual(package, stanzas):
                    raise RecipeError(
                        f"{file}: base.{name}.apt: Debian {base.words} has no package {package!r}",
                        hint=f"apt-cache search {package}",
                    )
            _pretend_installed(apt, stage.installed or (), stanzas)
            names = [*stage.apt] if stage.installed is not None else [*minimal, "apt", *stage.apt]
            if names:
                chosen[name] = dict(_closure(apt, names, file=file, stage=name))
        paths = {path for found in chosen.values() for path in found.items()}
        packages = []
        for package, path in sorted(paths):
            stanza = stanzas[package]
            if stanza["Filename"] != path:
                raise EngineError(f"the Debian mirror {mirror.url} names two files for {package}")
            packages += [
                DebianPackage(
                    name=package, version=stanza["Version"], file=path, size=int(stanza["Size"]),
                    sha256=stanza["SHA256"], stage=where,
                )
                for where in _stages_of(package, chosen, stages)
            ]  # fmt: skip
        return DebianSet(epoch=_published(apt), packages=tuple(packages))


def _stages_of(
    package: str, chosen: Mapping[str, Mapping[str, str]], stages: Mapping[str, Stage]
) -> Iterator[Literal["base", "build", "runtime", "both"]]:
    """Yield where a package is installed; a stage that starts from the bootstrapped base has what that has."""
    adds = {
        name
        for name, stage in stages.items()
        if package in chosen[name] and not (stage.installed is None and package in chosen["base"])
    }
    if package in chosen["base"]:
        yield "base"
    if adds == {"build", "runtime"}:
        yield "both"
    elif "runtime" in adds:
        yield "runtime"
    elif "build" in adds:
        yield "build"


def _pretend_installed(
    apt: Path, packages: Sequence[DebianPackage], stanzas: Mapping[str, Mapping[str, str]]
) -> None:
    """Tell apt that these packages are installed; what they depend on is too, so it is not told."""
    texts = []
    for package in packages:
        stanza = stanzas.get(package.name, {})
        architecture = Path(package.file).stem.rpartition("_")[2]
        lines = [
            f"Package: {package.name}", "Status: install ok installed", f"Version: {package.version}",
            f"Architecture: {architecture}", "Maintainer: nobody", "Description: installed",
        ]  # fmt: skip
        kept = ("Provides", "Multi-Arch", "Essential", "Priority", "Conflicts", "Breaks", "Replaces")
        lines += [f"{key}: {stanza[key]}" for key in kept if key in stanza]
        texts.append("\n".join(lines) + "\n")
    (apt / "status").write_text("\n".join(texts))


@contextmanager
def _private_apt(base: DebianBase, mirror: DebianMirror) -> Iterator[Path]:
    """Give a folder in which apt knows the suite at `mirror` and no installed package."""
    if not KEYRING.exists():
        raise EngineError(f"{KEYRING}: the keys of the Debian archive are missing", hint="rocm-images doctor")
    with tempfile.TemporaryDirectory(prefix="rocm-images-apt.") as name:
        root = Path(name)
        for folder in ("lists/partial", "cache/archives/partial", "etc"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        suites = [base.suite, *(added.suite for added in base.also)]
        (root / "sources.list").write_text(
            "".join(
                f"deb [signed-by={KEYRING}] {mirror.url} {suite} {' '.join(base.components)}\n" for suite in suites
            )
        )
        (root / "preferences").write_text("\n".join(_preference(added) for added in base.also))
        options = {
            "Dir": name, "Dir::State": f"{name}/", "Dir::State::lists": f"{name}/lists",
            "Dir::State::status": f"{name}/status", "Dir::Cache": f"{name}/cache", "Dir::Etc": f"{name}/etc",
            "Dir::Etc::sourcelist": f"{name}/sources.list",
            "Dir::Etc::preferences": f"{name}/preferences", "APT::Architecture": ARCHITECTURE,
            "APT::Install-Recommends": "false", "APT::Sandbox::User": "root", "Acquire::Languages": "none",
            "Acquire::Retries": "5", "Acquire::Check-Valid-Until": "false" if mirror.allow_expired else "true",
        }  # fmt: skip
        (root / "apt.conf").write_text(
            "".join(f'{key} "{value}";\n' for key, value in options.items())
            + f'APT::Architectures {{ "{ARCHITECTURE}"; }};\n'
        )
        # apt exits 0 when some of its lists could not be read; what it printed tells.
        update = _apt(root, "apt-get", "update", "--error-on=any")
        if update.status:
            raise EngineError(
                f"the Debian mirror {mirror.url} ({mirror.origin}) cannot be read for suite "
                + " and ".join(map(repr, suites)),
                details=update.tail,
                hint="name another under [debian] in mirrors.toml; for an expired one see docs/mirrors.md",
            )
        yield root


def _preference(added: AddedSuite) -> str:
    """Return what makes apt take some packages of a suite, and nothing else of it.

    A suite has two names, and a recipe may say either: experimental is rc-buggy by its code name.
    """
    return "\n".join(
        f"Package: {packages}\nPin: release {field}={added.suite}\nPin-Priority: {priority}\n"
        for packages, priority in ((" ".join(sorted(added.packages)), _TAKEN), ("*", _LEFT))
        for field in ("n", "a")
    )


def _require_all_of(apt: Path, added: AddedSuite, *, file: str) -> None:
    """Raise `RecipeError` for a package that a recipe takes from a suite that does not have it."""
    listed = _apt(apt, "apt-get", "indextargets", "--format", "$(RELEASE)|$(FILENAME)", "Created-By: Packages")
    lists = [line.split("|") for line in listed.stdout.splitlines()]
    has: set[str] = set()
    for stanza in _stanzas("\n\n".join(Path(path).read_text() for suite, path in lists if suite == added.suite)):
        has |= {stanza["Package"], f"src:{stanza.get('Source', stanza['Package']).partition(' ')[0]}"}
    if missing := sorted(set(added.packages) - has):
        raise RecipeError(
            f"{file}: base: Debian {added.suite} has no package {missing[0]!r}",
            details=tuple(f"nor {name!r}" for name in missing[1:]),
            hint="name it as that suite does, or leave it to the base's own",
        )


def _apt(root: Path, *argv: str) -> process.Completed:
    return process.run(argv, env={"APT_CONFIG": str(root / "apt.conf")})


def _available(apt: Path) -> dict[str, dict[str, str]]:
    """Return the fields of the version of every package that apt would install, by name."""
    return {stanza["Package"]: stanza for stanza in _stanzas(_apt(apt, "apt-cache", "dumpavail").stdout)}


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    for part in text.split("\n\n"):
        stanza = dict(
            line.split(": ", 1) for line in part.splitlines() if not line.startswith(" ") and ": " in line
        )
        if "Package" in stanza:
            yield stanza


def _is_virtual(name: str, stanzas: Mapping[str, Mapping[str, str]]) -> bool:
    return any(
        name == provided.strip().partition(" ")[0]
        for stanza in stanzas.values()
        for provided in stanza.get("Provides", "").split(",")
    )


def _closure(apt: Path, names: Iterable[str], *, file: str, stage: str) -> Iterator[tuple[str, str]]:
    """Yield name and archive path of everything apt would install for `names`."""
    done = _apt(apt, "apt-get", "-qq", "install", "--print-uris", *names)
    if done.status:
        raise RecipeError(f"{file}: base.{stage}.apt: apt cannot install these together", details=done.tail)
    for line in done.stdout.splitlines():
        uri, local, *_ = line.split()
        path = unquote(uri.strip("'"))
        yield local.partition("_")[0], path[path.index("pool/") :]


def _published(apt: Path) -> int:
    dates = [
        int(parsedate_to_datetime(line.removeprefix("Date: ")).timestamp())
        for release in (apt / "lists").glob("*Release")
        for line in release.read_text().splitlines()
        if line.startswith("Date: ")
    ]
    if not dates:
        raise EngineError("the Debian mirror's Release file has no date")
    return max(dates)


def bootstrap(
    packages: Sequence[DebianPackage], files: Mapping[str, Path], *, suite: str, epoch: int, target: Path
) -> None:
    """Write the root file system of the locked base packages to the tar file `target`, the same bits each time.

    `files` maps sha256 to the fetched package. Needs the rights mmdebstrap needs: root, or user namespaces.
    """
    with tempfile.TemporaryDirectory(prefix="rocm-images-base.") as name:
        repository = Path(name)
        repository.chmod(0o755)
        unasked = _write_repository(repository, packages, files, suite=suite)
        part = target.with_suffix(".part")
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_UNPACKED]
        options += [f"--dpkgopt=path-include={pattern}" for pattern in _UNPACKED_ALL_THE_SAME]
        try:
            done = process.run(
                [
                    *process.own_mounts(), "mmdebstrap", "--variant=minbase", "--format=tar",
                    f"--architectures={ARCHITECTURE}",
                    *options, *([f"--include={','.join(unasked)}"] if "apt" in unasked else []),
                    '--customize-hook=rm -f "$1/etc/apt/sources.list"',
                    suite, part, f"deb [trusted=yes] copy://{repository} ./",
                ],
                env={"SOURCE_DATE_EPOCH": str(epoch)},
            )  # fmt: skip
            if done.status and (done.full_disk or shutil.disk_usage(target.parent).free < _LITTLE):
                raise EngineError(
                    f"mmdebstrap could not make the Debian {suite} base: {process.FULL}", details=done.tail,
                    hint=f"df -h {target.parent} {tempfile.gettempdir()}",
                )  # fmt: skip
            if done.status:
                raise BuildError(f"mmdebstrap could not make the Debian {suite} base", details=done.tail)
            write_canonical(part, target)
        finally:
            part.unlink(missing_ok=True)


def write_canonical(source: Path, target: Path) -> None:
    """Write the tar file `source` again, in one dialect and with an empty /dev.

    Releases of mmdebstrap differ in how they write headers and the nodes below /dev; containers mount their own.
    The folder itself stays: where it is missing, every build step makes it anew, at the time it runs.
    """
    with tarfile.open(source) as old, tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as new:
        for member in old:
            if member.name.startswith("./dev/"):
                continue
            member.uname = member.gname = ""
            # Times are whole seconds; extended attributes (file capabilities) stay.
            member.pax_headers = {k: v for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr.")}
            new.addfile(member, old.extractfile(member) if member.isreg() else None)


def _write_repository(
    folder: Path, packages: Sequence[DebianPackage], files: Mapping[str, Path], *, suite: str
) -> list[str]:
    """Lay out a flat repository of the locked files, with the index that apt needs to read it.

    Returns the packages that mmdebstrap would not ask for by itself. What is required says the archive, and in
    Debian 12 the files themselves still say otherwise of some, of apt for one.
    """
    stanzas = []
    unasked = []
    for package in sorted(packages, key=lambda package: package.name):
        file = Path(package.file).name
        link_or_copy(files[package.sha256], folder / file)
        control = process.run(["dpkg-deb", "--field", folder / file])
        if control.status:
            raise LockError(f"{package.file}: not a Debian package", details=control.tail)
        if not re.search(r"^(Essential: yes|Priority: required)$", control.stdout, re.MULTILINE):
            unasked.append(package.name)
        stanzas.append(
            f"{control.stdout.rstrip()}\nFilename: ./{file}\nSize: {package.size}\nSHA256: {package.sha256}\n"
        )
    index = "\n".join(stanzas).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Release").write_text(
        f"Suite: {suite}\nCodename: {suite}\nSHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    )
    return unasked


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, by a hard link where the file system allows it.

    What may be executed may be so afterwards.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)
