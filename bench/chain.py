"""The changes that are measured, one after the other: each state of the image is the one before with one change.

A change is made to both: to the recipe, whose lock is made ahead of the clock as a bot's commit has it, and to the
folder that the hand-written Dockerfile is built from.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.places import demand, settings
from builder import context, debian
from builder.errors import Failure
from builder.lockfile import Lock, parse_lock
from builder.mirrors import Mirrors
from builder.sources.store import Store
from builder.story import Story

IMAGE = "sglang-debian"
REFERENCE = Path(__file__).with_name("reference")

# In the order in which a round walks them. `cold` starts from nothing, `no-change` repeats it.
SCENARIOS = (
    "cold", "no-change", "comment", "test", "component", "dependency", "patch", "base-runtime", "base", "engine",
)  # fmt: skip
_BEFORE = {"triton": "3.5.1", "tqdm": "4.70.0", "sglang": "0.5.15"}
_AFTER = {"triton": "3.6.0", "tqdm": "4.70.1", "sglang": "0.5.16"}
_PACKAGE = "procps"  # what the changed runtime base has in addition
_MONTH = 30 * 24 * 60 * 60

_PATCHED = "sglang/srt/mem_cache/cpp_utils/native_hash.py"
_FOUND = '        raise RuntimeError("Failed to load HiCache native hash extension") from exc\n'
_PUT = '        raise RuntimeError(f"Failed to load HiCache native hash extension: {exc}") from exc\n'
_PATCH_TABLE = f"""
[[patch]]
name = "hash-cause"
target = "sglang"
edit = {{ file = "{_PATCHED}", find = '''
{_FOUND}''', replace = '''
{_PUT}''', count = 1 }}
reason = "the cause of a failed compilation is hidden"
upstream = "https://github.com/sgl-project/sglang"
drop-when = "the message names its cause"
"""
_TEST = '''

def test_the_probe_is_a_program(host: Host) -> None:
    """A probe without the mode of a program could not be started at all."""
    assert host.file("/usr/local/bin/gfx-probe").mode & 0o111
'''


class StateError(Failure):
    """The image in this repository is not what the changes were written for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The image after one change: the folder with `images/`, and the one with the Dockerfile."""

    name: str
    project: Path
    reference: Path

    @property
    def lock(self) -> Lock:
        """What the state pins."""
        path = self.project / "images" / IMAGE / "recipe.lock"
        return parse_lock(path.read_text(encoding="utf-8"), file=str(path))


def replaced(text: str, old: str, new: str) -> str:
    """Replace what occurs exactly once. Raises `StateError` otherwise."""
    if (count := text.count(old)) != 1:
        raise StateError(f"expected {old!r} once, found it {count} times")
    return text.replace(old, new)


def recipe_text(text: str, scenario: str) -> str:
    """Return the recipe after the change of a scenario."""
    match scenario:
        case "cold":
            text = replaced(text, '    "tqdm",\n', f'    "tqdm=={_BEFORE["tqdm"]}",\n')
            return _versions(text, _AFTER, _BEFORE, ("triton", "sglang"))
        case "comment":
            return f"{text}# Budgets are those of the unpacked layers.\n"
        case "component":
            return _versions(text, _BEFORE, _AFTER, ("triton",))
        case "dependency":
            return replaced(text, f'"tqdm=={_BEFORE["tqdm"]}"', f'"tqdm=={_AFTER["tqdm"]}"')
        case "patch":
            return replaced(text, "\n[image]\n", f"{_PATCH_TABLE}\n[image]\n")
        case "base-runtime":
            return replaced(text, '    "pybind11-dev",\n', f'    "{_PACKAGE}",\n    "pybind11-dev",\n')
        case "engine":
            return _versions(text, _BEFORE, _AFTER, ("sglang",))
        case _:
            return text


def _versions(text: str, old: dict[str, str], new: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        text = replaced(
            text, f'wheel = "{name}"\nversion = "{old[name]}"', f'wheel = "{name}"\nversion = "{new[name]}"'
        )
    return text


def dockerfile_text(text: str, scenario: str, versions: dict[str, str]) -> str:
    """Return the Dockerfile after the change of a scenario."""
    match scenario:
        case "comment":
            text = f"{text}# The engine listens on port 30000.\n"
        case "base-runtime":
            text = replaced(text, "      pybind11-dev \\\n", f"      {_PACKAGE} \\\n      pybind11-dev \\\n")
        case _:
            pass
    for name, version in versions.items():
        text = re.sub(rf"(?m)^(ARG {name.upper()}_VERSION)=.*$", rf"\1={version}", text)
    return text


def requirements(lock: Lock) -> str:
    """Return the file of pinned dependencies that goes with a lock."""
    return "".join(f"{file.project}=={file.version}\n" for file in lock.python if file.layer == "dependencies")


def states_in(root: Path, folder: Path, *, program: list[str | Path]) -> tuple[State, ...]:
    """Return the states below a folder. Locks are made once: that takes minutes, and fetches what is looked at."""
    states = tuple(_state(folder, name) for name in SCENARIOS)
    if not all((state.project / "images").exists() for state in states):
        shutil.rmtree(folder, ignore_errors=True)
        _write_projects(root, folder, program=program)
    dockerfile = (REFERENCE / "Dockerfile").read_text(encoding="utf-8")
    for state in states:
        pinned = {file.project: file.version for file in state.lock.python if file.project in ("triton", "sglang")}
        dockerfile = dockerfile_text(dockerfile, state.name, pinned)
        shutil.rmtree(state.reference, ignore_errors=True)
        _write_reference(state, dockerfile)
    return states


def _state(folder: Path, name: str) -> State:
    return State(name=name, project=folder / f"project-{name}", reference=folder / f"reference-{name}")


def _write_projects(root: Path, into: Path, *, program: list[str | Path]) -> None:
    """Write the recipe and the lock of every state, from the image of the repository `root`."""
    current = into / "current"
    shutil.copytree(root / "images" / IMAGE, current / "images" / IMAGE)
    folder = current / "images" / IMAGE
    lock, recipe = folder / "recipe.lock", folder / "recipe.toml"
    epoch = parse_lock(lock.read_text(encoding="utf-8"), file=str(lock)).epoch
    for scenario in SCENARIOS:
        before = recipe.read_text(encoding="utf-8")
        after = recipe_text(before, scenario)
        recipe.write_text(after, encoding="utf-8")
        if scenario == "comment":
            (folder / "README.md").write_text("# What this image is for\n", encoding="utf-8")
        if scenario == "test":
            test = folder / "tests/test_gfx_probe.py"
            test.write_text(test.read_text(encoding="utf-8") + _TEST, encoding="utf-8")
        if after != before:
            demand([*program, "--root", current, "lock", IMAGE], env=settings())
        # The archive's own date moves with the base alone.
        moved = SCENARIOS.index(scenario) >= SCENARIOS.index("base")
        text = re.sub(r"(?m)^epoch = \d+$", f"epoch = {epoch if moved else epoch - _MONTH}", lock.read_text())
        lock.write_text(text, encoding="utf-8")
        shutil.copytree(current / "images", _state(into, scenario).project / "images")


def _write_reference(state: State, dockerfile: str) -> None:
    """Write the folder that the hand-written Dockerfile is built from."""
    (state.reference / "patches").mkdir(parents=True)
    (state.reference / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    (state.reference / "requirements.txt").write_text(requirements(state.lock), encoding="utf-8")
    shutil.copytree(state.project / "images" / IMAGE / "gfx-probe", state.reference / "gfx-probe")
    if SCENARIOS.index(state.name) >= SCENARIOS.index("patch"):
        (state.reference / "patches/hash-cause.patch").write_text(patch_text(), encoding="utf-8")


def patch_text() -> str:
    """Return the changed line as a patch file. It has no context: the line occurs once in the file."""
    line = 42
    return f"--- a/{_PATCHED}\n+++ b/{_PATCHED}\n@@ -{line} +{line} @@\n-{_FOUND}+{_PUT}"


def write_base(lock: Lock, into: Path, *, store: Path, mirrors: Mirrors, story: Story) -> None:
    """Write the base that a lock names as a tar file, which the hand-written Dockerfile starts from."""
    if into.exists():
        return
    files = context.fetch_debs(lock, store=Store(store), mirrors=mirrors, story=story)
    into.parent.mkdir(parents=True, exist_ok=True)
    debian.bootstrap(lock.packages("base"), files, suite="trixie", epoch=lock.epoch, target=into)
