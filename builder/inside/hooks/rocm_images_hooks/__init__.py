"""Overrides attributes of other modules when these are imported, as `registry.json` beside this file says.

A `.pth` file in the interpreter's site directory calls `activate`; importing this package alone changes nothing.
Standard library only, for Python 3.10 and later. Every interpreter pays for what it imports: no `typing`, for one.
"""

from __future__ import annotations


def activate() -> None:
    """Put the hooks into this interpreter. A second call changes nothing."""
    from .finder import activate as put_in

    put_in()
