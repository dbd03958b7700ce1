"""A report of a change of pins as Markdown, for a comment under a pull request. Decides nothing.

Text that comes from elsewhere - paths of other people's commits, messages of tools - is shown as it is: it makes
no link, mentions nobody and ends no block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from builder.bump.report import BumpReport, ImageBump, Needs, PatchFact, SourceMove, Verdict, in_few
from builder.compare import markdown as differences
from builder.findings import PATCH, Finding
from builder.whatchanged import in_short

_MOST_FILES = 10
_HASH = re.compile(r"\b[0-9a-f]{40,64}\b")
_MOST_LINES = 12
_TITLES = {
    Verdict.BUILD: "has to be built",
    Verdict.RETEST: "has to be tested again, not built",
    Verdict.NOTHING: "no build: no build input changed",
    Verdict.UNKNOWN: "cannot be built as it is",
}
_MARKS = {"error": "**error**", "warning": "**warning**", "note": "note"}
_LONGEST_COMMENT = 60_000  # a comment on GitHub holds 65536 characters
_SPECIAL = "\\`*_[]<|#@~"
_GOES = "it goes when: "


def markdown(report: BumpReport) -> str:
    """Return the report: what is to be done, then image by image what was found."""
    head = [f"## What this bump does: {headline(report)}", ""]
    head += [f"From {_code(report.base[:12])} to {_code(report.head[:12])}."]
    if report.untouched:
        head.append(f"Not touched: {', '.join(map(_code, report.untouched))}.")
    if report.gone:
        head.append(f"No longer there: {', '.join(map(_code, report.gone))}.")
    top = "\n".join(head)
    whole = [top, *(_image(image, differs=True) for image in report.images)]
    if len(text := "\n\n".join(whole) + "\n") <= _LONGEST_COMMENT:
        return text
    short = [_image(image, differs=False) for image in report.images]
    fitting = [top]
    for block in short:
        if sum(map(len, fitting)) + len(block) > _LONGEST_COMMENT:
            break
        fitting.append(block)
    left = len(short) - len(fitting) + 1
    images = f", nor {left} of the images" if left else ""
    fitting.append(f"This does not say all{images}: it would be too long for a comment. `--json` has everything.")
    return "\n\n".join(fitting) + "\n"


def headline(report: BumpReport) -> str:
    """Return in a line what a change asks for."""
    if not report.images:
        return "no image changes"
    words = {
        Verdict.UNKNOWN: "cannot be built", Verdict.BUILD: "to build", Verdict.RETEST: "to test again",
        Verdict.NOTHING: "without a build",
    }  # fmt: skip
    counted = [(len(report.of(verdict)), said) for verdict, said in words.items()]
    told = ", ".join(f"{number} image{'s' if number > 1 else ''} {said}" for number, said in counted if number)
    broken = sum(bool(image.errors) for image in report.images)
    return f"{told}; {broken} with errors" if broken else told


def _image(image: ImageBump, *, differs: bool) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_lines(image, differs=differs)))


def _lines(image: ImageBump, *, differs: bool) -> Iterator[str]:
    errors = len(image.errors)
    broken = f", with {errors} error{'s' if errors > 1 else ''}" if errors else ""
    yield f"### {_plain(image.image)}: {_TITLES[image.verdict]}{broken}"
    yield ""
    yield from _errors(image)
    yield from _why(image)
    for source in image.sources:
        yield from _source(source)
    yield from _lock(image)
    yield from _patches(image.patches)
    yield from _needs(image.needs)
    yield _fingerprint(image)
    yield from _others(image)
    if differs and image.difference is not None and not image.difference.is_empty:
        yield ""
        yield "<details><summary>What changes in the image</summary>"
        yield ""
        yield differences(image.difference).rstrip("\n")
        yield ""
        yield "</details>"
    yield ""
    yield from _commands(image)


def _errors(image: ImageBump) -> Iterator[str]:
    for finding in image.errors:
        yield from _finding(finding, image)
    if image.errors:
        yield ""


def _others(image: ImageBump) -> Iterator[str]:
    for finding in image.findings:
        if finding.severity != "error" and finding not in image.older:
            yield from _finding(finding, image)


def _finding(finding: Finding, image: ImageBump) -> Iterator[str]:
    old = " (BASE has this as well)" if finding in image.older else ""
    yield f"- {_MARKS[finding.severity]} {_plain(finding.line)}{old}"
    if finding.exit_code != PATCH or not any(patch.fails for patch in image.patches or ()):
        yield from _block(finding.details)  # else it stands with its patch, below
    if finding.hint and finding.severity != "note":
        yield f"  Remedy: {_plain(finding.hint)}"


def _why(image: ImageBump) -> Iterator[str]:
    match image.verdict:
        case Verdict.NOTHING:
            key = _code((image.content_key.new or "")[:12])
            yield f"- The content key stays {key}, and with it the tag and the digest."
        case Verdict.UNKNOWN:
            return
        case Verdict.RETEST:
            yield "- The bytes of the image stay; it has to be tested again:"
        case Verdict.BUILD:
            yield "- Why it has to be built:"
    for reason in in_short(image.reasons):
        yield f"  - {_plain(_HASH.sub(lambda hash_: hash_[0][:12], reason))}"


def _source(source: SourceMove) -> Iterator[str]:
    moved = f"{_code(source.old)} → {_code(source.new)}"
    link = f" ([compare]({source.link}))" if source.link else ""
    yield f"- Source {_code(source.name)} {moved}{link}: {_changed(source)}"
    documents = [path for path in source.reaching if _is_document(path)]
    if documents and len(documents) == len(source.reaching) and not source.patches_only:
        yield (
            f"  What reaches the build looks like documents alone. If no build reads them, name them with "
            f"{_code(f'source.{source.name}.ignore')}, and such a commit is no build any more."
        )


def _changed(source: SourceMove) -> str:
    """Return which files changed, and whether they have to do with the image."""
    if source.changed is None:
        return _plain(source.why or "not compared")
    number, reaching = len(source.changed), len(source.reaching)
    if not number:
        return "no file changed"
    what = f"{number} file{'s' if number > 1 else ''} changed"
    if source.patches_only:
        one, many, none = "is a patch of this image", "are patches of this image", "is no patch of this image"
    else:
        one, many, none = "reaches the build", "reach the build", "does not reach the build"
    if not reaching:
        which = f"it {none}" if number == 1 else f"none of them {one}"
    elif reaching == number:
        which = f"it {one}" if number == 1 else f"all of them {many}"
    else:
        which = f"{reaching} of them {one if reaching == 1 else many}"
    return f"{what}, {which}: {_files(source.reaching or source.changed)}"


def _is_document(path: str) -> bool:
    first, _, _ = path.partition("/")
    return first in ("docs", "doc", ".github", "examples") or path.endswith((".md", ".rst"))


def _lock(image: ImageBump) -> Iterator[str]:
    if image.relock is None:
        return
    names = image.relock.names
    what = "as a whole" if names is None else f"for {', '.join(map(_code, names))}"
    where = "and written" if image.relock.written else "to judge this; it still has to be written"
    yield f"- The lock was made anew {what}, {where}."


def _patches(patches: Sequence[PatchFact] | None) -> Iterator[str]:
    if patches is None:
        return
    now_redundant = [patch for patch in patches if patch.redundant]
    failing = [patch for patch in patches if patch.fails]
    fine = [patch for patch in patches if not patch.fails and not patch.redundant and patch.state is not None]
    unjudged = [patch for patch in patches if patch.state is None]
    if len(fine) == len(patches):
        yield f"- Patches: {'the one patch applies' if len(fine) == 1 else f'all {len(fine)} apply'}."
        return
    yield f"- Patches: {len(fine)} of {len(patches)} apply as they are."
    for patch in failing:
        yield f"  - {_code(patch.name)} **{patch.state}**{_before(patch)}"
        yield from _block(patch.lines, indent="    ")
    for patch in now_redundant:
        if not patch.fails:
            parts = ", ".join(map(_code, patch.redundant))
            yield f"  - {_code(patch.name)} **redundant**{_before(patch)}: {parts}"
            yield f"    It goes when: {_plain(patch.drop_when)}"
            yield from _block([line for line in patch.lines if not line.startswith(_GOES)], indent="    ")
    for patch in unjudged:
        yield f"  - {_code(patch.name)} was not judged: {_plain('; '.join(patch.lines))}"


def _before(patch: PatchFact) -> str:
    if patch.before is None:
        return ""
    return ", as before" if patch.before == patch.state else f", was {_plain(patch.before)}"


def _needs(needs: Needs | None) -> Iterator[str]:
    if needs is None:
        return
    if not needs.new:
        yield "- What the engine compiles while it serves needs nothing new."
        return
    yield "- What the engine compiles while it serves changed:"
    yield from (f"  - {_plain(line)}" for line in in_few(needs.new, _MOST_LINES))
    if needs.there:
        yield f"  - the runtime stage has {', '.join(map(_code, needs.there))} for what is new"
    if needs.missing:
        yield f"  - **the runtime stage lacks {', '.join(map(_code, needs.missing))}**"


def _fingerprint(image: ImageBump) -> str:
    moved = image.fingerprint
    match moved.moved:
        case None:
            return "- Engine fingerprint: not known."
        case False:
            return f"- The engine fingerprint stays {_code(moved.new or '')}: cached KV pages stay valid."
        case True:
            return (
                f"- The engine fingerprint moves from {_code(moved.old or '')} to {_code(moved.new or '')}: "
                "**cached KV pages are not valid any more.**"
            )


def _commands(image: ImageBump) -> Iterator[str]:
    """Say how to look closer, and how to go on."""
    name = image.image
    commands = [f"rocm-images check {name}"]
    if image.patches:
        commands.insert(0, f"rocm-images patches {name}")
    if image.relock is not None and not image.relock.written:
        commands.append(f"rocm-images lock {name}" + _update(image.relock.names))
    if image.verdict in (Verdict.BUILD, Verdict.RETEST):
        commands.append(f"rocm-images plan {name}")
        commands.append(f"rocm-images build {name}")
    yield "To look closer:"
    yield ""
    yield "```sh"
    yield from commands
    yield "```"


def _update(names: tuple[str, ...] | None) -> str:
    return f" --update {names[0]}" if names is not None and len(names) == 1 else ""


def _files(paths: Sequence[str]) -> str:
    shown = [_code(path) for path in paths[:_MOST_FILES]]
    more = len(paths) - _MOST_FILES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _block(lines: Sequence[str], *, indent: str = "  ") -> Iterator[str]:
    """Yield lines of evidence as a block, fenced longer than any fence in it."""
    if not lines:
        return
    shown = [_clean(line) for line in in_few(lines, _MOST_LINES)]
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    yield ""
    yield f"{indent}{fence}text"
    yield from (f"{indent}{line}".rstrip() for line in shown)
    yield f"{indent}{fence}"
    yield ""


def _code(text: str) -> str:
    clean = _clean(text).replace("`", "'")
    return f"`{clean}`" if clean else ""


def _plain(text: str) -> str:
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in _clean(text))


def _clean(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.splitlines()))
