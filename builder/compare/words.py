"""A difference in words: lines for a terminal, and Markdown for a pull request. Decides nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from builder.compare.difference import PATCHES, Change, Compared, Difference, Moved
from builder.compare.pulling import Pull
from builder.compare.sides import BUILT, Side, short

_MOST = 8  # entries of a long list on a terminal
_MOST_NAMES = 20
_WIDTH = 13
_LONGEST = 100
_KEYS = {"package-version": "Debian package", "patched": "tree with its patches", BUILT: "how it is built"} | {
    "apt": "package", "sha256": "content",
}  # fmt: skip
_UNKNOWN = "unknown"
_BY_PATCHES = frozenset({PATCHES, "patched"})
_DIGEST = re.compile(r"(@sha256:[0-9a-f]{12})[0-9a-f]{52}")


def size(number: int | None) -> str:
    """Return a number of bytes as people read it: exact, and rounded where it is long."""
    if number is None:
        return _UNKNOWN
    return f"{number} bytes ({rounded(number)})" if number >= 1000 else f"{number} bytes"


def rounded(number: int) -> str:
    """Return a number of bytes with a decimal unit."""
    value, units = float(number), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{number} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def printable(text: str) -> str:
    """Return text out of an image as a terminal may show it, whatever bytes it is made of."""
    return "".join(char if char.isprintable() else "?" for char in text)


def headline(difference: Difference) -> str:
    """Return in a line what changed, for a title: components first, else what else did."""
    told = [_component(each) for each in difference.changed if not _patched_alone(each)]
    told += [
        f"patch {each.name} {each.status}"
        for each in difference.patches or ()
        if each.status != "same" and not _went_with(each, difference)
    ]
    if not told:
        groups: tuple[tuple[str, Sequence[Change] | None], ...] = (
            ("base", difference.bases), ("packages", difference.packages),
            ("build packages", difference.build_packages), ("Python distributions", difference.distributions),
            ("environment contract", difference.contract),
        )  # fmt: skip
        told = [f"{name} changed" for name, changes in groups if changes]
        told += [
            f"{name} {each.old} -> {each.new}"
            for name, each in (("gfx", difference.gfx), ("python", difference.python))
            if each.moved
        ]
    if not told:
        told = ["nothing differs"] if difference.is_empty else ["no component differs"]
    return printable(", ".join(told))


def text(difference: Difference) -> str:
    """Return a difference as lines for a terminal."""
    return "".join(f"{line}\n" for line in _lines(difference))


def _lines(difference: Difference) -> Iterator[str]:
    yield _field("from", _named(difference.old))
    yield _field("to", _named(difference.new))
    yield from _component_lines(difference)
    yield from _patch_lines(difference)
    for name, changes in _groups(difference):
        yield from _group(name, changes, _bare, most=_MOST)
    yield _field("gfx", _moved(difference.gfx))
    yield _field("python", _moved(difference.python))
    yield _field("fingerprint", _fingerprint(difference))
    yield _field("digest", _moved(difference.digest))
    yield from _pull_lines(difference.pull)


def _component_lines(difference: Difference) -> Iterator[str]:
    if difference.components is None:
        yield _field("components", _UNKNOWN)
        return
    for each in difference.changed:
        yield _field("component", _component(each))
        facts = _facts(each)
        yield from (_field("", f"  {line}") for line in facts if each.old != each.new or " -> " in line)
    if difference.unchanged:
        label = "unchanged" if difference.changed else "components"
        names = _names(difference)
        yield _field(label, names if difference.changed else f"unchanged: {names}")
    elif not difference.components:
        yield _field("components", "none")


def _names(difference: Difference) -> str:
    """Return the unchanged components, and of very many the first ones."""
    names = [f"{each.name} {each.new}" for each in difference.unchanged]
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more} more"


def _patch_lines(difference: Difference) -> Iterator[str]:
    if difference.patches is None:
        yield _field("patches", _UNKNOWN)
    elif not difference.patches:
        yield _field("patches", "none")
    for each in difference.patches or ():
        if each.status != "same":
            yield _field("patch", _patch(each))
            if each.reason and each.status == "added":
                yield _field("", f"  {each.reason}")
    same = [each.name for each in difference.patches or () if each.status == "same"]
    if same:
        yield _field("patches", f"unchanged: {', '.join(same)}")


def _groups(difference: Difference) -> tuple[tuple[str, Sequence[Change] | None], ...]:
    found: list[tuple[str, Sequence[Change] | None]] = [
        ("base", difference.bases), ("packages", difference.packages),
        ("distributions", difference.distributions), ("contract", difference.contract),
    ]  # fmt: skip
    if difference.build_packages:
        found.insert(2, ("for building", difference.build_packages))
    return tuple(found)


def _group(name: str, changes: Sequence[Change] | None, show: Callable[[str], str], *, most: int) -> Iterator[str]:
    if not changes:
        yield _field(name, _UNKNOWN if changes is None else "unchanged")
        return
    more = len(changes) - most
    for number, each in enumerate(changes[:most] if more > 1 else changes):
        yield _field(name if number == 0 else "", _change(each, show))
    if more > 1:
        yield _field("", f"and {more} more")


def _pull_lines(pull: Pull) -> Iterator[str]:
    if pull.layers is None or pull.size is None:
        yield _field("to pull", _UNKNOWN if pull.whole is None else f"{_UNKNOWN}, of {size(pull.whole)}")
        return
    yield _field("to pull", _pulled(pull))
    for layer in pull.layers:
        yield _field("", f"  {layer.owner}: {size(layer.size)}")
    if pull.stacked != pull.size:
        yield _field("", f"{size(pull.stacked)} where Docker's older image store pulls it")


def _pulled(pull: Pull) -> str:
    count = len(pull.layers or ())
    if not count:
        return f"nothing, of {size(pull.whole)}"
    return f"{size(pull.size)} in {count} layer{'s' if count > 1 else ''}, of {size(pull.whole)}"


def _field(name: str, words: str) -> str:
    return printable(f"{name:<{_WIDTH}} {words}").rstrip()


def _named(side: Side) -> str:
    return side.reference or side.label


def _component(each: Compared) -> str:
    if each.status == "added":
        return f"{each.name} {each.new} added"
    if each.status == "removed":
        return f"{each.name} {each.old} removed"
    if each.old != each.new:
        return f"{each.name} {each.old} -> {each.new}"
    return f"{each.name} {each.new}: {', '.join(dict.fromkeys(_key(c.key) for c in each.changes))} changed"


def _facts(each: Compared, show: Callable[[str], str] | None = None) -> list[str]:
    """Return what else of a component changed, in words: a file or its hash only if nothing else tells it."""
    beside = {"sha256", "tree"} | ({"wheel", "file"} if each.old != each.new else set())
    beside |= {"patched"} if any(change.key == PATCHES for change in each.changes) else set()
    telling = [change for change in each.changes if change.key not in beside]
    if not telling and each.old == each.new:
        telling = list(each.changes)
    told = []
    for change in telling:
        if change.key in (BUILT, PATCHES, "patched"):
            told.append(f"{_key(change.key)} changed")
        else:
            told.append(_change(change, show or _bare))
    return told


def _patch(each: Compared) -> str:
    of = f"{each.name} of {each.target}"
    match each.status:
        case "added" | "removed":
            return f"{of} {each.status} ({each.new or each.old})"
        case _:
            told = [
                f"state {change.old} -> {change.new}" if change.key == "state" else
                "what it does changed" if change.key == "sha256" else f"{change.key} {change.old} -> {change.new}"
                for change in each.changes
            ]  # fmt: skip
            return f"{of}: {', '.join(told)}"


def _change(change: Change, show: Callable[[str], str]) -> str:
    name = _key(change.key)
    if change.old is None:
        return f"{name} {show(_cut(change.new))} added"
    if change.new is None:
        return f"{name} {show(_cut(change.old))} removed"
    return f"{name} {show(_cut(change.old))} -> {show(_cut(change.new))}"


def _key(key: str) -> str:
    return _KEYS.get(key, key.removeprefix("env."))


def _cut(text: str | None) -> str:
    words = _DIGEST.sub(r"\1…", short(text or ""))
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _moved(each: Moved) -> str:
    if each.moved is None:
        return _UNKNOWN if each.old is None and each.new is None else f"{_told(each.old)} -> {_told(each.new)}"
    return f"{_told(each.old)} -> {_told(each.new)}" if each.moved else "unchanged"


def _told(text: str | None) -> str:
    return _cut(text) if text is not None else _UNKNOWN


def _fingerprint(difference: Difference) -> str:
    each = difference.fingerprint
    match each.moved:
        case None:
            return _UNKNOWN
        case True:
            names = [change.key.partition(".")[2] or change.key for change in difference.fingerprint_inputs or ()]
            by = f" by {', '.join(names)}" if names else ""
            return f"moves{by}, {each.old} -> {each.new}: caches that are kept by it start empty"
        case _:
            return f"stays, {each.new}: caches that are kept by it are still valid"


def _went_with(patch: Compared, difference: Difference) -> bool:
    """Whether a patch came or went with the component that it is for."""
    return any(each.name == patch.target and each.status in ("added", "removed") for each in difference.changed)


def _patched_alone(component: Compared) -> bool:
    """Whether nothing of a component changed but its patches, which are told of themselves."""
    return component.status == "changed" and {change.key for change in component.changes} <= _BY_PATCHES


def _bare(text: str) -> str:
    return text


def markdown(difference: Difference) -> str:
    """Return a difference as Markdown: a table of what changed, then what did not, in sentences."""
    return "".join(f"{line}\n" for line in _markdown(difference))


def _markdown(difference: Difference) -> Iterator[str]:
    image = difference.new.image or difference.new.label
    yield f"**{_plain(image)}**: {_plain(headline(difference))}"
    yield ""
    rows = list(_rows(difference))
    if rows:
        yield "| changed | before | after | |"
        yield "| --- | --- | --- | --- |"
        yield from (f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|" for row in rows)
        yield ""
    yield from _long_lists(difference)
    yield from (f"- {line}" for line in _sentences(difference))


def _rows(difference: Difference) -> Iterator[tuple[str, str, str, str]]:
    for each in difference.changed:
        facts = "; ".join(_facts(each, _code))
        yield _plain(each.name), _cell(each.old), _cell(each.new), facts.replace("|", "\\|")
    for each in difference.patches or ():
        if each.status != "same":
            what = [change for change in each.changes if change.key != "state"]
            told = "; ".join("what it does changed" if c.key == "sha256" else _change(c, _code) for c in what)
            because = _plain(each.reason or "") if each.status == "added" else told
            yield (
                f"patch {_plain(each.name)} of {_plain(each.target or '')}",
                _cell(each.old),
                _cell(each.new),
                because,
            )
    for change in difference.bases or ():
        yield f"base ({_plain(change.key)})", _cell(change.old), _cell(change.new), ""
    for name, moved in (("gfx", difference.gfx), ("python", difference.python)):
        if moved.moved:
            yield name, _cell(moved.old), _cell(moved.new), ""
    for change in difference.contract or ():
        yield f"contract: {_plain(_key(change.key))}", _cell(change.old), _cell(change.new), ""


def _long_lists(difference: Difference) -> Iterator[str]:
    for name, changes in (
        ("Debian packages", difference.packages),
        ("Debian packages for building", difference.build_packages),
        ("Python distributions", difference.distributions),
    ):
        if changes:
            yield f"<details><summary>{name} that changed: {len(changes)}</summary>"
            yield ""
            yield from (f"- {_change(each, _code)}" for each in changes)
            yield ""
            yield "</details>"
            yield ""


def _sentences(difference: Difference) -> Iterator[str]:
    if difference.components is None:
        yield "Components: unknown."
    elif difference.unchanged:
        yield f"Unchanged: {_plain(_names(difference))}."
    patches = difference.patches
    groups: list[tuple[str, object]] = [
        ("patches", None if patches is None else [each for each in patches if each.status != "same"]),
        ("base", difference.bases), ("Debian packages", difference.packages),
        ("Python dependencies", difference.distributions), ("GPU targets", difference.gfx.moved),
        ("environment contract", difference.contract),
    ]  # fmt: skip
    same = [name for name, changes in groups if changes is not None and not changes]
    unknown = [name for name, changes in groups if changes is None]
    if same:
        yield f"Also unchanged: {', '.join(same)}."
    if unknown:
        yield f"Unknown: {', '.join(unknown)}."
    yield f"Engine fingerprint: {_fingerprint(difference)}."
    pull = difference.pull
    if pull.layers is None:
        yield "To pull by a node that has the old image: unknown."
        return
    parts = ", ".join(f"{_plain(layer.owner)} {rounded(layer.size)}" for layer in pull.layers)
    yield f"A node that has the old image pulls {_pulled(pull)}{f': {parts}' if parts else ''}."


def _cell(text: str | None) -> str:
    return _code(_cut(text)) if text is not None else ""


def _code(text: str) -> str:
    clean = printable(text).replace("`", "'").replace("|", "\\|")
    return f"`{clean}`" if clean else ""


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]<|#" else char for char in printable(text))
