"""The command `inspect`: what is in an image, a layout or a folder, whoever made it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli import completion
from builder.cli.console import Console
from builder.cli.image_commands import Json, MirrorsFile

if TYPE_CHECKING:
    from builder.audit.subject import Inspected
    from builder.codeobjects.audit import Part, TargetBytes
    from builder.compare.summary import Summary
    from builder.mirrors import Mirrors


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(inspect)


def inspect(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE|IMAGE|LAYOUT|FOLDER|FILE",
            show_default=False,
            help="An image of the engine or of a registry, one of this repository that was built, an OCI layout "
            "(LAYOUT@sha256:… where it holds several), or what lies on disk.",
            autocompletion=completion.images,
        ),
    ],
    gfx: Annotated[
        bool, typer.Option("--gfx", help="Which GPU targets its compiled parts are for, which are missing.")
    ] = False,
    want: Annotated[
        str | None,
        typer.Option(metavar="GFX,…", help="What to compare with; default: what the image says it was made for."),
    ] = None,
    shallow: Annotated[
        bool,
        typer.Option("--shallow", help="Of an image of somebody else read manifest and configuration alone."),
    ] = False,
    as_json: Json = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Tell what is in an image: base, components, patches, GPU targets, contract, layers, sizes; needs no GPU.

    Of an image of this program it reads a few small layers, of any other one all of them. With --gfx: for which
    GPUs an image, a layout or a folder holds code, and how much; exit code 6 when a part lacks a wanted target.

    Examples:
        rocm-images inspect docker.io/rocm/vllm:latest
        rocm-images inspect sglang-debian --gfx
        rocm-images inspect docker.io/rocm/vllm:latest --gfx --want gfx1201
    """  # fmt: skip
    from builder.audit.subject import inspect as run
    from builder.compare.summary import text
    from builder.errors import RecipeError
    from builder.mirrors import load_mirrors

    if want is not None and not gfx:
        raise RecipeError("--want: goes with --gfx", hint=f"rocm-images inspect {subject} --gfx --want {want}")
    if shallow and gfx:
        raise RecipeError("--shallow: --gfx looks into every file", hint=f"rocm-images inspect {subject} --gfx")
    console = Console()
    root = _root(context)
    from_where = load_mirrors(root or Path.cwd(), mirrors)
    if not gfx:
        summary = _summary(root, subject, from_where, console, shallow=shallow)
        console.result(json.dumps(summary.plain(), indent=2, ensure_ascii=False) if as_json else text(summary))
        return
    found = run(
        _built_here(root, subject), wanted=want.split(",") if want is not None else None, mirrors=from_where,
        story=console,
    )  # fmt: skip
    if as_json:
        plain = found.audit.plain() | {"subject": subject, "unread": list(found.unread)}
        console.result(json.dumps(plain, indent=2))
    else:
        console.result("\n".join(table(subject, found)))
    if found.audit.failed:
        raise missing(subject, found)


def table(subject: str, found: Inspected) -> Iterator[str]:
    """Yield the lines that show an audit to people."""
    audit = found.audit
    if not audit.parts:
        yield f"{subject}: no GPU code"
    rows = [row for part in audit.parts for row in _rows(part)]
    if rows:
        head = ("component", "part", "target", "bundles", "bytes", "")
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(6)]
        for row in (head, *rows):
            cells = [
                text.rjust(width) if column in (3, 4) else text.ljust(width)
                for column, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            yield "  ".join(cells).rstrip()
    for part in audit.parts:
        for problem in part.problems:
            yield f"unreadable: {printable(problem)}"
    for path in found.unread:
        yield f"not looked into: {printable(path)}"
    if audit.parts:
        yield _sum(found)


def missing(subject: str, found: Inspected) -> Exception:
    """Return the failure for wanted targets that judged parts lack."""
    from builder.codeobjects.processors import order
    from builder.errors import SmokeError

    parts = found.audit.failed
    lacking = sorted({target for part in parts for target in part.missing}, key=order)
    return SmokeError(
        f"{subject}: {len(parts)} of {len(found.audit.parts)} parts with GPU code lack {', '.join(lacking)}",
        details=tuple(
            f"{printable(part.owner)}: {printable(part.path)} lacks {', '.join(part.missing)}" for part in parts
        ),
        hint="compile them for these targets, or take the targets from the wanted list",
    )


def printable(text: str) -> str:
    """Return a name out of an image as a terminal may show it, whatever bytes it is made of."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _rows(part: Part) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a part: one for each target it has, one for each it lacks."""
    files = f" ({part.files} files)" if part.files > 1 else ""
    first = (printable(part.owner), f"{printable(part.path)}{files}")
    for each in part.targets:
        yield (*first, each.target, str(each.bundles), str(each.bytes), _note(part, each))
        first = ("", "")
    for target in part.missing:
        yield (*first, target, "-", "-", "missing" if part.judged else "missing (base)")
        first = ("", "")
    if not part.targets and not part.missing:
        yield (*first, "?", "-", "-", "unreadable")


def _note(part: Part, each: TargetBytes) -> str:
    without = sum(partly.without for partly in part.partly if partly.target == each.target)
    words = ["surplus"] if each.surplus else []
    words += [f"not in {without} of {part.bundles} bundles"] if without else []
    return ", ".join(words)


def _sum(found: Inspected) -> str:
    from builder.codeobjects.audit import totals

    audit = found.audit
    sums = totals(audit.parts)
    stored = sum(part.stored for part in audit.parts)
    text = f"parts: {len(audit.parts)}, {stored} bytes in files, {sum(each.bytes for each in sums)} uncompressed"
    if not audit.wanted:
        return f"{text}; nothing to compare with"
    surplus = sum(each.bytes for each in sums if each.surplus)
    return f"{text}; wanted {', '.join(audit.wanted)} ({found.wanted_by}); surplus {surplus} uncompressed"


def _summary(root: Path | None, subject: str, mirrors: Mirrors, console: Console, *, shallow: bool) -> Summary:
    """Return what is in what somebody names."""
    from builder.inspection.seeing import see
    from builder.inspection.summing import summary_of

    return summary_of(see(_built_here(root, subject), mirrors=mirrors, story=console, shallow=shallow))


def _root(context: typer.Context) -> Path | None:
    """Return the recipe repository, None where there is none: this command works anywhere."""
    from builder.cli.image_commands import workspace_of
    from builder.errors import RecipeError

    try:
        return workspace_of(context).root
    except RecipeError:
        return None


def _built_here(root: Path | None, subject: str) -> str:
    """Return how the engine calls an image of this repository; any other subject as it is."""
    from builder.project import prepare
    from builder.workspace import Workspace

    if root is None or Path(subject).exists():
        return subject
    workspace = Workspace(root=root)
    if "/" in subject or not workspace.recipe(subject).is_file():
        return subject
    return prepare(workspace, subject).local
