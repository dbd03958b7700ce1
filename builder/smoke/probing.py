"""Starts containers of the image under test and runs probes in them, long ones side by side ahead of their tests.

What a probe finds is a figure or a finding. What is tested, and in which order it is told, is the suite's.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from builder import process
from builder.engine import containers
from builder.engine.cards import Card
from builder.engine.commands import run_to_end
from builder.errors import EngineError
from builder.smoke import probes
from builder.smoke.contract import Contract
from builder.smoke.findings import Finding, Unfit, diagnosed

Probe = Callable[..., dict[str, Any]]
# OpenShift and its like start a pod as a uid that no image knows, in the group 0.
NAMELESS = containers.Identity(uid=1000740001, gid=0)
# As nameless, where an engine has no ids that high: the last that Debian leaves to users, and gives to none.
NAMELESS_IN_A_RANGE = containers.Identity(uid=59999, gid=0)
COMMAND = "command"  # not a program of ours that runs inside, but the image's own
MODEL = "/model"  # where a model of the host is seen in a container
_PROBE_SECONDS = 240.0
_COMMAND_SECONDS = 120.0
_LIFETIME_SECONDS = 1200
_CLOSE_SECONDS = 60.0
_LARGEST_OUTPUT = 1 << 25  # characters; figures of the largest images have a tenth of it
_KILL_SECONDS = 20.0  # what a probe gets beyond its own limit, before its container is taken away


class Probing:
    """Knows the image under test and how production starts it. `run` labels every container."""

    def __init__(self, image: str, contract: Contract, run: str, card: Card | None = None) -> None:
        self.image, self.contract, self.run, self.card = image, contract, run, card

    @cached_property
    def owner(self) -> containers.Identity:
        """Who the image has to run as; its writable directories belong to that user."""
        return containers.identity(self.image, self.contract.user or None)

    @cached_property
    def nameless(self) -> containers.Identity:
        """Who a container runs as for a user that no image knows; the engine has to have that id."""
        return NAMELESS_IN_A_RANGE if containers.ids_are_of_a_range() else NAMELESS

    def start(
        self,
        *,
        writable: Sequence[str] | None = None,
        nameless: bool = False,
        card: bool = False,
        **changes: Any,  # noqa: ANN401 -- whatever the engine module takes
    ) -> AbstractContextManager[containers.Running]:
        """Start a container as production would; keywords change that, see `containers.running`.

        `nameless` runs it as a uid that nobody knows, with the directories mounted for it. `card` hands in the
        GPU, and the model.
        """
        if nameless:
            changes |= {"user": f"{self.nameless.uid}:{self.nameless.gid}", "owner": self.nameless}
        if card and self.card is not None:
            changes |= {"devices": self.card.devices, "groups": self.card.groups}
            if self.card.model is not None:
                changes["binds"] = {self.card.model: MODEL}
        changes.setdefault("owner", self.owner)
        changes.setdefault("shm", self.contract.shm)
        changes.setdefault("read_only", self.contract.read_only)
        return containers.running(
            self.image, run=self.run, writable=self.contract.writable if writable is None else writable,
            lifetime_seconds=_LIFETIME_SECONDS, **changes,
        )  # fmt: skip

    def probe_in(self, container: containers.Running) -> Probe:
        """Return what runs a probe in a container and gives its figures, or raises `Unfit`."""

        def run(name: str, *, limit_seconds: float = _PROBE_SECONDS, **arguments: object) -> dict[str, Any]:
            return self._probe(container, name, arguments, limit_seconds)

        return run

    def probe_alone(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a probe in a container of its own. `nameless` and `card` among the arguments are for its start."""
        given = dict(arguments)
        nameless, card = bool(given.pop("nameless", False)), bool(given.pop("card", False))
        if name == COMMAND:
            return self._command(nameless=nameless, **given)
        with self.start(nameless=nameless, card=card) as container:
            return self.probe_in(container)(name, **given)

    def _command(
        self, *, nameless: bool, command: Sequence[str], entrypoint: Sequence[str] | None
    ) -> dict[str, Any]:
        """Run the image's own command to its end; `entrypoint` None keeps the image's own."""
        owner = self.nameless if nameless else self.owner
        ended = run_to_end(
            self.image, run=self.run, entrypoint=entrypoint, command=command, shm=self.contract.shm,
            user=f"{owner.uid}:{owner.gid}" if nameless else None, owner=owner, writable=self.contract.writable,
            read_only=self.contract.read_only, limit_seconds=_COMMAND_SECONDS,
        )  # fmt: skip
        return {"status": ended.status, "lines": list(ended.lines), "limit": _COMMAND_SECONDS}

    def _probe(
        self, container: containers.Running, name: str, arguments: Mapping[str, Any], limit_seconds: float
    ) -> dict[str, Any]:
        contract = for_user(self.contract, container.owner)
        # A probe ends itself in time. One that is stopped, or waits in the kernel, ends with its container.
        hangs = threading.Event()
        watch = threading.Timer(limit_seconds + _KILL_SECONDS, self._take_away, (container.name, hangs))
        watch.daemon = True
        watch.start()
        token = secrets.token_hex(8)  # so that no line that the image has ready is taken for an answer
        command = probes.argv(self.contract.python, name, arguments, limit_seconds=limit_seconds, token=token)
        try:
            done = process.run(
                ["docker", "exec", container.name, "/bin/sh", "-c", shlex.join(command)], largest=_LARGEST_OUTPUT
            )  # fmt: skip
        except process.Flooded as flood:
            raise Unfit(Finding(cause=f"the probe {name} was ended: the image writes without end")) from flood
        finally:
            watch.cancel()
        answer = probes.read_answer(done.stdout, token)
        words = probes.last_words(done.stderr)
        if answer is None:
            if hangs.is_set():
                raise Unfit(_hung(name, limit_seconds, words))
            raise Unfit(self._death(name, container, done.status, words, limit_seconds))
        if not answer.ok:
            evidence = "\n".join([answer.evidence, *words])
            details = answer.compiler or words
            raise Unfit(diagnosed(evidence, contract, otherwise=answer.innermost, details=details))
        if done.status != 0:
            cause = f"the probe {name} did its work and then died with status {done.status} while it ended"
            raise Unfit(Finding(cause=cause, details=words))
        return dict(answer.figures)

    @staticmethod
    def _take_away(name: str, hangs: threading.Event) -> None:
        hangs.set()
        with contextlib.suppress(EngineError):  # told by the probe, which ends with it
            containers.remove(name)

    def _death(
        self, name: str, container: containers.Running, status: int, words: tuple[str, ...], limit_seconds: float
    ) -> Finding:
        """Say why a probe gave no answer. Raises `EngineError` when the engine is the reason."""
        known = containers.state(container.name)
        if known is None or not known.running:
            return Finding(cause=f"the container ended while the probe {name} ran in it: killed, or out of memory")
        said = "\n".join(words)
        if said.startswith("Timeout ("):
            hung = _hung(name, limit_seconds, words)
            return diagnosed(said, self.contract, otherwise=hung.cause, details=words)
        otherwise = f"the probe {name} died with status {status}: {words[0] if words else 'it said nothing'}"
        return diagnosed(said, self.contract, otherwise=otherwise, details=words)


class Ahead:
    """Runs the probes that tests will ask for, as many at a time as there are processors, and keeps results."""

    def __init__(self, probing: Probing) -> None:
        self._probing = probing
        self._work: queue.SimpleQueue[tuple[Future[_Timed], str, Mapping[str, Any]]] = queue.SimpleQueue()
        self._asked: dict[str, Future[_Timed]] = {}

    def ask(self, key: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Have a probe run as soon as there is room; `key` is by what its result is asked for."""
        self._asked[key] = Future()
        self._work.put((self._asked[key], name, arguments))

    def begin(self) -> None:
        """Start with what was asked for, in that order."""
        # Threads that nobody waits for at the end: a program that a lost engine leaves hanging must not hold us.
        for _ in range(min(os.cpu_count() or 1, len(self._asked))):
            threading.Thread(target=self._run, daemon=True).start()

    def result(self, key: str) -> dict[str, Any]:
        """Wait for a probe; return its figures, or raise what it raised."""
        done = self._asked[key].result()
        if done.error is not None:
            raise done.error
        return done.figures

    def seconds(self, key: str) -> float:
        """Return how long a probe took whose result was there."""
        return self._asked[key].result().seconds

    def close(self) -> None:
        """End every probe that still runs, with its container, and begin none any more."""
        running = [future for future in self._asked.values() if not future.cancel()]
        deadline = time.monotonic() + _CLOSE_SECONDS
        while not all(future.done() for future in running) and time.monotonic() < deadline:
            containers.remove_all(self._probing.run)
            time.sleep(0.1)

    def _run(self) -> None:
        while True:
            try:
                future, name, arguments = self._work.get_nowait()
            except queue.Empty:
                return
            if not future.set_running_or_notify_cancel():
                continue
            begun = time.monotonic()
            figures: dict[str, Any] = {}
            error: BaseException | None = None
            try:
                figures = self._probing.probe_alone(name, arguments)
            except BaseException as raised:  # raised again where the result is asked for
                error = raised
            seconds = round(time.monotonic() - begun, 3)
            future.set_result(_Timed(figures=figures, error=error, seconds=seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    figures: dict[str, Any]
    error: BaseException | None
    seconds: float


def for_user(contract: Contract, user: containers.Identity) -> Contract:
    """Return the contract as a diagnosis has to see it where somebody else than the image's user failed."""
    nameless = user in (NAMELESS, NAMELESS_IN_A_RANGE)
    return replace(contract, user=f"{user.uid}:{user.gid}") if nameless else contract


def _hung(name: str, limit_seconds: float, words: tuple[str, ...]) -> Finding:
    return Finding(cause=f"the probe {name} did not end in time: it had {limit_seconds:g} s", details=words)
