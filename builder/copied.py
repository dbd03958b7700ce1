"""Makes an image that begins as a copy of another: all of its folder, under another name, without its lock."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from builder.errors import RecipeError
from builder.newrepository import check_name, renamed
from builder.workspace import Workspace

_NOT_COPIED = ("recipe.lock", "__pycache__", "*.pyc")


def copied_image(workspace: Workspace, like: str, image: str) -> Path:
    """Copy the folder of an image, and return the new recipe. All of it is there or nothing.

    Raises `RecipeError` where `like` is not there, or `image` is, or its name is none.
    """
    check_name(image)
    known = sorted(path.parent.name for path in workspace.images.glob("*/recipe.toml"))
    if like not in known:
        raise RecipeError(
            f"images/{like}: no image is called so; known: {', '.join(known) or 'none'}",
            hint=f"rocm-images new {image} --from NAME",
        )
    target = workspace.images / image
    if target.exists() or target.is_symlink():
        raise RecipeError(
            f"{workspace.shown(target)}: is there already; nothing is overwritten",
            hint=f"rocm-images new ANOTHER --from {like}",
        )
    origin = workspace.recipe(like)
    text = renamed(origin.read_text(encoding="utf-8"), image, file=workspace.shown(origin))
    part = Path(tempfile.mkdtemp(dir=workspace.images, prefix=f".{image}."))
    try:
        shutil.copytree(
            origin.parent, part, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_NOT_COPIED)
        )
        (part / "recipe.toml").write_text(text, encoding="utf-8")
        part.chmod(0o755)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return target / "recipe.toml"
