"""From recipe and lock to the Python distributions that an image has to have, and where its wheels lie at hand.

Reads the RECORD of wheels that are in the store; fetches nothing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.patchset import edited_files, installed_patches
from builder.project import Prepared
from builder.smoke.inside.records import identity
from builder.smoke.pythonset import LockedDistribution, PythonSet

AtHand = Callable[[str], Path | None]


def locked_set(prepared: Prepared, wheel: AtHand) -> PythonSet:
    """Return what an image and those it is built on have to have. `wheel` returns a file by its sha256."""
    recipe, lock = prepared.recipe, prepared.lock
    under = prepared.below.get(recipe.base.runtime.recipe or "")
    below = locked_set(under, wheel) if under is not None else PythonSet(foreign_base=recipe.base.runtime.image)
    found = {each.project: each for each in below.distributions}
    for file in lock.served:
        at = wheel(file.sha256)
        found[file.project] = LockedDistribution(
            project=file.project, version=file.version, layer=file.layer, file=file.file, sha256=file.sha256,
            record=_record(at) if at is not None else None,
        )  # fmt: skip
    named = {
        canonicalize_name(component.distribution): component
        for component in recipe.component
        if component.distribution is not None
    }
    for name, component in named.items():
        if component.is_python_build:
            found[name] = LockedDistribution(project=name, version=component.version, layer=component.name)
    for component in recipe.component:
        name = canonicalize_name(component.distribution or "")
        if name in found and installed_patches(recipe, component):  # other files on purpose: the ledger has them
            found[name] = replace(found[name], record=None)
    debian = {canonicalize_name(c.name): c.apt for c in recipe.component if c.apt is not None and c.protected}
    ours = {name: c.requires for name, c in named.items() if c.requires is not None}
    return PythonSet(
        distributions=tuple(found[name] for name in sorted(found)),
        debian=dict(below.debian) | debian,
        protected=tuple(sorted({*below.protected, *(name for name, c in named.items() if c.protected)})),
        requires=dict(below.requires) | ours,
        extras=dict(below.extras) | {name: c.extras for name, c in named.items() if c.extras},
        forbid=tuple(sorted({*below.forbid, *recipe.forbid})),
        foreign_base=below.foreign_base,
        edited=tuple(sorted({*below.edited, *edited_files(recipe)})),
    )


def _record(path: Path) -> str | None:
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD") and name.count("/") == 1]
        return identity(wheel.read(names[0]).decode("utf-8")) if len(names) == 1 else None
