"""What commands on source trees become: clones, checkouts, and builds that are none of Python."""

from __future__ import annotations

import posixpath
import re

from builder.adopt import environment, patching
from builder.adopt.draft import add
from builder.adopt.shell import Command
from builder.adopt.state import Checkout, State, free_name, named
from builder.adopt.system import options
from builder.adopt.words import Filled, has_secret

_OF_GIT = ("-C", "-c")
_OF_CLONE = ("-b", "--branch", "--depth", "-j", "--jobs", "-o", "--origin", "--shallow-since", "--filter", "-c",
             "--config", "--reference")  # fmt: skip
_LOGIN = re.compile(r"://[^/@]+@")
_FULL, _SHORT = re.compile(r"[0-9a-f]{40}"), re.compile(r"(?=.*[0-9])[0-9a-f]{7,39}")
_TAG = re.compile(r"(?:[A-Za-z][A-Za-z_-]*[-_])?[vV]?[0-9]+(?:\.[0-9]+)+\S*")
_MOVERS = ("cp", "install", "ln", "mv", "tar")
_BUILDERS = ("cmake", "make", "ninja", "meson", "hipcc", "gcc", "g++", "clang", "clang++", "cargo", "bazel", "cp",
             "install", "ln", "mv", "tar", "bash", "sh", "autoreconf")  # fmt: skip


def git(state: State, command: Command, words: list[Filled]) -> None:
    """Read a git command."""
    given, others = options(words, _OF_GIT)
    before = state.cwd
    if "-C" in given:
        state.cwd = state.path(given["-C"][0])
    action = others[0].text if others else ""
    place = next((place for place, word in enumerate(words) if word.text == action), 0)
    rest = words[place + 1 :]
    if action == "clone":
        _clone(state, command, rest)
    elif action in ("checkout", "reset", "switch", "fetch", "pull"):
        _checkout(state, command, action, rest)
    elif action == "remote":
        _remote(state, rest)
    elif action == "submodule":
        state.leave("the submodules of a source belong to it")
    elif action == "apply" and "--check" in command.text:
        state.leave("a series is tried before anything is built")
    elif action in ("apply", "am"):
        patching.applied(state, [word for word in rest if not word.text.startswith("-")], rest)
    elif action in (
        "config",
        "init",
        "add",
        "commit",
        "log",
        "status",
        "rev-parse",
        "describe",
        "diff",
        "show",
        "clean",
        "tag",
    ):
        state.leave("a tree is fetched by its commit; builds get it without .git")
    else:
        state.undecided(f"git {action}: a recipe has sources at a commit, and patches")
    state.cwd = before


def _clone(state: State, command: Command, words: list[Filled]) -> None:
    given, others = options(words, _OF_CLONE)
    url = others[0].text if others else "$"
    if not re.match(r"(?:https?|ssh|git)://|git@", url) or "$" in _LOGIN.sub("://", url):
        state.undecided("clones a repository whose address is not known here")
        return
    if url.startswith("git@"):
        url = "ssh://" + url.replace(":", "/", 1)
    folder = others[1].text if len(others) > 1 else posixpath.basename(url.rstrip("/")).removesuffix(".git")
    name = source_of_address(state, url)
    state.trees[state.path(folder)] = name
    for ref in given.get("-b", []) + given.get("--branch", []):
        _note(state, name, command, ref)


def _remote(state: State, words: list[Filled]) -> None:
    """Take the address of a tree that is begun by `git init`."""
    tree = state.tree_of(state.cwd)
    if len(words) != 3 or words[0].text not in ("add", "set-url"):
        state.leave("changes nothing in the tree")
    elif tree is not None or words[2].unknown or "://" not in words[2].text:
        state.undecided("takes commits of another repository; name the one that has what is built as the source")
    else:
        state.trees[state.cwd] = source_of_address(state, words[2].text)


def source_of_address(state: State, url: str) -> str:
    """Return the source with this address; made where there is none."""
    value: object = url
    if has_secret(url):
        value = _LOGIN.sub("://", url)
        state.leave("the login; fetching uses those of the machine that locks")
    bare_name = named(posixpath.basename(url.rstrip("/")).removesuffix(".git"))
    for name, source in state.draft.sources.items():
        if source.get("git") == value:
            state.into(f"source.{name}.git")
            return name
    name = free_name(bare_name, list(state.draft.sources))
    state.draft.sources[name] = {"git": value}
    state.cloned[name] = state.account
    state.checkouts[name] = []
    state.into(f"source.{name}.git")
    return name


def _note(state: State, name: str, command: Command, ref: str, *, unknown: bool = False) -> None:
    variables = re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", command.text)
    origin = next((v for v in variables if state.scope.get(v) == ref), None)
    state.checkouts[name].append(Checkout(ref=ref, entry=state.account, variable=origin, unknown=unknown))
    state.into(f"source.{name}.{kind_of(ref)}")


def note_ref(state: State, name: str, command: Command, ref: str, *, unknown: bool) -> None:
    """Note what a tree was set to."""
    _note(state, name, command, ref, unknown=unknown)


def kind_of(ref: str) -> str:
    """Return the key of a source that a ref is for."""
    if _FULL.fullmatch(ref) or _SHORT.fullmatch(ref):
        return "commit"
    return "tag" if _TAG.fullmatch(ref) else "branch"


def is_whole(ref: str) -> bool:
    """Tell whether a ref is a whole commit."""
    return _FULL.fullmatch(ref) is not None


def _checkout(state: State, command: Command, action: str, words: list[Filled]) -> None:
    tree = state.tree_of(state.cwd)
    _, others = options(words, ("-b", "-B", "--depth", "--jobs", "-j"))
    others = others[1:] if action in ("fetch", "pull") else others  # without the name of the repository
    refs = [word for word in others if word.text not in ("origin", "upstream", "FETCH_HEAD", "HEAD", ".")]
    if tree is None:
        state.undecided("sets a tree that is none of the sources here to a commit")
    elif not refs:
        state.leave("the source has the commit")
    elif tree[1] != ".":
        state.undecided(
            f"sets {tree[1]} of {tree[0]} to another commit than its own; a patch would hold the difference"
        )
    elif action in ("checkout",) and len(refs) > 1:
        state.undecided("takes single files from another commit; a patch would hold the difference")
    else:
        ref = refs[-1].text.removeprefix("origin/").removeprefix("refs/tags/").removeprefix("refs/heads/")
        if "pull/" in ref:
            state.undecided(f"{ref}: a pull request moves; take its commits as a patch series")
            return
        _note(state, tree[0], command, ref, unknown=bool(refs[-1].unknown))


def build_command(state: State, command: Command, program: str) -> None:
    """Take a command in a tree as a build command of a component, which has to be told where files go."""
    tree = state.tree_of(state.cwd)
    text = state.expand_text(command.text)
    if program in ("cp", "install", "mv") and ".whl" in command.text:
        state.leave("wheels that are built here are installed by the program")
        return
    if tree is None or not (program in _BUILDERS or program.endswith((".sh", "configure"))):
        state.undecided("a command that no key is known for")
        return
    source = tree[0]
    name = source
    component = state.draft.component(name)
    if component is not None and "build" not in component:
        name = f"{source}-native"
        component = state.draft.component(name)
    if program in _MOVERS and component is None:
        state.undecided(f"changes files of {source}; a patch, an overlay or a build command would do what it does")
        return
    for word in re.split(r"[\s=\"';,]+", text.text):
        if environment.gfx_of(word):
            add(state.draft.top, "gfx", [word])
            state.into("gfx")
    shown = state.shown(text.text)
    if component is None:
        mark = state.mark("what these commands install has to lie below {destdir}, and {offload-arch} is the "
                          "compiler's option for gfx: write so; its version goes into 'version'")  # fmt: skip
        component = {"name": name, "source": source, "version": mark, "build": [mark]}
        state.draft.components.append(component)
    where = "" if tree[1] == "." else f"cd {tree[1]} && "
    add(component, "build", [f"{where}{shown}".replace("{destdir}", "")])
    _take_env(state, component)
    state.into(f"component.{name}.build")


def _take_env(state: State, component: dict[str, object]) -> None:
    if state.build_env:
        given = component.setdefault("build-env", {})
        if isinstance(given, dict):
            given |= state.build_env
