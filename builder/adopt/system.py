"""What commands of the distribution become: packages, users, folders, and what is only tidied up."""

from __future__ import annotations

import re

from builder.adopt import environment
from builder.adopt.draft import add
from builder.adopt.instructions import writable
from builder.adopt.shell import Command
from builder.adopt.state import UNKNOWN, State
from builder.adopt.words import Filled

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")
_PYTHON = re.compile(r"python(3\.[0-9]{1,2})(?:-(?:dev|venv))?")
_CACHES = re.compile(
    r"(?:/var/lib/apt/lists(?:/\S*)?|/var/cache/\S+|/var/log/\S+|/(?:var/)?tmp(?:/\S*)?|(?:/root|~)/\.(?:cache|cargo|"
    r"conda|ccache|rustup)\S*|\S*/?\.git|\S*__pycache__\S*|\S*\.pyc|/usr/share/(?:doc|man|locale)\S*)"
)
_LAST_WORD = re.compile(r"(?P<path>\S+)\s*$")
_COUNTED = re.compile(
    r"\$\(grep -\w*c\w* (?:--? )?"
    r"(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\") [\"']?(?P<path>[^\s\"')]+)[\"']?\)[\"']?"
    r" (?:==?|-eq) [\"']?(?P<number>[0-9]+)"
)
_TIDIES = ("update", "clean", "autoclean", "autoremove")
_ARGUMENT_OF_APT = ("-o", "-c", "-t", "--option", "--target-release")
_ARGUMENT_OF_USER = ("-c", "-d", "-g", "-G", "-k", "-K", "-p", "-s", "-u", "--comment", "--home-dir", "--home",
                     "--gid", "--groups", "--ingroup", "--password", "--shell", "--uid", "--gecos")  # fmt: skip


def options(words: list[Filled], with_argument: tuple[str, ...]) -> tuple[dict[str, list[str]], list[Filled]]:
    """Return the options of a command with what follows them, and its other words."""
    given: dict[str, list[str]] = {}
    others: list[Filled] = []
    place = 0
    while place < len(words):
        text = words[place].text
        name, equals, value = text.partition("=")
        if text == "--" or not text.startswith("-") or text == "-":
            others += [] if text == "--" else [words[place]]
        elif equals and text.startswith("--"):
            given.setdefault(name, []).append(value)
        elif text in with_argument and place + 1 < len(words):
            place += 1
            given.setdefault(text, []).append(words[place].text)
        else:
            given.setdefault(text, []).append("")
        place += 1
    return given, others


def apt(state: State, _command: Command, words: list[Filled]) -> None:
    """Take the packages of an `apt-get install` into the stages that they are for."""
    given, others = options(words, _ARGUMENT_OF_APT)
    action = others[0].text if others else ""
    if action in _TIDIES:
        state.leave("the archive is read, and tidied up, where packages are installed")
        return
    if action not in ("install", "build-dep") or action == "build-dep":
        state.undecided(f"apt {action}: a recipe installs packages, and neither upgrades nor removes any")
        return
    if (suite := given.get("-t") or given.get("--target-release")) is not None:
        state.undecided(f"packages of {suite[0]}: a base of kind 'debian' names its suite")
    for word in others[1:]:
        name, _, version = word.text.partition("=")
        name = re.sub(r":(?:amd64|native|any)$", "", name)
        if word.unknown or not _PACKAGE.fullmatch(name) or name.endswith(".deb"):
            state.undecided(f"{state.shown(word.text)} is not the name of a package")
            continue
        for role, table in (("build", state.draft.build), ("runtime", state.draft.runtime)):
            if role in state.roles:
                add(table, "apt", [name])
                state.into(f"base.{role}.apt")
        if version:
            state.undecided(f"{name} {version}: the archive of an 'image' base decides the version")
        if (python := _PYTHON.fullmatch(name)) is not None and "runtime" in state.roles:
            state.draft.top["python"] = python[1]
            state.into("python")


def user(state: State, _command: Command, words: list[Filled]) -> None:
    """Note a user that is made; the image's is made by the program."""
    given, others = options(words, _ARGUMENT_OF_USER)
    uid = next(iter(given.get("-u", []) + given.get("--uid", [])), None)
    if others:
        state.made_users[others[-1].text] = (uid, state.account)
    state.leave("the image's user is made by the program")


def group(state: State, _command: Command, words: list[Filled]) -> None:
    """Note the groups that the user needs."""
    given, _ = options(words, _ARGUMENT_OF_USER)
    wanted = [name for text in given.get("-G", []) + given.get("-aG", []) for name in text.split(",")]
    rest = [word.text for word in words if not word.text.startswith("-")]
    for name in ("render", "video"):
        if name in wanted or name in rest or any(name in text.split(",") for text in rest):
            add(state.draft.image, "groups", [name])
            state.into("image.groups")
    state.leave("the image's user and group are made by the program")


def remove(state: State, _command: Command, words: list[Filled]) -> None:
    """Leave out what only tidies up, and mark what removes a part."""
    paths = [
        state.path(word.text) if "*" not in word.text else word.text for word in words if word.text[:1] != "-"
    ]
    known = [path for path in paths if _CACHES.fullmatch(path) or (state.tree_of(path) or ("", ""))[1] == "."]
    if len(known) == len(paths):
        state.leave("caches, trees and temporary files reach no layer")
    else:
        rest = ", ".join(state.shown(path) for path in paths if path not in known)
        state.undecided(f"removes {rest}; what is not to be there is not installed, or listed in 'forbid'")


def find(state: State, command: Command, words: list[Filled]) -> None:
    """Leave out the removal of bytecode."""
    removes = any(word.text in ("-delete", "-exec") for word in words)
    if not removes:
        state.leave("prints")
    elif re.search(r"__pycache__|\*\.pyc", command.text):
        state.leave("the program compiles bytecode itself, reproducibly")
    else:
        state.undecided("removes or changes files that it looks for; a patch or build command would name them")


def folder(state: State, _command: Command, words: list[Filled]) -> None:
    """Change the folder of the commands that follow."""
    known = words and not words[0].unknown and words[0].text != "-"
    state.cwd = state.path(words[0].text) if known else UNKNOWN
    state.leave("only moves between folders")


def export(state: State, command: Command, words: list[Filled]) -> None:
    """Take a variable for the commands that follow."""
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals:
            environment.build_variable(state, name, value, word.unknown)
            if not word.unknown:
                state.scope[name] = value
    if not (state.account.became or state.account.marks or state.account.left):
        state.leave("a variable; it is in build-env of what is built after it")


def fetch(state: State, _command: Command, _words: list[Filled]) -> None:
    """Mark a download."""
    state.undecided("fetches a file; a [source] with 'archive' and 'sha256' would pin it")


def owner(state: State, _command: Command, words: list[Filled]) -> None:
    """Let the user write to the folders that it gets."""
    _, others = options(words, ("--reference",))
    name = others[0].text.partition(":")[0] if others else ""
    if name in ("root", "0") or "runtime" not in state.roles:
        state.leave("files belong to root in every layer")
        return
    for word in others[1:]:
        writable(state, state.path(word.text))


def mode(state: State, _command: Command, words: list[Filled]) -> None:
    """Take a folder that everybody may write to; other modes come with the files."""
    _, others = options(words, ())
    if others and re.fullmatch(r"[0-7]?777|(?:[augo]*\+)\S*w\S*", others[0].text) and "runtime" in state.roles:
        for word in others[1:]:
            writable(state, state.path(word.text))
    else:
        state.leave("modes come with the files of a component")


def guard(state: State, command: Command, _words: list[Filled]) -> None:
    """Note a test that stops the build."""
    guarded(state, command.text.removesuffix(" ]"))


def guarded(state: State, test: str) -> None:
    """Note a test that stops the build; what it guards shows when all edits are known."""
    counted = _COUNTED.search(test)
    if counted is not None:
        path = state.path(state.expand_text(counted["path"]).text)
        state.counts.append((state.account, path, counted["single"] or counted["double"], int(counted["number"])))
        state.guards.append((state.account, path))
        state.leave("a guard")
        return
    found = _LAST_WORD.search(re.sub(r"[0-9]*>\S*", "", test).strip())
    path = state.expand_text(found["path"].strip("\"'")).text if found is not None else ""
    state.guards.append((state.account, state.path(path)))
    state.leave("a guard")
