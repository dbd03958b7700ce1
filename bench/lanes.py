"""The three ways an image is made: by hand and plain buildx, by this program, and by bake from what it renders.

Each step gives the seconds until the digest is published and tested, and says which digest that is.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.chain import IMAGE, State
from bench.figures import Interval, alone, sums
from bench.places import Places, demand, settings
from builder import process, render
from builder.errors import Failure
from builder.machine import job_memory
from builder.mirrors import Mirrors
from builder.project import load_recipe
from builder.workspace import Workspace

_DONE = re.compile(r"\s*done after ([0-9.]+) s: (.*)")
_BUILDING = "building"
# The engine's own metadata asks for the CUDA set. A recipe says what it needs instead; a plain image cannot.
_NOT_ASKED = "test_python_set::test_declared_requirements_are_met"
# Of an image with a patch: a file that `patch` changed is not the one that its RECORD names.
_NOT_ASKED_PATCHED = "test_python_set::test_the_files_are_those_of_the_locked_wheels"


class MeasureError(Failure):
    """A measurement is worthless: a build or its tests failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What one measured step came to.

    `parts` are seconds by what was done, `memory` is the peak in bytes of the largest process. `around` is the
    program's time without that in which it fetched, tested or published while nothing was built; bake's can be
    compared with it. `rebuilt` names the components that were built, `owners` whose each layer is,
    by digest.
    """

    seconds: float
    reference: str
    parts: Mapping[str, float] = field(default_factory=dict)
    memory: int | None = None
    around: float | None = None
    rebuilt: Sequence[str] = ()
    owners: Mapping[str, str] = field(default_factory=dict)


def program() -> list[str | Path]:
    """Return how this program is started."""
    return [sys.executable, "-c", "from builder.cli.app import main; main()"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lanes:
    """How each way makes a state of the image, with the places it has for that."""

    places: Places
    work: Path
    mirrors: Mirrors

    @property
    def _environment(self) -> dict[str, str]:
        return settings() | {
            "DOCKER_HOST": self.places.engine.address,
            "PYTHONPATH": str(_root()),
            "BUILDX_BAKE_ENTITLEMENTS_FS": "0",  # newer ones ask before they read what lies elsewhere
        }

    def reference(self, state: State, base: str) -> Step:
        """Build the hand-written Dockerfile as people do, push it, and hold it to the same smoke tests."""
        given = self.work / "given"
        given.mkdir(exist_ok=True)
        (given / "pip.conf").write_text(pip_configuration(self.mirrors, ca="/run/secrets/ca"), encoding="utf-8")
        metadata = given / "metadata.json"
        mirror = self.mirrors.debian_mirror("trixie")
        tag = f"{self.places.registry.host}/reference/{IMAGE}"
        ca = self.mirrors.ca_bundle()
        argv: list[str | Path] = [
            "docker", "buildx", "build", "--progress=plain", "--push", f"--tag={tag}:{state.name}",
            "--network=host", "--provenance=false", f"--metadata-file={metadata}",
            f"--build-arg=BASE={base}", f"--build-arg=DEBIAN_MIRROR={mirror.url}",
            *(["--build-arg=APT_OPTIONS=-o Acquire::Check-Valid-Until=false"] if mirror.allow_expired else []),
            f"--secret=id=pip.conf,src={given / 'pip.conf'}",
            *([f"--secret=id=ca,src={ca}"] if ca is not None else []),
            state.reference,
        ]  # fmt: skip
        built = self._timed(argv, log=f"reference-{state.name}-build")
        digest = json.loads(metadata.read_text(encoding="utf-8"))["containerimage.digest"]
        results = self.work / "results"
        tested = self._timed(
            [*program(), "--root", state.project, "test", f"{tag}@{digest}", "--recipe", IMAGE,
             "--results", results],
            log=f"reference-{state.name}-test", fails=True,
        )  # fmt: skip
        patched = any((state.reference / "patches").iterdir())
        require_passed(json.loads((results / "smoke.json").read_text(encoding="utf-8")), patched=patched)
        return Step(
            seconds=built.seconds + tested.seconds, reference=f"{tag}@{digest}", memory=built.memory,
            parts={"build and push": built.seconds, "test": tested.seconds},
        )  # fmt: skip

    def push_base(self, root: Path, to: str) -> str:
        """Have the registry hold a base as public ones do, gzip and all; return its digest.

        BuildKit leaves the layers of a base as they are, and calls those of zstd by a name that nodes do not know.
        """
        demand(["docker", "import", root, to], env=self._environment)
        demand(["docker", "push", "--quiet", to], env=self._environment)
        demand(["docker", "image", "rm", to], env=self._environment)
        digest = ["skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", f"docker://{to}"]
        return demand(digest).strip()

    def forget_program(self) -> None:
        """Let the program have fetched, built and recorded nothing."""
        shutil.rmtree(self._project, ignore_errors=True)

    def program(self, state: State) -> Step:
        """Have the program build, test and publish a state."""
        self._take(state)
        argv = [
            *program(),
            "--root",
            self._project,
            "build",
            IMAGE,
            "--publish",
            f"{self.places.registry.host}/program",
        ]
        began = time.time()
        run = self._timed(argv, log=f"program-{state.name}")
        tagged = run.said.splitlines()[-1]
        name, _, digest = tagged.partition("@")
        steps = steps_of(run.told)
        pin = Workspace(root=self._project).pin(IMAGE).read_text(encoding="utf-8")
        log = Workspace(root=self._project).dist / IMAGE / "build.log"
        # The log is that of the last build: older than this run where nothing was built.
        fresh = log.exists() and log.stat().st_mtime >= began
        return Step(
            seconds=run.seconds, reference=f"{name.rpartition(':')[0]}@{digest}", memory=run.memory,
            parts=sums(steps),
            around=run.seconds - alone(steps, _BUILDING),
            owners={layer["digest"]: layer["owner"] for layer in json.loads(pin)["layers"]},
            rebuilt=_rebuilt(log.read_text(encoding="utf-8")) if fresh else [],
        )  # fmt: skip

    def keep_context(self, state: State) -> Path:
        """Set aside what the program's last build was made of, for bake."""
        kept = self.work / "contexts" / state.name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(Workspace(root=self._project).state / "contexts" / IMAGE, kept, copy_function=_link)
        return kept

    def bake(self, state: State, folder: Path) -> Step:
        """Build a folder that the program laid out with the same outputs, and with nothing around it."""
        workspace = Workspace(root=self._project)
        memory = self.work / "given" / render.JOB_MEMORY
        memory.write_text(f"{job_memory(load_recipe(Workspace(root=state.project), IMAGE))}\n", encoding="utf-8")
        ca = self.mirrors.ca_bundle()
        layouts = sorted(workspace.state.glob("bases/*/index.json"), key=lambda path: path.stat().st_mtime)
        layout = layouts[0].parent  # that of the first state: the ones bake is measured on come before the base's
        digest = json.loads((layout / "index.json").read_text(encoding="utf-8"))["manifests"][0]["digest"]
        secrets = {render.JOB_MEMORY: memory} | ({render.CA_BUNDLE: ca} if ca is not None else {})
        file = self.work / "given" / "bake.json"
        target = {
            "context": str(folder),
            "dockerfile": str(folder / "Dockerfile"),
            "contexts": {f"base-{stage}": f"oci-layout://{layout}@{digest}" for stage in ("build", "runtime")},
            "args": {"SOURCE_DATE_EPOCH": str(state.lock.epoch)},
            "secret": [f"type=file,id={name},src={path}" for name, path in secrets.items()],
            "output": [
                f"type=image,name=bench/bake:{state.name},compression=zstd,compression-level=3,oci-mediatypes=true"
            ],
            "attest": ["type=provenance,disabled=true"],
        }
        file.write_text(json.dumps({"target": {"default": target}}), encoding="utf-8")
        run = self._timed(["docker", "buildx", "bake", "--progress=plain", "-f", file], log=f"bake-{state.name}")
        return Step(seconds=run.seconds, reference="", memory=run.memory)

    @property
    def _project(self) -> Path:
        return self.work / "project"

    def _take(self, state: State) -> None:
        """Make the program's repository that of a state, as a checkout of a commit does."""
        images = self._project / "images"
        shutil.rmtree(images, ignore_errors=True)
        shutil.copytree(state.project / "images", images)

    def _timed(self, argv: list[str | Path], *, log: str, fails: bool = False) -> _Run:
        used = self.work / "given" / "memory"
        used.parent.mkdir(exist_ok=True)
        watched: list[str | Path] = ["/usr/bin/time", "--quiet", "--format=%M", f"--output={used}", *argv]
        began = time.monotonic()
        told: list[tuple[float, str]] = []
        done = process.run(
            watched, env=self._environment, on_line=lambda line: told.append((time.monotonic(), line.rstrip("\n")))
        )
        seconds = time.monotonic() - began
        file = self.work / "logs" / log
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{done.stderr}\n{done.stdout}\n{seconds:.2f} s\n", encoding="utf-8")
        if done.status and not fails:
            raise MeasureError(f"{log}: {argv[0]} ended with {done.status}", details=done.tail)
        return _Run(
            seconds=seconds,
            memory=int(used.read_text(encoding="utf-8")) * 1024,
            told=told,
            said=done.stdout.strip(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    seconds: float
    memory: int
    told: Sequence[tuple[float, str]]
    said: str


def require_passed(report: Mapping[str, Any], *, patched: bool) -> None:
    """Raise `MeasureError` unless the reference, with a patch or without, passed what can be asked of it."""
    excused = {_NOT_ASKED} | ({_NOT_ASKED_PATCHED} if patched else set())
    failed = [test for test in report["tests"] if test["outcome"] == "failed" and test["name"] not in excused]
    if failed:
        names = ", ".join(test["name"] for test in failed)
        causes = [test["finding"]["cause"] for test in failed if test.get("finding")]
        raise MeasureError(f"the reference did not pass {names}", details=tuple(causes))


def steps_of(told: Sequence[tuple[float, str]]) -> list[Interval]:
    """Return what a run of the program did, and from when to when, of the lines it told and the time of each."""
    begun: dict[str, float] = {}
    found = []
    for moment, line in told:
        if line.startswith("==> "):
            begun[line.removeprefix("==> ").strip()] = moment
        elif (done := _DONE.fullmatch(line.rstrip())) and done[2] in begun:
            found.append(Interval(what=_plain(done[2]), start=begun.pop(done[2]), end=moment))
    return found


def _plain(words: str) -> str:
    """Return what a step is called, without what differs between two runs."""
    words = re.split(r", | of | sha256:| to 127| 127\.0|,? [a-z]+-debian\b", words)[0]
    return re.sub(r"\b\d[\d.,]* ?", "", words).strip()


def _rebuilt(log: str) -> list[str]:
    """Return the stages of components whose steps BuildKit ran, and did not have, by its own log."""
    stages: dict[str, str] = {}
    ran = []
    for line in log.splitlines():
        if named := re.match(r"#(\d+) \[component-(\S+) ", line):
            stages[named[1]] = named[2]
        elif (done := re.match(r"#(\d+) DONE", line)) and done[1] in stages:
            ran.append(stages.pop(done[1]))
    return sorted(set(ran))


def pip_configuration(mirrors: Mirrors, *, ca: str) -> str:
    """Return what pip is told inside of a build: this machine's index, and where the certificates are mounted."""
    lines = ["[global]", "timeout = 60"]
    if (index := mirrors.index(None)) is not None:
        lines.append(f"index-url = {index}")
    if mirrors.ca_bundle() is not None:
        lines.append(f"cert = {ca}")
    return "\n".join(lines) + "\n"


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _root() -> Path:
    return Path(process.__file__).parent.parent
