"""What the commands of a RUN become: packages, trees, installs, edits; the rest is marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from builder.adopt import environment, installs, patching, system, trees
from builder.adopt.dockerfile import Heredoc, Instruction
from builder.adopt.shell import Command, Unit, Word, split_shell
from builder.adopt.state import State
from builder.adopt.words import Filled

_WRAPPERS = ("sudo", "time", "exec", "nice", "command", "env")
_GUARD = re.compile(
    r"^if (?:! ?)?(?P<test>(?:[ef]?grep|test|\[) [^;]+); ?then (?:echo [^;]*; ?)?exit [1-9][0-9]*; ?fi$"
)
_FAILS = re.compile(r"^(?:\{ ?|\( ?)?(?:echo [^;]*; ?)?(?:exit [1-9][0-9]*|false);? ?[})]?$")
_HARMLESS = {
    "set": "build commands are run by sh -e, and stop at the first that fails",
    ":": "does nothing", "true": "does nothing", "echo": "prints", "printf": "prints", "ls": "prints",
    "pwd": "prints", "date": "prints", "df": "prints", "du": "prints", "env": "prints", "cat": "prints",
    "which": "prints", "nproc": "prints", "free": "prints", "whoami": "prints", "uname": "prints",
    "head": "prints",
    "rocm-smi": "asks for a card, which no build has", "rocminfo": "asks for a card, which no build has",
    "amd-smi": "asks for a card, which no build has", "nvidia-smi": "asks for a card, which no build has",
    "ldconfig": "the program runs it where libraries are added", "sync": "does nothing", "sleep": "does nothing",
    "ccache": "what a compiler keeps reaches no image", "sccache": "what a compiler keeps reaches no image",
    "hash": "does nothing", "unset": "the recipe sets what it names",
    "source": "components are installed for the image's Python, without an environment of their own",
    ".": "components are installed for the image's Python, without an environment of their own",
    "virtualenv": "components are installed for the image's Python, without an environment of their own",
    "mkdir": "folders come with the files in them; image.writable makes those that are written to",
    "strip": "layers hold what the build made; to strip is a build command of a component",
}  # fmt: skip
_STARTED = re.compile(
    r"(?:\$\(|`)[^)`]*\b(?:pip|apt|apt-get|conda|curl|wget|git (?:clone|apply|checkout)|sed -i|patch|make|cmake)\b"
)
_ACCEPTED = ("true", ":", "exit 0", "/bin/true")


def read_run(state: State, instruction: Instruction) -> None:
    """Read a RUN: an account for each of its commands."""
    text, lines = instruction.text, instruction.lines
    heredocs = list(instruction.heredocs)
    alone = re.fullmatch(r"<<-?[ \t]*[\"']?[A-Za-z_][A-Za-z0-9_]*[\"']?", text.strip())
    shell = alone is not None and not heredocs[0].body.startswith("#!")
    if instruction.text.startswith("["):
        state.begin(f"RUN {text}", instruction.first, instruction.last)
        state.undecided("a command in the exec form; write it as one of a shell")
        return
    if mounts := instruction.flags:
        last = lines[0] if lines else instruction.first
        state.begin(f"RUN {' '.join(mounts)}", instruction.first, last)
        state.leave(
            "build steps have no network and no mounts of their own; what they need is a source or component"
        )
        if any("type=secret" in mount or "type=ssh" in mount for mount in mounts):
            state.leave("fetching is done before the build, with the logins of the machine that locks")
    before = dict(state.scope), state.cwd
    state.build_env = {}
    if shell:
        heredoc = heredocs.pop(0)
        opened = state.begin(f"RUN {text}", instruction.first, instruction.first)
        opened.left = "its commands follow"
        closed = state.begin(heredoc.name, heredoc.last, heredoc.last)
        closed.left = "ends the text"
        _comments(state, heredoc)
        text = heredoc.body
        lines = _lines(text, heredoc.first)
        if re.search(r"<<-?[\s]*['\"]?[A-Za-z_]", text):
            state.begin(f"<<{heredoc.name}", heredoc.first, heredoc.last - 1)
            state.undecided("a script with texts in it; write what it does as patches or build commands")
            return
    for unit in split_shell(text, lines):
        _read(state, unit, heredocs, text, lines)
    for heredoc in heredocs:
        state.begin(f"<<{heredoc.name}", heredoc.first, heredoc.last)
        state.undecided("a text that no command here is known to read")
    state.scope = before[0]
    state.cwd = before[1]


def _lines(text: str, first: int) -> tuple[int, ...]:
    numbers, line = [], first
    for char in text:
        numbers.append(line)
        line += char == "\n"
    return (*numbers, line)


def _comments(state: State, heredoc: Heredoc) -> None:
    for number, line in enumerate(heredoc.body.split("\n")):
        if line.lstrip().startswith("#"):
            entry = state.begin(line.strip(), heredoc.first + number, heredoc.first + number, comment=True)
            entry.left = "a comment"


def _read(state: State, unit: Unit, heredocs: list[Heredoc], text: str, lines: Sequence[int]) -> None:
    fed = [target for part in unit.parts for sign, target in part.redirects if sign in ("<<", "<<-")]
    last = unit.last
    taken = [heredocs.pop(0) for _ in fed if heredocs]
    if taken:
        last = max(last, taken[-1].last)
    if (inner := _inner(unit)) is not None and not taken:
        opened = state.begin(unit.text[0], unit.first, unit.last)
        opened.left = "its commands follow"
        before = dict(state.scope), state.cwd
        start, end = inner
        within = text[start:end], lines[start : end + 1]
        for each in split_shell(*within):
            _read(state, each, [], *within)
        if unit.text[0] == "(":
            state.scope, state.cwd = before
        return
    entry = state.begin(unit.text, unit.first, last)
    state.expand_text(unit.text)  # notes which variables are read
    if not state.roles:
        state.leave("nothing of this stage reaches the image")
    elif taken:
        state.undecided("reads the text below it; a patch, an overlay or a build command would do what it does")
    elif unit.single is None:
        _joined(state, unit)
    elif unit.single.compound is not None:
        _compound(state, unit.single)
    else:
        run(state, unit.single)
    waits = any(entry is waiting for _, waiting in state.tools)  # for what is built with it
    if not (entry.became or entry.marks or entry.left or waits):
        state.undecided("a command that no key is known for")


def _inner(unit: Unit) -> tuple[int, int] | None:
    """Return where the commands in `( … )` or `{ …; }` begin and end."""
    command = unit.single
    if command is None or command.compound not in ("(", "{") or not command.text.endswith((")", "}")):
        return None
    return command.inner


def _joined(state: State, unit: Unit) -> None:
    """Read commands joined by `||` or `|`."""
    first, rest = unit.parts[0], unit.parts[1:]
    if set(unit.joins) == {"||"}:
        texts = [part.text for part in rest]
        if first.compound is None and all(_FAILS.match(text) for text in texts):
            run(state, first)
            return
        if first.compound is None and all(text in _ACCEPTED or text.startswith("echo ") for text in texts):
            run(state, first)
            if state.account.became:
                state.undecided("went on where this failed; the recipe stops there")
            return
        state.undecided("one command, or another where it fails; a recipe has one way")
        return
    if patching.series(state, unit.text):
        return
    if re.search(r"\bastral\.sh/uv\b", unit.text):
        state.leave("uv installs nothing in the image; the program brings its own")
        return
    fetches = re.search(r"\b(?:curl|wget)\b", unit.text) is not None
    what = "fetches and runs or unpacks a file; a [source] with 'archive' and 'sha256' would pin it"
    state.undecided(what if fetches else "commands that hand on their output; no key is known for that")


def _compound(state: State, command: Command) -> None:
    if patching.series(state, command.text):
        return
    guard = _GUARD.match(command.text)
    if guard is not None:
        system.guarded(state, guard["test"].removesuffix(" ]"))
        return
    what = {
        "if": "a condition: a recipe has none; write what holds for this image",
        "case": "a condition: a recipe has none; write what holds for this image",
    }
    state.undecided(
        what.get(command.compound or "", "a loop or function; write what it does as patches or build commands")
    )


def run(state: State, command: Command) -> None:
    """Read one simple command."""
    before = dict(state.build_env)
    words = _unwrapped(state, command)
    if not words:
        if state.account.left is None:
            _leave(state, command, "a variable; its value is filled in where it is read")
        return
    program = state.expand(words[0]).text.rpartition("/")[2]
    writes = [
        target for sign, target in command.redirects if ">" in sign and target.plain not in ("/dev/null", "1", "2")
    ]
    handler = _handler(program)
    if writes and (program in (*_HARMLESS, "tee", "git") or re.match(r"python|[ef]?grep|find", program)):
        state.undecided(f"writes {state.shown(writes[0].plain)}; an overlay or a component would bring the file")
    elif handler is not None:
        handler(state, command, state.expand_all(words[1:]))
    elif program in _HARMLESS:
        _leave(state, command, _HARMLESS[program])
    else:
        trees.build_command(state, command, program)
    if program != "export":
        state.build_env = before


def _unwrapped(state: State, command: Command) -> list[Word]:
    """Return the words of a command without what only starts it, and take the variables it is started with."""
    words = list(command.words)
    for name, word in command.assignments:
        filled = state.expand(word)
        if words:
            environment.build_variable(state, name, filled.text, filled.unknown)
        elif not environment.secret(state, name, filled.text) and not filled.unknown:
            state.scope[name] = filled.text
    while words and words[0].plain in _WRAPPERS and len(words) > 1:
        words.pop(0)
        while words and re.match(r"[A-Za-z_][A-Za-z0-9_]*=", words[0].raw):
            name = words[0].plain.partition("=")[0]
            filled = state.expand(words.pop(0))
            environment.build_variable(state, name, filled.text.partition("=")[2], filled.unknown)
    return words


def _leave(state: State, command: Command, why: str) -> None:
    """Leave a command out that does nothing, unless it starts another one that does something for its words."""
    if _STARTED.search(command.text) is not None:
        state.undecided("starts another command for its words; write what that does")
    else:
        state.leave(why)


def _handler(program: str) -> Callable[[State, Command, list[Filled]], None] | None:
    if re.fullmatch(r"python3?(?:\.[0-9]+)?", program):
        return installs.python
    if re.fullmatch(r"pip3?(?:\.[0-9]+)?", program):
        return installs.pip
    return _PROGRAMS.get(program)


_PROGRAMS: dict[str, Callable[[State, Command, list[Filled]], None]] = {
    "apt": system.apt, "apt-get": system.apt, "git": trees.git, "sed": patching.sed, "patch": patching.patch,
    "uv": installs.uv, "conda": installs.conda, "mamba": installs.conda, "micromamba": installs.conda,
    "useradd": system.user, "adduser": system.user, "groupadd": system.group, "addgroup": system.group,
    "usermod": system.group, "rm": system.remove, "find": system.find, "cd": system.folder, "pushd": system.folder,
    "popd": system.folder, "curl": system.fetch, "wget": system.fetch, "export": system.export,
    "chown": system.owner, "chmod": system.mode, "grep": system.guard,
    "egrep": system.guard, "fgrep": system.guard, "test": system.guard, "[": system.guard,
}  # fmt: skip
