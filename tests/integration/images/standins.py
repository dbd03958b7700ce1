"""What stands in for Docker Hub, GitHub and indexes, made of tests/data/stand-ins: bases, repositories, wheels."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from builder import debian
from builder.codeobjects.processors import MACH
from builder.context import fetch_debs
from builder.lockfile import Lock, parse_lock
from builder.mirrors import load_mirrors
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.story import Silent

from ..project import REPOSITORY

STAND_INS = REPOSITORY / "tests/data/stand-ins"
TARGETS = ("gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201")
# A real build backend that all recipes take; the newer one of the lock below is too new for one of them.
SETUPTOOLS = LockedFile(
    project="setuptools", filename="setuptools-79.0.1-py3-none-any.whl",
    sha256="e147c0549f27767ba362f9da434eab9c5dc0045d5304feb602a0af001089fc51",
)  # fmt: skip
_BACKENDS = ("setuptools-rust", "setuptools-scm", "vcs-versioning", "semantic-version", "wheel", "packaging")
_GIT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}  # fmt: skip


def shipped_lock(image: str) -> Lock:
    """Return the lock of an image that ships, for what it names of real files."""
    text = (REPOSITORY / "images" / image / "recipe.lock").read_text(encoding="utf-8")
    return parse_lock(text, file="recipe.lock")


def code_object(target: str) -> bytes:
    """Return a code object for a target as bare as it may be: the header, which names the processor."""
    number = next(number for number, name in MACH.items() if name == target)
    return _elf_header(number | 1 << 8) + bytes(192)


def _elf_header(flags: int) -> bytes:
    start = b"\x7fELF\x02\x01\x01" + bytes((64, 4)) + bytes(7)
    words = (
        (3, 2),
        (224, 2),
        (1, 4),
        (0, 8),
        (0, 8),
        (0, 8),
        (flags, 4),
        (64, 2),
        (56, 2),
        (0, 2),
        (64, 2),
        (0, 2),
        (0, 2),
    )
    return start + b"".join(value.to_bytes(size, "little") for value, size in words)


# Bases


def root_file_system(store: Path, target: Path) -> None:
    """Write a Debian 12 with its Python, from the packages of an image that ships, as a tar file."""
    lock = shipped_lock("vllm-debian")
    packages = tuple(package for package in lock.deb if package.stage in ("base", "both"))
    debs = fetch_debs(
        lock.model_copy(update={"deb": packages}), store=Store(store), mirrors=load_mirrors(REPOSITORY, None),
        story=Silent(),
    )  # fmt: skip
    debian.bootstrap(packages, debs, suite="bookworm", epoch=lock.epoch, target=target)


def rocm_files(folder: Path, packages: Iterable[str]) -> None:
    """Lay out what a base has beside Debian: /opt/rocm, and an archive of empty packages with these names."""
    shutil.copytree(STAND_INS / "rocm", folder)
    shared = folder / "opt/rocm/share/targets"
    shared.mkdir(parents=True)
    for target in TARGETS:
        (shared / f"{target}.co").write_bytes(code_object(target))
    archive = folder / "srv/apt"
    archive.mkdir(parents=True)
    listed = []
    for name in sorted(set(packages)):
        tree = folder.parent / f"deb-{name}"
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: 1.0\nArchitecture: amd64\nMaintainer: nobody\nDescription: empty\n"
        (tree / "DEBIAN/control").write_text(control)
        file = archive / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, file], check=True, capture_output=True)
        data = file.read_bytes()
        listed.append(
            f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    (archive / "Packages").write_text("\n".join(listed))
    sources = folder / "etc/apt/sources.list"
    sources.parent.mkdir(parents=True)
    sources.write_text("deb [trusted=yes] file:/srv/apt ./\n")


# Indexes


def wheel(
    folder: Path, project: str, version: str, files: Mapping[str, bytes], requires: Iterable[str] = ()
) -> Path:
    """Write a wheel for any Python, with a RECORD that is true, into the folder of an index."""
    normal = project.replace("-", "_")
    info = f"{normal}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {wanted}\n" for wanted in requires)
    all_files = dict(files) | {
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in all_files.items()
    )
    target = folder / canonicalize_name(project) / f"{normal}-{version}-py3-none-any.whl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in (all_files | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}).items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return target


def tree(name: str) -> dict[str, bytes]:
    """Return the files of a folder of stand-ins, by path."""
    root = STAND_INS / name
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def listed(index: Path) -> None:
    """Write the page of every project of an index."""
    for folder in index.iterdir():
        files = sorted(path for path in folder.iterdir() if path.suffix != ".html")
        links = [
            f'<a href="{path.name.replace("+", "%2B")}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">'
            f"{path.name}</a>\n"
            for path in files
        ]
        (folder / "index.html").write_text("".join(links))


def anything(folder: Path, requirements: Iterable[str]) -> None:
    """Put a wheel of one module on an index for every requirement that nothing else stands in for."""
    for requirement in map(Requirement, requirements):
        project = canonicalize_name(requirement.name)
        there = [parse_wheel_filename(path.name)[1] for path in (folder / project).glob("*.whl")]
        if any(requirement.specifier.contains(version) for version in there):
            continue
        bounds = sorted(each.version for each in requirement.specifier if each.operator in ("==", ">=", "~="))
        version = bounds[-1] if bounds else "1.0"
        wheel(folder, project, version, {f"{project.replace('-', '_')}_standin.py": b""})


def backends(folder: Path, store: Path) -> None:
    """Put the real build backends on an index: from the store, or fetched into it."""
    files = [
        LockedFile(project=f.project, filename=f.file, sha256=f.sha256, size=f.size, index=None, kind="simple")
        for f in shipped_lock("vllm-debian").wheels("vllm.build")
        if f.project in _BACKENDS
    ]
    found = fetch_wheels(
        [*files, SETUPTOOLS], store=Store(store), mirrors=load_mirrors(REPOSITORY, None), story=Silent()
    )
    for file in (*files, SETUPTOOLS):
        place = folder / file.project / file.filename
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found[file.sha256], place)


def sdist(folder: Path, project: str, version: str, files: Mapping[str, bytes]) -> None:
    """Write a source archive into the folder of an index."""
    normal = project.replace("-", "_")
    target = folder / project / f"{normal}-{version}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{normal}-{version}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


# Repositories


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A bare repository, and the working copy it is changed with."""

    bare: Path
    work: Path

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.work, env=_GIT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, files: Mapping[str, bytes], *, tag: str | None = None, branch: str = "main") -> str:
        """Commit some files on a branch, with a tag on it if one is named, and return the commit."""
        self.git("checkout", "--quiet", "-B", branch)
        for name, data in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "-m", "change")
        if tag is not None:
            self.git("tag", "--force", "--annotate", "-m", tag, tag)
        self.git("push", "--quiet", "--force", "--follow-tags", str(self.bare), branch)
        return self.git("rev-parse", "HEAD")


def repository(folder: Path, name: str) -> Repository:
    """Make an empty bare repository that is reached as folder/NAME."""
    made = Repository(bare=folder / name, work=folder.parent / "work" / name)
    for path, bare in ((made.bare, ["--bare"]), (made.work, [])):
        path.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", "-b", "main", *bare, path], env=_GIT, check=True)
    return made
