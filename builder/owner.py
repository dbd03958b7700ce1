"""Knows a process again: by when it was started, and by a name that another one can judge it by later.

Knows nothing of what a process owns, and ends none.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def me() -> str:
    """Return the name of this process: its boot, its process namespace, its id, and when it was started."""
    return f"{_here()} {os.getpid()} {started(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Tell whether the process of that name has ended; False for one that cannot be seen from here.

    One of another machine, of an earlier boot, or of a process namespace that is not ours cannot.
    """
    here, _, rest = owner.rpartition(" ")[0].rpartition(" ")
    return here == _here() and rest.isdecimal() and str(started(int(rest))) != owner.rpartition(" ")[2]


def _here() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"


def started(pid: int) -> int | None:
    """Return when a process was started, in clock ticks after the boot, or None for one that does not run."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the name in parentheses, may hold spaces and parentheses (proc_pid_stat(5)).
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
