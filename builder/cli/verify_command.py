"""The command `verify`: is a published image what its record says, and who vouches for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builder.cli import completion
from builder.cli.console import Console
from builder.cli.image_commands import Json, MirrorsFile, workspace_if_any

if TYPE_CHECKING:
    from builder.reference import Place
    from builder.supply.signing import Trusted
    from builder.supply.verdicts import Verdict
    from builder.supply.verify import Held
    from builder.workspace import Workspace

_MARKS = {"passed": "passed", "failed": "FAILED", "not checked": "not checked"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(verify)


def verify(
    context: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            show_default=False,
            help="HOST/PATH[:TAG][@DIGEST], oci:FOLDER[:TAG][@DIGEST], or an image here that has a record.",
            autocompletion=completion.images,
        ),
    ],
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The record to hold it to; default: this project's, where there is one."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The public key that has to have signed it, as cosign takes it."),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(metavar="IDENTITY", help="Who has to have signed it without a key; with --issuer."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="The identity provider that vouches for --identity.")
    ] = None,
    log: Annotated[
        bool,
        typer.Option("--transparency-log", help="With --key: the signature has to be in the public log as well."),
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte of the image, and hash it.")] = False,
    mirrors: MirrorsFile = None,
    as_json: Json = False,
) -> None:
    """Check that a tested image is still served as its record says, with the right documents beside it.

    Each check is passed, failed or not checked, with why. Exit code: 0 when none failed; 7 when one did; 8 when a
    signature that was asked for could not be looked for.

    Examples:
        rocm-images verify sglang-debian
        rocm-images verify registry.example.org/llm/sglang:0.5.16-12feef147c7d --key cosign.pub --deep
    """  # fmt: skip
    from builder.errors import EngineError, PublishError
    from builder.mirrors import load_mirrors
    from builder.supply.verify import verify as run

    trusted = _trusted(key, identity, issuer, log=log)
    workspace, console = workspace_if_any(context), Console()
    place, held = _asked(workspace, reference, record)
    verdict = run(
        place, held=held, expected=_expected(workspace, held), trusted=trusted, deep=deep, story=console,
        mirrors=load_mirrors(workspace.root if workspace is not None else Path.cwd(), mirrors),
    )  # fmt: skip
    console.result(json.dumps(verdict.to_plain(), indent=2) if as_json else _text(verdict))
    if failed := verdict.failed:
        raise PublishError(
            f"{reference}: {len(failed)} of {len(verdict.checks)} checks failed: "
            f"{', '.join(dict.fromkeys(check.name for check in failed))}",
            details=tuple(f"{check.name}: {line}" for check in failed for line in check.words),
            hint="deploy nothing of it before it is known why; docs/supply-chain.md says what each check means",
        )
    if verdict.undecided:
        raise EngineError(
            f"{reference}: could not be decided although it was asked for: {', '.join(verdict.undecided)}",
            details=tuple(
                line for check in verdict.checks if check.name in verdict.undecided for line in check.words
            ),
        )


def _trusted(key: str | None, identity: str | None, issuer: str | None, *, log: bool) -> Trusted | None:
    from builder.errors import RecipeError
    from builder.supply.signing import Trusted, require_cosign

    if key is not None and (identity is not None or issuer is not None):
        raise RecipeError("--key and --identity: a signature is by a key or by an identity", hint="leave one out")
    if (identity is None) != (issuer is None):
        raise RecipeError("--identity and --issuer belong together", hint="name both")
    if key is None and identity is None:
        if log:
            raise RecipeError("--transparency-log: nothing says whose signature is looked for", hint="--key KEY")
        return None
    if key is not None and "://" not in key and not Path(key).is_file():
        raise RecipeError(f"--key: there is no file {key}", hint="cosign public-key --key KEY >cosign.pub")
    require_cosign()
    return Trusted(key=key, identity=identity, issuer=issuer, log=log or key is None)


def _asked(workspace: Workspace | None, word: str, record: Path | None) -> tuple[Place, Held | None]:
    """Return what is to be checked, and the record that it is held to."""
    from builder.errors import LockError, RecipeError
    from builder.project import names
    from builder.reference import parse_place

    held = _read(record, str(record)) if record is not None else None
    if workspace is not None and word in names(workspace):
        path = workspace.pin(word)
        if held is None and not path.exists():
            raise LockError(
                f"{workspace.shown(path)}: {word} has no published, tested build here",
                hint=f"rocm-images build {word} --publish HOST/NAMESPACE",
            )
        held = held or _read(path, workspace.shown(path))
        return parse_place(str(_table(held)["reference"])), held
    try:
        place = parse_place(word)
    except ValueError as error:
        raise RecipeError(f"{word}: neither an image of this project nor a reference: {error}") from error
    return place, held or (_own(workspace, place) if workspace is not None else None)


def _own(workspace: Workspace, place: Place) -> Held | None:
    """Return this project's record of the image that is published there, None where it has none."""
    from builder.errors import LockError
    from builder.reference import parse_place

    for path in sorted(workspace.pins.glob("*.json")):
        held = _read(path, workspace.shown(path))
        try:
            there = parse_place(str(_table(held)["reference"]))
        except (LockError, ValueError):
            continue
        if there.name == place.name:
            return held
    return None


def _expected(workspace: Workspace | None, held: Held | None) -> dict[str, Any] | None:
    """Return the provenance that follows from recipe and lock here, where they are those of the record."""
    from builder.errors import Failure
    from builder.project import prepare
    from builder.supply.documents import expected

    if workspace is None or held is None:
        return None
    table = _table(held)
    try:
        prepared = prepare(workspace, str(table["image"]))
    except Failure:
        return None
    return expected(prepared) if table.get("lock") == f"sha256:{prepared.lock_hash}" else None


def _read(path: Path, shown: str) -> Held:
    from builder.errors import RecipeError
    from builder.supply.verify import Held

    try:
        return Held(file=shown, text=path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{shown}: is no record that can be read: {error}") from error


def _table(held: Held) -> dict[str, Any]:
    from builder.record import parse_pin

    return parse_pin(held.text, file=held.file)


def _text(verdict: Verdict) -> str:
    width = max(len(check.name) for check in verdict.checks)
    lines = [f"{verdict.reference}"]
    for check in verdict.checks:
        first, *rest = check.words
        lines.append(f"{_MARKS[check.state]:11}  {check.name:{width}}  {first}")
        lines += [f"{'':11}  {'':{width}}  | {line}" for line in rest]
    return "\n".join(lines)
