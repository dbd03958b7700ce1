"""Text from elsewhere as terminals and logs may have it: whatever does something instead of being seen is escaped.

Control sequences, direction marks, invisible characters, halves of characters. Line ends and tabs stay.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Return `text` with every character that is not seen written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escape(char) for char in text)


def _escape(char: str) -> str:
    return repr(char)[1:-1]
