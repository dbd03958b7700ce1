"""A network bridge for an engine of a test's own.

Without one (`bridge: none`) an engine removes the default bridge at its start, and with the default one it shares
it: both reach into an engine that runs beside it and is somebody else's.
"""

from __future__ import annotations

import fcntl
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# Of <linux/sockios.h>: what a bare Debian has no program for.
_ADD, _DELETE, _SET_ADDRESS, _SET_MASK, _SET_FLAGS = 0x89A0, 0x89A1, 0x8916, 0x891C, 0x8914
_UP = 1
_ADDRESS, _MASK = "198.18.7.1", "255.255.255.0"  # of the block that is set aside for tests of networks


@contextmanager
def own_bridge() -> Iterator[str]:
    """Make a bridge, give its name, and remove it. Needs root."""
    name = f"rit{secrets.token_hex(4)}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _ADD, name.encode() + b"\0")
        try:
            for request, address in ((_SET_ADDRESS, _ADDRESS), (_SET_MASK, _MASK)):
                family = struct.pack("=HH", socket.AF_INET, 0)
                fcntl.ioctl(control, request, _named(name, family + socket.inet_aton(address)))
            fcntl.ioctl(control, _SET_FLAGS, _named(name, struct.pack("=h", _UP)))
            yield name
        finally:
            fcntl.ioctl(control, _SET_FLAGS, _named(name, struct.pack("=h", 0)))
            fcntl.ioctl(control, _DELETE, name.encode() + b"\0")


def _named(name: str, value: bytes) -> bytes:
    """Return a `struct ifreq`."""
    return struct.pack("16s24s", name.encode(), value)
