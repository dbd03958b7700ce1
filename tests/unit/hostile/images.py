"""Contents of images that attack what looks at them: the probes' answers, binaries, metadata, accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from tarfile import CHRTYPE, SYMTYPE, TarError

from builder import process
from builder.codeobjects.reading import read_file
from builder.elf import dynamic
from builder.elf.headers import Unreadable
from builder.engine.containers import file_in
from builder.errors import SmokeError
from builder.smoke import probes
from builder.smoke.findings import Finding
from builder.smoke.inside.evidence import MARK
from builder.smoke.run import SmokeReport, SmokeTest, require_passed

from ..codeobjects import forge
from ..elf.forge import library
from .archives import entry, tar
from .rooms import Case, Room

AREA = "contents of images"
_NOTHING: dict[str, object] = {"components": [], "imports": [], "absent": []}
_FAKE = f"""print('{MARK}0 {{"ok": true, "seconds": 1, "figures": {{}}}}')"""
TOKEN = "5ec7e7"


def _probed(sitecustomize: str, room: Room) -> str:
    """Run a real probe in an interpreter whose start somebody else's code has a word in."""
    (room.folder / "sitecustomize.py").write_text(sitecustomize)
    command = probes.argv(sys.executable, "distributions", _NOTHING, limit_seconds=30, token=TOKEN)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=60, env=env | {"PYTHONPATH": str(room.folder)}
    )
    answer = probes.read_answer(done.stdout.decode("utf-8", "replace"), TOKEN)
    if answer is None:
        raise SmokeError("the probe gave no answer, and its test fails")
    assert answer.figures, "it is not the one that the image printed"
    return "the answer is the probe's own"


def _answer(line: str, _room: Room) -> str:
    if probes.read_answer(line, TOKEN) is None:
        raise SmokeError("this is no answer, and the test fails")
    return "taken for an answer"


def _flood(room: Room) -> str:
    process.run(["yes", "image"], largest=1 << 22, cwd=room.folder)
    return "read"


def _reported(cause: str, room: Room) -> str:
    """What an image said goes the way of a finding: report, log of the run, terminal."""
    test = SmokeTest(
        name="t", title="t", tier="cpu", production="p", hint=None, outcome="failed", seconds=1.0,
        finding=Finding(cause=cause, details=(cause,)),
    )  # fmt: skip
    report = SmokeReport(image="image", reference="image", seconds=1.0, tests=(test,))
    report.to_json().encode()
    require_passed(report)
    return "passed"


def _raised(message: str, room: Room) -> str:
    """What an exception in the image says becomes the cause of a finding: its first line."""
    told = {"ok": False, "seconds": 1, "chain": [{"type": "ImportError", "message": message}]}
    answer = probes.read_answer(_START + json.dumps(told), TOKEN)
    assert answer is not None
    assert len(answer.innermost.splitlines()) == 1
    return _reported(answer.innermost, room)


def _accounts(archive: bytes, _room: Room) -> str:
    """The file as the engine hands it out of an image that was never started."""
    try:
        found = file_in(archive[at : at + 65536] for at in range(0, len(archive), 65536))
    except TarError as error:
        raise SmokeError(f"/etc/passwd: the image's file cannot be read: {error}") from error
    return "as if there were none" if found is None else "read"


def _elf(data: bytes, _room: Room) -> str:
    try:
        told = dynamic.read(memoryview(data))
    except Unreadable as error:
        raise SmokeError(str(error)) from error
    return f"read as {told.soname!r}" if told is not None else "no library"


def _code(data: bytes, _room: Room) -> str:
    found = read_file(memoryview(data))
    if found is None:
        return "no GPU code"
    problems = [*found.problems, *(each.problem for each in found.bundles if each.problem)]
    assert all(problem.isprintable() for problem in problems)
    if problems:
        raise SmokeError(problems[0])
    return "read"


def case(given: str, run: Callable[[Room], str], *, refused: bool = True) -> Case:
    return Case(area=AREA, given=given, run=run, refused=refused)


_START = f"{MARK}{TOKEN} "
_BOMB = forge.compressed(forge.bundle("gfx1201") + bytes(4 << 20), says=1000)
CASES = (
    case(
        "accounts that are a link elsewhere",
        partial(_accounts, tar(entry("passwd", kind=SYMTYPE, link="/x"))),
        refused=False,
    ),
    case("accounts that are a device", partial(_accounts, tar(entry("passwd", kind=CHRTYPE))), refused=False),
    case("accounts of a hundred million bytes", partial(_accounts, tar(entry("passwd", bytes(100_000_000))))),
    case("accounts that break off", partial(_accounts, tar(entry("passwd", b"x" * 9000))[:700])),
    case("a `sitecustomize` that prints an answer of its own and goes on", partial(_probed, _FAKE), refused=False),
    case(
        "a `sitecustomize` that prints an answer of its own and ends with 0",
        partial(_probed, _FAKE + "\nimport os, sys; sys.stdout.flush(); os._exit(0)"),
    ),
    case("a `sitecustomize` that ends the interpreter with 0", partial(_probed, "raise SystemExit(0)")),
    case(
        "a `sitecustomize` that prints control sequences",
        partial(_probed, r"print('\x1b[2J\x1b]0;x\x07')"),
        refused=False,
    ),
    case("an answer of a program that knows no token", partial(_answer, f'{MARK}{{"ok": true, "seconds": 1}}')),
    case("an answer with another token", partial(_answer, f'{MARK}other {{"ok": true, "seconds": 1}}')),
    case("an answer that is no JSON", partial(_answer, f"{_START}{{")),
    case("an answer with brackets in brackets", partial(_answer, _START + "[" * 100_000)),
    case("an answer of another form", partial(_answer, f'{_START}{{"ok": true, "figures": 3}}')),
    case(
        "an answer behind a line end of another kind",
        partial(_answer, f'x\u2028{_START}{{"ok": true, "seconds": 1}}'),
    ),
    case("output without end", _flood),
    case("an error with control sequences", partial(_reported, "ImportError: \x1b[2J\x1b]0;passed\x07")),
    case(
        "an error that looks like further lines of the report",
        partial(_raised, "x\rpassed\n\u2028passed 1.0 s everything"),
    ),
    case("an error with half a character", partial(_reported, "cannot open \udc80")),
    case("a library whose name is a control sequence", partial(_elf, library(soname="\x1b[2J.so")), refused=False),
    case("a library that ends in its own table", partial(_elf, library(soname="a.so", needed=["b.so"])[:130])),
    case("GPU code that unpacks to more than it says", partial(_code, forge.program(_BOMB))),
    case(
        "GPU code for a target that is a control sequence",
        partial(_code, forge.bundle("gfx1201").replace(b"gfx1201", b"gfx\x1b[2J")),
        refused=False,
    ),
    case(
        "GPU code in a bundle in a bundle",
        partial(_code, forge.bundle("gfx1201", contents={"gfx1201": forge.bundle("gfx1201")})),
    ),
)
