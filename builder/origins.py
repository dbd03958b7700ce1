"""Where everything in an image comes from, by recipe and lock, as values for its record.

Says nothing of an image that was built, and holds no address with a user or password in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from builder.lockfile import DEFAULT_INDEX, SORTED_JSON, DebianPackage, Lock, LockedSource, canonical
from builder.plan import floats
from builder.recipe import Base, Recipe, Source
from builder.reference import parse_reference
from builder.render import served_environment

_Stage = Literal["build", "runtime"]
_STAGES = ("base", "both", "build", "runtime")


def address(url: str) -> str:
    """Return an address without password, and without user unless it is ssh's."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0] if parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=f"{name}{at}{host}" if name else host))


def bases(recipe: Recipe, lock: Lock, below: Mapping[str, tuple[str, str]]) -> dict[str, object]:
    """Return what the two stages start from and add to it.

    `below` has, for the images of this project among them, content key and fingerprint.
    """
    stages: tuple[tuple[_Stage, Base], ...] = (("build", recipe.base.build), ("runtime", recipe.base.runtime))
    return {stage: _base(stage, base, lock, below) for stage, base in stages}


def _base(stage: _Stage, base: Base, lock: Lock, below: Mapping[str, tuple[str, str]]) -> dict[str, object]:
    made: dict[str, object] = {}
    if base.image is not None:
        made = {"image": base.image, "digest": str(parse_reference(base.image).digest)}
    elif base.debian is not None:
        made = {"debian": base.debian.suite, "areas": list(base.debian.components)}
        made |= {"also": base.debian.added} if base.debian.also else {}
        made["packages"] = packages_hash(lock.packages("base"))
    elif base.recipe is not None:
        content_key, fingerprint = below[base.recipe]
        made = {"recipe": base.recipe, "content-key": content_key, "fingerprint": fingerprint}
    if base.apt:
        made["apt"] = sorted(base.apt)
        # What is taken from an archive that nothing pins has no hash.
        made["added"] = None if floats(base, lock, stage) else packages_hash(lock.packages(stage))
    return made


def base_in_words(base: Mapping[str, Any] | str) -> str:
    """Return what a stage starts from in short, of an entry that `bases` made."""
    if isinstance(base, str):
        return base
    more = f" with {', '.join(base['also'])}" if base.get("also") else ""
    return str(base.get("image") or base.get("recipe") or f"debian {base.get('debian')}{more}")


def packages_hash(packages: Iterable[DebianPackage]) -> str:
    """Return the hash over names, versions and hashes of Debian packages."""
    listed = {package.name: [package.version, package.sha256] for package in packages}
    return f"sha256:{hashlib.sha256(canonical(listed)).hexdigest()}"


def packages(lock: Lock) -> dict[str, dict[str, str]]:
    """Return the Debian packages by the stage that has them, each with its version."""
    found = {stage: {p.name: p.version for p in lock.deb if p.stage == stage} for stage in _STAGES}
    return {stage: dict(sorted(named.items())) for stage, named in found.items() if named}


def distributions(lock: Lock) -> list[dict[str, object]]:
    """Return the Python distributions by layer, those that components are built with among them."""
    return [
        {
            "name": file.project, "version": file.version, "layer": file.layer, "file": file.file,
            "sha256": file.sha256, "index": address(file.index or DEFAULT_INDEX),
        }
        for file in sorted(lock.python, key=lambda file: (file.layer, file.project))
    ]  # fmt: skip


def sources(recipe: Recipe, lock: Lock) -> dict[str, object]:
    """Return the pinned trees by name: where each is from, its tree as it is there, and with the patches."""
    return {name: _source(source, lock.source[name]) for name, source in sorted(recipe.source.items())}


def _source(source: Source, locked: LockedSource) -> dict[str, object]:
    made: dict[str, object | None]
    if source.git is not None:
        modules = [{"path": m.path, "git": address(m.url), "commit": m.commit} for m in locked.submodule]
        made = {
            "git": address(source.git), "tag": source.tag, "branch": source.branch, "commit": source.commit,
            "submodules": modules or None,
        }  # fmt: skip
    elif source.sdist is not None:
        index = address(locked.index or DEFAULT_INDEX)
        made = {"sdist": source.sdist, "version": source.version, "file": locked.file, "index": index}
    elif source.archive is not None:
        made = {"archive": address(source.archive)}
    else:
        made = {"path": source.path}
    made |= {"sha256": locked.sha256, "tree": locked.tree, "patched": locked.patched, "built": locked.built}
    return {key: value for key, value in made.items() if value is not None}


def contract(recipe: Recipe, *, fingerprint: str) -> dict[str, object]:
    """Return what the image promises to whoever runs it, as it is built: placeholders filled in."""
    declared = recipe.image.model_dump(by_alias=True, mode="json")
    return declared | {"env": served_environment(recipe, fingerprint=fingerprint)}


def in_short(table: Mapping[str, Any]) -> dict[str, str]:
    """Return what went into an image as one flat table, to be compared: versions, commits and digests by name."""
    flat: dict[str, object] = {key: table[key] for key in ("gfx", "python", "engine")}
    flat |= {f"component.{each['name']}": each for each in table["components"]}
    flat |= {f"base.{stage}": base for stage, base in table["bases"].items()}
    flat |= {f"source.{name}": source for name, source in table["sources"].items()}
    flat |= {f"kv-cache.{key}": value for key, value in table["kv-cache"].items()}
    flat |= {f"image.{key}": value for key, value in table["contract"].items()}
    for each in table["distributions"]:
        flat[f"wheel.{each['name']}"] = {"version": each["version"], "sha256": each["sha256"]}
    for named in table["packages"].values():
        flat |= {f"deb.{name}": version for name, version in named.items()}
    return {key: SORTED_JSON(value) for key, value in sorted(flat.items())}
