"""From a recipe to the contract of its image. Values only; the image itself is not looked at."""

from __future__ import annotations

from collections.abc import Mapping

from builder import patchledger, render
from builder.grammar import in_bytes
from builder.lockfile import Lock
from builder.project import Prepared
from builder.recipe import Recipe
from builder.smoke.contract import ComponentVersion, Contract
from builder.smoke.lockedset import AtHand, locked_set
from builder.smoke.promises import PatchPromise
from builder.smoke.pythonset import Accepted, PythonSet


def promised(prepared: Prepared, *, wheel: AtHand = lambda _: None) -> Contract:
    """Return what the smoke tests hold an image of this project to. `wheel` returns a file by its sha256."""
    return contract(
        prepared.recipe, fingerprint=prepared.fingerprint, packaged=_packaged(prepared),
        layers=prepared.rendered().owners, patches=_patches(prepared.recipe, prepared.lock),
        python_set=locked_set(prepared, wheel),
    )  # fmt: skip


def contract(
    recipe: Recipe,
    *,
    fingerprint: str,
    packaged: Mapping[str, str] | None = None,
    layers: tuple[str, ...] = (),
    patches: tuple[PatchPromise, ...] = (),
    python_set: PythonSet | None = None,
) -> Contract:
    """Return what the smoke tests hold an image of this recipe to.

    `packaged` maps the distributions that come from Debian packages to those: Debian adds to their versions.
    `layers` says who owns each layer that the image adds to its base, bottom first.
    """
    image, smoke = recipe.image, recipe.smoke
    components = tuple(
        ComponentVersion(
            name=component.name, version=component.version,
            apt=component.apt or (packaged or {}).get(component.base or ""),
            distribution=component.distribution,
        )
        for component in recipe.component
    )  # fmt: skip
    distributions = {component.name: component.distribution for component in recipe.component}
    pairs = [(distributions[importer], distributions[provider]) for importer, provider in recipe.contracts]
    return Contract(
        image=recipe.name, user=f"{image.uid}:{image.uid}", user_name=image.user, workdir=image.workdir,
        env=render.served_environment(recipe, fingerprint=fingerprint), writable=image.writable, gfx=recipe.gfx,
        components=components, imports=smoke.imports, absent=smoke.absent, jit=smoke.jit,
        triton_gfx=smoke.triton_gfx or recipe.gfx, hip_gfx=smoke.hip_gfx or recipe.gfx,
        packages={"base.build": recipe.base.build.apt, "base.runtime": recipe.base.runtime.apt}, shm=image.shm,
        engine=recipe.engine, fingerprint=fingerprint, entrypoint=image.entrypoint, cmd=image.cmd,
        argv=smoke.argv, serve=smoke.serve, loaders=smoke.loaders, paths=smoke.paths,
        required=smoke.env.required, allowed=smoke.env.allowed, forbidden=smoke.env.forbidden, ships=smoke.ships,
        sizes={name: in_bytes(size) for name, size in smoke.sizes.items()}, layers=layers,
        contracts=tuple((importer, provider) for importer, provider in pairs if importer and provider),
        devices=image.devices, groups=image.groups, labels=render.labels(recipe, fingerprint=fingerprint),
        patches=patches, python_set=python_set, rocm=recipe.rocm, dlopen=smoke.dlopen,
        accepted=tuple(
            Accepted(finding=each.finding, subject=each.subject, reason=each.reason, until=each.until)
            for each in smoke.accept
        ),
    )  # fmt: skip


def _packaged(prepared: Prepared) -> dict[str, str]:
    """Return which distributions come from Debian packages, in the image or in those it is built on."""
    base = prepared.below.get(prepared.recipe.base.runtime.recipe or "")
    own = {c.distribution or c.name: c.apt for c in prepared.recipe.component if c.apt is not None}
    return (_packaged(base) if base is not None else {}) | own


def _patches(recipe: Recipe, lock: Lock) -> tuple[PatchPromise, ...]:
    """Return what the smoke tests hold the patches of an image to."""
    found = []
    for patch in recipe.patch:
        probe = patch.shown_by
        shown = {} if probe is None else {
            "module": probe.module, "expression": probe.expression, "after": probe.after
        }  # fmt: skip
        found.append(
            PatchPromise(
                name=patch.name, target=patch.target, kind=patch.kind,
                optional=patch.hook is not None and patch.hook.optional,
                sha256=patchledger.patch_hash(recipe, lock, patch), **shown,
            )
        )  # fmt: skip
    return tuple(found)
