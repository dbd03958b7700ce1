"""What changes of trees become: replacements by sed, and patch files."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass

from builder.adopt.draft import Mark
from builder.adopt.shell import Command
from builder.adopt.state import State, free_name, installed_path, named
from builder.adopt.system import options
from builder.adopt.words import Filled

_LISTS = re.compile(r"(?:^|[\s;|&(])(?:for|while|cat|ls|find)\s")
_APPLIES = re.compile(r"(?:^|[\s;|&(])(?:git (?:-C \S+ )?(?:apply|am)|patch)(?=\s|$)")
_IN_FOLDER = re.compile(r"(?:git -C|patch (?:\S+ )*-d) ?(?P<folder>[^\s\"']+)")
_ONLY_BRE, _ONLY_ERE = "", "+?|(){}"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A literal replacement: each `find` of a line becomes `replace`."""

    find: str
    replace: str


def literal(script: str, *, extended: bool) -> Replacement | None:
    """Return what a sed script replaces where it is one `s` command without anything of a regular expression.

    A dot stands for itself: an edit stops the build where the text is not there exactly.
    """
    if len(script) < 4 or script[0] != "s":
        return None
    mark = script[1]
    parts = re.findall(rf"((?:\\.|[^\\{re.escape(mark)}])*)(?:{re.escape(mark)}|$)", script[2:], re.DOTALL)
    if len(parts) < 3 or not re.fullmatch(r"g?", script[2:].rpartition(mark)[2].strip()):
        return None
    find = _plain_pattern(parts[0], mark, extended=extended)
    replace = _plain_replacement(parts[1], mark)
    return None if not find or replace is None or find == replace else Replacement(find, replace)


def _plain_pattern(text: str, separator: str, *, extended: bool) -> str | None:
    found, place = "", 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            char = text[place + 1 : place + 2]
            is_itself = char in f"{separator}.*[]^$/\\\"'-" or (extended and char in _ONLY_ERE)
            if not is_itself:
                return None
            place += 1
        elif char in "*[^$" or (extended and char in _ONLY_ERE):
            return None
        found += char
        place += 1
    return found


def _plain_replacement(text: str, separator: str) -> str | None:
    found, place = "", 0
    while place < len(text):
        char = text[place]
        if char == "\\":
            char = {"n": "\n", "t": "\t"}.get(text[place + 1 : place + 2], text[place + 1 : place + 2])
            if char.isalnum():
                return None
            place += 1
        elif char == "&":
            return None
        found += char
        place += 1
    return found


def sed(state: State, command: Command, words: list[Filled]) -> None:
    """Take replacements in trees as edits."""
    given, others = options(words, ("-e", "--expression", "-f", "--file", "-l"))
    in_place = any(re.match(r"-(?:-in-place|[nErsz]*i)", name) for name in given)
    extended = any(name in ("-E", "-r", "--regexp-extended") or re.match(r"-[a-z]*[Er]", name) for name in given)
    scripts = given.get("-e", []) + given.get("--expression", [])
    if not scripts and others:
        scripts, others = [others[0].text], others[1:]
    if not in_place:
        state.undecided("prints what sed makes of a file; no key is known for that")
        return
    unknown = [name for word in words for name in word.unknown]
    for word in others:
        path = state.path(word.text)
        tree, installed = state.tree_of(path), installed_path(path)
        if tree is None and installed is None:
            state.undecided(f"changes {state.shown(word.text)}, which is in no tree of a source or component")
            continue
        file = tree[1] if tree is not None else installed or ""
        state.edited.add(path)
        for script in scripts:
            change = None if unknown or "*" in file else literal(script, extended=extended)
            _edit(state, tree[0] if tree else None, file, change, script)


def _edit(state: State, source: str | None, file: str, change: Replacement | None, script: str) -> None:
    taken = [patch["name"] for patch in state.draft.patches]
    name = free_name(named(posixpath.splitext(posixpath.basename(file))[0]), taken)
    mark: Mark | None = None
    if change is None or state.shown(change.find + change.replace) != change.find + change.replace:
        mark = state.mark(
            f"sed {state.shown(shlex.quote(script))} is no replacement of a text by another: write what is there, "
            "exactly, what takes its place, and how often it is there"
        )
    edit = {
        "file": file,
        "find": mark or (change.find if change else ""),
        "replace": mark or (change.replace if change else ""),
    }
    target = source or file.partition("/")[0].removesuffix(".py")
    state.draft.patches.append({"name": name, "target": target, "in": source, "edit": edit})
    state.into(f"patch.{name}.edit")


def series(state: State, text: str) -> bool:
    """Take a loop or pipeline that applies patch files; tell whether it is one."""
    words = re.split(r"[\s\"';|()$]+", text)
    glob = next((w for w in words if w.endswith((".patch", ".diff")) or "/patches/" in w), None)
    if glob is None or _LISTS.search(text) is None or _APPLIES.search(text) is None:
        return False
    inside = _IN_FOLDER.search(text)
    before = state.cwd
    if inside is not None:
        state.cwd = state.path(state.expand_text(inside["folder"]).text)
    _take_series(state, state.expand_text(glob).text, text)
    state.cwd = before
    return True


def applied(state: State, files: list[Filled], words: list[Filled]) -> None:
    """Take the patch files of a `git apply` or `git am`."""
    for place, word in enumerate(words):
        if word.text == "--directory" and place + 1 < len(words):
            files = [file for file in files if file.text != words[place + 1].text]
    if not files:
        state.undecided("applies what another command hands on; a [[patch]] names files")
    for file in files:
        if file.unknown:
            state.undecided(f"applies {state.shown(file.text)}, which is not known here")
        else:
            _take_series(state, file.text, "")


def patch(state: State, command: Command, words: list[Filled]) -> None:
    """Take the patch file of a `patch`."""
    given, others = options(words, ("-d", "-i", "-p", "-F", "--input", "--directory"))
    files = [state.expand(target).text for sign, target in command.redirects if sign == "<"]
    files += given.get("-i", []) + given.get("--input", []) + [word.text for word in others[1:]]
    before = state.cwd
    folders = given.get("-d", []) + given.get("--directory", [])
    paths = [state.path(file) for file in files]
    if folders:
        state.cwd = state.path(folders[0])
    for path in paths:
        _take_series(state, path, command.text)
    if not paths:
        state.undecided("applies what another command hands on; a [[patch]] names files")
    state.cwd = before


def _take_series(state: State, glob: str, text: str) -> None:
    """Make a series of the files that `glob` names; the current folder is in the tree that they change."""
    path = state.path(glob)
    target, origin, beside = state.tree_of(state.cwd), state.tree_of(path), state.origin_of(path)
    if target is None:
        state.undecided("applies patches to a folder that is no tree of a source")
        return
    pattern = posixpath.basename(path)
    pattern = pattern if pattern.endswith((".patch", ".diff")) else "*.patch"
    taken = [patch["name"] for patch in state.draft.patches]
    name = free_name(f"{target[0]}-series", taken)
    value: dict[str, object] = {}
    if origin is not None and origin[0] != target[0]:
        value["source"] = origin[0]
        folder = posixpath.dirname(origin[1])
        if folder not in ("", "."):
            value["directory"] = folder
    else:
        known = "" if beside is None else f" (beside the Dockerfile: {beside})"
        value["directory"] = state.mark(
            f"the folder below patches/ of this repository that has {pattern}{known}, such as "
            f"'patches/{target[0]}'"
        )
    if pattern != "[0-9]*.patch":
        value["pattern"] = pattern
    if re.search(r"sort -[a-zA-Z]*[nV]", text):
        value["order"] = "number"
    if "--fuzz" in text or re.search(r"\bpatch\b.* -F ?[0-9]", text) or "--3way" in text or "--reject" in text:
        state.undecided("patches apply without fuzz here, and a hunk that does not fit stops the build")
    state.draft.patches.append({"name": name, "target": target[0], "in": target[0], "series": value})
    state.into(f"patch.{name}.series")
