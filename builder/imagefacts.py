"""From a recipe and its lock to the facts that compatibility rules are about. Looks nothing up."""

from __future__ import annotations

import re
from collections.abc import Mapping

from builder.compat import Override
from builder.facts import Facts
from builder.lockfile import Lock
from builder.openpins import STAND_INS
from builder.recipe import Recipe

_RELEASES = {
    "bookworm": "debian-12", "trixie": "debian-13", "forky": "debian-14", "jammy": "ubuntu-22.04",
    "noble": "ubuntu-24.04",
}  # fmt: skip
_DISTRIBUTION = re.compile(r"(?<![a-z])(ubuntu|debian)[-_:]?([0-9]{2}(?:\.[0-9]{2})?)(?![0-9])")
_RELEASE = re.compile(rf"(?<![a-z])({'|'.join(_RELEASES)})(?![a-z])")


def facts_of(
    recipe: Recipe,
    lock: Lock | None,
    *,
    file: str,
    asks: Mapping[str, Mapping[str, str]] | None = None,
    mirrored: frozenset[str] = frozenset(),
) -> Facts:
    """Return the facts of an image. `file` is its recipe, for messages.

    Versions are the locked ones where there is a lock, with their local part, also of what no component names.
    `asks` is what the metadata of locked files asks for, `mirrored` the components that are kept in a mirror.
    """
    opened = {each.pin for each in recipe.open}
    versions = {c.name: c.version for c in recipe.component if f"component.{c.name}.version" not in opened}
    kinds: dict[str, str] = {component.name: component.kind for component in recipe.component}
    owners = {component.distribution or component.name: component.name for component in recipe.component}
    for locked in lock.served if lock is not None else ():
        name = owners.get(locked.project, locked.project)
        versions[name] = locked.version
        kinds.setdefault(name, "wheel")
    sources = {
        component.name: recipe.source[component.source]
        for component in recipe.component
        if component.source is not None
    }
    return Facts(
        where=file,
        rocm=recipe.rocm,
        python=recipe.python,
        base=distribution_of(recipe),
        gfx=tuple(target.partition(":")[0] for target in recipe.gfx),
        versions=versions,
        kinds=kinds,
        tags={name: source.tag for name, source in sources.items() if source.tag is not None},
        commits={
            name: source.commit
            for name, source in sources.items()
            if source.commit not in (None, STAND_INS["commit"])
        },
        env=recipe.image.env,
        asks=dict(asks or {}),
        mirrored=mirrored,
    )


def distribution_of(recipe: Recipe) -> str | None:
    """Return what the runtime stage is made of, as `ubuntu-24.04`; None where neither suite nor name tells."""
    base = recipe.base.runtime
    if base.debian is not None:
        return _RELEASES.get(base.debian.suite)
    name = base.image.partition("@")[0] if base.image is not None else ""
    if (found := _DISTRIBUTION.search(name)) is not None:
        return f"{found[1]}-{found[2]}"
    return _RELEASES[found[1]] if (found := _RELEASE.search(name)) is not None else None


def overrides_of(recipe: Recipe) -> tuple[Override, ...]:
    """Return the exceptions of a recipe, each with its key."""
    return tuple(
        Override(rule=override.rule, reason=override.reason, until=override.until, where=f"override[{number}]")
        for number, override in enumerate(recipe.override)
    )
