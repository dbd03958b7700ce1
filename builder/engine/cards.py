"""Finds the AMD GPUs of this machine as containers get them: device nodes, and the groups that may open those.

Asks the kernel's files and no library; it starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.engine.client import endpoint

KFD = "dev/kfd"
DRI = "dev/dri"
TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
DRIVER = "sys/module/amdgpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How GPUs are handed to a container. `groups` are numeric ids, `model` is a folder for the engine."""

    devices: tuple[str, ...]
    groups: tuple[str, ...]
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What there is below `root`: the driver, the device nodes, and the targets of the GPUs, one for each."""

    driver: bool
    kfd: Path | None
    render: tuple[Path, ...]
    targets: tuple[str, ...]


def nodes(root: Path = Path("/")) -> Nodes:
    """Look for GPUs. `root` is where `dev` and `sys` lie."""
    kfd = root / KFD
    return Nodes(
        driver=(root / DRIVER).is_dir(),
        kfd=kfd if kfd.exists() else None,
        render=tuple(sorted((root / DRI).glob("renderD*"))),
        targets=tuple(_targets(root)),
    )


def card(*, model: Path | None = None, root: Path = Path("/")) -> Card | str:
    """Return how this machine's GPUs are handed to containers, or in words why there is none to hand over."""
    if not endpoint().startswith("unix://"):
        return f"the engine is at {endpoint()}, and GPUs of another machine are not looked for"
    found = nodes(root)
    if found.kfd is None:
        return "this machine has no /dev/kfd: it has no AMD GPU, or the driver amdgpu is not loaded"
    if not found.render:
        return "this machine has /dev/kfd and no render node below /dev/dri"
    groups = {node.stat().st_gid for node in (found.kfd, *found.render)} - {0}
    return Card(
        devices=("/dev/kfd", "/dev/dri"), groups=tuple(str(group) for group in sorted(groups)),
        model=str(model.resolve()) if model is not None else None,
    )  # fmt: skip


def target_of(version: int) -> str:
    """Return the target for `gfx_target_version` of the kernel: 110000 is gfx1100, 90010 is gfx90a."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _targets(root: Path) -> list[str]:
    found = []
    for properties in sorted((root / TOPOLOGY).glob("*/properties"), key=lambda path: path.parent.name.zfill(4)):
        try:
            lines = properties.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        told = dict(line.split(maxsplit=1) for line in lines if len(line.split()) == 2)
        if (version := int(told.get("gfx_target_version", "0"))) > 0:  # processors have nodes as well, with 0
            found.append(target_of(version))
    return found
