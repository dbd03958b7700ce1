"""From a deployment file and a tested image to the file that pins it, or to what is in the way, in sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

from builder.deploy.dockerfile import find_in_dockerfile
from builder.deploy.hclfile import read_hcl
from builder.deploy.names import Target
from builder.deploy.places import OTHER_NAME, Found, Place, find
from builder.deploy.tomlfile import read_toml
from builder.deploy.tree import changed, line_of
from builder.deploy.yamlfile import read_yaml
from builder.errors import Failure, RecipeError

KINDS = {
    ".yaml": "yaml", ".yml": "yaml", ".json": "yaml",
    ".toml": "toml",
    ".hcl": "hcl", ".tf": "hcl", ".tofu": "hcl", ".tfvars": "hcl", ".nomad": "hcl",
    ".dockerfile": "dockerfile", ".containerfile": "dockerfile",
}  # fmt: skip
_SHOWN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Stand:
    """A place that names the image: its line, its key, how it was written, and whether it changes."""

    image: str
    line: int
    key: str
    way: str
    changes: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """A file that pins what was asked for: its text before and after, and the places in it that are meant."""

    file: str
    before: str
    after: str
    places: tuple[Stand, ...]

    @property
    def diff(self) -> str:
        """What changes, as a unified diff; empty where nothing does."""
        return unified_diff(self.before, self.after, file=self.file)


class NotNamed(RecipeError):
    """A file that does not name the image at all."""

    @property
    def looked(self) -> str:
        """What was looked for."""
        return f"looked for {self.message.rpartition(' ')[2]}"


def kind_of(file: str) -> str:
    """Return how a file is read, by its name. Raises `RecipeError` where the name does not tell."""
    name = PurePath(file).name.lower()
    if re.match(r"(dockerfile|containerfile)(\.|$)", name):
        return "dockerfile"
    for suffix, kind in KINDS.items():
        if name.endswith(suffix):
            return kind
    raise RecipeError(
        f"{file}: the name does not tell what kind of deployment this is",
        hint=f"known are Dockerfile, Containerfile and names that end in {', '.join(KINDS)}",
    )


def decoded(data: bytes, *, file: str) -> str:
    """Return the text of a file; every byte of it comes back when it is written. Raises `RecipeError`."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RecipeError(f"{file}: this is no UTF-8: {error.reason} at byte {error.start}") from error


def pinned(text: str, *, file: str, target: Target, at: Sequence[str] = (), every: bool = False) -> Pinned:
    """Return the file with the target pinned at each place that names it; `at` are patterns of the keys meant.

    Raises `NotNamed` where it is not named, and `RecipeError` where the file cannot be read, a place cannot be
    changed, or the image stands there in different ways and neither `at` nor `every` says which is meant.
    """
    found = find_places(text, file=file, target=target)
    if not found.places:
        raise _not_named(text, found, file=file, target=target)
    places = _meant(text, found.places, file=file, target=target, at=at)
    wrong = [place for place in places if place.blocked]
    if wrong:
        raise RecipeError(
            f"{file}: {target.name} cannot be pinned as it is written there",
            details=tuple(f"line {line_of(text, p.start)}: {p.key}: {p.blocked}" for p in wrong),
            hint="write its tag or digest as plain text, or leave the place out with --at KEY of the others",
        )
    edits = {edit for place in places for edit in place.edits}
    if edits and len({place.way for place in places}) > 1 and not every:
        raise _different(text, places, file=file, target=target)
    try:
        after = changed(text, edits)
    except ValueError as error:
        raise _different(text, places, file=file, target=target, shared=True) from error
    _prove(after, places, file=file, target=target, at=at)
    stands = tuple(
        Stand(
            image=target.name.name,
            line=line_of(text, place.start),
            key=place.key,
            way=place.way,
            changes=bool(place.edits),
        )
        for place in places
    )
    return Pinned(file=file, before=text, after=after, places=stands)


def pinned_all(
    text: str, *, file: str, targets: Sequence[Target], at: Sequence[str] = (), every: bool = False
) -> Pinned:
    """Return the file with each of the targets pinned that it names; it has to name one. See `pinned`."""
    after = text
    places: list[Stand] = []
    missing: list[NotNamed] = []
    for target in targets:
        try:
            done = pinned(after, file=file, target=target, at=at, every=every)
        except NotNamed as error:
            missing.append(error)
        else:
            after, places = done.after, [*places, *done.places]
    if len(missing) == 1 == len(targets):
        raise missing[0]
    if len(missing) == len(targets):
        raise NotNamed(
            f"{file}: names no image that has a record here",
            details=tuple(dict.fromkeys(line for each in missing for line in (each.looked, *each.details))),
            hint=next((each.hint for each in missing if each.hint), None),
        )
    return Pinned(file=file, before=text, after=after, places=tuple(sorted(places, key=lambda each: each.line)))


def find_places(text: str, *, file: str, target: Target) -> Found:
    """Return where a file names the image. Raises `RecipeError` where it cannot be read."""
    match kind_of(file):
        case "yaml":
            return find(read_yaml(text, file=file), target)
        case "toml":
            return find(read_toml(text, file=file), target)
        case "hcl":
            return find(read_hcl(text, file=file), target)
        case _:
            return find_in_dockerfile(text, target)


def _meant(
    text: str, places: tuple[Place, ...], *, file: str, target: Target, at: Sequence[str]
) -> tuple[Place, ...]:
    if not at:
        return places
    chosen = tuple(p for p in places if any(fnmatchcase(p.key, pattern) for pattern in map(_literal, at)))
    if not chosen:
        raise RecipeError(
            f"{file}: no place that names {target.name} fits --at {' or '.join(at)}",
            details=tuple(_line(text, place) for place in places[:_SHOWN]),
            hint="KEY is one of these, or a pattern such as '*.canary.*'",
        )
    return chosen


def _literal(pattern: str) -> str:
    """Return a pattern in which brackets stand for themselves, as they do in the keys that are shown."""
    return pattern.replace("[", "[[]")


def _line(text: str, place: Place) -> str:
    return f"line {line_of(text, place.start)}: {place.key}: {place.blocked or place.way}"


def _different(
    text: str, places: Sequence[Place], *, file: str, target: Target, shared: bool = False
) -> RecipeError:
    how = "and they share a text that would have to become two" if shared else "and only one may be meant"
    return RecipeError(
        f"{file}: {target.name} stands there in different ways, {how}",
        details=tuple(_line(text, place) for place in places),
        hint="write them apart" if shared else "name the one that is meant with --at KEY, or all with --all",
    )


def _prove(after: str, places: Sequence[Place], *, file: str, target: Target, at: Sequence[str]) -> None:
    """Read the new text once more: the same places have to be there, and to name the target."""
    again = find_places(after, file=file, target=target).places
    chosen = _meant(after, again, file=file, target=target, at=at) if again else ()
    if len(chosen) != len(places) or any(place.edits or place.blocked for place in chosen):
        raise Failure(
            f"{file}: would not name {target.tag}@{target.digest} after the change; nothing was written",
            details=tuple(_line(after, place) for place in chosen),
            hint="please report it with the file",
        )


def _not_named(text: str, found: Found, *, file: str, target: Target) -> NotNamed:
    """Return what was looked for, and what comes near it: a name alone, another registry, a longer text."""
    near = [f"line {line_of(text, each.start)}: {each.why}" for each in found.near]
    told = {line_of(text, each.start) for each in found.near}
    hint = found.near[0].hint if found.near else None
    last = target.name.path.rsplit("/", 1)[-1]
    lines = text.split("\n")
    near += [
        f"line {number}: {line.strip()[:100]}"
        for number, line in enumerate(lines, 1)
        if last in line and number not in told
    ]
    if near:
        hint = hint or OTHER_NAME
    else:
        named = dict.fromkeys(
            re.findall(r"[\w.-]+(?::[0-9]+)?(?:/[\w.-]+)+(?::[\w.-]+|@sha256:[0-9a-f]{64})", text)
        )
        close = difflib.get_close_matches(target.name.name, named, n=_SHOWN, cutoff=0.5) or list(named)
        near = [f"it names {name}" for name in close]
    return NotNamed(f"{file}: does not name {target.name}", details=tuple(near[:_SHOWN]), hint=hint)


def unified_diff(before: str, after: str, *, file: str) -> str:
    """Return a unified diff that `git apply` takes; line ends stay, and lines end at line feeds alone."""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+$", text) for text in (before, after))
    path = file.lstrip("/")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    )
