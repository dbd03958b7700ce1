"""Runs a program with its root directory as the root of its mount namespace. A program itself: PROGRAM ARGUMENT...

A container runtime joins a container's mount namespace to run one more program in it (`docker exec`), and the
kernel then takes it to that namespace's root (setns(2)). Of an engine started in a chroot that is the system
around the chroot: the program would run there, outside of the container. So the engine gets a namespace of its own
in which the chroot is the root (pivot_root(2)). Outside of a chroot, or without the rights, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def main() -> None:
    """Make the root directory the namespace's root where it is not, then become the named program."""
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    if _is_chroot(here):
        _pivot()
    os.close(here)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 -- the words are this package's own


def _is_chroot(here: int) -> bool:
    """Look from the namespace's root at ours, and come back."""
    try:
        _join_own_namespace()
    except (OSError, AttributeError):
        return False
    outside = not os.path.samestat(os.stat("/"), os.fstat(here))  # noqa: PTH116
    os.fchdir(here)
    os.chroot(".")
    return outside and platform.machine() in _SYS_PIVOT_ROOT


def _join_own_namespace() -> None:
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        _call("setns", namespace, _CLONE_NEWNS)
    finally:
        os.close(namespace)


def _pivot() -> None:
    _call("unshare", _CLONE_NEWNS)
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)  # after unshare: the mount of the new namespace
    _join_own_namespace()
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    os.fchdir(here)
    _call("syscall", ctypes.c_long(_SYS_PIVOT_ROOT[platform.machine()]), b".", b".")
    _call("umount2", b".", _MNT_DETACH)  # the old root lies over the new one now
    os.chdir("/")
    os.close(here)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
