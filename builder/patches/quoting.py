"""The names of files in patches: git's quotes, the prefixes `a/` and `b/`, the dates of other programs.

It knows bytes of header lines. Whether a name may be touched is `builder.patches.tree.why_outside`.
"""

from __future__ import annotations

import re

NOWHERE = b"/dev/null"
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
# What `diff -N` writes as the date of a file that is not there: the epoch, in the local time zone.
_EPOCH = re.compile(rb"\t(1970-01-01|1969-12-31) (\d\d):(\d\d):00(?:\.0+)? ([+-])(\d\d):?(\d\d)$")


class Unreadable(ValueError):
    """A name that cannot be read as git writes it."""


def unquoted(text: bytes) -> tuple[bytes, bytes]:
    """Return the name at the start of a text that begins with a quote, and what follows it."""
    if (found := _QUOTED.match(text)) is None:
        raise Unreadable(f"a quoted name without its end: {as_text(text)}")
    body = found[1]
    if b"\\" in _ESCAPE.sub(b"", body):
        raise Unreadable(f"a quoted name with an unknown escape: {as_text(text)}")
    return _ESCAPE.sub(_unescape, body), text[found.end() :]


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])


def plain(text: bytes) -> bytes:
    """Return the name in a header that has nothing else on its line."""
    if not text.startswith(b'"'):
        return text
    name, rest = unquoted(text)
    if rest.strip(b" \t"):
        raise Unreadable(f"something after a quoted name: {as_text(text)}")
    return name


def stripped(name: bytes) -> str:
    """Return a name without its first folder, which stands for the side: `a/x` and `b/x` are `x`."""
    if name.startswith(b"/"):
        return as_text(name)  # refused later, and shown as it is written
    first, slash, rest = name.partition(b"/")
    if not slash or not rest:
        raise Unreadable(f"expected a name such as 'a/{as_text(first)}', got {as_text(name)!r}")
    return as_text(rest.lstrip(b"/"))


def side(text: bytes) -> str | None:
    """Return the file that a `---` or `+++` line names, None for no file. Dates after a tab are left out."""
    if text.startswith(b'"'):
        name, _ = unquoted(text)
    else:
        name = text.partition(b"\t")[0]
    if name == NOWHERE or is_epoch(text):
        return None
    return stripped(name)


def is_epoch(text: bytes) -> bool:
    """Return whether a line names a file of the epoch, which is how other programs write 'no file'."""
    if (found := _EPOCH.search(text)) is None:
        return False
    day, hour, minute, sign, zone_hours, zone_minutes = (part.decode() for part in found.groups())
    minutes = int(hour) * 60 + int(minute) - (24 * 60 if day == "1969-12-31" else 0)
    zone = int(zone_hours) * 60 + int(zone_minutes)
    return minutes - (zone if sign == "+" else -zone) == 0


def both(text: bytes) -> str | None:
    """Return the name that a `diff --git` line has twice; None where it names two files, as for a rename."""
    if text.startswith(b'"'):
        first, rest = unquoted(text)
        second = plain(rest.removeprefix(b" "))
        return _same(first, second)
    if text.endswith(b'"') and b' "' in text:
        first, _, rest = text.partition(b' "')
        return _same(first, plain(b'"' + rest))
    for at, letter in enumerate(text):
        if letter == 0x20 and (name := _same(text[:at], text[at + 1 :])) is not None:
            return name
    return None


def _same(first: bytes, second: bytes) -> str | None:
    try:
        name = stripped(first)
        return name if name == stripped(second) else None
    except Unreadable:
        return None


def as_text(name: bytes) -> str:
    """Return a name as paths are written here."""
    return name.decode("utf-8", "surrogateescape")
