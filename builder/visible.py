"""Text from elsewhere as terminals and logs may have it: whatever does something instead of being seen is escaped.

Control sequences, direction marks, invisible characters, halves of characters. Line ends and tabs stay. Logins of
addresses are left out.
"""

from __future__ import annotations

import re

_LOGIN = re.compile(r"(?<=://)[^/@\s'\"]+@")


def without_logins(text: str) -> str:
    """Return text without the user and password of every address in it."""
    return _LOGIN.sub("", text) if "@" in text else text


def visible(text: str) -> str:
    """Return `text` with every character that is not seen written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escape(char) for char in text)


def as_shown(text: str) -> str:
    """Return text as a message or a log may have it: visible, and without logins."""
    return visible(without_logins(text))


def _escape(char: str) -> str:
    """Return the escape of a character as JSON has it too, so that a result stays JSON where it is some."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
