"""An image's name and version as deployments write them in one text: `host/path:tag@digest`, whole or by default.

Knows the spellings of a name that mean the same repository, and variables with a default as in compose files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.reference import Digest, ImageReference

TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
DIGEST = r"sha256:[0-9a-f]{64}"
_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*:?-"
_HUB = "docker.io"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What deployments are to name: the repository as they write it, and the version that was tested.

    With `keep_tag` a tag stays as it is and the digest alone is written: for tags that move, and that Renovate
    follows by their digest.
    """

    name: ImageReference
    tag: str
    digest: Digest
    keep_tag: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to write the repository with its registry, the longest first."""
        name = self.name
        if name.host != _HUB:
            return (name.name,)
        short = (name.path, name.path.removeprefix("library/"))
        return tuple(dict.fromkeys((f"index.{name.name}", name.name, f"{name.host}/{short[1]}", *short)))

    def written_tag(self, old: str) -> str:
        """Return the tag where `old` stands now."""
        return old if self.keep_tag and old else self.tag


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A part of a text, from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """An image in one text: where its name ends, and its tag and digest where it has them."""

    end: int
    tag: Slot | None
    digest: Slot | None

    @property
    def bare(self) -> bool:
        """Whether it names no version at all."""
        return self.tag is None and self.digest is None

    @property
    def version(self) -> str:
        """The version it names, `tag@digest`."""
        tag = self.tag.text if self.tag else ""
        digest = self.digest.text if self.digest else ""
        return f"{tag}@{digest}" if tag and digest else tag or digest or "no version"

    def parts(self, target: Target) -> list[tuple[int, int, str]]:
        """Return what to replace so that it names the target; a digest alone stays a digest alone."""
        tag, digest, new = self.tag, self.digest, str(target.digest)
        if tag is None:
            if digest is None:
                return [(self.end, self.end, f":{target.tag}@{new}")]
            return [(digest.start, digest.end, new)]
        written = target.written_tag(tag.text.partition("@")[0])
        if digest is None:
            return [(tag.start, tag.end, f"{written}@{new}")]
        return [(tag.start, tag.end, written), (digest.start, digest.end, new)]


def named_in(value: str, names: tuple[str, ...]) -> Named | str | None:
    """Return where a text names the image; why that cannot be changed; None where it is about something else.

    It may be the default of a variable, or what an option or variable in the same text is set to.
    """
    for name in names:
        found = re.fullmatch(
            rf"(?P<lead>(?:-{{0,2}}[A-Za-z0-9_][A-Za-z0-9._-]*=)?(?P<open>{_VARIABLE})?(?:docker(?:-image)?://)?{re.escape(name)})"
            r"(?P<rest>[:@]\S*|\}|)",
            value,
        )
        if found is None:
            continue
        rest, at = found["rest"], found.end("lead")
        if found["open"]:
            if not rest.endswith("}"):
                return None
            rest = rest[:-1]
        version = re.fullmatch(
            rf"(?::(?:(?P<tag>{TAG})|{_VARIABLE}(?P<vtag>(?:{TAG}(?:@{DIGEST})?)?)\}}))?"
            rf"(?:@(?:(?P<digest>{DIGEST})|{_VARIABLE}(?P<vdigest>(?:{DIGEST})?)\}}))?",
            rest,
        )
        if version is None:
            return f"{rest!r} is no tag or digest that can be changed here"
        return Named(
            end=at, tag=_slot(version, "tag", "vtag", at=at), digest=_slot(version, "digest", "vdigest", at=at)
        )
    return None


def _slot(match: re.Match[str], *groups: str, at: int) -> Slot | None:
    for group in groups:
        if match[group] is not None:
            return Slot(start=at + match.start(group), end=at + match.end(group), text=match[group])
    return None
