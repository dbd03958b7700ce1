"""What a report tells of one build, as values; where they come from is not known here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.compare.difference import Difference


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a run ended badly: what the program said, its evidence and its hint."""

    message: str
    details: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A step of a stage of the Dockerfile: what it ran, seconds, and what became of it.

    `state` is done, cached, failed, stopped, or untold where only an equal step told its end.
    """

    stage: str
    text: str
    seconds: float
    state: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """A part of the run, as it was announced, and the seconds it took. `depth` is how deep it lies in another."""

    text: str
    seconds: float
    depth: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """A layer as nodes pull it: whose it is, its digest, its compressed bytes."""

    owner: str
    digest: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A smoke test: what it is about, what would break in production, what came of it and why."""

    __test__ = False

    title: str
    tier: str
    outcome: str
    seconds: float
    production: str = ""
    cause: str | None = None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """A patch of the ledger: what it is for, its state, the values of its probe where it has one."""

    name: str
    target: str
    kind: str
    state: str
    reason: str = ""
    upstream: str = ""
    drop_when: str = ""
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildReport:
    """One build of one image. What is None is not known: nothing to compare with, nothing published.

    `action` and `reasons` are those of the plan, `outcome` is a sentence about how it ended.
    """

    image: str
    version: str
    description: str
    gfx: tuple[str, ...]
    content_key: str
    fingerprint: str
    action: str
    reasons: tuple[str, ...]
    outcome: str
    program: str
    reference: str | None = None
    digest: str | None = None
    ended: Ended | None = None
    dockerfile: str = ""
    steps: Sequence[Step] = ()
    took: Sequence[Took] = ()
    layers: Sequence[Layer] | None = None
    tests: Sequence[Test] | None = None
    patches: Sequence[Patch] = ()
    difference: Difference | None = None
