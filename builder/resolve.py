"""From a recipe to its lock: asks apt and uv what the recipe leaves open, and hashes what lies beside it."""

from __future__ import annotations

import fnmatch
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import tomli
import tomli_w
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder import debian, process
from builder.errors import EngineError, LockError, RecipeError
from builder.lockfile import DEPENDENCIES, SCHEMA, DebianPackage, Lock, LockedSource, PythonFile, asked
from builder.mirrors import Mirrors
from builder.project import tree_hash
from builder.recipe import Component, Recipe
from builder.story import Story

_NEWEST_GLIBC_OF_UV = 40  # the newest `manylinux_2_N` platform uv knows
_OLDEST_GLIBC = 5
_GLIBC_WITHOUT_LOCK = 28  # what an image base is assumed to have at least


def make_lock(
    recipe: Recipe,
    *,
    folder: Path,
    mirrors: Mirrors,
    story: Story,
    old: Lock | None = None,
    update: str | None = None,
) -> Lock:
    """Resolve everything a recipe leaves open.

    `folder` is the recipe's. With `old` and `update`, only the component of that name (or 'debian') is resolved
    anew, and every other version stays as locked.
    """
    file = f"images/{folder.name}/recipe.toml"
    keep_debian = old is not None and update not in (None, "debian")
    keep_python = old is not None and update == "debian"
    packages, epoch = (old.deb, old.epoch) if old is not None and keep_debian else ((), 0)
    base = recipe.base.runtime.debian or recipe.base.build.debian
    if base is not None and not keep_debian:
        mirror = mirrors.debian_mirror()
        if mirror.allow_expired:
            story.warn(f"Release files that have expired are accepted from {mirror.url} ({mirror.origin})")
        with story.step(f"resolving Debian {base.suite} packages from {mirror.url} ({mirror.origin})"):
            wanted = {
                stage: of.apt if of.debian is not None else ()
                for stage, of in (("build", recipe.base.build), ("runtime", recipe.base.runtime))
            }
            found = debian.resolve(
                base, build=wanted["build"], runtime=wanted["runtime"], mirror=mirror, file=file
            )
        packages, epoch = found.packages, found.epoch
        _check_apt_versions(recipe, packages, file=file)
    glibc = _glibc({package.name: package.version for package in packages})
    if old is not None and keep_python:
        python = old.python
    else:
        pinned = {} if old is None or update is None else _kept(recipe, old, update)
        with story.step(f"resolving the Python {recipe.python} set for glibc 2.{glibc}"):
            python = resolve_python(recipe, glibc=glibc, mirrors=mirrors, pinned=pinned, file=file)
    sources = {name: LockedSource(tree=tree_hash(folder / source.path)) for name, source in recipe.source.items()}
    return Lock(
        schema=SCHEMA,
        image=recipe.name,
        epoch=epoch,
        asked=asked(recipe),
        source=sources,
        deb=packages,
        python=python,
    )


def _check_apt_versions(recipe: Recipe, packages: Sequence[DebianPackage], *, file: str) -> None:
    """Refuse an archive whose package has another upstream version than the component pins."""
    versions = {package.name: package.version for package in packages}
    for component in recipe.component:
        if component.apt is None:
            continue
        have = upstream_version(versions[component.apt])
        if have != component.version:
            raise LockError(
                f"{file}: component.{component.name}.version: the recipe pins {component.version}, "
                f"the archive has {have} ({component.apt} {versions[component.apt]})",
                hint=f"set version = {have!r} if that is wanted, or name a mirror that has the other",
            )


def upstream_version(debian_version: str) -> str:
    """Return the upstream part of a Debian version: without epoch, revision, and the marks Debian adds.

    `1.2+really1.1` is what an archive calls 1.1 after it had 1.2 (Debian developer's reference, 5.6.3).
    """
    version = debian_version.partition(":")[2] or debian_version
    version = version.rpartition("-")[0] or version
    version = version.rpartition("+really")[2] or version
    return re.split(r"[+~](?:dfsg|ds|repack)[0-9.]*|[+~](?:deb|bpo)[0-9]+|\+(?:b|nmu)[0-9]+$", version)[0]


def _glibc(packages: Mapping[str, str]) -> int:
    match = re.match(r"2\.([0-9]+)", packages.get("libc6", ""))
    return int(match[1]) if match else _GLIBC_WITHOUT_LOCK


def _kept(recipe: Recipe, old: Lock, update: str) -> dict[str, str]:
    """Return the versions that stay when only `update` may change."""
    names = {component.name for component in recipe.component}
    if update not in names:
        raise RecipeError(
            f"no component is called {update!r}", hint=f"known: {', '.join(sorted(names | {'debian'}))}"
        )
    return {file.project: file.version for file in old.python if file.layer == DEPENDENCIES}


def resolve_python(
    recipe: Recipe, *, glibc: int, mirrors: Mirrors, pinned: Mapping[str, str], file: str
) -> tuple[PythonFile, ...]:
    """Have uv resolve the wheels of the image's own Python and platform, the recipe's pins as constraints.

    Distributions that the base brings are offered to the resolver at their version, and left out of the result.
    """
    if not recipe.wheels:
        return ()
    with tempfile.TemporaryDirectory(prefix="rocm-images-uv.") as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text(tomli_w.dumps(_project(recipe, folder, mirrors, pinned)))
        done = _compile(recipe, folder, glibc, mirrors, "--format", "pylock.toml", "--output-file", "pylock.toml")
        if done.status:
            raise _no_resolution(done, file)
        resolved = tomli.loads((folder / "pylock.toml").read_text())
        files = tuple(_chosen(package, recipe, glibc, file=file) for package in resolved.get("packages", []))
        _refuse_forbidden(files, recipe, folder, glibc, mirrors, file)
    provided = {canonicalize_name(component.name) for component in recipe.component if component.apt is not None}
    return tuple(sorted((f for f in files if f.project not in provided), key=lambda f: f.project))


def _project(recipe: Recipe, folder: Path, mirrors: Mirrors, pinned: Mapping[str, str]) -> dict[str, object]:
    """Write the question to uv as a project file, its documented way to tie a distribution to an index."""
    provided = [component for component in recipe.component if component.apt is not None]
    (folder / "provided").mkdir()
    for component in provided:
        _write_stand_in(folder / "provided", component)
    metadata = [
        {"name": component.wheel, "version": component.version, "requires-dist": list(component.requires)}
        for component in recipe.wheels
        if component.requires is not None
    ] + [{"name": component.name, "version": component.version, "requires-dist": []} for component in provided]
    indexes = sorted({component.index for component in recipe.wheels if component.index is not None})
    names = {index: f"index-{number}" for number, index in enumerate(indexes)}
    return {
        "project": {
            "name": "rocm-images-resolution", "version": "0", "requires-python": f"=={recipe.python}.*",
            "dependencies": [f"{component.wheel}=={component.version}" for component in recipe.wheels],
        },
        "tool": {"uv": {
            "find-links": [str(folder / "provided")],
            "dependency-metadata": metadata,
            "constraint-dependencies": [f"{c.name}=={c.version}" for c in provided]
            + [f"{project}=={version}" for project, version in sorted(pinned.items())],
            "index": [{"name": names[i], "url": mirrors.index(i) or i, "explicit": True} for i in indexes],
            "sources": {c.wheel: {"index": names[c.index]} for c in recipe.wheels if c.index is not None},
        }},
    }  # fmt: skip


def _write_stand_in(folder: Path, component: Component) -> None:
    """Write an empty wheel, so that the resolver sees what the base brings as an available version."""
    project = canonicalize_name(component.name).replace("-", "_")
    info = f"{project}-{component.version}.dist-info"
    with zipfile.ZipFile(folder / f"{project}-{component.version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {component.name}\nVersion: {component.version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _compile(recipe: Recipe, folder: Path, glibc: int, mirrors: Mirrors, *output: str) -> process.Completed:
    from uv import find_uv_bin

    env = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    default, bundle = mirrors.index(None), mirrors.ca_bundle()
    if default is not None:
        env["UV_DEFAULT_INDEX"] = default
    if bundle is not None:
        env["SSL_CERT_FILE"] = str(bundle)
    platform = f"x86_64-manylinux_2_{min(glibc, _NEWEST_GLIBC_OF_UV)}"
    return process.run(
        [
            find_uv_bin(), "pip", "compile", "pyproject.toml", "--quiet", "--python-version", recipe.python,
            "--python-platform", platform, "--only-binary", ":all:", *output,
        ],
        cwd=folder, env=env,
    )  # fmt: skip


def _no_resolution(done: process.Completed, file: str) -> EngineError | LockError:
    text = done.stderr
    if any(word in text for word in ("error sending request", "dns error", "tcp connect error", "timed out")):
        return EngineError("the Python index cannot be reached", details=done.tail, hint="see docs/mirrors.md")
    return LockError(f"{file}: the pinned components cannot be installed together", details=done.tail)


def _chosen(package: Mapping[str, object], recipe: Recipe, glibc: int, *, file: str) -> PythonFile:
    """Return the wheel of a resolved distribution that suits the image's interpreter best.

    A component's wheel has exactly the version that is pinned: `==` alone would take `2.11.0+cpu` for 2.11.0.
    """
    project, version = str(package["name"]), str(package["version"])
    owner = next((c for c in recipe.wheels if canonicalize_name(c.wheel or "") == project), None)
    if owner is not None and owner.version != version:
        raise LockError(
            f"{file}: component.{owner.name}.version: the recipe pins {owner.version}, its index has {version}",
            hint=f"set version = {version!r} if that is wanted, or name the index that has the other",
        )
    ranks = {tag: rank for rank, tag in enumerate(_tags(recipe.python, glibc))}
    wheels = package.get("wheels")
    names = [(_wheel_name(wheel), wheel) for wheel in wheels] if isinstance(wheels, list) else []
    fitting: list[tuple[int, tuple[int, str], str, Mapping[str, object]]] = []
    for name, wheel in names:
        try:
            _, _, build, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in tags if tag in ranks), default=None)
        if rank is not None:
            number, suffix = build or (-1, "")
            fitting.append((rank, (-number, suffix), name, wheel))
    if not fitting:
        raise LockError(
            f"{file}: {project} {version} has no wheel for Python {recipe.python} on glibc 2.{glibc}",
            details=tuple(sorted(name for name, _ in names)),
        )
    _, _, name, wheel = min(fitting, key=lambda each: each[:3])
    hashes, size = wheel["hashes"], wheel.get("size")
    return PythonFile(
        project=project, version=version, file=name, size=size if isinstance(size, int) else None,
        sha256=hashes["sha256"] if isinstance(hashes, dict) else "", index=owner.index if owner else None,
        layer=owner.name if owner else DEPENDENCIES,
    )  # fmt: skip


def _wheel_name(wheel: Mapping[str, object]) -> str:
    return str(wheel.get("name") or unquote(urlsplit(str(wheel["url"])).path.rpartition("/")[2]))


def _tags(python: str, glibc: int) -> list[Tag]:
    version = tuple(int(part) for part in python.split("."))
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(glibc, _OLDEST_GLIBC - 1, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    interpreter = f"cp{version[0]}{version[1]}"
    return [*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)]


def _refuse_forbidden(
    files: Sequence[PythonFile], recipe: Recipe, folder: Path, glibc: int, mirrors: Mirrors, file: str
) -> None:
    found = [f.project for f in files if any(fnmatch.fnmatch(f.project, pattern) for pattern in recipe.forbid)]
    if not found:
        return
    tree = _compile(recipe, folder, glibc, mirrors, "--annotation-style", "line", "--no-header").stdout
    askers = [line.strip() for line in tree.splitlines() if line.partition("==")[0].strip() in found]
    raise LockError(
        f"{file}: forbid: the resolved set would contain {', '.join(found)}",
        details=tuple(askers),
        hint="leave it out with 'requires' and a 'reason' on the component that asks for it",
    )


def told(old: Lock | None, new: Lock) -> tuple[str, ...]:
    """Return, in words, which versions a new lock has changed."""
    if old is None:
        return (f"{len(new.deb)} Debian packages and {len(new.python)} Python distributions locked",)
    before = {f"deb {p.name}": p.version for p in old.deb} | {f.project: f.version for f in old.python}
    after = {f"deb {p.name}": p.version for p in new.deb} | {f.project: f.version for f in new.python}
    return tuple(
        f"{name}: {before.get(name, 'not there')} -> {after.get(name, 'gone')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ) or ("nothing changed",)
