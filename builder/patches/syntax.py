"""Says whether the text of a Python file can be compiled. Nothing of it is executed."""

from __future__ import annotations

import sys
import warnings


def why_broken(path: str, data: bytes) -> tuple[str, int] | None:
    """Return what is wrong with a Python file, and in which line (0: unknown); None where it compiles.

    The Python that runs this program judges: a file in the syntax of a newer one counts as broken.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the file's authors may be warned of is no matter of a patch
        try:
            compile(data, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"{error.msg} (Python {sys.version_info.major}.{sys.version_info.minor})", error.lineno or 0
        except (ValueError, RecursionError, MemoryError) as error:
            return f"it cannot be compiled: {error}", 0
    return None
