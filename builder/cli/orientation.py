"""What `rocm-images` alone says: what there is here, how far each image is, and the command that comes next.

It looks at which files there are and into none but the record of what was published, so that it answers at once.
"""

from __future__ import annotations

import json
from pathlib import Path

from builder.errors import RecipeError
from builder.workspace import Workspace, find_workspace

_MOST = 12  # images that are shown

_WAY = """\
The way of an image:
  rocm-images check NAME           recipe and lock, without an engine
  rocm-images lock NAME            resolve what the recipe leaves open
  rocm-images build NAME           build it, test it; with --publish HOST/NAMESPACE: publish and pin
  rocm-images pin NAME             what a deployment pins
"""
_MORE = """\
Every command tells what it does, with examples: rocm-images COMMAND --help. All of them: rocm-images --help.
"""
_NOTHING_HERE = """\
There is no images/ folder here or above. To begin:
  rocm-images init FOLDER          a new repository of recipes, with a small one to begin with
  rocm-images adopt DOCKERFILE     a draft of a recipe from a Dockerfile that you have
  rocm-images inspect REFERENCE    what is in an image, anybody's; nothing is pulled
  rocm-images doctor               what this machine lacks, and the command that gets it
"""


def orientation(folder: Path) -> str:
    """Return the words for whoever stands in `folder`."""
    first = "rocm-images builds, smoke-tests and pins container images of ROCm LLM engines.\n"
    try:
        workspace = find_workspace(folder.absolute())
    except RecipeError:
        return "\n".join((first, _NOTHING_HERE, _MORE))
    names = image_names(workspace)
    if not names:
        here = f"{workspace.images} has no image yet: rocm-images new, init or adopt makes one.\n"
        return "\n".join((first, here, _MORE))
    states = [(name, *_state(workspace, name)) for name in names]
    width = max(len(name) for name in names[:_MOST])
    lines = [f"{len(names)} image{'s' if len(names) > 1 else ''} in {workspace.root}:"]
    lines += [f"  {name:{width}}  {state}" for name, state, _ in states[:_MOST]]
    if len(names) > _MOST:
        lines.append(f"  and {len(names) - _MOST} more: rocm-images list")
    command = next((command for _, _, command in states if command is not None), None)
    lines += ["", f"Next: {command or 'rocm-images plan, which says what has changed since'}", ""]
    return "\n".join((first, *lines, _WAY, _MORE))


def image_names(workspace: Workspace) -> tuple[str, ...]:
    """Return the images of a workspace by name; a recipe need not be right for that."""
    return tuple(sorted(path.parent.name for path in workspace.images.glob("*/recipe.toml")))


def _state(workspace: Workspace, name: str) -> tuple[str, str | None]:
    """Return how far an image is, and what to do next for it."""
    if not workspace.lock(name).is_file():
        return "has no lock", f"rocm-images lock {name}"
    try:
        reference = json.loads(workspace.pin(name).read_text(encoding="utf-8"))["reference"]
    except (OSError, ValueError, KeyError, TypeError):
        return "is locked, and not published from here yet", f"rocm-images build {name}"
    return "".join(char if char.isprintable() else "?" for char in str(reference)), None
