"""The commands `ci …`: what workflows need beside what people do. Nothing here is about images themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli.actions import add_summary, set_outputs
from builder.cli.console import Console
from builder.cli.image_commands import Json, workspace_of

if TYPE_CHECKING:
    from builder.ci.comments import Forge

_ci = typer.Typer(help="What workflows of hosted CI need: docs/ci.md.", no_args_is_help=True)
_USER, _PASSWORD = "REGISTRY_USER", "REGISTRY_PASSWORD"


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(_ci, name="ci")


@_ci.command("login")
def login(
    where: Annotated[str, typer.Argument(metavar="HOST[/NAMESPACE]", help="The registry.", show_default=False)],
) -> None:
    """Log docker in to a registry, as REGISTRY_USER with REGISTRY_PASSWORD; without a password do nothing.

    Both are read from the environment, and the password is in no command line and no output.

    Example: REGISTRY_USER=me REGISTRY_PASSWORD=… rocm-images ci login ghcr.io/me
    """
    from builder import process
    from builder.errors import EngineError, RecipeError

    console = Console()
    user, password = os.environ.get(_USER, ""), os.environ.get(_PASSWORD, "")
    host = where.partition("/")[0]
    if not where or not password:
        console.note(f"no login: {f'{_PASSWORD} is not set' if where else 'no registry is named'}")
        return
    if not user:
        raise RecipeError(f"{_USER} is not set, {_PASSWORD} is", hint=f"set {_USER} to the name of the account")
    server = [] if host == "docker.io" else [host]
    done = process.run(["docker", "login", "--username", user, "--password-stdin", *server], stdin=password)
    if done.status != 0:
        raise EngineError(f"{host}: the registry did not let {user} in", details=done.tail)
    console.note(f"{host}: logged in as {user}")


@_ci.command("report")
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A report in Markdown.", show_default=False)],
    name: Annotated[str, typer.Option(help="Which comment it is: the one of this name is changed.")] = "bump",
    branch: Annotated[
        str | None,
        typer.Option(help="Tell the open pull request from this branch.", show_default=False),
    ] = None,
) -> None:
    """Add a report to the job's summary, and tell it to the pull request of a branch, in one comment.

    Without a token in GITHUB_TOKEN, or without a pull request, the summary alone has it. A comment that is refused
    is a warning. GITHUB_API_URL and GITHUB_REPOSITORY say where; GitHub sets both.

    Example: rocm-images ci report bump.md --branch "$GITHUB_REF_NAME"
    """
    from builder.ci.comments import pull_request_of, tell
    from builder.errors import EngineError, RecipeError

    console = Console()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: cannot be read: {error}") from error
    if not text.strip():
        console.note(f"{file}: says nothing")
        return
    add_summary(text)
    forge = _forge()
    if forge is None or not branch:
        return
    try:
        number = pull_request_of(forge, branch)
        if number is None:
            console.note(f"{branch}: no open pull request")
        else:
            console.result(tell(forge, number, text, name=name))
    except EngineError as failure:
        console.warn(f"the pull request was not told: {failure.message}")


@_ci.command("commit")
def commit(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files and folders of the project.", show_default=False)
    ],
    message: Annotated[str, typer.Option("--message", "-m", help="What the commit says.", show_default=False)],
    push: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Push it to this branch of origin.", show_default=False)
    ] = None,
) -> None:
    """Commit what a run has changed below some paths, and push it; nothing changed is nothing to do.

    The author is one that the Renovate preset ignores, so that Renovate goes on with its branch. GITHUB_TOKEN is
    what git logs in with, where it is set. A branch that went on meanwhile is left alone.

    Example: rocm-images ci commit images --message "Lock again" --push "$GITHUB_REF_NAME"
    """
    from builder.ci import commits

    console = Console()
    root = workspace_of(context).root
    made = commits.commit(root, paths, message=message)
    if made is None:
        console.note("nothing has changed, nothing to commit")
        set_outputs({"commit": ""})
        return
    pushed = push is None or commits.push(root, push, token=os.environ.get("GITHUB_TOKEN"), story=console)
    set_outputs({"commit": made if pushed else ""})
    console.result(made)


@_ci.command("pins")
def pins(context: typer.Context, as_json: Json = False) -> None:
    """List what every image with a record is pinned by; in CI also as the output `pins` and in the summary.

    Example: rocm-images ci pins --json
    """
    from builder.project import names
    from builder.record import parse_pin

    workspace, console = workspace_of(context), Console()
    found = {}
    for name in names(workspace):
        path = workspace.pin(name)
        if path.exists():
            found[name] = parse_pin(path.read_text(encoding="utf-8"), file=workspace.shown(path))
    references = {name: str(table["reference"]) for name, table in found.items()}
    set_outputs({"pins": json.dumps(references)})
    lines = ["### Images", "", "| image | version | smoke tests | pin |", "| --- | --- | --- | --- |"]
    for name, table in found.items():
        tiers = ", ".join(f"{tier} {outcome}" for tier, outcome in table["smoke"]["tiers"].items())
        lines.append(f"| {name} | {table['version']} | {tiers} | `{table['reference']}` |")
    add_summary("\n".join(lines if found else ["No image has a record."]))
    if as_json:
        console.result(json.dumps(references, indent=2))
        return
    for reference in references.values():
        console.result(reference)


def _forge() -> Forge | None:
    from builder.ci.comments import Forge

    token, repository = os.environ.get("GITHUB_TOKEN"), os.environ.get("GITHUB_REPOSITORY")
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    return Forge(api=api, repository=repository, token=token) if token and repository else None
