"""The points: what is broken, when, how the run has to end, and what has to be done before the next one.

Data and nothing else. What each word means is in `faults`, how a point is tried in `survive`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

KILLED = -9
INTERRUPTED = "interrupted; nothing was pinned"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One fault at one moment. `says` is a pattern of what the run has to say.

    `own` are the folders of its state that a point shares with nobody, `remedy` is what a user has to do before
    the next run, of `faults.REMEDIES`.
    """

    area: str
    fault: str
    moment: str
    status: int
    says: str = ""
    remedy: str = ""
    own: tuple[str, ...] = ()
    fresh: bool = False

    @property
    def id(self) -> str:
        """A name for command lines and results."""
        return f"{self.fault}, {self.moment}".replace(" ", "-").replace(",-", ",")


# Moments that a run is held at, what a point there needs, in the order a run comes to them.
HELD: dict[str, dict[str, object]] = {
    "apt resolves": {},
    "uv resolves": {},
    "packages are fetched": {"own": ("store",)},
    "the base is bootstrapped": {"own": ("bases",)},
    "a step is built": {"fresh": True},
    "a smoke test runs": {},
    "a layer is pushed": {"fresh": True},
    "the candidate is pushed": {},
    "the documents are pushed": {},
    "the version tag is pushed": {},
}


_NO_BUILD = "error: the engine could not build"  # it may not even live to say why


def _points() -> Iterator[Point]:
    yield from _program()
    yield from _engine()
    yield from _registry()
    yield from _network()
    yield from _disk()
    yield from _clock()
    yield from _runs()
    yield from _cache()
    yield from _input()


def _at(moment: str, **values: object) -> Point:
    return Point(moment=moment, **HELD.get(moment, {}) | values)  # type: ignore[arg-type]


def _program() -> Iterator[Point]:
    for moment in HELD:
        yield _at(moment, area="the program", fault="SIGINT", status=130, says=INTERRUPTED)
        yield _at(moment, area="the program", fault="SIGTERM", status=130, says=INTERRUPTED)
        yield _at(moment, area="the program", fault="SIGKILL", status=KILLED)
    build = "a step is built"
    yield _at(build, area="the program", fault="SIGINT to the whole group", status=130, says=INTERRUPTED)
    yield _at(build, area="the program", fault="the terminal is closed", status=130, says=INTERRUPTED)
    yield _at("the record is written", area="the program", fault="SIGKILL", status=KILLED)


def _engine() -> Iterator[Point]:
    for moment in ("a step is built", "a smoke test runs", "a layer is pushed"):
        yield _at(moment, area="the engine", fault="the engine is killed", status=8, says="error: .*engine")
        yield _at(moment, area="the engine", fault="the engine is stopped", status=8, says="error: .*engine")
    yield _at("a step is built", area="the engine", fault="the engine stands still for a while", status=0)
    yield _at("a build", area="the engine", fault="the engine is not there", status=8, says="no container engine")


def _registry() -> Iterator[Point]:
    # The engine pushes layers and the candidate, and says no; this program writes documents and tags itself.
    for moment, status, says in (
        ("a layer is pushed", 7, "error: "),
        ("the candidate is pushed", 7, "error: "),
        ("the documents are pushed", 8, "error: the registry .* cannot be used"),
        ("the version tag is pushed", 8, "error: the registry .* cannot be used"),
    ):
        for fault in ("the registry answers 500", "the registry hangs up", "the registry is killed"):
            yield _at(moment, area="the registry", fault=fault, status=status, says=says)
    yield _at("a layer is pushed", area="the registry", fault="the registry answers 500 once", status=0)
    yield _at("the version tag is pushed", area="the registry", fault="the registry hangs up once", status=0)
    yield _at("a layer is pushed", area="the registry", fault="the registry is slow", status=0)
    yield _at("a layer is pushed", area="the registry", fault="the registry asks for a login", status=7)


def _network() -> Iterator[Point]:
    for moment, status, says in (
        ("apt resolves", 8, "the Debian mirror .* cannot be read"),
        ("uv resolves", 8, "error: "),
        ("packages are fetched", 8, "error: "),
        ("a layer is pushed", 7, "error: "),
        ("the version tag is pushed", 8, "error: "),
    ):
        yield _at(moment, area="the network", fault="the connection is cut", status=status, says=says)


def _disk() -> Iterator[Point]:
    full = "(?i)no space left on device"
    for fault, own in (
        ("the store's disk is full", ("store",)),
        ("the disk of the build contexts is full", ()),
        ("the disk of the bases is full", ("bases",)),
        ("TMPDIR's disk is full", ()),
        ("the disk of dist/ is full", ()),
        ("the disk of pins/ is full", ()),
    ):
        yield _at("a build", area="the disk", fault=fault, own=own, status=8, says=full)
    yield _at("a lock is made", area="the disk", fault="the disk of images/ is full", status=8, says=full)
    yield _at("a build", area="the disk", fault="the engine's disk is full", fresh=True, status=8, says=_NO_BUILD)
    yield _at(
        "a build",
        area="the disk",
        fault="the registry's disk is full",
        fresh=True,
        status=7,
        says="error: ",
        remedy="the registry is started again",
    )
    read_only = "(?i)read-only file system"
    yield _at("a build", area="the disk", fault="the project is read-only", status=8, says=read_only)
    yield _at("a lock is made", area="the disk", fault="the project is read-only", status=8, says=read_only)
    yield _at("a build", area="the disk", fault="the state is read-only", status=8, says=read_only)
    yield _at("a build", area="the disk", fault="the registry's disk is read-only", fresh=True, status=7)
    yield _at(
        "a build", area="the disk", fault="the disk fails to write through", status=8,
        says="(?i)input/output error",
    )  # fmt: skip
    yield _at("a build", area="the disk", fault="the disk is slow", status=0)


def _clock() -> Iterator[Point]:
    for fault in ("the clock is a month behind", "the clock is ten years ahead"):
        yield _at("a build", area="the clock", fault=fault, status=0)
        yield _at("a lock is made", area="the clock", fault=fault, status=0)
    yield _at("a build", area="the clock", fault="what is kept is from the future", own=("bases",), status=0)


def _runs() -> Iterator[Point]:
    busy = "another run works on tiny right now"
    for fault in ("a second build of the image", "a second test of the image"):
        yield _at("a smoke test runs", area="two runs", fault=fault, status=8, says=busy)
    yield _at("a smoke test runs", area="two runs", fault="the image is locked anew", status=0)
    yield _at("a smoke test runs", area="two runs", fault="a build of another image", status=0)
    yield _at("a smoke test runs", area="two runs", fault="the same image from another project", status=0)
    yield _at("a step is built", area="two runs", fault="room is given back in the engine", status=0)
    yield _at(
        "the base is bootstrapped", area="two runs", fault="another image that needs the same base", status=0
    )


def _cache() -> Iterator[Point]:
    own = {"own": ("store",)}
    for fault in ("a kept package is truncated", "a bit of a kept wheel is flipped", "a kept wheel is gone"):
        yield _at("a build", area="what is kept", fault=fault, status=0, **own)
    damaged = "the stored Debian trixie base is damaged and is made again"
    for fault in (
        "a blob of the base is truncated",
        "a bit of the base is flipped",
        "the index of the base is truncated",
    ):
        yield _at("a build", area="what is kept", fault=fault, status=0, says=damaged, own=("bases",))
    yield _at("a build", area="what is kept", fault="the build context is half there", status=0)


def _input() -> Iterator[Point]:
    lock = "images/tiny/recipe.lock"
    for fault in ("the lock is truncated", "the lock is empty"):
        yield _at(
            "a build", area="what is written", fault=fault, status=3, says=f"error: {lock}: ",
            remedy="rocm-images lock tiny",
        )  # fmt: skip
    yield _at(
        "a build", area="what is written", fault="the recipe is truncated", status=2,
        says="error: images/tiny/recipe.toml: ", remedy="the recipe is corrected",
    )  # fmt: skip
    yield _at("a second build", area="what is written", fault="the record is truncated", status=0)
    yield _at(
        "a second build", area="what is written", fault="the state of the last build is truncated", status=3,
        says="error: dist/tiny/state.json: damaged", remedy="rm dist/tiny/state.json",
    )  # fmt: skip
    yield _at(
        "a build", area="what is written", fault="mirrors.toml is truncated", status=2,
        says="error: .*mirrors.toml", remedy="mirrors.toml is corrected",
    )  # fmt: skip


POINTS: tuple[Point, ...] = tuple(_points())
BY_ID = {point.id: point for point in POINTS}
