"""Looks at the environment an image is served with: user, variables, PATH, writable places, network."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import socket
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import initial_environment

# Where programs write that were not told otherwise. /dev/shm is the engine's own and always writable.
SUSPECTS = (
    "/", "/bin", "/data", "/etc", "/home", "/lib", "/mnt", "/opt", "/root", "/run", "/sbin", "/srv", "/usr",
    "/var", "/usr/lib", "/usr/local", "/usr/local/lib", "/var/cache", "/var/lib", "/var/log", "/var/run", "/app",
    "/cache", "/tmp", "/var/tmp",  # noqa: S108 -- paths of the image
    "/workspace", "/.cache", "/.config", "/.torch", "/.triton",
)  # fmt: skip
# TEST-NET-1 (RFC 5737): no host has it, so an answer other than "no route" means that there is a network.
_NOBODY = ("192.0.2.1", 9)


def probe(writable: list[str], programs: list[str]) -> dict[str, Any]:
    """Return what a process sees. `writable` are the declared directories, `programs` what to look up on PATH."""
    environment = initial_environment()
    home = environment.get("HOME")
    here = str(Path.cwd())
    places = dict.fromkeys([*SUSPECTS, here, *_site_packages(), *([home] if home else [])])
    declared = {path: _writes(path) for path in writable}
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted(os.getgroups()),
        "user": _user_name(),
        "workdir": here,
        "home": home,
        "home_refuses": _writes(home) if home else None,
        "environment": environment,
        "programs": {name: shutil.which(name) for name in programs},
        "declared": declared,
        "executable": {path: _maps(path) for path, refused in declared.items() if refused is None},
        "writes": [path for path in places if not _within(path, writable) and _writes(path) is None],
        "shm_bytes": _size("/dev/shm"),  # noqa: S108 -- a path of the image,
        "interfaces": _interfaces(),
        "reaches": _reaches(),
    }


def _writes(path: str) -> str | None:
    """Return None when a folder and a file can be made in a directory, else why not."""
    folder = Path(path, f".smoke-{os.getpid()}")
    try:
        folder.mkdir(parents=True)  # as caches do: a home that can be made is as good as one that is there
    except OSError as error:
        return f"[Errno {error.errno}] {error.strerror}: '{path}'"
    try:
        (folder / "file").write_bytes(bytes(4096))
    except OSError as error:
        return f"[Errno {error.errno}] {error.strerror}: '{path}'"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _maps(path: str) -> str | None:
    """Return None when a file of a directory can be mapped as code, as a compiled extension is."""
    name = Path(path, f".smoke-{os.getpid()}.so")
    try:
        with name.open("w+b") as file:
            file.write(b"\0" * mmap.PAGESIZE)
            file.flush()
            mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
    except OSError as error:
        return f"[Errno {error.errno}] {error.strerror}: '{path}'"
    finally:
        with contextlib.suppress(OSError):
            name.unlink()
    return None


def _within(path: str, directories: list[str]) -> bool:
    real = Path(path).resolve()
    return any(real.is_relative_to(Path(top).resolve()) for top in directories)


def _site_packages() -> list[str]:
    import sysconfig

    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("stdlib")})


def _user_name() -> str | None:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def _size(path: str) -> int | None:
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    return told.f_frsize * told.f_blocks


def _interfaces() -> list[str]:
    try:
        return sorted(name for _, name in socket.if_nameindex())
    except OSError:
        return []


def _reaches() -> bool:
    """Tell whether a packet could leave: anything but an immediate "no route" counts as yes."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
        attempt.settimeout(2)
        told = attempt.connect_ex(_NOBODY)
    return told not in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
