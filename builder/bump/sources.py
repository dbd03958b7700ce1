"""Compares sources whose pins moved: what lies between two commits upstream, and what of it a build gets."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from builder.bump.links import compare_link
from builder.bump.report import SourceMove
from builder.errors import Failure
from builder.ignored import ignoring
from builder.mirrors import Mirrors
from builder.recipe import Recipe, Source
from builder.sources.git import fetch_commit
from builder.sources.treediff import changed_files
from builder.story import Story

_SHORT = 12


def moved_sources(
    old: Recipe, new: Recipe, *, mirrors: Mirrors, cache: Path, story: Story
) -> Iterator[SourceMove]:
    """Yield the sources that have another pin than before. Commits are compared file by file.

    A commit that can no longer be fetched is told of, and is no failure.
    """
    for name, source in new.source.items():
        before = old.source.get(name)
        if before is None or _pin(before) == _pin(source):
            continue
        patches_only = name not in new.built_sources
        if before.git is None or source.git is None or before.commit is None or source.commit is None:
            yield SourceMove(
                name=name, old=_pin(before), new=_pin(source), patches_only=patches_only,
                why="another release, which counts as a whole",
            )  # fmt: skip
            continue
        link = compare_link(source.git, before.commit, source.commit) if before.git == source.git else None
        moved = SourceMove(
            name=name, old=_named(before), new=_named(source), link=link, patches_only=patches_only
        )  # fmt: skip
        try:
            with story.step(f"comparing {name} {before.commit[:_SHORT]} with {source.commit[:_SHORT]}"):
                changed = changed_files(*(_tree(each, mirrors, cache, story) for each in (before, source)))
        except Failure as failure:
            yield replace(moved, why=f"not compared: {failure.message}")
            continue
        yield replace(moved, changed=changed, reaching=tuple(p for p in changed if _reaches(p, name, old, new)))


def _tree(source: Source, mirrors: Mirrors, cache: Path, story: Story) -> Path:
    """Return the tree of a commit. Whether it is still on its tag or branch, the lock says."""
    return fetch_commit(
        source.git or "", source.commit or "", submodules=source.submodules, mirrors=mirrors, cache=cache,
        story=story,
    ).path  # fmt: skip


def _reaches(path: str, name: str, old: Recipe, new: Recipe) -> bool:
    """Whether a file of a source can have to do with an image: built, or one of its patches, before or now."""
    for recipe in (old, new):
        if name in recipe.built_sources and not ignoring(recipe.source[name].ignore)(path):
            return True
        for patch in recipe.patch:
            series = patch.series
            if series is not None and series.source == name:
                folder, _, file = path.rpartition("/")
                if folder == (series.directory or "") and fnmatch.fnmatchcase(file, series.pattern):
                    return True
    return False


def _pin(source: Source) -> str:
    return source.commit or source.version or source.sha256 or source.path or ""


def _named(source: Source) -> str:
    commit = (source.commit or "")[:_SHORT]
    return f"{source.tag} {commit}" if source.tag is not None else commit
