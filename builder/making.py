"""Has an image made: gives buildx the folder, the bases and the secrets of a build, and keeps its cache elsewhere.

What is built, and what becomes of it, is decided above.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from builder import context, failedstep, oci, render
from builder.context import BootstrappedBase, BuildContext
from builder.engine import images
from builder.engine.build import BuiltImage, StepFailed, build_image, export_cache
from builder.engine.builders import Builder
from builder.errors import BuildError, EngineError, PatchError
from builder.layering import layer_of
from builder.machine import job_memory
from builder.mirrors import Mirrors
from builder.patchproof import about
from builder.project import LOCAL, Prepared
from builder.reference import Digest, ImageReference, parse_repository
from builder.registries.layouts import Layout
from builder.story import Story
from builder.workspace import Workspace

_CACHE_TAG = "build-cache"


@dataclass(frozen=True, kw_only=True, slots=True)
class Caches:
    """Where the cache of steps is taken from and put into: HOST/NAMESPACE of a registry each, None for nowhere."""

    source: str | None = None
    target: str | None = None


def cache_place(namespace: str | None, image: str) -> ImageReference | None:
    """Return where the cache of an image's build is. Raises `ValueError` for what is no HOST/NAMESPACE."""
    return parse_repository(f"{namespace.rstrip('/')}/{image}").at(tag=_CACHE_TAG) if namespace else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """One image that is to be made, by one builder, of what was laid out for it.

    With `ccache`, builds from source find what the builder compiled before.
    """

    prepared: Prepared
    laid: BuildContext
    builder: Builder
    containerd_store: bool
    workspace: Workspace
    mirrors: Mirrors
    story: Story
    ccache: bool = False

    def build(
        self, *, cache: bool, cache_from: ImageReference | None, changed: Sequence[str] | None = None
    ) -> BuiltImage:
        """Build it. Raises as `build_image` does; what failed is said in the recipe's words.

        `changed` are the words about inputs that changed since the last build, None where there was none.
        """
        prepared = self.prepared
        with (
            self.story.step(f"building {prepared.recipe.name} {prepared.tag}"),
            self._given() as (dockerfile, contexts, secrets),
        ):
            try:
                return build_image(
                    self.laid.folder, dockerfile=dockerfile, contexts=contexts, tag=prepared.local,
                    epoch=prepared.lock.epoch, containerd_store=self.containerd_store, cache=cache,
                    story=self.story, log=self._log, secrets=secrets, builder=self.builder, cache_from=cache_from,
                )  # fmt: skip
            except PatchError as error:
                raise about(error, prepared.recipe) from error
            except StepFailed as error:
                raise _in_words(error, prepared, changed) from error

    def keep_cache(self, place: ImageReference | None) -> None:
        """Put the cache of the build that was made there, if anywhere. A failure is said, and fails nothing."""
        if place is None:
            return
        try:
            with self._given() as (dockerfile, contexts, secrets):
                export_cache(
                    self.laid.folder, dockerfile=dockerfile, contexts=contexts,
                    epoch=self.prepared.lock.epoch, containerd_store=self.containerd_store, story=self.story,
                    log=self._log, to=place, secrets=secrets, builder=self.builder,
                )  # fmt: skip
        except EngineError as failure:
            words = "; ".join((failure.message, *failure.details, *([failure.hint] if failure.hint else [])))
            self.story.warn(f"{words}; the image is as good without it")

    @property
    def _log(self) -> Path:
        return self.workspace.dist / self.prepared.recipe.name / "build.log"

    @contextmanager
    def _given(self) -> Iterator[tuple[Path, dict[str, str], dict[str, Path]]]:
        """Give the Dockerfile, and what a build gets beside it and its folder.

        Those are named contexts, and secrets, which no layer and no key has.
        """
        bundle = self.mirrors.ca_bundle()
        with tempfile.TemporaryDirectory(prefix="rocm-images-given.") as name:
            memory, bases = Path(name) / render.JOB_MEMORY, Path(name) / "bases"
            memory.write_text(f"{job_memory(self.prepared.recipe)}\n")
            bases.mkdir()
            contexts = {f"base-{stage}": self._context(base, bases) for stage, base in self.laid.bases.items()}
            dockerfile = self.laid.dockerfile
            if self.ccache:
                dockerfile = Path(name) / "Dockerfile"
                dockerfile.write_text(render.with_ccache(self.laid.dockerfile.read_text()))
            secrets = {render.JOB_MEMORY: memory} | ({render.CA_BUNDLE: bundle} if bundle else {})
            yield dockerfile, contexts, secrets

    def _context(self, base: BootstrappedBase | str, folder: Path) -> str:
        """Return a base as buildx takes it; what has to be written for that goes below `folder`.

        BuildKit on the older image store reads no layouts, but what is loaded. A builder that is not the engine
        reads layouts alone of what is only on this machine.
        """
        match base:
            case str() if self.builder.in_engine or not base.startswith(f"{LOCAL}/"):
                return f"docker-image://{base}"
            case str():
                layout = Layout(folder / f"base-{len(list(folder.iterdir()))}")
                here = Digest(images.local_id(base) or "")
                with images.saved(base) as pieces:
                    document = layout.take(pieces, digest=here if self.containerd_store else None, config=here)
                layout.point("base", document)
                return f"oci-layout://{layout.folder}@{document.digest}"
            case BootstrappedBase() if self.containerd_store or not self.builder.in_engine:
                return f"oci-layout://{base.layout}@{base.digest}"
            case BootstrappedBase():
                name = f"{LOCAL}/base:{base.digest.hex[:12]}"
                if images.local_id(name) is None:
                    archive = folder / "base.tar"
                    oci.write_archive(base.layout, archive, name=name)
                    images.load(archive)
                return f"docker-image://{name}"
            case _:
                assert_never(base)


def _in_words(error: StepFailed, prepared: Prepared, changed: Sequence[str] | None) -> BuildError:
    """Return what a step said as a failure of the recipe: its cause, the few lines, the inputs, where to look."""
    recipe = prepared.recipe
    found = failedstep.cause(error.said, recipe)
    keys = failedstep.made_of(error.stage, recipe)
    about_stage = [f"stage {error.stage}, made of {', '.join(keys)}" if keys else f"stage {error.stage}"]
    if changed is None:
        about_stage.append("no earlier build is known to compare with")
    else:
        layers = {file.project: layer for file, layer in layer_of(prepared.lock).items()}
        words = failedstep.changed_for(error.stage, changed, recipe, layers)
        about_stage += [f"changed since the last build: {line}" for line in words] or [
            "nothing that this stage is made of has changed since the last build"
        ]
    look = f"{error.look}; its Dockerfile: rocm-images render {recipe.name}"
    return BuildError(
        error.message if found is None else f"{error.message}: {found.cause}",
        details=(*failedstep.what_matters(error.said), *about_stage),
        hint=f"the whole step: {look}" if found is None else f"{found.hint}; the whole step: {look}",
    )


def laid_out(
    prepared: Prepared, *, below: Mapping[str, str], workspace: Workspace, mirrors: Mirrors, story: Story
) -> BuildContext:
    """Fetch and lay out what an image is made of, on the images `below`, as the engine calls them."""
    recipe, lock = prepared.recipe, prepared.lock
    said = render.manifest(recipe, lock, content_key=prepared.content_key, fingerprint=prepared.fingerprint)
    return context.lay_out(
        recipe, lock, prepared.rendered(), said, prepared.ledger, workspace=workspace, below=below,
        mirrors=mirrors, story=story,
    )  # fmt: skip
