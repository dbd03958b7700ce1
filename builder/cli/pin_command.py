"""The commands `pin show` and `pin apply`: what a record pins, and putting it into deployments.

`pin IMAGE` is `pin show IMAGE`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from builder.cli import completion
from builder.cli.console import Console
from builder.cli.image_commands import Json, workspace_if_any, workspace_of

if TYPE_CHECKING:
    from builder.deploy.names import Target
    from builder.deploy.pinning import Pinned

Tiers = Annotated[
    list[str] | None,
    typer.Option(metavar="TIER", help="A tier of the smoke tests that must have passed: gpu.", show_default=False),
]


class _ShowsByDefault(TyperGroup):
    """A group whose first word may be an image, which is then shown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  # typer's own class, by version
        words = [word for word in args if not word.startswith("-")]
        if words and words[0] not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(
        cls=_ShowsByDefault, no_args_is_help=True, help="Show what an image is pinned by; put it into deployments."
    )
    group.command("show")(show)
    group.command("apply")(apply)
    app.add_typer(group, name="pin")


def show(
    context: typer.Context,
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE",
            help="An image, or the file of a record.",
            show_default=False,
            autocompletion=completion.images,
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="reference|json|github|env|digest", help="Default: the reference."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write what the last published, tested build of an image is pinned by.

    Examples:
        rocm-images pin sglang-debian
        rocm-images pin show sglang-debian --format github >>"$GITHUB_OUTPUT"
    """
    from builder.deploy.gate import FORMATS, shown
    from builder.errors import RecipeError
    from builder.problems import nearest

    form = form or ("json" if as_json else "reference")
    if form not in FORMATS:
        raise RecipeError(f"--format: there is no format {form!r}{nearest(form, FORMATS)}")
    if as_json and form != "json":
        raise RecipeError("--json: the format is to be " + form, hint=f"leave out --json or --format {form}")
    file, table = _record(context, image)
    Console().result(shown(table, form, file=file))


def apply(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[IMAGE] FILE...",
            help="An image or the file of a record, then deployments; without one: every image that has a record.",
            show_default=False,
        ),
    ],
    propose: Annotated[bool, typer.Option("--propose", help="Show the changes, write nothing.")] = False,
    require: Tiers = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only where the key is this, or fits the pattern.", show_default=False),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every place, although they name different versions.")
    ] = False,
    keep_tag: Annotated[
        bool, typer.Option("--keep-tag", help="Change digests alone: for a tag that moves, as 'nightly'.")
    ] = False,
    mirror: Annotated[
        str | None,
        typer.Option("--as", metavar="HOST/PATH", help="The name that deployments pull the image by."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put the tested digest of an image into deployments, change nothing else in them, and show the difference.

    Kubernetes and Flux manifests, Helm values, kustomizations, compose files, Dockerfiles, TOML and HCL. All files
    are judged before the first is written.

    Exit code: 0, also when nothing is to change and with --propose; 2 when a file does not name the image, or does
    so in different ways; 3 without a record; 6 when its tests did not pass.

    Examples:
        rocm-images pin apply sglang-debian deploy/*.yaml --propose
        rocm-images pin apply sglang-debian compose.yaml --at services.llm.image
    """
    from builder.deploy.gate import require_tested, target_of
    from builder.errors import RecipeError
    from builder.workspace import rewrite_all

    console = Console()
    records, files, one = _sorted_out(context, words)
    asked = _tiers(require)
    if mirror and not one:
        raise RecipeError(
            "--as: it is not said of which image this is the name", hint="pin apply IMAGE FILE… --as …"
        )
    for file, table in records if one else []:
        require_tested(table, file=file, tiers=asked)
    targets = [target_of(table, file=file, mirror=mirror, keep_tag=keep_tag) for file, table in records]
    done = _judged(files, targets, at=at or [], every=every)
    named = {place.image for _, each in done for place in each.places}
    for (file, table), target in zip(records, targets, strict=True):
        if target.name.name in named:
            require_tested(table, file=file, tiers=asked)
    todo = {path: each.after.encode() for path, each in done if each.after != each.before}
    if todo and not propose:
        try:
            rewrite_all(todo)
        except OSError as error:
            raise RecipeError(f"{error.filename or files[0]}: {error.strerror}; nothing was written") from error
    if as_json:
        console.result(json.dumps(_plain(done, targets, written=bool(todo) and not propose), indent=2))
    else:
        for _, each in done:
            if each.diff:
                console.result(each.diff)
    for _, each in done:
        changed = sum(place.changes for place in each.places)
        if not changed:
            console.note(f"{each.file}: names it already, nothing to change")
        else:
            console.note(f"{each.file}: {changed} place{'s' if changed > 1 else ''} {_told(propose=propose)}")


def _tiers(require: list[str] | None) -> list[str]:
    from builder.errors import RecipeError
    from builder.problems import nearest
    from builder.smoke.run import TIERS

    for tier in require or ():
        if tier not in TIERS:
            raise RecipeError(f"--require: there is no tier {tier!r}{nearest(tier, TIERS)}", hint="--require gpu")
    return require or []


def _told(*, propose: bool) -> str:
    return "to change, nothing was written" if propose else "changed"


def _plain(done: list[tuple[Path, Pinned]], targets: list[Target], *, written: bool) -> dict[str, object]:
    """Return the outcome as a value for JSON."""
    return {
        "written": written,
        "images": [str(target.name.at(tag=target.tag, digest=target.digest)) for target in targets],
        "files": [
            {
                "file": each.file,
                "changes": each.after != each.before,
                "places": [
                    {"line": place.line, "key": place.key, "was": place.way, "changes": place.changes}
                    for place in each.places
                ],
                "diff": each.diff,
            }
            for _, each in done
        ],
    }


def _record(context: typer.Context, word: str) -> tuple[str, dict[str, Any]]:
    """Return the record of an image, or in a file, and how messages name its file."""
    from builder.errors import LockError
    from builder.project import load_recipe, names
    from builder.record import parse_pin

    workspace = workspace_if_any(context)
    if (workspace is None or word not in names(workspace)) and Path(word).is_file():
        return word, _of_file(word)
    workspace = workspace or workspace_of(context)
    path = workspace.pin(word)
    if not path.exists():
        if word not in names(workspace):
            load_recipe(workspace, word)  # says so
        former = workspace.dist / word / "pin.json"
        raise LockError(
            f"{workspace.shown(path)}: {word} has no published, tested build here"
            + (f"; {workspace.shown(former)} is of a former version, and not read" if former.exists() else ""),
            hint=f"rocm-images build {word} --publish HOST/NAMESPACE",
        )
    return workspace.shown(path), parse_pin(path.read_text(encoding="utf-8"), file=workspace.shown(path))


def _of_file(word: str) -> dict[str, Any]:
    from builder.errors import LockError, RecipeError
    from builder.record import parse_pin

    try:
        return parse_pin(Path(word).read_text(encoding="utf-8"), file=word)
    except (OSError, UnicodeDecodeError, LockError) as error:
        raise RecipeError(
            f"{word}: neither an image nor the record of one",
            details=(error.message,) if isinstance(error, LockError) else (),
            hint="records are written to pins/IMAGE.json",
        ) from error


def _is_record(word: str) -> bool:
    from builder.errors import RecipeError

    try:
        return "smoke" in _of_file(word)
    except RecipeError:
        return False


def _sorted_out(
    context: typer.Context, words: list[str]
) -> tuple[list[tuple[str, dict[str, Any]]], list[str], bool]:
    """Return the records, the deployments, and whether one image was named: the first word, if it is one."""
    from builder.deploy.gate import in_layout
    from builder.errors import LockError, RecipeError
    from builder.problems import nearest
    from builder.project import names

    workspace = workspace_if_any(context)
    known = names(workspace) if workspace else ()
    first, *rest = words
    one = first in known or _is_record(first)
    if not one and not Path(first).exists() and not Path(first).suffix and "/" not in first:
        raise RecipeError(f"{first}: neither an image nor a file{nearest(first, known)}", hint="rocm-images list")
    files = rest if one else words
    if not files:
        raise RecipeError(
            f"{first}: no deployment was named to put its pin into",
            hint=f"rocm-images pin apply {first} FILE…; to see the pin: rocm-images pin show {first}",
        )
    if one:
        return [_record(context, first)], files, True
    have = [name for name in known if workspace and workspace.pin(name).exists()]
    if not have:
        raise LockError(
            "no image has a published, tested build here", hint="rocm-images build IMAGE --publish HOST/NAMESPACE"
        )
    records = [_record(context, name) for name in have]
    # Of all images, those count that something can pull.
    return [each for each in records if not in_layout(each[1])] or records, files, False


def _judged(files: list[str], targets: list[Target], *, at: list[str], every: bool) -> list[tuple[Path, Pinned]]:
    """Judge every file before any is written; raise what is wrong with one, or the list of it with several."""
    from builder.deploy.pinning import decoded, kind_of, pinned_all
    from builder.errors import Failure, RecipeError

    done: list[tuple[Path, Pinned]] = []
    wrong: list[Failure] = []
    seen: set[Path] = set()
    for file in files:
        path = Path(file)
        try:
            kind_of(file)
            text = decoded(_bytes(path, file), file=file)
            if path.resolve() not in seen:
                seen.add(path.resolve())
                done.append((path, pinned_all(text, file=file, targets=targets, at=at, every=every)))
        except RecipeError as failure:
            wrong.append(failure)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise RecipeError(
            f"{len(wrong)} of {len(files)} files cannot be pinned, nothing was written",
            details=tuple(
                line for each in wrong for line in (each.message, *(f"  {line}" for line in each.details))
            ),
            hint=next((each.hint for each in wrong if each.hint), None),
        )
    return done


def _bytes(path: Path, file: str) -> bytes:
    from builder.errors import RecipeError

    try:
        return path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{file}: {(error.strerror or str(error)).lower()}") from error
