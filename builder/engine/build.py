"""Has BuildKit build a context, and says what a failed step said. Knows nothing of recipes."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from python_on_whales import DockerClient
from python_on_whales.exceptions import DockerException

from builder import process
from builder.engine import builders, images
from builder.engine.builders import Builder
from builder.errors import BuildError, EngineError, PatchError
from builder.pace import Pace
from builder.reference import Digest, ImageReference
from builder.story import Reached, Story
from builder.visible import as_shown
from builder.workspace import named, write_atomic

_STEP = re.compile(r"#(\d+) (\[[^]]+\] .*|exporting .*|DONE .*|CACHED|ERROR.*)")
_OUTPUT = re.compile(r"#(\d+) [0-9.]+ (.*)")
_INSTRUCTIONS = "RUN|COPY|ADD|WORKDIR"
_DURATIONS = "durations.json"
_KEPT_LINES = 25
_FINAL_STAGE = re.compile(r"stage-[0-9]+")  # how BuildKit calls the last one, which has no name
# What steps about patches say and end with: builder/inside/{edit_tree,probe_patches}.py.
_PATCH_SAID = re.compile(r"patch [a-z0-9]+(?:[._-][a-z0-9]+)*: .+")
_PATCH_FAILED = re.compile(r"did not complete successfully: exit code: 4\b")
_CCACHE_SAID = re.compile(r"ccache: .+")  # builder/inside/jobs.sh
_ZSTD_LEVEL = "3"


class StepFailed(BuildError):
    """A build step that failed: its stage, all it said, and how to see that again."""

    def __init__(self, step: str, *, number: str, said: tuple[str, ...], log: Path) -> None:
        self.stage = re.split(r"[] ]", step.removeprefix("["), maxsplit=1)[0]
        self.said = said
        self.look = f"grep '^#{number} ' {shlex.quote(str(log))}"
        super().__init__(
            f"the build failed in {step}", details=said[-_KEPT_LINES:], hint=f"the whole step: {self.look}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltImage:
    """An image in the engine's store. `id` is what to run; `digest` its manifest's, where the store knows it."""

    id: str
    digest: Digest | None


def build_image(
    context: Path,
    *,
    dockerfile: Path,
    contexts: Mapping[str, str],
    tag: str,
    epoch: int,
    containerd_store: bool,
    cache: bool,
    story: Story,
    log: Path,
    secrets: Mapping[str, Path] | None = None,
    builder: Builder | None = None,
    cache_from: ImageReference | None = None,
) -> BuiltImage:
    """Build `dockerfile` over the folder `context` and keep the image in the engine as `tag`.

    `contexts` are named contexts as buildx writes them, `epoch` the time (seconds since 1970) written into the
    image. `secrets` are files by id that steps may mount and no layer keeps. `builder` is the engine's own by
    default; another one hands over an archive, which the engine loads. `cache_from` is where `export_cache` may
    have put a cache. Everything BuildKit says goes to the file `log`, the stages through `story`. Raises
    `BuildError` with the lines of the step that failed, `PatchError` where that step says which patches failed,
    `EngineError` when the engine cannot build at all.
    """
    builder = builder or builders.builder(None)
    log.parent.mkdir(parents=True, exist_ok=True)
    steps = _Steps(story, dockerfile.read_text(encoding="utf-8"), _durations(log))
    story.follow(steps.how_far)
    with tempfile.TemporaryDirectory(prefix="rocm-images-build.") as name, named(log), log.open("w") as sink:
        metadata, archive = Path(name) / "metadata.json", Path(name) / "image.tar"
        output = _output(tag, containerd_store=containerd_store, into=None if builder.in_engine else archive)
        try:
            with process.leash():
                lines = _docker().buildx.build(
                    context, file=dockerfile, build_contexts=dict(contexts), builder=builder.name, output=output,
                    build_args={"SOURCE_DATE_EPOCH": str(epoch)}, metadata_file=metadata, cache=cache,
                    secrets=_secrets(secrets), cache_from=_import(cache_from) if cache else None,
                    provenance=False, sbom=False, progress="plain", stream_logs=True,
                )  # fmt: skip
                for line in lines:  # type: ignore[union-attr]
                    sink.write(as_shown(str(line)))
                    steps.hear(str(line).rstrip("\n"))
        except DockerException as error:
            raise steps.failure(str(error.stderr or ""), log) from error
        write_atomic(log.with_name(_DURATIONS), json.dumps(steps.pace.took, indent=2, sort_keys=True) + "\n")
        facts = json.loads(metadata.read_text())
        digest, config = facts["containerimage.digest"], facts["containerimage.config.digest"]
        built = BuiltImage(id=digest if containerd_store else config, digest=None)
        if not builder.in_engine:
            with story.step(f"loading the image that builder {builder.name} handed over"):
                images.load(archive)
            if (here := images.local_id(tag)) != built.id:
                raise EngineError(f"builder {builder.name} made {built.id}, the engine loaded {here} as {tag}")
    return replace(built, digest=Digest(digest) if containerd_store else None)


def _durations(log: Path) -> dict[str, float]:
    """Return the seconds that each step took when it last ran, by its name; none where that is not known."""
    try:
        told = json.loads(log.with_name(_DURATIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    table = told if isinstance(told, dict) else {}
    return {str(name): float(took) for name, took in table.items() if isinstance(took, int | float)}


def _docker() -> DockerClient:
    return DockerClient(client_call=[*process.tied(["docker"])])


def _output(tag: str, *, containerd_store: bool, into: Path | None) -> dict[str, str]:
    """Return what becomes of the image: it stays in the engine, or goes `into` a file that the engine can load."""
    if not containerd_store:
        return {"type": "docker", "name": tag} | ({"dest": str(into)} if into is not None else {})
    # Only the containerd store keeps a layer as it was compressed; the older one compresses again on every push.
    compressed = {"compression": "zstd", "compression-level": _ZSTD_LEVEL, "oci-mediatypes": "true"}
    kind = {"type": "image"} if into is None else {"type": "oci", "dest": str(into)}
    return kind | {"name": tag} | compressed


def export_cache(
    context: Path,
    *,
    dockerfile: Path,
    contexts: Mapping[str, str],
    epoch: int,
    containerd_store: bool,
    story: Story,
    log: Path,
    to: ImageReference,
    secrets: Mapping[str, Path] | None = None,
    builder: Builder | None = None,
    cache_from: ImageReference | None = None,
) -> None:
    """Put the cache of every step of a build that was just made into a registry, where other machines find it.

    Arguments are those of the build. Nothing is built again where the builder still has it. Raises `EngineError`
    when the builder cannot export, or the registry does not take it.
    """
    builder = builder or builders.builder(None)
    if builder.in_engine and not containerd_store:
        raise EngineError(
            "the engine's own builder cannot export a cache with the older image store",
            hint="turn on the engine's containerd image store, or name another builder with --builder",
        )
    target = {
        "type": "registry", "ref": str(to), "mode": "max", "image-manifest": "true", "oci-mediatypes": "true",
        "compression": "zstd", "compression-level": _ZSTD_LEVEL,
    }  # fmt: skip
    with named(log), log.open("a") as sink:
        try:
            with process.leash(), story.step(f"exporting the build cache to {to}"):
                lines = _docker().buildx.build(
                    context, file=dockerfile, build_contexts=dict(contexts), builder=builder.name,
                    build_args={"SOURCE_DATE_EPOCH": str(epoch)}, secrets=_secrets(secrets), cache_to=target,
                    cache_from=_import(cache_from), output={"type": "cacheonly"}, provenance=False, sbom=False,
                    progress="plain", stream_logs=True,
                )  # fmt: skip
                for line in lines:  # type: ignore[union-attr]
                    sink.write(as_shown(str(line)))
        except DockerException as error:
            said = [line.strip() for line in str(error.stderr or "").splitlines() if line.startswith("ERROR")]
            raise EngineError(f"{to}: the build cache was not exported", details=tuple(said[-3:])) from error


def _secrets(files: Mapping[str, Path] | None) -> list[str]:
    return [f"id={name},src={path}" for name, path in (files or {}).items()]


def _import(cache: ImageReference | None) -> dict[str, str] | None:
    return {"type": "registry", "ref": str(cache)} if cache is not None else None


class _Steps:
    """Follows BuildKit's plain progress: which step is which, what each printed, which one failed.

    `took` has the seconds of each step when it last ran.
    """

    def __init__(self, story: Story, dockerfile: str = "", took: Mapping[str, float] | None = None) -> None:
        self.pace = Pace(took or {})
        self._story = story
        self._instructions = len(re.findall(rf"^(?:{_INSTRUCTIONS}) ", dockerfile, re.MULTILINE))
        self._done = 0
        self._counted: set[str] = set()
        self._names: dict[str, str] = {}
        self._said: dict[str, list[str]] = {}
        self._failed: str | None = None
        self._why = ""

    def hear(self, line: str) -> None:
        """Take in one line of the progress."""
        if step := _STEP.fullmatch(line):
            number, what = step.groups()
            if what.startswith(("DONE", "CACHED")):
                if self._worth_telling(number):
                    self._ended(number, what)
            elif what.startswith("ERROR"):
                if "canceled" not in what:
                    self._failed, self._why = number, what
            elif number not in self._names:
                self._names[number] = _short(what)
                if re.match(rf"\[[^]]+\] (?:{_INSTRUCTIONS}) ", what):
                    self._counted.add(number)
                if self._worth_telling(number):
                    self.pace.begin(self._names[number])
                    self._story.note(f"{self._names[number]} ...")
        elif said := _OUTPUT.fullmatch(line):
            self._said.setdefault(said[1], []).append(said[2])
            if _CCACHE_SAID.fullmatch(said[2]):
                self._story.note(f"{self._names.get(said[1], 'a step')}: {said[2]}")

    def _ended(self, number: str, what: str) -> None:
        name = self._names[number]
        self._done += number in self._counted
        if what == "CACHED":
            self._story.note(f"{name} unchanged, from the cache")
            self.pace.skip(name)
        else:
            self._story.note(f"{name} {what.lower()}")
            seconds = what.removeprefix("DONE").strip().removesuffix("s")
            self.pace.end(name, float(seconds) if seconds else None)

    def how_far(self) -> Reached:
        """See `Story.follow`."""
        return Reached(words=f"{self._done} of {self._instructions} steps", share=self.pace.share)

    def _worth_telling(self, number: str) -> bool:
        name = self._names.get(number, "")
        return bool(name) and not name.startswith("[internal]")

    def failure(self, stderr: str, log: Path) -> BuildError | EngineError | PatchError:
        """Return what went wrong: the failed step with its last words, or why BuildKit did not even start one."""
        if full := [line for line in stderr.splitlines() if process.FULL in line.lower()]:
            return EngineError(
                f"the engine could not build: {process.FULL}", details=(full[-1].strip(),),
                hint=f"rocm-images engine free, or df -h; the whole log is in {log}",
            )  # fmt: skip
        if self._failed is None:
            lines = [line for line in stderr.splitlines() if line.strip()]
            tail = tuple(line for line in lines if line.startswith(("ERROR", "error")))[-3:] or tuple(lines[-3:])
            return EngineError("the engine could not build", details=tail, hint=f"the whole log is in {log}")
        name = self._names.get(self._failed, "a step")
        said = self._said.get(self._failed, [])
        patches = [line for line in said if _PATCH_SAID.fullmatch(line)]
        if patches and _PATCH_FAILED.search(self._why):
            return PatchError(
                "\n".join(patches), hint=f"the build stopped in {name}; the whole log is in {log}",
                details=tuple(line for line in said if line not in patches)[-_KEPT_LINES:],
            )  # fmt: skip
        return StepFailed(name, number=self._failed, said=tuple(said), log=log)


def _short(what: str) -> str:
    """Shorten `[component-triton 1/1] RUN --network=none --mount=... ["python3", ...]` to stage and program."""
    stage, bracket, instruction = what.partition("] ")
    if not bracket:
        return what
    words = [word for word in instruction.split() if not word.startswith("--")]
    command = re.search(r"\[.*\]$", instruction)
    if command is not None:
        with suppress(ValueError):
            words = [str(word).rpartition("/")[2] for word in json.loads(command[0])[:2]]
    named = _FINAL_STAGE.sub("image", re.sub(r" +[0-9]+/[0-9]+$", "", stage))
    return f"{named}] {' '.join(words)[:80]}"
