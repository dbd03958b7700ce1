"""HTML and SVG as values: text is escaped unless it was made here, and what cannot be seen is made visible.

What a page shows comes out of images, compilers and patches of other people; none of it is ever taken as markup.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

_VOID = frozenset({"meta", "br", "hr"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_SEEN_AS_SUCH = "\n\t"
_LINK = re.compile(r"https?://[A-Za-z0-9][\w.:-]*(?:/[\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7e]*)?")


class Markup(str):
    """Text that is HTML already. Only this module makes it."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def element(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element. Attributes are named as in HTML, `class` as `cls` and hyphens as underscores."""
    words = [_checked(name)]
    for key, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, float) else str(value)
            words.append(f'{_checked("class" if key == "cls" else key.replace("_", "-"))}="{escaped(shown)}"')
    opened = f"<{' '.join(words)}>"
    return Markup(opened if name in _VOID else f"{opened}{joined(children)}</{name}>")


def joined(children: Child) -> Markup:
    """Return children one after the other; text among them is escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escaped(children))
    if isinstance(children, int | float):
        return Markup(number(children))
    return Markup("".join(joined(child) for child in children))


def escaped(text: str) -> str:
    """Return text as HTML shows it, also in attributes; control, direction and invisible characters by number."""
    return html.escape("".join(char if _is_plain(char) else f"[U+{ord(char):04X}]" for char in text), quote=True)


def style(sheet: str) -> Markup:
    """Return an element with a style sheet, to the letter. Raises `ValueError` where it has markup."""
    if "<" in sheet or "&" in sheet:
        raise ValueError("a style sheet has no markup")
    return Markup(f"<style>{sheet}</style>")


def link(address: str) -> Markup:
    """Return a link where the text is an address on the web and nothing else, the text alone otherwise."""
    if _LINK.fullmatch(address) is None:
        return joined(address)
    return element("a", address, href=address, rel="noopener noreferrer nofollow")


def number(value: float) -> str:
    """Return a number as short as it is, with two digits behind the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _is_plain(char: str) -> bool:
    return char in _SEEN_AS_SUCH or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} names no element and no attribute")
    return name
