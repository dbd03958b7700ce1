"""What the instructions of a Dockerfile become, RUN aside."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable

from builder import foreign
from builder.adopt import environment
from builder.adopt.dockerfile import Instruction, without_remark
from builder.adopt.draft import add
from builder.adopt.state import UNKNOWN, State, free_name, installed_path, named
from builder.errors import RecipeError
from builder.grammar import check_writable
from builder.reference import parse_reference

_PAIR = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)=(?P<value>(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*)"
)
_PORT = re.compile(r"(?P<port>[0-9]+)(?:/(?P<protocol>[a-z]+))?")
_OWN_LABELS = "labels are the program's own"


def read_from(state: State, instruction: Instruction) -> None:
    """Begin a stage."""
    stage = next(stage for stage in state.stages if stage.line == instruction.first)
    state.stage, state.scope = stage, dict(state.globals)
    filled = state.expand_text(stage.image)
    state.scope = {}
    if stage.parent is not None:
        above = state.stages[stage.parent]
        stage.env, stage.cwd = dict(above.env), above.cwd
        stage.trees, stage.copied = dict(above.trees), dict(above.copied)
        stage.installed = list(above.installed)
        state.scope |= above.env
        state.leave(f"the stage goes on from line {above.line}")
        return
    if not stage.roles:
        state.leave("nothing of this stage reaches the image")
        return
    _base(state, filled.text, filled.unknown)
    if (platform := instruction.flag("platform")) is not None and not re.search(r"amd64|x86_64|\$", platform):
        state.undecided(f"images are made for linux/amd64, this one is for {platform}")


def _base(state: State, image: str, unknown: tuple[str, ...]) -> None:
    value: object = _pinned(image)
    if unknown:
        value = state.mark(
            f"the image: {state.shown(image)} takes it from {', '.join(unknown)}, which has no value"
        )
    elif image == "scratch":
        value = state.mark("FROM scratch: a recipe starts from an image, a Debian suite or another recipe")
    elif value is None:
        value = state.mark(
            f"{state.shown(image)} floats: HOST/PATH:TAG@sha256:… is wanted; "
            f"docker buildx imagetools inspect {state.shown(image)} shows the digest"
        )
    for role, table in (("build", state.draft.build), ("runtime", state.draft.runtime)):
        if role not in state.roles:
            continue
        if table.setdefault("image", value) is value:
            state.into(f"base.{role}.image")
        elif table["image"] != value:
            state.undecided(f"another {role} stage starts from {state.shown(image)}; a recipe has one")
    environment.told_by_image(state, image)


def _pinned(image: str) -> str | None:
    """Return a pinned reference in full, None for one that floats or cannot be read."""
    host = image.partition("/")[0]
    if "/" not in image:
        image = f"docker.io/library/{image}"
    elif not re.search(r"[.:]", host) and host != "localhost":
        image = f"docker.io/{image}"
    try:
        return image if parse_reference(image).digest is not None else None
    except (ValueError, RecipeError):
        return None


def read_arg(state: State, instruction: Instruction) -> None:
    """Note the value of a build argument; what it becomes shows where it is used."""
    text = without_remark(instruction.text)
    words = [found[0] for found in _PAIR.finditer(text)]
    words += [word for word in _PAIR.sub(" ", text).split() if word.isidentifier()]
    for place, word in enumerate(words):
        if place:
            state.begin(f"ARG {word}", instruction.first, instruction.last)
        name, given, raw = word.partition("=")
        value = state.expand_text(_unquoted(raw)).text if given else None
        value = state.given.get(name, value)
        if environment.secret(state, name, value):
            continue
        if state.stage is None and value is not None:
            state.globals[name] = value
        elif value is None and name in state.globals:
            value = state.globals[name]
        if value is not None and (state.stage is None or name not in state.stage.env):
            state.scope[name] = value
        if value is not None and environment.gfx(state, name, value) and state.stage is not None:
            state.note_gfx_variable(name)
        state.arguments.setdefault(name, []).append(state.account)
    if not words:
        state.undecided("an ARG that cannot be read")


def read_env(state: State, instruction: Instruction) -> None:
    """Set the environment of the stage, and of the image where the stage is served."""
    pairs = [(found["name"], _unquoted(found["value"])) for found in _PAIR.finditer(instruction.text)]
    if not re.match(r"[A-Za-z_][A-Za-z0-9_.-]*=", instruction.text):
        name, _, value = instruction.text.partition(" ")
        pairs = [(name, _unquoted(value.strip()))]
    for place, (name, value) in enumerate(pairs):
        if place:
            state.begin(f"ENV {name}={value}", instruction.first, instruction.last)
        elif len(pairs) > 1:
            state.account.text = f"ENV {name}={value}"
        environment.variable(state, name, value)


def _unquoted(text: str) -> str:
    if text[:1] == "'" == text[-1:] and len(text) > 1:
        return text[1:-1]
    return re.sub(r"\\([\"\\ $])", r"\1", text[1:-1] if text[:1] == '"' == text[-1:] and len(text) > 1 else text)


def read_copy(state: State, instruction: Instruction) -> None:
    """Take files from another stage, or from beside the Dockerfile."""
    origin = instruction.flag("from")
    words = _list(instruction.text) or _words(instruction.text)
    filled = [state.expand_text(word) for word in words]
    if instruction.heredocs:
        state.undecided(
            "writes a file from the text below; an overlay or a source beside the recipe would hold it"
        )
    elif any(each.unknown for each in filled) or len(words) < 2:
        state.undecided("copies what a variable without a value names")
    elif origin is not None:
        _from_stage(state, origin, [each.text for each in filled])
    elif instruction.keyword == "ADD" and re.match(r"https?://|git@|ssh://", filled[0].text):
        state.undecided("fetches a file; a [source] with 'archive' and 'sha256', or with 'git', would pin it")
    else:
        for each in filled[:-1]:
            _from_context(state, each.text, filled[-1].text, several=len(filled) > 2)


def _from_stage(state: State, origin: str, words: list[str]) -> None:
    stages = [stage for stage in state.stages if origin.lower() in ((stage.name or "").lower(), str(stage.number))]
    if not stages:
        state.undecided(
            f"copies from the image {state.shown(origin)}; a recipe takes files from its sources alone"
        )
    elif not state.roles:
        state.leave("nothing of this stage reaches the image")
    else:
        for word in words[:-1]:
            if (tree := stages[-1].trees.get(posixpath.normpath(word))) is not None:
                state.trees[state.path(words[-1])] = tree
        state.leave("what is built reaches the image as the layers of the components")


def _from_context(state: State, origin: str, to: str, *, several: bool) -> None:
    origin = posixpath.normpath(origin.lstrip("/"))
    target = state.path(to)
    is_file = "." in posixpath.basename(origin) and not origin.endswith((".", ".d"))
    if is_file and (to.endswith(("/", ".")) or several):
        target = posixpath.join(target, posixpath.basename(origin))
    tree, installed = state.tree_of(target), installed_path(target)
    if is_file and (tree is not None or installed is not None):
        taken = [patch["name"] for patch in state.draft.patches]
        name = free_name(named(posixpath.splitext(posixpath.basename(target))[0]), taken)
        beside = f"overlays/{posixpath.basename(origin)}"
        replaces = state.mark(
            f"copy {origin} to {beside} beside the recipe; here: the sha256 of the file that it replaces, "
            "or delete the key where there is none"
        )
        patch = {
            "name": name, "in": tree[0] if tree else None,
            "target": tree[0] if tree else (installed or "").partition("/")[0],
            "overlay": {"file": tree[1] if tree else installed, "from": beside, "replaces": replaces},
        }  # fmt: skip
        state.draft.patches.append(patch)
        state.into(f"patch.{name}.overlay")
    elif origin.endswith((".patch", ".diff")) or ("patch" in origin and not is_file):
        state.copied[posixpath.dirname(target) if "*" in target else target] = origin
        state.undecided(f"copy {origin} to a folder below patches/ of this repository; the series names it")
    else:
        state.copied[target] = origin
        state.undecided(
            f"copies {origin} from beside the Dockerfile; as a component: a [source] with 'path' and 'build' "
            "commands that put it below {destdir}"
        )


def read_workdir(state: State, instruction: Instruction) -> None:
    """Change the folder; the last one of the served stage is where the image starts."""
    filled = state.expand_text(_unquoted(instruction.text.strip()))
    state.cwd = UNKNOWN if filled.unknown else state.path(filled.text)
    if filled.unknown:
        state.undecided(f"a folder that {', '.join(filled.unknown)} names, which has no value")
        return
    state.leave("only the commands of its stage run there")
    if "runtime" in state.roles:
        state.workdirs.append((state.cwd, state.account))


def read_user(state: State, instruction: Instruction) -> None:
    """Change the user; the last one of the served stage is that of the image."""
    state.leave("only the commands of its stage run as this user")
    if "runtime" in state.roles:
        state.users.append((state.expand_text(instruction.text.strip()).text, state.account))


def read_expose(state: State, instruction: Instruction) -> None:
    """Take the ports."""
    for word in instruction.text.split():
        found = _PORT.fullmatch(state.expand_text(word).text)
        if found is None or found["protocol"] not in (None, "tcp"):
            state.undecided(f"the port {state.shown(word)} is none of TCP that a recipe could name")
        elif "runtime" in state.roles:
            add(state.draft.image, "expose", [int(found["port"])])
            state.into("image.expose")
    if not state.account.marks and not state.account.became:
        state.leave("this stage is not served")


def read_started(state: State, instruction: Instruction) -> None:
    """Take ENTRYPOINT or CMD, the last one of the served stage."""
    key = instruction.keyword.lower()
    if "runtime" not in state.roles:
        state.leave("this stage is not served")
        return
    if (before := state.served.get(key)) is not None:
        before.became, before.left = [], f"line {state.account.first} replaces it"
    if key == "entrypoint" and (command := state.served.pop("cmd", None)) is not None:
        command.became, command.left = [], f"line {state.account.first}: an ENTRYPOINT drops the CMD before it"
        state.draft.image.pop("cmd", None)
    words = _list(instruction.text)
    if words is None:
        simple = not re.search(r"[$`;&|<>*?(){}]", instruction.text)
        words = shlex.split(instruction.text) if simple else ["/bin/sh", "-c", instruction.text]
    hidden = [state.shown(word) for word in words]
    state.draft.image[key] = words
    if hidden != words:
        state.draft.image[key] = [state.mark("its words hold a secret, which an image must not")]
    state.served[key] = state.account
    state.into(f"image.{key}")


def read_volume(state: State, instruction: Instruction) -> None:
    """Take the folders that are written to."""
    if "runtime" not in state.roles:
        state.leave("this stage is not served")
        return
    for word in _list(instruction.text) or instruction.text.split():
        writable(state, state.expand_text(word).text)


def writable(state: State, path: str) -> None:
    """Let the image's user write to a folder."""
    try:
        check_writable(path)
    except ValueError as error:
        state.undecided(f"{state.shown(path)} cannot be a folder of image.writable: {error}")
        return
    add(state.draft.image, "writable", ["/tmp", path])  # noqa: S108 -- the path inside the image
    state.into("image.writable")


def _label(state: State, instruction: Instruction) -> None:
    found = {pair["name"]: _unquoted(pair["value"]) for pair in _PAIR.finditer(instruction.text)}
    text = found.get("org.opencontainers.image.description")
    if text and "runtime" in state.roles and state.shown(text) == text and "$" not in text:
        state.draft.top["description"] = text
        state.into("description")
    state.leave(_OWN_LABELS)


def _shell(state: State, instruction: Instruction) -> None:
    if "conda" in instruction.text or "mamba" in instruction.text:
        state.undecided(
            "runs commands in an environment of conda; components are installed for the image's Python"
        )
        return
    state.leave("no command is run as it stands here; the program runs build commands by sh -e")


def _no_key(state: State, instruction: Instruction) -> None:
    questions = {
        "HEALTHCHECK": "no key for a health check; the deployment has one, smoke.argv tries the start",
        "STOPSIGNAL": "no key for the signal; the deployment names it",
        "ONBUILD": "no key for what happens when another image is built on this one",
    }
    state.undecided(questions.get(instruction.keyword, "an instruction that is not known"))


def _maintainer(state: State, _instruction: Instruction) -> None:
    state.leave(_OWN_LABELS)


READERS: dict[str, Callable[[State, Instruction], None]] = {
    "FROM": read_from, "ARG": read_arg, "ENV": read_env, "COPY": read_copy, "ADD": read_copy,
    "WORKDIR": read_workdir, "USER": read_user, "EXPOSE": read_expose, "ENTRYPOINT": read_started,
    "CMD": read_started, "VOLUME": read_volume, "LABEL": _label, "SHELL": _shell, "MAINTAINER": _maintainer,
}  # fmt: skip


def read_instruction(state: State, instruction: Instruction) -> None:
    """Read an instruction that is not RUN."""
    READERS.get(instruction.keyword, _no_key)(state, instruction)


def _list(text: str) -> list[str] | None:
    """Return the words of the exec form, None for the other."""
    if not text.startswith("["):
        return None
    try:
        words = foreign.loads(text)
    except ValueError:
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
