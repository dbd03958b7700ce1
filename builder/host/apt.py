"""Installs Debian packages: says first what will change, then does it in one transaction. Needs root."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from builder import process
from builder.errors import EngineError
from builder.host import packages, programs
from builder.host.packages import IndexTarget, Installation, MachineFile, Need
from builder.story import Story
from builder.workspace import write_atomic

_OS_RELEASE = Path("/etc/os-release")
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_MARK = "# Written by rocm-images for the time of an installation; it may be deleted."
_OPTIONS = ("-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=120", "-o", "APT::Status-Fd=2")
_QUIET_SECONDS = 2.0


def distribution() -> packages.Distribution:
    """Return what this machine runs."""
    try:
        return packages.parse_os_release(_OS_RELEASE.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EngineError(f"{_OS_RELEASE} is missing, so the distribution is unknown") from error


def index_targets() -> tuple[IndexTarget, ...]:
    """Return the package indexes of apt's sources, with what apt knows of them.

    Without the second question those whose lists were never fetched would not show.
    """
    found: list[IndexTarget] = []
    for more in ((), ("--no-release-info",)):
        asked = process.run(["apt-get", "indextargets", *more, "Created-By: Packages"], env=_environment())
        found += packages.parse_indextargets(asked.stdout)
    known = {(target.release, target.component, target.uri) for target in found if target.origin is not None}
    return tuple(
        target
        for target in dict.fromkeys(found)
        if target.origin is not None or (target.release, target.component, target.uri) not in known
    )


def install(needs: Sequence[Need], story: Story) -> None:
    """Install the packages that bring `needs`. Tells the files and packages before anything is touched.

    Raises `EngineError` where that is not possible; then the files it wrote for it are gone again.
    """
    if not needs:
        return
    running = distribution()
    if programs.find("apt-get") is None:
        raise EngineError("there is no apt on this machine", hint=packages.by_hand(needs))
    if os.geteuid() != 0:
        raise EngineError(
            f"installing packages needs root: {', '.join(name for need in needs for name in need.packages)}",
            hint="run the same command with sudo",
        )
    for need in needs:
        story.note(f"missing: {need.name}, to {need.purpose}")
    plan = packages.plan_installation(running, index_targets(), needs)
    for file in plan.files:
        story.note(f"will write {file.path}: {file.reason}")
    story.note(f"will ask apt for {' '.join(plan.packages)}, after reading the package lists anew")
    with _files_kept_on_success(plan.files):
        with story.step("read the package lists"):
            _apt(["update"], story=None, failure="apt cannot read its package lists")
        _tell_changes(plan, story)
        with story.step(f"install {len(plan.packages)} Debian packages"), _services_held(story):
            _apt(
                ["install", "--yes", "--no-remove", "--no-install-recommends", *plan.packages],
                story=story,
                failure="apt cannot install the packages",
            )


def changes(simulated: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Read what `apt-get install --simulate` prints: packages that are new, replaced by another version, removed.

    The new and the replaced ones are shown with the version they will have.
    """
    new: list[str] = []
    replaced: list[str] = []
    removed: list[str] = []
    for line in simulated.splitlines():
        if found := re.match(r"Inst (\S+)( \[\S+\])? \((\S+)", line):
            (replaced if found[2] else new).append(f"{found[1]} {found[3]}")
        elif found := re.match(r"Remv (\S+)", line):
            removed.append(found[1])
    return tuple(new), tuple(replaced), tuple(removed)


def _tell_changes(plan: Installation, story: Story) -> None:
    told = _apt(
        ["install", "--simulate", "--no-install-recommends", *plan.packages],
        story=None,
        failure="apt finds no way to install the packages",
    )
    new, replaced, removed = changes(told.stdout)
    if removed:
        raise EngineError(
            f"apt would remove {', '.join(removed)} to install {', '.join(plan.packages)}",
            hint="install these packages by hand, or remove what is in their way first",
        )
    if new:
        story.note(f"will install {len(new)}: {', '.join(new)}")
    if replaced:
        story.note(f"will replace by another version {len(replaced)}: {', '.join(replaced)}")


def _apt(arguments: list[str], *, story: Story | None, failure: str) -> process.Completed:
    listener = _Progress(story)
    done = process.run(["apt-get", *_OPTIONS, *arguments], env=_environment(), on_line=listener)
    if done.status != 0:
        details = tuple(listener.other[-20:]) or done.tail
        hint = "see that the mirror can be reached and run the same command again"
        if any("dpkg --configure -a" in line for line in details):
            hint = "an earlier installation was cut off; run: dpkg --configure -a"
        raise EngineError(
            f"{failure} (apt-get {arguments[0]} ended with {done.status})", hint=hint, details=details
        )
    return done


class _Progress:
    """Takes apt's status lines (`dlstatus:…`, `pmstatus:…`) out of its standard error and tells them."""

    def __init__(self, story: Story | None) -> None:
        self.other: list[str] = []
        self._tell: Callable[[str], None] | None = story.note if story is not None else None
        self._last = 0.0

    def __call__(self, line: str) -> None:
        kind, _, rest = line.partition(":")
        if kind not in ("dlstatus", "pmstatus"):
            if line.strip():
                self.other.append(line)
            return
        text = rest.split(":", 2)[-1]
        now = time.monotonic()
        if self._tell is not None and now - self._last >= _QUIET_SECONDS:
            self._last = now
            self._tell(f"apt: {text[0].lower()}{text[1:]}" if text else "apt works")


@contextlib.contextmanager
def _files_kept_on_success(files: Sequence[MachineFile]) -> Iterator[None]:
    written: list[Path] = []
    try:
        for file in files:
            written.append(file.path)
            write_atomic(file.path, file.content)
        yield
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _services_held(story: Story) -> Iterator[None]:
    """Keep packages from starting services while they are installed (policy-rc.d of invoke-rc.d(8)).

    Without systemd nothing may start: the engine and the registry are started by this program, with its own
    settings. With systemd only the registry's service is held, which would listen on all addresses; the engine's
    is the distribution's business there. A policy that the machine has already stays as it is.
    """
    if _POLICY.exists() and _POLICY_MARK not in _POLICY.read_text(encoding="utf-8", errors="replace"):
        yield
        return
    held = "docker-registry*" if programs.systemd_runs() else "*"
    story.note(f"while it installs, {_POLICY} keeps {'the registry' if held != '*' else 'services'} from starting")
    try:
        write_atomic(_POLICY, f'#!/bin/sh\n{_POLICY_MARK}\ncase "$1" in {held}) exit 101 ;; esac\nexit 0\n')
        _POLICY.chmod(0o755)
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("APT_CONFIG",) if name in os.environ}
    return passed | {"DEBIAN_FRONTEND": "noninteractive", "PATH": programs.search_path()}
