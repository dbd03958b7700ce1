"""The page of hostile inputs, made of the cases and of what becomes of them.

`python -m tests.unit.hostile.page` runs all cases and writes docs/hostile-input.md.
"""

from __future__ import annotations

from pathlib import Path

from . import archives, images, indexes, patches, registries, repositories, terminal, values
from .rooms import Case, Outcome, outcome

PAGE = Path(__file__).resolve().parents[3] / "docs" / "hostile-input.md"
CASES: tuple[Case, ...] = (
    *values.CASES, *terminal.CASES, *archives.CASES, *patches.CASES, *repositories.CASES, *indexes.CASES,
    *registries.CASES, *images.CASES,
)  # fmt: skip
_BEFORE = """\
# Hostile input

What a recipe fetches was written by strangers: archives, patches, repositories, indexes, registries, images.
None of them is trusted to be what it says. Every line below is a test that gives the program one such input and
looks at what becomes of it; the words are the program's own. Python 3.11 or newer, git, and loopback are all
that it needs:

    pytest tests/unit/hostile

This page is made of the tests, by `python -m tests.unit.hostile.page`; a test fails when it is not up to date.

## What holds

- Nothing is written beside the folder that it belongs to, and nothing of this machine is read for a stranger.
- No program of a stranger is started on this machine: no hook, filter, helper or transport of a repository.
  What is built runs in build steps, and what is tested in containers, without a network where they need none.
- Whatever is read has a bound: bytes, entries, depth, digits, pages. Beyond it the input is refused, not read
  further.
- Bytes count only when they have the hash that the lock, or a digest, says.
- What is shown is seen: control sequences, direction marks and invisible characters are escaped in messages and
  logs, and in results where a terminal shows them; commands of a CI's runner are taken apart.
- A refusal is a failure with words and an exit status, never a traceback.

## What does not

- An image's own code runs in the same interpreter as the probes that look at it. The answer of a probe carries
  a token of that one run, so that nothing an image has ready passes for it. Code that was written against this
  program could still read the token from the probe's memory: the smoke tests find mistakes, and do not judge
  malice.
- A server that sends slowly on purpose is waited for as long as it sends within its bounds; Ctrl-C ends that.
- Build commands of a recipe are programs by design. Who may change a recipe may run programs in its build.

## Fuzzing

The check runs every parser of such input on some hundred inputs that hypothesis makes (`tests/unit/hostile`).
Longer runs, by atheris, choose bytes by the lines of the parser that they reach:

    pip install atheris
    python -m tests.fuzz TARGET --seconds 1800

`TARGET` is one of {targets}. What breaks a parser is kept in a file, and `--try FILE` runs it again.

{runs}
## The inputs

{count} inputs; {refused} are refused, the others do no harm.
"""
_RUNS = """\
Runs of atheris on these parsers, each from the examples in `tests/fuzz/targets.py`:

| target | time | inputs | corrected before, as a shorter run had found it |
|---|---|---|---|
| `patch` | 30 min | 2 575 177 | a control character of a name in a message |
| `bundle` | 30 min | 680 866 | nothing |
| `elf` | 30 min | 20 244 658 | nothing |
| `reference` | 30 min | 102 684 882 | nothing |
| `toml` | 30 min | 806 746 | nothing |
| `git` | 30 min | 71 522 578 | nothing |
| `registry` | 30 min | 110 506 154 | a size that is infinite |
| `archive` | 30 min | 332 331 | a damaged gzip, and zips without a name or with a place before their start |

None of these runs found anything.

"""


def page(outcomes: dict[str, Outcome]) -> str:
    """Return the whole page, with the outcome of each case by its id."""
    from ...fuzz.targets import TARGETS

    refused = sum(each.refused for each in outcomes.values())
    text = _BEFORE.format(
        targets=", ".join(f"`{name}`" for name in sorted(TARGETS)), count=len(CASES), refused=refused, runs=_RUNS
    )
    for area in dict.fromkeys(case.area for case in CASES):
        text += f"\n### {area[0].upper()}{area[1:]}\n\n| given | what becomes of it |\n|---|---|\n"
        text += "".join(row(case, outcomes[case.id]) for case in CASES if case.area == area)
    return text


def row(case: Case, found: Outcome) -> str:
    """Return a case's line of the page."""
    words = found.words.replace("`", "'").replace("|", "\\|")
    what = (
        f"refused: `{words}`"
        if found.refused
        else words
        if "shown as" not in words
        else f"shown as `{words[10:-1]}`"
    )
    return f"| {case.given} | {what} |\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page({case.id: outcome(case) for case in CASES}))


if __name__ == "__main__":
    main()
