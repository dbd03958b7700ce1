"""The stages of a Dockerfile that are about patches: edited trees, hooks, and the proof that both have an effect.

Every probe is evaluated where its patch is not and where it is. What that comes to is a layer of the image, so
that no image is made without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.dockerfile import Mount, environment, run
from builder.patchset import base_patches, hook_patches, installed_patches, unpatched
from builder.recipe import Recipe

_PROBING: tuple[Mount, ...] = (("patches", "/mnt"), ("tools/probe-patches", "/media"))
_PROGRAM = "/media/probe_patches.py"


def edited_stage(layer: str, time: str) -> str:
    """Return the stage of a component whose files are edited after it was installed."""
    installed = f"installed-{layer}"
    mounts: tuple[Mount, ...] = (
        (f"edits/{layer}", "/mnt"), ("tools/edit-tree", "/media"), (installed, "/out", "/srv"),
    )  # fmt: skip
    step = run(mounts, "python3", "/media/edit_tree.py", time, "/srv")
    return f"FROM {installed} AS component-{layer}\n{step}\n"


def added_stages(recipe: Recipe, time: str) -> list[str]:
    """Return the stages of the layers that patches add: edited files of the base, and hooks."""
    stages = []
    if base_patches(recipe):
        step = run(
            (("base-edits", "/mnt"), ("tools/edit-tree", "/media")), "python3", "/media/edit_tree.py", time, "/"
        )
        stages.append(f"FROM runtime-packages AS edits\n{step}\n")
    if hook_patches(recipe):
        mounts = (("hooks", "/mnt"), ("tools/install-hooks", "/media"))
        stages.append(
            f"FROM runtime-packages AS hooks\n{run(mounts, 'python3', '/media/install_hooks.py', time)}\n"
        )
    return stages


def probe_stages(recipe: Recipe, stacked: Sequence[str], served: Mapping[str, str], time: str) -> list[str]:
    """Return the stages that try the patches and write the ledger; `served` is the image's environment."""
    before = {component.name for component in unpatched(recipe)}
    edits, hooks = bool(base_patches(recipe)), bool(hook_patches(recipe))
    stages = []
    mounts: list[Mount] = list(_PROBING)
    if before:
        origins = [_origin(layer, recipe) if layer in before else f"component-{layer}" for layer in stacked]
        rest = edits and not before & {patch.target for patch in base_patches(recipe)}
        lines = [
            "FROM runtime-packages AS unpatched",
            *_copies(origins + (["edits"] if rest else [])),
            environment(served),
        ]
        stages.append("\n".join([*lines, run(_PROBING, "python3", _PROGRAM, "unpatched")]) + "\n")
        mounts.append(("unpatched", "", "/srv/unpatched"))
    origins = [f"component-{layer}" for layer in stacked] + (["edits"] if edits else [])
    stages.append("\n".join(["FROM runtime-packages AS patched", *_copies(origins), environment(served)]) + "\n")
    if hooks:
        stages.append(f"FROM patched AS probed\n{run(_PROBING, 'python3', _PROGRAM, 'patched')}\n")
        mounts.append(("probed", "", "/srv/patched"))
    edited = [c.name for c in recipe.component if c.is_layer and installed_patches(recipe, c)]
    mounts += [(f"component-{name}", "", f"/srv/edits/{name}") for name in edited]
    mounts += [("edits", "", "/srv/base-edits")] if edits else []
    lines = ["FROM patched AS probes", *(_copies(["hooks"]) if hooks else ())]
    stages.append("\n".join([*lines, run(mounts, "python3", _PROGRAM, "judge", time)]) + "\n")
    return stages


def _origin(layer: str, recipe: Recipe) -> str:
    component = next(component for component in recipe.component if component.name == layer)
    return f"unpatched-{layer}" if component.source is not None else f"installed-{layer}"


def _copies(stages: Sequence[str]) -> list[str]:
    return [f"COPY --link --from={stage} /out/ /" for stage in stages]
