"""The environment as served: who runs, with which variables, where it can write, and that it needs no network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from builder.engine import contents
from builder.engine.containers import Identity, Running
from builder.smoke.contract import Contract
from builder.smoke.findings import Unfit, diagnosed, unfit
from builder.smoke.plugin import Probe
from builder.smoke.probing import Probing
from builder.smoke.variables import forbidden_variables, needed_programs

# What the engine and the shell of `docker exec` set by themselves.
_NOT_FROM_THE_IMAGE = frozenset({"HOME", "HOSTNAME", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "_", "container"})


@pytest.fixture(scope="module")
def served(shared_probe: Probe, contract: Contract) -> dict[str, Any]:
    """Ask once what a process in the image sees."""
    programs = sorted({name for names in needed_programs(contract) for name in names})
    return shared_probe(
        "served_environment", writable=list(contract.writable), programs=programs, limit_seconds=60
    )


@pytest.mark.asks("user")
@pytest.mark.hint("set image.user, and let the image end with that USER")
def test_the_image_runs_as_the_declared_user(served: dict[str, Any], owner: Identity, contract: Contract) -> None:
    """The server would run as root, or as a user that its caches do not belong to."""
    if (served["uid"], served["gid"]) != (owner.uid, owner.gid):
        raise unfit(
            f"the image runs as {served['user'] or 'a nameless user'} ({served['uid']}:{served['gid']}), "
            f"declared is {contract.user or 'root'} ({owner.uid}:{owner.gid})"
        )
    if contract.user_name is not None and served["user"] != contract.user_name:
        raise unfit(f"the image's user is called {served['user'] or 'nothing'}, declared is {contract.user_name}")


@pytest.mark.asks("workdir")
@pytest.mark.hint("set image.workdir, and let the image keep it")
def test_the_image_starts_in_the_declared_directory(served: dict[str, Any], contract: Contract) -> None:
    """Paths relative to the working directory would not be found."""
    if served["workdir"] != contract.workdir:
        raise unfit(f"the image starts in {served['workdir']}, declared is {contract.workdir}")


@pytest.mark.asks("env")
@pytest.mark.hint("declare in image.env what the image has to set, and clear what only the build needs")
def test_the_variables_are_the_declared_ones(served: dict[str, Any], contract: Contract) -> None:
    """The server would run without a switch that it needs, or with one that leaked from the build."""
    actual: dict[str, str] = served["environment"]
    wrong = [
        f"{name} is {actual[name]!r} instead of {value!r}" if name in actual else f"{name} is not set"
        for name, value in sorted(contract.env.items())
        if actual.get(name) != value
    ]
    surplus = [
        f"{name} is set and not declared"
        for name in sorted(actual)
        if name not in contract.env
        and name not in contract.required
        and name not in contract.allowed
        and name not in _NOT_FROM_THE_IMAGE
    ]
    if wrong or surplus:
        raise unfit("; ".join(wrong + surplus))


@pytest.mark.asks("required")
@pytest.mark.hint("set it in image.env: an entrypoint is passed over as soon as somebody gives a command")
def test_the_variable_is_set_by_the_image(required: str, probing: Probing) -> None:
    """The engine would run without a setting that it needs, and abort on a request or compute something else."""
    config = contents.config(probing.image)
    if config is None or not config.env.get(required):
        raise unfit(f"{required} is not set by ENV")


@pytest.mark.hint("clear it in the final stage, or allow it in smoke.env.allowed where this is right")
def test_no_variable_is_set_that_must_not_be(probing: Probing) -> None:
    """A setting of the build, or for another card, would reach the server: wrong kernels, or a leaked secret."""
    config = contents.config(probing.image)
    wrong = forbidden_variables(config.env if config is not None else {}, probing.contract)
    if wrong:
        raise unfit("; ".join(wrong))


@pytest.mark.hint("install it in the runtime stage, or add its folder to PATH in image.env")
def test_the_programs_that_compiles_start_are_on_the_path(
    needed: list[tuple[str, ...]], served: dict[str, Any], contract: Contract
) -> None:
    """The first request that compiles would die, although an interactive shell finds the program."""
    for names in needed:
        if not any(served["programs"][name] for name in names):
            path = served["environment"].get("PATH")
            said = f"sh: 1: {names[0]}: not found"
            if names == ("ninja",):
                said = "Ninja is required to load C++ extensions"
            otherwise = f"{' or '.join(names)} is not on the PATH as served ({path})"
            raise Unfit(diagnosed(said, contract, otherwise=otherwise))


@pytest.mark.asks("writable")
@pytest.mark.hint("declare in image.writable what the engine writes to, and point its caches there")
def test_every_declared_directory_takes_files_and_code(served: dict[str, Any], contract: Contract) -> None:
    """The first request would die where a compiler or a cache writes its files."""
    _require_writable(served["declared"], contract)
    for path, refused in served["executable"].items():
        if refused is not None:
            raise unfit(
                f"what is compiled into {path} cannot be loaded: {refused}", hint=f"mount {path} with exec"
            )


@pytest.mark.asks("writable")
@pytest.mark.hint("let the image make its writable directories and give them to its user")
def test_the_image_itself_gives_its_user_the_declared_directories(
    start: Callable[..., AbstractContextManager[Running]],
    probe_in: Callable[[Running], Probe],
    contract: Contract,
) -> None:
    """A plain `docker run`, or a volume that takes over a directory's owner, could not be written to."""
    with start(writable=(), read_only=False) as uncovered:
        found = probe_in(uncovered)(
            "served_environment", writable=list(contract.writable), programs=[], limit_seconds=60
        )
    _require_writable(found["declared"], contract)


@pytest.mark.asks("writable")
@pytest.mark.hint("set HOME in image.env to a directory of image.writable")
def test_the_home_directory_takes_files(served: dict[str, Any], contract: Contract) -> None:
    """Libraries that keep caches and settings below the home directory would fail on the first request."""
    if served["home"] is None:
        raise unfit("HOME is not set")
    if served["home_refuses"] is not None:
        declared = ", ".join(contract.writable) or "none"
        raise unfit(
            f"HOME={served['home']} cannot be written, it is in none of image.writable ({declared})",
            details=(served["home_refuses"],),
        )


@pytest.mark.asks("writable")
@pytest.mark.hint("declare the directory in image.writable, or drop the VOLUME that makes it writable")
def test_nothing_else_is_writable(served: dict[str, Any]) -> None:
    """State would be written into the container, fill the node's disk and be lost."""
    if served["writes"]:
        raise unfit(f"{', '.join(served['writes'])} can be written and is not in image.writable")


def test_there_is_no_network(served: dict[str, Any]) -> None:
    """Every other test would prove nothing: a cold start could download what the image lacks."""
    others = [name for name in served["interfaces"] if name != "lo"]
    if others or served["reaches"]:
        raise unfit(f"the container has a network: {', '.join(others) or 'it reaches other hosts'}")


def _require_writable(declared: dict[str, str | None], contract: Contract) -> None:
    for path, refused in declared.items():
        if refused is not None:
            otherwise = f"{path} is in image.writable and takes no file: {refused}"
            raise Unfit(diagnosed(refused, contract, otherwise=otherwise, details=(refused,)))
