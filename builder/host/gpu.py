"""Looks at what the gpu tier of the smoke tests, and any server, needs from this machine. Changes nothing."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

from builder.engine import cards
from builder.host.checks import Check, check

_NEEDED_FOR = "run kernels: the gpu tier of the smoke tests, and any server"


def examine_gpu(root: Path = Path("/")) -> tuple[Check, ...]:
    """Return what this machine has and lacks for AMD GPUs. `root` is where `dev` and `sys` lie."""
    found = cards.nodes(root)
    given = tuple(node for node in (found.kfd, *found.render) if node is not None)
    return (
        check(
            "GPU driver", found=found.driver, state="amdgpu is loaded" if found.driver else "amdgpu is not loaded",
            needed_for=_NEEDED_FOR,
            remedy="modprobe amdgpu; where there is no such module, install AMD's amdgpu-dkms",
        ),
        check(
            "GPU compute device", found=found.kfd is not None,
            state="/dev/kfd" if found.kfd is not None else "no /dev/kfd", needed_for=_NEEDED_FOR,
            remedy="load the driver on a machine with an AMD GPU; in a virtual machine, pass it through",
        ),
        check(
            "GPU render nodes", found=bool(found.render),
            state=", ".join(f"/dev/dri/{node.name}" for node in found.render) or "no /dev/dri/renderD*",
            needed_for=_NEEDED_FOR, remedy="load the driver; in a virtual machine, pass the GPU through",
        ),
        check(
            "GPUs", found=bool(found.targets), state=", ".join(found.targets) or "the driver lists none",
            needed_for="compare with the gfx of a recipe", remedy="see: dmesg | grep amdgpu",
        ),
        _groups(given),
        _access(given),
    )  # fmt: skip


def _groups(given: tuple[Path, ...]) -> Check:
    """Tell which groups a container needs: numbers, because names differ between machines and images."""
    ids = sorted({node.stat().st_gid for node in given})
    names = {gid: _group_name(gid) for gid in ids}
    nameless = [gid for gid, name in names.items() if name is None]
    told = ", ".join(f"{name or 'nameless'} (--group-add {gid})" for gid, name in names.items())
    return check(
        "GPU groups", found=bool(ids) and not nameless, state=told or "no device node that has one",
        needed_for="let a container's user open the devices",
        remedy="groupadd --system render; udevadm trigger" if nameless else "load the driver first",
    )  # fmt: skip


def _access(given: tuple[Path, ...]) -> Check:
    refused = [node for node in given if not os.access(node, os.R_OK | os.W_OK)]
    user = pwd.getpwuid(os.getuid()).pw_name
    names = sorted({_group_name(node.stat().st_gid) or str(node.stat().st_gid) for node in refused})
    state = f"{user} may open all of them" if given else "no device node to open"
    if refused:
        state = f"{user} may not open {', '.join(f'/{_shown(node)}' for node in refused)}"
    return check(
        "GPU permissions", found=bool(given) and not refused, state=state,
        needed_for="use the GPU outside of containers, and with a rootless engine",
        remedy=f"usermod --append --groups {','.join(names)} {user}; then log in again" if refused
        else "load the driver first",
    )  # fmt: skip


def _shown(node: Path) -> str:
    return "/".join(node.parts[node.parts.index("dev") :])


def _group_name(gid: int) -> str | None:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None
