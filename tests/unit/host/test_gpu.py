"""What a host has and lacks for a GPU is told by the kernel's files, and so is how a container gets it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.engine import cards
from builder.engine.cards import Card
from builder.host.gpu import examine_gpu
from builder.smoke.inside.gpu_devices import targets


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A root with two GPUs and the processor that the driver lists as well."""
    for path in ("sys/module/amdgpu", "dev/dri"):
        (tmp_path / path).mkdir(parents=True)
    for name in ("dev/kfd", "dev/dri/renderD128", "dev/dri/renderD129", "dev/dri/card0"):
        (tmp_path / name).touch()
    for number, version in enumerate((0, 120001, 90010)):
        node = tmp_path / cards.TOPOLOGY / str(number)
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 4\ngfx_target_version {version}\nname\n")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "target"),
    [(110000, "gfx1100"), (90010, "gfx90a"), (90402, "gfx942"), (120001, "gfx1201"), (90500, "gfx950"),
     (110501, "gfx1151"), (100300, "gfx1030")],
)  # fmt: skip
def test_the_drivers_number_is_the_compilers_target(version: int, target: str, tmp_path: Path) -> None:
    assert cards.target_of(version) == target
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "properties").write_text(f"gfx_target_version {version}\n")
    assert targets(tmp_path) == [target]


def test_a_host_with_gpus_lacks_nothing_and_names_them(host: Path) -> None:
    checks = {check.name: check for check in examine_gpu(host)}
    assert all(check.found and check.remedy is None for check in checks.values()), checks
    assert checks["GPUs"].state == "gfx1201, gfx90a"
    assert checks["GPU render nodes"].state == "/dev/dri/renderD128, /dev/dri/renderD129"
    assert "--group-add " in checks["GPU groups"].state


def test_a_host_without_any_is_told_what_to_do_for_each(tmp_path: Path) -> None:
    checks = {check.name: check for check in examine_gpu(tmp_path)}
    assert not any(check.found for check in checks.values())
    assert all(check.remedy for check in checks.values())
    assert checks["GPU driver"].state == "amdgpu is not loaded"
    assert checks["GPU compute device"].state == "no /dev/kfd"


def test_a_group_that_has_no_name_here_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.host.gpu._group_name", lambda _gid: None)
    groups = next(check for check in examine_gpu(host) if check.name == "GPU groups")
    assert not groups.found
    assert groups.state.startswith("nameless (--group-add ")
    assert groups.remedy == "groupadd --system render; udevadm trigger"


def test_nodes_that_the_user_may_not_open_are_told_with_the_groups_that_may(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: "renderD129" not in str(path))
    access = next(check for check in examine_gpu(host) if check.name == "GPU permissions")
    assert not access.found
    assert access.state.endswith("may not open /dev/dri/renderD129")
    assert (access.remedy or "").startswith("usermod --append --groups ")


def test_a_container_gets_the_devices_and_the_groups_that_own_them(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    found = cards.card(root=host, model=tmp_path)
    assert isinstance(found, Card)
    assert found.devices == ("/dev/kfd", "/dev/dri")
    gid = (host / "dev/kfd").stat().st_gid
    assert found.groups == ((str(gid),) if gid else ())
    assert found.model == str(tmp_path)


def test_why_there_is_no_card_is_said(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    for node in (host / "dev/dri").glob("render*"):
        node.unlink()
    assert cards.card(root=host) == "this machine has /dev/kfd and no render node below /dev/dri"
    (host / "dev/kfd").unlink()
    assert cards.card(root=host) == (
        "this machine has no /dev/kfd: it has no AMD GPU, or the driver amdgpu is not loaded"
    )
    monkeypatch.setenv("DOCKER_HOST", "ssh://elsewhere")
    assert cards.card(root=host) == (
        "the engine is at ssh://elsewhere, and GPUs of another machine are not looked for"
    )
