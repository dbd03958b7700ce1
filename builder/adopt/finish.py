"""Ties the ends of a draft: what shows only when the whole Dockerfile is read."""

from __future__ import annotations

import re
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder.adopt.draft import Entry, add
from builder.adopt.state import Checkout, State
from builder.adopt.trees import is_whole, kind_of

_ENGINES = ("sglang", "vllm", "llama-cpp", "text-generation-inference", "lmdeploy")
_LAST_UID = 65533
# Options of engines that stored KV pages depend on: a recipe that starts with one declares it.
_KV_OPTIONS = ("page-size", "block-size", "kv-cache-dtype", "hicache-mem-layout")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_TAKEN = ("backup", "bin", "daemon", "games", "irc", "list", "lp", "mail", "man", "news", "nobody", "proxy",
          "sync", "sys", "uucp", "www-data")  # fmt: skip
_NOTHING = re.compile(r"[\ufeff\s]*(?:RUN\b)?[\s\\&|;`]*$", re.IGNORECASE)  # of a line, with its operators
_VERSION_IN_TAG = re.compile(r"(?:[A-Za-z][A-Za-z_-]*[-_/])?[vV]?(?P<version>[0-9]+(?:\.[0-9]+)+\S*)")


def finish(state: State, text: str) -> None:
    """Decide what is left, and mark what cannot be decided, `text` being the whole input."""
    for name in state.draft.sources:
        _source(state, name)
    _tools(state)
    for component in state.draft.components:
        _component(state, component)
    for patch in state.draft.patches:
        _patch(state, patch)
    _guards(state)
    _image(state)
    _top(state)
    for entry, name, targets in state.gfx_values:
        if set(targets) != set(state.draft.top["gfx"]):
            state.entry = entry
            state.undecided(
                f"{name} has {', '.join(targets)} alone; 'gfx' of a component narrows what it is built for"
            )
    for name, arguments in state.arguments.items():
        for entry in arguments:
            _argument(state, entry, name)
    covered = {line for entry in state.entries for line in range(entry.first, entry.last + 1)}
    for number, line in enumerate(text.split("\n"), start=1):
        if number not in covered and not _NOTHING.match(line):
            state.begin(line.strip(), number, number)
            state.undecided("a line that no command reads, such as what follows a '#'")
    for entry in state.entries:
        state.entry = entry
        if not (entry.became or entry.marks or entry.left):
            state.undecided("nothing was found for it")


def _at(state: State, line: int) -> None:
    """Make the part of the input at a line the one that marks are for."""
    state.entry = next((e for e in state.entries if e.first == line and not e.comment), state.entries[0])


def _source(state: State, name: str) -> None:
    source, cloned = state.draft.sources[name], state.cloned[name]
    checkouts = state.checkouts[name]
    found: dict[str, Checkout] = {}
    for checkout in checkouts:
        if not checkout.unknown:
            found[kind_of(checkout.ref)] = checkout
    state.entry = cloned
    for checkout in checkouts:
        if checkout.unknown:
            state.entry = checkout.entry
            found.setdefault("commit", checkout)
    commit, tag, branch = found.get("commit"), found.get("tag"), found.get("branch")
    if tag is not None:
        source["tag"] = tag.ref
    elif branch is not None:
        source["branch"] = branch.ref
    elif commit is not None and commit.variable is not None and commit.variable in state.renovate:
        source["branch"] = state.renovate[commit.variable]
    else:
        source["branch"] = state.mark(
            f"the branch of {source['git']} that contains the commit; or 'tag' instead, where one points at it"
        )
    if commit is not None and is_whole(commit.ref):
        source["commit"] = commit.ref
    elif commit is not None:
        state.entry = commit.entry
        source["commit"] = state.mark(
            f"the whole commit, 40 hex digits; the Dockerfile has {state.shown(commit.ref)}"
        )
    else:
        ref = f"refs/tags/{source['tag']}^{{}}" if tag is not None else f"refs/heads/{source['branch']}"
        known = isinstance(source.get("tag", source.get("branch")), str)
        how = f"; git ls-remote {source['git']} '{ref}' shows it" if known else ""
        source["commit"] = state.mark(f"the commit: the Dockerfile takes what is there{how}")


def _tools(state: State) -> None:
    """Give the tools that builds need to the components that are built to wheels."""
    built = [c for c in state.draft.components if "source" in c and "build" not in c]
    for text, entry in state.tools:
        for component in built:
            add(component, "build-requires", [text])
            entry.into(f"component.{component['name']}.build-requires")
        if not built and entry.left is None:
            name = canonicalize_name(Requirement(text).name)
            entry.left = f"{name} is needed where something is built, and nothing is"


def _component(state: State, component: dict[str, Any]) -> None:
    name, source = component["name"], state.draft.sources.get(component.get("source", ""))
    entry = component.pop("built", None)
    if source is not None:
        state.entry = entry or state.cloned[component["source"]]
    if "version" not in component:
        tag = source.get("tag") if source is not None and "subdirectory" not in component else None
        if source is not None and component.get("subdirectory") in ("python", "src"):
            tag = source.get("tag")
        version = _version(tag)
        component["version"] = version or state.mark(f"the version that the build of {name} reports")
    if "source" not in component or "build" in component:
        return
    for variable in state.gfx_variables:
        component.setdefault("build-env", {})[variable] = "{gfx}"
    if not component.get("build-requires"):
        component["build-requires"] = [
            state.mark(
                f"what [build-system] of {name}'s pyproject.toml requires; nothing is fetched while it is built"
            )
        ]
    no_deps = state.no_deps.get(name)
    if no_deps is not None and "requires-files" not in component:
        state.entry = no_deps
        component.pop("extras", None)
        component["requires"] = []
        component["reason"] = state.mark(
            f"why {name} is installed without what it declares; 'requires' may list what it needs"
        )


def _version(tag: object) -> str | None:
    found = _VERSION_IN_TAG.fullmatch(tag) if isinstance(tag, str) else None
    try:
        return str(Version(found["version"])) if found is not None else None
    except InvalidVersion:
        return None


def _patch(state: State, patch: dict[str, Any]) -> None:
    _, source = patch["name"], patch.pop("in")
    kind = next(key for key in ("series", "edit", "overlay") if key in patch)
    key = f"patch.{patch['name']}.{kind}"
    state.entry = next(entry for entry in state.entries if key in entry.became)
    if source is not None:
        file = patch[kind].get("file", "")
        built = [c for c in state.draft.components if c.get("source") == source]
        holding = [c for c in built if file.startswith(f"{c.get('subdirectory', '')}/")]
        target = next((c["name"] for c in (*holding, *(c for c in built if "build" not in c), *built)), None)
        patch["target"] = target or state.mark(f"the component that is built of the source {source}")
    else:
        patch["target"] = _installed(state, str(patch["target"]))
    if kind == "series":
        commit = state.draft.sources[source]["commit"] if source else None
        patch["series"]["made-for"] = (
            commit
            if isinstance(commit, str)
            else state.mark("the commit of the target that the patches were made for")
        )
    mark = state.mark(
        f"reason, upstream and drop-when of {patch['name']}: why, where it is discussed, when it goes"
    )
    patch |= {"reason": mark, "upstream": mark, "drop-when": mark}


def _installed(state: State, package: str) -> str:
    """Return the component that brings a package; one of the base is declared where none does."""
    name = canonicalize_name(package)
    for component in state.draft.components:
        if component["name"] == name or canonicalize_name(str(component.get("wheel", ""))) == name:
            return str(component["name"])
    version = state.mark(f"the version of {name} that the base has; it is asserted in the image")
    state.draft.components.append({"name": name, "base": name, "version": version})
    state.into(f"component.{name}.base")
    return name


def _counts(state: State) -> None:
    """Take how often a text is there, where a guard counts it."""
    for entry, path, text, number in state.counts:
        for patch in state.draft.patches:
            edit = patch.get("edit", {})
            if edit.get("find") == text and path.endswith(f"/{edit['file']}"):
                edit["count"] = number
                entry.into(f"patch.{patch['name']}.edit.count")


def _guards(state: State) -> None:
    _counts(state)
    for entry, path in state.guards:
        state.entry = entry
        if "rev-parse" in entry.text:
            entry.left = "a tree is fetched by its commit, and compared with it"
            continue
        near = [other for other in state.edited if other == path or path.startswith(f"{other}/")]
        if near:
            entry.left = "the edit of this file stops the build where its text is not there, exactly so often"
        elif path.startswith(("/opt/", "/usr/")) and re.search(r"(?:test|\[) -[efxds] ", entry.text):
            if "runtime" in _roles_at(state, entry):
                entry.left = None
                add(state.draft.smoke, "paths", [path])
                state.into("smoke.paths")
            else:
                entry.left = "a test of a stage that is not served"
        else:
            entry.left = None
            state.undecided(
                "a test that stops the build; smoke.paths, smoke.imports or a probe would do what it does"
            )


def _roles_at(state: State, entry: Entry) -> frozenset[str]:
    before = [stage for stage in state.stages if stage.line <= entry.first]
    return frozenset(before[-1].roles) if before else frozenset()


def _image(state: State) -> None:
    if state.workdirs:
        path, entry = state.workdirs[-1]
        state.draft.image["workdir"] = path
        entry.left = None
        entry.into("image.workdir")
    _kv_cache(state)
    if not state.users:
        return
    text, entry = state.users[-1]
    state.entry, entry.left = entry, None
    name, _, _ = text.partition(":")
    made = state.made_users.get(name)
    if name.isdigit() and 0 < int(name) <= _LAST_UID:
        state.draft.image["uid"] = int(name)
        state.into("image.uid")
    elif _USER.fullmatch(name) and name not in (*_TAKEN, "root"):
        state.draft.image["user"] = name
        state.into("image.user")
        if made is not None:
            made[1].into("image.user")
            if (made[0] or "").isdigit():
                state.draft.image["uid"] = int(made[0] or "")
                made[1].into("image.uid")
    else:
        state.draft.image["user"] = state.mark(
            f"an unprivileged user of the image's own; the Dockerfile has {state.shown(name)}"
        )


def _kv_cache(state: State) -> None:
    words = [
        word for key in ("entrypoint", "cmd") for word in state.draft.image.get(key, ()) if isinstance(word, str)
    ]
    for place, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _KV_OPTIONS:
            continue
        value = value if equals else (words[place + 1] if place + 1 < len(words) else "")
        state.draft.kv_cache[name] = int(value) if value.isdigit() else value
        for entry in state.served.values():
            if word in entry.text:
                entry.into(f"kv-cache.{name}")


def _top(state: State) -> None:
    top, draft = state.draft.top, state.draft
    served = next(stage for stage in reversed(state.stages) if "runtime" in stage.roles)
    _at(state, served.line)
    top.setdefault(
        "description", state.mark("what the image is for, in a sentence") if "description" not in top else ""
    )
    engine = next((c["name"] for c in draft.components if c["name"] in _ENGINES), None)
    if engine is not None:
        top["engine"] = engine
    if "gfx" not in top:
        top["gfx"] = [state.mark("the GPU targets, such as gfx1201")]
    if "python" not in top:
        top["python"] = state.mark("the Python of the served stage, such as 3.12")
    for role, table in (("build", draft.build), ("runtime", draft.runtime)):
        if "image" not in table:
            table["image"] = state.mark(f"the image that the {role} stage starts from")


def _argument(state: State, entry: Entry, name: str) -> None:
    """Say what an ARG became: what its users did."""
    users = [user for user in state.used.get(name, []) if user is not entry]
    if entry.left is not None or entry.became or entry.marks:
        return
    for user in users:
        entry.into(*user.became)
        entry.marks += [mark for mark in user.marks if mark not in entry.marks and not user.became]
    lines = ", ".join(str(user.first) for user in users)
    if not users:
        entry.left = "nothing reads it"
    elif not (entry.became or entry.marks):
        entry.left = f"read in line {lines} alone"
