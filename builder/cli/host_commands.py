"""Commands about this machine: what it lacks, its engine, the embedded registry."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli.console import Console
from builder.workspace import Workspace, find_workspace

if TYPE_CHECKING:
    from builder.host.checks import Check
    from builder.host.registry_service import RegistrySettings

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Install = Annotated[
    bool, typer.Option("--install", help="Install the missing Debian packages first, in one apt transaction.")
]

_engine = typer.Typer(help="Start, stop and ask the container engine.", no_args_is_help=True)
_registry = typer.Typer(help="Start, stop and ask the embedded registry.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("doctor")(doctor)
    app.command("install")(install)
    app.add_typer(_engine, name="engine")
    app.add_typer(_registry, name="registry")


def doctor(
    context: typer.Context,
    as_json: Json = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="Look also for what the GPU needs.")] = False,
    signing: Annotated[bool, typer.Option("--signing", help="Look also for what signatures need.")] = False,
) -> None:
    """Tell what of the needed this machine has, and how to get the rest. Exit code 8 if something is missing.

    Examples:
        rocm-images doctor
        rocm-images doctor --gpu --json
    """
    from builder.errors import EngineError
    from builder.host.doctor import examine, examine_signing
    from builder.host.gpu import examine_gpu

    checks = (
        *examine(_project(context)),
        *(examine_gpu() if gpu else ()),
        *(examine_signing() if signing else ()),
    )
    if as_json:
        held = {"complete": all(check.found for check in checks), "checks": [asdict(check) for check in checks]}
        Console().result(json.dumps(held, indent=2))
    else:
        Console().result(_table(checks))
    if not all(check.found for check in checks):
        raise typer.Exit(EngineError.exit_code)


def install(
    registry: Annotated[bool, typer.Option(help="Also what the embedded registry needs.")] = True,
    sudo: Annotated[bool, typer.Option("--sudo", help="Become root by sudo, where something is missing.")] = False,
    signing: Annotated[
        bool, typer.Option("--signing", help="Also what signing images and verifying signatures needs.")
    ] = False,
) -> None:
    """Install what this machine lacks of Debian packages, in one apt transaction. Tells first what will change.

    Examples:
        rocm-images install
        rocm-images install --signing --sudo
    """
    from builder.engine import client
    from builder.errors import EngineError
    from builder.host import apt, programs

    console = Console()
    try:
        client.connect(timeout_seconds=10).close()
        answers = True
    except EngineError:
        answers = False
    lacking = (
        *programs.missing_for_engine(answers=answers),
        *(programs.missing_for_registry() if registry else ()),
        *programs.missing_for_sources(),
        *(programs.missing_for_signing() if signing else ()),
    )
    if not lacking:
        console.note("every program that is needed is installed")
        return
    with console.step("install what this machine lacks"):
        if sudo and os.geteuid() != 0:
            words = ([] if registry else ["--no-registry"]) + (["--signing"] if signing else [])
            _as_root([sys.argv[0], "install", *words], console)
        else:
            apt.install(lacking, console)


@_engine.command("up")
def engine_up(context: typer.Context, install: Install = False) -> None:
    """Have an engine: the one that answers, as it is, or one started here. Prints its address.

    Examples:
        rocm-images engine up
        rocm-images engine up --install
    """
    from builder.host import engine_service

    console = Console()
    settings = engine_service.settings_for(_workspace(context))
    with console.step("have a container engine"):
        engine = engine_service.up(settings, console, install=install)
    console.result(engine.host)


@_engine.command("down")
def engine_down(context: typer.Context) -> None:
    """Stop the engine that `engine up` started; leave any other alone.

    Example: rocm-images engine down
    """
    from builder.host import engine_service

    engine_service.down(engine_service.settings_for(_workspace(context)), Console())


@_engine.command("status")
def engine_status(context: typer.Context, as_json: Json = False) -> None:
    """Tell which engine answers and whether it was started here. Exit code 8 if none answers.

    Example: rocm-images engine status --json
    """
    from builder.errors import EngineError
    from builder.host import engine_service

    status = engine_service.status(engine_service.settings_for(_workspace(context)))
    told: dict[str, Any] = {"answers": status.info is not None, "host": status.host}
    if status.info is not None:
        told |= {
            "version": status.info.version,
            "image_store": "containerd" if status.info.containerd_store else "older",
            "platform": status.info.platform,
            "data_root": str(status.info.data_root),
            "buildx": status.info.buildx_version,
            "driver": status.info.driver,
        }
    else:
        told["why_not"] = status.why_not
    told["started_here"] = status.ours is not None
    if status.ours is not None:
        told |= {"pid": status.ours.pid, "log": str(status.log)}
    _tell(told, as_json=as_json)
    if status.info is None:
        raise typer.Exit(EngineError.exit_code)


@_engine.command("free")
def engine_free(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also images that are what the recipes make, and all of the build cache.")
    ] = False,
    unused_hours: Annotated[
        int, typer.Option("--unused-hours", min=1, help="Build cache that was not used for so long is given back.")
    ] = 48,
    as_json: Json = False,
) -> None:
    """Give back room on the engine's disk: images of this project that no recipe makes now, old build cache.

    Images of others, and those that a container uses, stay. A later build makes again what it needs.

    Examples:
        rocm-images engine free
        rocm-images engine free --unused-hours 12
        rocm-images engine free --all
    """
    from builder.engine import client
    from builder.errors import LockError, RecipeError
    from builder.host.disk import free, gib
    from builder.project import names, prepare

    console, workspace = Console(), _workspace(context)
    engine = client.info()
    current: dict[str, set[str]] = {}
    for name in names(workspace):
        try:
            current[name] = {prepare(workspace, name).content_key}
        except (LockError, RecipeError) as failure:
            if not everything:
                raise  # what its recipe makes cannot be told
            console.note(failure.message)
            current[name] = set()
    with console.step("give back room on the engine's disk"):
        freed = free(current, engine, console, unused_hours=unused_hours, everything=everything)
    if as_json:
        console.result(json.dumps(asdict(freed), indent=2, default=str))
        return
    for image in freed.images:
        console.result(f"removed  {image}")
    console.result(f"removed  {gib(freed.cache)} of build cache")
    if freed.room is not None:
        console.result(f"free     {gib(freed.room.free)} of {gib(freed.room.total)} at {freed.room.folder}")


@_registry.command("up")
def registry_up(context: typer.Context, install: Install = False, as_json: Json = False) -> None:
    """Have the embedded registry run on loopback. Prints HOST:PORT.

    Examples:
        rocm-images registry up
        rocm-images registry up --install --json
    """
    from builder.host import registry_service

    console = Console()
    settings = registry_service.settings_for(_workspace(context))
    with console.step("have a registry"):
        address = registry_service.up(settings, console, install=install)
    console.result(json.dumps(_registry_state(settings), indent=2) if as_json else address)


@_registry.command("down")
def registry_down(context: typer.Context) -> None:
    """Stop the embedded registry. What it holds stays.

    Example: rocm-images registry down
    """
    from builder.host import registry_service

    registry_service.down(registry_service.settings_for(_workspace(context)), Console())


@_registry.command("status")
def registry_status(context: typer.Context, as_json: Json = False) -> None:
    """Tell whether the embedded registry runs and where. Exit code 8 if it does not.

    Example: rocm-images registry status
    """
    from builder.errors import EngineError
    from builder.host import registry_service

    told = _registry_state(registry_service.settings_for(_workspace(context)))
    _tell(told, as_json=as_json)
    if not told["answers"]:
        raise typer.Exit(EngineError.exit_code)


def _as_root(argv: list[str], console: Console) -> None:
    """Run a command of this program by sudo, which must not ask for a password."""
    from builder import process
    from builder.errors import EngineError

    done = process.run(["sudo", "--non-interactive", *argv], on_line=lambda line: console.note(line.strip()))
    if done.status != 0:
        raise EngineError("the same command by sudo failed", details=done.tail, hint=f"sudo {' '.join(argv)}")


def _registry_state(settings: RegistrySettings) -> dict[str, Any]:
    from builder.host import registry_service

    status = registry_service.status(settings)
    return {
        "address": status.address,
        "answers": status.answers,
        "pid": status.process.pid if status.process is not None else None,
        "data": str(status.data),
        "log": str(status.log),
    }


def _tell(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        Console().result(json.dumps(told, indent=2))
        return
    width = max(map(len, told))
    lines = (f"{name.replace('_', ' '):{width}}  {_word(value)}" for name, value in told.items())
    Console().result("\n".join(lines))


def _word(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _table(checks: tuple[Check, ...]) -> str:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'found  ' if check.found else 'MISSING'}  {check.name:{width}}  {check.state}")
        if not check.found:
            lines.append(f"{'':9}{'':{width}}  needed to {check.needed_for}")
            if check.remedy is not None:
                lines.append(f"{'':9}{'':{width}}  get it: {check.remedy}")
    return "\n".join(lines)


def _workspace(context: typer.Context) -> Workspace:
    root: Path | None = context.obj
    return find_workspace(Path.cwd()) if root is None else Workspace(root=root.absolute())


def _project(context: typer.Context) -> Path:
    """Return the project's folder; the doctor works outside of one, too."""
    from builder.errors import RecipeError

    try:
        return _workspace(context).root
    except RecipeError:
        return Path.cwd()
