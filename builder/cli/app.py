"""The command `rocm-images`: turns words into calls and failures into exit codes.

Commands import what they need when they run, so that `--help` and `plan` stay quick.
"""

from __future__ import annotations

import errno
import logging
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from builder import __version__
from builder.cli import (
    adopt_command,
    bump_command,
    check_command,
    ci_commands,
    compare_commands,
    host_commands,
    image_commands,
    inspect_command,
    patches_command,
    pin_command,
    pins_command,
    plan_command,
    start_commands,
    verify_command,
)
from builder.cli.console import Console
from builder.cli.helping import Grouped, keep_examples
from builder.cli.orientation import orientation
from builder.errors import Failure, Interrupted

app = typer.Typer(
    name="rocm-images",
    help="Build, smoke-test and pin container images of ROCm LLM engines.",
    cls=Grouped,
    invoke_without_command=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
image_commands.register(app)
check_command.register(app)
inspect_command.register(app)
compare_commands.register(app)
plan_command.register(app)
patches_command.register(app)
bump_command.register(app)
pin_command.register(app)
pins_command.register(app)
verify_command.register(app)
host_commands.register(app)
ci_commands.register(app)
start_commands.register(app)
adopt_command.register(app)
keep_examples(app)


def _version(asked: bool) -> None:
    if asked:
        Console().result(__version__)
        raise typer.Exit


@app.callback()
def _global(
    context: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option(help="The recipe repository; default: the folder here or above with images/."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every program that is started.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if verbose:
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="    %(name)s: %(message)s")
        for loud in ("urllib3", "docker", "asyncio"):
            logging.getLogger(loud).setLevel(logging.INFO)
    context.obj = root
    if context.invoked_subcommand is None:
        Console().result(orientation(Path.cwd() if root is None else root))


def main() -> None:
    """Run the command line and end the process with the exit code of what happened."""
    console = Console()
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        code = app(standalone_mode=False)
    except Failure as failure:
        console.failure(failure)
        code = failure.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = Interrupted.exit_code
    except Exception as error:
        if isinstance(show := getattr(error, "show", None), object) and callable(show):  # click's usage errors
            show()
            code = 2
        else:
            logging.getLogger(__name__).debug("not expected", exc_info=True)
            told = _of_the_disk(error) or _bug(error)
            console.failure(told)
            code = told.exit_code
    if code == Interrupted.exit_code:  # also what typer makes of an interrupt inside a command
        console.warn("interrupted; nothing was pinned, and what was started has been stopped")
    sys.exit(code if isinstance(code, int) else 0)


def _of_the_disk(error: Exception) -> Failure | None:
    """Return the failure for a disk that takes no more, None for anything else: there, nothing here is wrong."""
    from builder.errors import EngineError

    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return None
    where = f"{error.filename}: " if error.filename else ""
    return EngineError(
        f"{where}{(error.strerror or str(error)).lower()}",
        hint="df -h shows which disk; rocm-images engine free gives back room",
    )


def _bug(error: Exception) -> Failure:
    import traceback

    return Failure(
        f"a bug in rocm-images: {type(error).__name__}: {error}",
        details=tuple(traceback.format_exc().splitlines()[-12:]),
        hint="please report it with the lines above",
    )


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
