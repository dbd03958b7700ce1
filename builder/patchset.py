"""Which patches of a recipe change what, what they depend on, and whether they are for what is pinned.

Pure: what a patch does to a tree is `patches`', what an installed file becomes is decided in its build step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from builder.errors import PatchError
from builder.patchtables import Patch
from builder.recipe import Component, Recipe

# What of a patch says why it is there, and changes nothing that is built.
_WORDS = {"name", "target", "probe", "reason", "upstream", "drop_when", "acknowledge_redundant"}


def target_of(recipe: Recipe, patch: Patch) -> Component:
    """Return the component a patch is for."""
    return next(component for component in recipe.component if component.name == patch.target)


def patched_source(recipe: Recipe, patch: Patch) -> str | None:
    """Return the source whose tree a patch changes; None for a hook, and for what changes an installed tree."""
    return None if patch.hook is not None else target_of(recipe, patch).source


def source_patches(recipe: Recipe, source: str) -> tuple[Patch, ...]:
    """Return the patches of a source, in order; all components that are built from it get them."""
    return tuple(patch for patch in recipe.patch if patched_source(recipe, patch) == source)


def installed_patches(recipe: Recipe, component: Component) -> tuple[Patch, ...]:
    """Return the edits and overlays of a component that is installed as it is, in order."""
    if component.source is not None:
        return ()
    return tuple(patch for patch in recipe.patch if patch.target == component.name and patch.hook is None)


def edited_files(recipe: Recipe) -> tuple[str, ...]:
    """Return the files that patches change in installed trees, below `site-packages`."""
    patches = [patch for component in recipe.component for patch in installed_patches(recipe, component)]
    changes = [patch.edit or patch.overlay for patch in patches]
    return tuple(change.file for change in changes if change is not None)


def base_patches(recipe: Recipe) -> tuple[Patch, ...]:
    """Return the edits and overlays of what the runtime stage has already, in order."""
    there = {component.name for component in recipe.component if not component.is_layer}
    return tuple(patch for patch in recipe.patch if patch.target in there and patch.hook is None)


def hook_patches(recipe: Recipe) -> tuple[Patch, ...]:
    """Return the hooks, in order."""
    return tuple(patch for patch in recipe.patch if patch.hook is not None)


def unpatched(recipe: Recipe) -> tuple[Component, ...]:
    """Return the components that are made without their patches as well, because a probe compares both."""
    names = {patch.target for patch in recipe.patch if patch.hook is None and patch.probe is not None}
    return tuple(component for component in recipe.component if component.name in names)


def change_of(patch: Patch) -> dict[str, object]:
    """Return what a patch does, without why and until when, as a value for JSON."""
    return patch.model_dump(by_alias=True, exclude=_WORDS, exclude_none=True, mode="json")


def asked_of(recipe: Recipe, patch: Patch) -> dict[str, object] | None:
    """Return what a patch asks its lock for: a tree that is patched, and files; None where it asks for nothing."""
    source = patched_source(recipe, patch)
    if source is not None:
        beside = [other.name for other in source_patches(recipe, source)]
        return {"source": source, "place": beside.index(patch.name), **change_of(patch)}
    return {"target": patch.target, "files": list(patch.files)} if patch.files else None


def series_sources(recipe: Recipe, names: Iterable[str]) -> frozenset[str]:
    """Return the sources that series for some sources are taken from."""
    wanted = frozenset(names)
    return frozenset(
        patch.series.source
        for patch in recipe.patch
        if patch.series is not None and patch.series.source and patched_source(recipe, patch) in wanted
    )


def pins_of(recipe: Recipe, trees: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return what each source is pinned to; of a folder what `trees`, its tree in the lock, has."""
    return {
        name: source.commit or source.version or source.sha256 or trees.get(name)
        for name, source in recipe.source.items()
    }


def require_made_for(recipe: Recipe, pins: Mapping[str, str | None], *, file: str) -> None:
    """Raise `PatchError` for every series that was made for another pin than its target's source has.

    `pins` are what the sources are pinned to, as `pins_of` returns them; nothing is said of one without.
    """
    found = []
    for patch in recipe.patch:
        source = patched_source(recipe, patch)
        pin = pins.get(source or "")
        if patch.series is not None and pin is not None and patch.series.made_for != pin:
            found.append(
                f"{file}: patch.{patch.name}.series.made-for: made for {source} {patch.series.made_for}, "
                f"the recipe pins {pin}"
            )
    if found:
        raise PatchError(
            "\n".join(found),
            hint="see what still applies with 'rocm-images patches', then move the series and made-for together",
        )
