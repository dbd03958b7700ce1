"""What the metadata of Python distributions says of their licences, as SPDX expressions where it is one. Pure.

Source: core metadata specification 2.4, `License-Expression`, `License`, `Classifier`. Nothing is guessed: a text
that is no expression is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from builder.view import View

_LONGEST = 120
# Those classifiers that mean one licence of SPDX's list and no other.
_CLASSIFIERS = {
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "zlib/libpng License": "Zlib",
}
_TROVE = "License :: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Licence:
    """What a distribution declares: an SPDX expression, or else its own words on one line."""

    expression: str | None
    words: str | None


def licences(told: Mapping[str, object]) -> dict[str, Licence]:
    """Return licences by normal name of the distribution; `told` is what the metadata has, by name.

    Each is a table with the texts `expression` and `license` and the list `classifiers`. Distributions that say
    nothing are left out.
    """
    found = {}
    for name, table in sorted(told.items()):
        licence = _licence(View(table))
        if licence is not None:
            found[str(canonicalize_name(name))] = licence
    return found


def _licence(metadata: View) -> Licence | None:
    classified = [
        text.removeprefix(_TROVE).removeprefix("OSI Approved :: ") for text in metadata.texts("classifiers")
    ]
    declared = metadata.text("license") or ""
    for text in (metadata.text("expression") or "", declared):
        if (expression := _expression(text)) is not None:
            return Licence(expression=expression, words=None)
    if len(classified) == 1 and classified[0] in _CLASSIFIERS:
        return Licence(expression=_CLASSIFIERS[classified[0]], words=None)
    short = " ".join(declared.split())
    words = short if 0 < len(short) <= _LONGEST and "\n" not in declared.strip() else "; ".join(classified)
    return Licence(expression=None, words=words) if words else None


def _expression(text: str) -> str | None:
    """Return an expression in its normal form; None for what is none, or names a licence that only it knows."""
    try:
        normal = str(canonicalize_license_expression(text)) if text.strip() else None
    except InvalidLicenseExpression:
        return None
    return normal if normal is not None and "LicenseRef-" not in normal else None
