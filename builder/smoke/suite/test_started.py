"""The image as production starts it: its own command, behind its entrypoint and without, and as somebody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import testinfra.host  # type: ignore[import-untyped]

from builder.engine.containers import Identity
from builder.smoke.contract import Contract
from builder.smoke.findings import Unfit, diagnosed, unfit
from builder.smoke.probing import for_user
from builder.target import GfxTarget

Probed = Callable[[], dict[str, Any]]


def _command(contract: Contract, started: str) -> dict[str, Any]:
    return {
        "command": list(contract.argv),
        "entrypoint": None if started == "as declared" else [],
        "nameless": started == "as another user",
    }


def _declared_directories(contract: Contract) -> dict[str, Any]:
    return {"writable": list(contract.writable), "programs": [], "limit_seconds": 60, "nameless": True}


def _compile(contract: Contract, compiles: str) -> dict[str, Any]:
    """Return the probe of the compile that is named; one is enough, the quickest that the contract asks for."""
    how: dict[str, Any] = {"nameless": True, "limit_seconds": 180}
    if compiles == "sglang-hash":
        return {"probe": "hash_extension", **how}
    how["writable"] = list(contract.writable)
    if compiles == "triton":
        target = GfxTarget(contract.triton_gfx[0])
        return {"probe": "triton_compile", "targets": [(target.text, target.wave_size)], **how}
    if compiles == "torch-inline":
        return {"probe": "torch_inline", **how}
    probe = "hip_module" if compiles == "hip-module" else "hip_compile"
    return {"probe": probe, "targets": list(contract.hip_gfx[:1]), **how}


@pytest.mark.asks("program")
@pytest.mark.hint("install what brings it in the runtime stage, or correct image.entrypoint and image.cmd")
def test_the_program_that_it_starts_is_in_the_image(program: str, host: testinfra.host.Host) -> None:
    """No container would start: the first word of its command is no program."""
    if not host.exists(program):
        raise unfit(f"the program {program}, which the image starts, is not in it")


@pytest.mark.asks("argv")
@pytest.mark.ahead("command", _command)
@pytest.mark.hint(
    "run the command in a container of the image, read-only and without network, and see what it says"
)
def test_the_command_ends_well(started: str, probed: Probed, contract: Contract) -> None:
    """The server would not start: its command dies before it looks at a model or a card."""
    ended = probed()
    shown = " ".join(contract.argv)
    if ended["status"] is None:
        raise unfit(f"{shown} did not end within {ended['limit']:g} s", details=tuple(ended["lines"][-12:]))
    if ended["status"] != 0:
        lines: list[str] = ended["lines"]
        last = lines[-1] if lines else "it said nothing"
        finding = diagnosed(
            "\n".join(reversed(lines)), contract, otherwise=f"{shown} ended with status {ended['status']}: {last}",
            details=tuple(lines[-12:]),
        )  # fmt: skip
        raise Unfit(finding)


@pytest.mark.asks("writable", "nameless")
@pytest.mark.ahead("served_environment", _declared_directories)
@pytest.mark.hint("point HOME and every cache below image.writable, by image.env")
def test_any_other_user_can_use_the_directories_that_are_mounted_for_it(
    probed: Probed, contract: Contract
) -> None:
    """A cluster that gives every namespace a uid of its own could not run the image."""
    seen = probed()
    for path, refused in {**seen["declared"], seen["home"]: seen["home_refuses"]}.items():
        if refused is not None:
            otherwise = f"{path} takes no file of user {seen['uid']}:{seen['gid']}: {refused}"
            seen_by = for_user(contract, Identity(uid=seen["uid"], gid=seen["gid"]))
            raise Unfit(diagnosed(refused, seen_by, otherwise=otherwise, details=(refused,)))


@pytest.mark.asks("writable", "nameless")
@pytest.mark.ahead("compile", _compile)
@pytest.mark.hint("set HOME, USER and the cache variables in image.env: libraries look the uid up in /etc/passwd")
def test_any_other_user_compiles_from_a_cold_cache(compiles: str, probed: Probed) -> None:
    """The first kernel would die for a user that the image does not know, although it works for its own."""
    assert probed(), compiles
