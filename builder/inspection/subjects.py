"""From what somebody names - an image, a record, a lock, a revision, a reference - to a side of a comparison."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from builder import compare
from builder.compare import Side
from builder.errors import LockError, RecipeError
from builder.inspection.seeing import see
from builder.inspection.summing import summary_of
from builder.lockfile import parse_lock
from builder.mirrors import Mirrors
from builder.project import names, prepare
from builder.recipe import parse_recipe
from builder.record import parse_pin
from builder.reference import parse_reference
from builder.sources.revisions import Repository, as_of
from builder.story import Story
from builder.workspace import Workspace

LOCK, RECIPE = "recipe.lock", "recipe.toml"


def side_of(word: str, *, workspace: Workspace | None, mirrors: Mirrors, story: Story) -> Side:
    """Return what somebody names, to be compared.

    The name of an image of the project is its record, and its lock where there is none; `REV:IMAGE` is its recipe
    and lock at a revision of the project's repository. A lock file counts with the recipe beside it. Anything else
    is an image: in a layout, a registry or the engine.
    """
    if workspace is not None and word in names(workspace):
        record = workspace.pin(word)
        return (
            recorded(record, workspace.shown(record)) if record.is_file() else locked(workspace, word, label=word)
        )
    path = Path(word)
    if path.is_file():
        return _of_file(path)
    if workspace is not None and (found := at_revision(word, workspace)) is not None:
        commit, image = found
        with as_of(workspace, commit) as past:
            return locked(past, image, label=word)
    return summary_of(see(word, mirrors=mirrors, story=story)).side


def at_revision(word: str, workspace: Workspace) -> tuple[str, str] | None:
    """Return commit and image that `REV:IMAGE` names; None for a word that is something else."""
    try:
        parse_reference(word)
    except ValueError:
        revision, colon, image = word.rpartition(":")
        if colon and "/" not in image:
            with suppress(RecipeError):  # a project need not be in a repository
                commit = Repository(workspace.root).commit(revision)
                return (commit, image) if commit is not None else None
    return None


def locked(workspace: Workspace, image: str, *, label: str) -> Side:
    """Return what recipe and lock of an image say."""
    prepared = prepare(workspace, image)
    return compare.of_lock(
        prepared.recipe, prepared.lock, label=label, content_key=prepared.content_key,
        fingerprint=prepared.fingerprint,
    )  # fmt: skip


def recorded(path: Path, shown: str) -> Side:
    """Return what a record says. Raises `LockError` for one that cannot be read."""
    return compare.of_record(parse_pin(_text(path), file=shown), label=shown)


def _of_file(path: Path) -> Side:
    """Return what a lock with the recipe beside it, or a record, says."""
    if path.suffix == ".json":
        return recorded(path, str(path))
    if path.name not in (LOCK, RECIPE):
        raise RecipeError(f"{path}: neither a record nor a {LOCK}", hint="rocm-images diff --help")
    folder = path.absolute().parent
    root = folder.parent.parent
    if folder.parent.name == "images":
        return locked(Workspace(root=root), folder.name, label=str(path))
    recipe = parse_recipe(_text(path.with_name(RECIPE)), file=str(path.with_name(RECIPE)))
    return compare.of_lock(
        recipe, parse_lock(_text(path.with_name(LOCK)), file=str(path.with_name(LOCK))), label=str(path)
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise LockError(f"{path}: cannot be read: {(said or str(error)).lower()}") from error
