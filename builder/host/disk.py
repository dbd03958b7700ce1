"""Whether the engine's disk holds what a recipe's build takes, and what this program left there that can go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from builder.engine import images, space
from builder.engine.builders import DEFAULT, Builder
from builder.engine.client import EngineInfo
from builder.errors import EngineError
from builder.grammar import in_bytes
from builder.project import LOCAL
from builder.render import LABEL
from builder.story import Story

GIB = 2**30
FREE_COMMAND = "rocm-images engine free"
ELSEWHERE = "move the engine's data (data-root in daemon.json) to a larger disk"


@dataclass(frozen=True, kw_only=True, slots=True)
class Freed:
    """What was given back: images by name, build cache in bytes, and what the disk has free now."""

    images: tuple[str, ...]
    kept: tuple[str, ...]
    cache: int
    room: space.Room | None


def require_room(name: str, disk: str | None, engine: EngineInfo, builder: Builder, story: Story) -> None:
    """Raise `EngineError` where an image's build takes more than the builder's file system has free.

    `disk` is what the recipe of image `name` declares, for a build from nothing. What the build cache holds counts
    as free, because the build uses it or it can be given back; that is said. What is on another machine is not
    looked at.
    """
    folder = space.build_folder(engine, builder) if disk is not None else None
    if disk is None or folder is None:
        return
    wanted = in_bytes(disk)
    try:
        room = space.room(folder)
    except OSError as error:
        story.warn(f"{folder}: cannot be measured: {(error.strerror or str(error)).lower()}")
        return
    if room.free >= wanted:
        return
    cached = space.build_cache(builder.name)
    key = f"images/{name}/recipe.toml: build.disk"
    if room.free + cached >= wanted:
        story.warn(
            f"{key}: a build from nothing takes up to {gib(wanted)}, {gib(room.free)} are free at {folder}; the "
            f"build cache there holds {gib(cached)}, which it uses, or which `{FREE_COMMAND}` gives back"
        )
        return
    raise EngineError(
        f"{key}: a build takes up to {gib(wanted)} of the engine's disk, {gib(room.free)} are free",
        details=(
            f"{folder}: {gib(room.free)} of {gib(room.total)} free",
            f"the build cache of the engine holds {gib(cached)}",
        ),
        hint=f"{FREE_COMMAND} --all, or {ELSEWHERE}; docs/ci.md says what hosted runners can do without",
    )


def free(
    current: Mapping[str, Collection[str]],
    engine: EngineInfo,
    story: Story,
    *,
    unused_hours: int,
    everything: bool,
) -> Freed:
    """Remove the images of this project that are not what its recipes make now, and old build cache.

    `current` are the content keys that each image of the project has now; images of other projects stay. What a
    container uses stays. `everything` removes current ones as well, and all of the build cache.
    """
    gone: list[str] = []
    kept: list[str] = []
    for image in space.own_images(LABEL):
        if image.title not in current or (not everything and image.content_key in current[image.title]):
            continue
        names = image.names or (image.id,)
        if space.remove_image(image):
            gone += names
        else:
            kept += names
            story.note(f"{names[0]}: stays, a container uses it")
    for base in images.local_ids(f"{LOCAL}/base*"):  # loaded again by the build that needs it
        images.remove(base)
        gone.append(base)
    cache = space.prune_cache(DEFAULT, unused_hours=0 if everything else unused_hours)
    folder = space.data_folder(engine)
    return Freed(
        images=tuple(gone), kept=tuple(kept), cache=cache, room=space.room(folder) if folder is not None else None
    )


def gib(size: int) -> str:
    """Return a size as people read it."""
    return f"{size / GIB:.1f} GiB"
