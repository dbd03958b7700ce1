"""Whether every pin can still be fetched as it is locked: asks registries, indexes, repositories and mirrors.

Nothing is downloaded. Mirrors and wheelhouses count: what they hold can be fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.errors import Failure, LockError
from builder.findings import LOCK, Finding, from_failure
from builder.lockfile import Lock
from builder.mirrors import Mirrors
from builder.project import load_lock, load_recipe
from builder.recipe import Recipe
from builder.reference import parse_reference
from builder.registries.reading import probe_images
from builder.sources.download import Wanted, in_parallel, probe_all
from builder.sources.git import check_pin
from builder.sources.index import Located, LockedFile, find_in_wheelhouses, look_up_all
from builder.sources.transport import Patience
from builder.story import Story
from builder.workspace import Workspace

CHECK = "online"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pin:
    """Where a pin is written: image, file as messages call it, key."""

    image: str
    file: str
    key: str


def check_online(
    workspace: Workspace,
    chosen: Sequence[str],
    *,
    mirrors: Mirrors,
    story: Story,
    patience: Patience | None = None,
) -> tuple[Finding, ...]:
    """Return what can no longer be fetched of some images. What is wrong without a network is not repeated."""
    found: list[Finding] = []
    for name in chosen:
        try:
            recipe = load_recipe(workspace, name)
            lock, _ = load_lock(workspace, recipe)
        except Failure:  # the offline checks tell
            continue
        with story.step(f"asking whether the pins of {name} can still be fetched"):
            asking = _Asking(workspace, recipe, lock, mirrors, patience)
            for part in (asking.bases, asking.files, asking.debs, asking.sources):
                found.extend(part())
    return tuple(found)


class _Asking:
    def __init__(
        self, workspace: Workspace, recipe: Recipe, lock: Lock, mirrors: Mirrors, patience: Patience | None
    ) -> None:
        self._workspace = workspace
        self._recipe = recipe
        self._lock = lock
        self._mirrors = mirrors
        self._patience = patience

    def bases(self) -> Iterator[Finding]:
        """Ask registries for the base images."""
        bases = (("build", self._recipe.base.build), ("runtime", self._recipe.base.runtime))
        stages = [(stage, base.image) for stage, base in bases if base.image is not None]
        references = [parse_reference(image) for _, image in stages]
        answers = probe_images(references, mirrors=self._mirrors, patience=self._patience)
        for (stage, _), reference, answer in zip(stages, references, answers, strict=True):
            where = self._in_recipe(f"base.{stage}.image")
            if isinstance(answer, Failure):
                yield from self._failed(answer, where)
            elif reference.tag is not None and answer.tag_now != reference.digest:
                now = f"now names {answer.tag_now}" if answer.tag_now is not None else "is gone"
                yield Finding(
                    image=where.image, severity="note", exit_code=LOCK, check=CHECK, file=where.file,
                    key=where.key, message=f"the tag {reference.tag} {now}; the pinned digest is still served",
                )  # fmt: skip

    def files(self) -> Iterator[Finding]:
        """Ask indexes for the wheels and sdists."""
        wanted: list[tuple[_Pin, LockedFile]] = [
            (
                self._in_lock(f"python.{file.project}"),
                LockedFile(
                    project=file.project, filename=file.file, sha256=file.sha256, size=file.size, index=file.index,
                    kind=file.index_kind,
                ),
            )
            for file in self._lock.python
        ]  # fmt: skip
        for name, source in self._recipe.source.items():
            locked = self._lock.source.get(name)
            if source.sdist is not None and locked is not None and locked.file and locked.sha256:
                file = LockedFile(
                    project=source.sdist, filename=locked.file, sha256=locked.sha256, size=locked.size,
                    index=locked.index, kind=locked.index_kind,
                )  # fmt: skip
                wanted.append((self._in_lock(f"source.{name}"), file))
        local = in_parallel(
            lambda each: find_in_wheelhouses(each[1].filename, each[1].sha256, mirrors=self._mirrors), wanted
        )
        asked = [each for each, path in zip(wanted, local, strict=True) if path is None]
        files = [file for _, file in asked]
        answers = look_up_all(files, mirrors=self._mirrors, patience=self._patience)
        listed: list[tuple[_Pin, Wanted]] = []
        for (where, file), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Failure):
                yield from self._failed(answer, where)
                continue
            if answer.yanked is not None:
                yield from self._failed(_yanked(file, answer), where)
            listed.append(
                (where, Wanted(name=file.filename, sha256=file.sha256, size=file.size, urls=(answer.url,)))
            )
        yield from self._probed(listed)

    def debs(self) -> Iterator[Finding]:
        """Ask the Debian mirror for the packages."""
        if not self._lock.deb:
            return
        base = self._recipe.base.runtime.debian or self._recipe.base.build.debian
        try:
            archive = self._mirrors.debian_mirror(base.suite if base is not None else None).url
        except Failure as failure:
            yield from self._failed(failure, self._in_lock("deb"))
            return
        yield from self._probed(
            [
                (
                    self._in_lock(f"deb.{p.name}"),
                    Wanted(name=Path(p.file).name, sha256=p.sha256, size=p.size, urls=(f"{archive}/{p.file}",)),
                )
                for p in self._lock.deb
            ]
        )

    def sources(self) -> Iterator[Finding]:
        """Ask repositories whether tags and branches agree with the commits, and servers for archives."""
        archives = [
            (
                self._in_recipe(f"source.{name}.archive"),
                Wanted(name=name, sha256=source.sha256 or "", urls=(source.archive,)),
            )
            for name, source in self._recipe.source.items()
            if source.archive is not None
        ]
        yield from self._probed(archives)
        cache = self._workspace.state / "git"
        for name, source in self._recipe.source.items():
            if source.git is None or source.commit is None:
                continue
            try:
                check_pin(
                    source.git, source.commit, tag=source.tag, branch=source.branch, mirrors=self._mirrors,
                    cache=cache, patience=self._patience,
                )  # fmt: skip
                locked = self._lock.source.get(name)
                for module in locked.submodule if locked is not None else ():
                    check_pin(
                        module.url, module.commit, mirrors=self._mirrors, cache=cache, patience=self._patience
                    )
            except Failure as failure:
                key = f"source.{name}.tag" if source.tag is not None else f"source.{name}.branch"
                yield from self._failed(failure, self._in_recipe(key))

    def _probed(self, wanted: Sequence[tuple[_Pin, Wanted]]) -> Iterator[Finding]:
        answers = probe_all([item for _, item in wanted], mirrors=self._mirrors, patience=self._patience)
        for (where, _), failure in zip(wanted, answers, strict=True):
            if failure is not None:
                yield from self._failed(failure, where)

    def _failed(self, failure: Failure, where: _Pin) -> Iterator[Finding]:
        yield from from_failure(failure, image=where.image, file=where.file, check=CHECK, key=where.key)

    def _in_recipe(self, key: str) -> _Pin:
        file = self._workspace.shown(self._workspace.recipe(self._recipe.name))
        return _Pin(image=self._recipe.name, file=file, key=key)

    def _in_lock(self, key: str) -> _Pin:
        file = self._workspace.shown(self._workspace.lock(self._recipe.name))
        return _Pin(image=self._recipe.name, file=file, key=key)


def _yanked(file: LockedFile, answer: Located) -> LockError:
    return LockError(
        f"{file.filename}: yanked by its authors: {answer.yanked or 'no reason given'}",
        hint=f"rocm-images lock --update {canonicalize_name(file.project)}",
    )
