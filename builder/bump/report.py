"""What is known of a change of pins, image by image: values that the judging fills in and that others write down.

Decides what a change comes to out of what was found; how that was found, and how it looks, is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from builder.compare import Difference, Moved
from builder.findings import Finding, exit_code


class Verdict(StrEnum):
    """What a change asks for: a build, tests alone, nothing; or nobody can say, as something is in the way."""

    BUILD = "build"
    RETEST = "retest"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceMove:
    """A source whose pin moved.

    `changed` are the files that differ upstream, None where the two could not be compared, and then `why`.
    `reaching` are those of them that a build gets to see, or that are patches of this image. `patches_only` is
    True for a source that nothing but patches is taken from.
    """

    name: str
    old: str
    new: str
    link: str | None = None
    changed: tuple[str, ...] | None = None
    reaching: tuple[str, ...] = ()
    patches_only: bool = False
    why: str | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """The files that differ and do not reach the build."""
        seen = set(self.reaching)
        return tuple(path for path in self.changed or () if path not in seen)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name, "old": self.old, "new": self.new, "link": self.link,
            "patches-only": self.patches_only,
            "changed": list(self.changed) if self.changed is not None else None, "reaching": list(self.reaching),
            "not-compared": self.why,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchFact:
    """A patch at the new pins: its state there and before, None where it was not judged, and what was found."""

    name: str
    target: str
    state: str | None
    before: str | None
    fails: bool
    redundant: tuple[str, ...]
    drop_when: str
    lines: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name, "target": self.target, "state": self.state, "before": self.before,
            "fails": self.fails, "redundant": list(self.redundant), "found": list(self.lines),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What the engine newly compiles with while it serves, in words, and what of that the runtime stage lacks."""

    new: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    there: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"new": list(self.new), "missing": list(self.missing), "there": list(self.there)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Relock:
    """How a lock was made to fit: what was resolved anew (None: everything), and whether it was written."""

    names: tuple[str, ...] | None
    written: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBump:
    """What a change does to one image.

    `reasons` say why in words. `patches` and `needs` are None where nothing that they depend on changed, or where
    that could not be found out. `older` are the findings that BASE has as well.
    """

    image: str
    verdict: Verdict
    reasons: tuple[str, ...]
    content_key: Moved
    fingerprint: Moved
    relock: Relock | None = None
    difference: Difference | None = None
    sources: tuple[SourceMove, ...] = ()
    patches: tuple[PatchFact, ...] | None = None
    needs: Needs | None = None
    findings: tuple[Finding, ...] = ()
    older: frozenset[Finding] = frozenset()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop a merge."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "image": self.image,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "content-key": {"old": self.content_key.old, "new": self.content_key.new},
            "fingerprint": {
                "old": self.fingerprint.old, "new": self.fingerprint.new, "moved": self.fingerprint.moved
            },
            "lock": None
            if self.relock is None
            else {
                "updated": list(self.relock.names) if self.relock.names is not None else None,
                "written": self.relock.written,
            },
            "sources": [source.plain() for source in self.sources],
            "patches": [patch.plain() for patch in self.patches] if self.patches is not None else None,
            "needs": self.needs.plain() if self.needs is not None else None,
            "difference": self.difference.plain() if self.difference is not None else None,
            "findings": [finding.plain() | {"new": finding not in self.older} for finding in self.findings],
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class BumpReport:
    """What a change does: of all images those that it touches. `base` and `head` are commits, in full."""

    base: str
    head: str
    images: tuple[ImageBump, ...]
    untouched: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The code a run ends with: the class of the worst error, 0 without one."""
        return exit_code(finding for image in self.images for finding in image.findings)

    def of(self, *verdicts: Verdict) -> tuple[ImageBump, ...]:
        """Return the images with one of these verdicts."""
        return tuple(image for image in self.images if image.verdict in verdicts)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schema": 1,
            "base": self.base,
            "head": self.head,
            "exit-code": self.exit_code,
            "images": [image.plain() for image in self.images],
            "untouched": list(self.untouched),
            "gone": list(self.gone),
        }


def in_few(words: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first of some words, and how many more there are."""
    more = len(words) - most
    return (*words[:most], f"and {more} more") if more > 1 else tuple(words)
