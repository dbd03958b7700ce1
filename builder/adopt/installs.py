"""What installations of Python distributions become: wheels, builds of sources, requirements files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder.adopt import snippets, trees
from builder.adopt.draft import Mark, add
from builder.adopt.shell import Command
from builder.adopt.state import State, named
from builder.adopt.system import options
from builder.adopt.words import Filled, has_secret

_WITH_ARGUMENT = (
    "-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url", "--extra-index-url",
    "--find-links", "-t", "--target", "--prefix", "--python", "-p", "--root-user-action", "--config-settings",
    "--torch-backend", "--index-strategy", "--cache-dir", "--default-timeout", "--retries", "--trusted-host",
    "--index", "--default-index", "-w", "--wheel-dir", "--global-option", "--no-binary", "--only-binary",
    "-f", "-C", "--progress-bar",
    "-d", "--dest", "--override", "--extra", "--timeout", "--no-build-isolation-package", "-n", "--name",
)  # fmt: skip
_TOOLS = (
    "build", "cmake", "cython", "flit-core", "hatchling", "jinja2", "meson", "meson-python", "ninja", "packaging",
    "pip", "poetry-core", "pybind11", "scikit-build-core", "setuptools", "setuptools-rust", "setuptools-scm",
    "wheel", "maturin", "uv", "virtualenv", "pyyaml", "nanobind",
)  # fmt: skip
_INSTALLERS = ("pip", "uv", "virtualenv", "build")
_PROTECTED = ("torch", "torchvision", "torchaudio", "triton", "amd-aiter", "aiter", "pytorch-triton-rocm")
_NEEDED = ("torch", "triton")  # by builds that find them installed
# Where a distribution is called otherwise than its repository.
_DISTRIBUTIONS = {"aiter": "amd-aiter", "flash-attention": "flash-attn", "pytorch": "torch"}
_OF_PYTORCH = {"vision": "torchvision", "audio": "torchaudio"}


def pip(state: State, command: Command, words: list[Filled]) -> None:
    """Read a pip command."""
    action = next((word.text for word in words if not word.text.startswith("-")), "")
    rest = [word for word in words if word.text != action]
    if action in ("install", "wheel"):
        _install(state, command, rest)
    elif action == "uninstall":
        _uninstall(state, rest)
    elif action in ("list", "freeze", "show", "check", "cache", "config", "debug", "--version", "index", ""):
        state.leave("changes nothing that is installed; the resolution is checked when it is locked")
    else:
        state.undecided(f"pip {action}: no key is known for that")


def uv(state: State, command: Command, words: list[Filled]) -> None:
    """Read a uv command."""
    action = words[0].text if words else ""
    given, _ = options(words, _WITH_ARGUMENT)
    if action == "pip":
        pip(state, command, words[1:])
    elif action in ("venv", "python"):
        _python_version(state, (given.get("--python", []) + given.get("-p", []) + [w.text for w in words[1:]]))
        state.leave("components are installed for the image's Python, without an environment of their own")
    elif action in ("sync", "add", "lock", "export"):
        state.undecided(f"uv {action}: name the project as a component with 'source'; its lock is not read")
    elif action == "build":
        _build(state, command, state.cwd, extras=(), no_deps=False)
    else:
        state.leave("changes nothing that is installed")


def conda(state: State, command: Command, words: list[Filled]) -> None:
    """Read a conda command: the image's Python is that of the base."""
    for word in words:
        _python_version(
            state, [word.text.removeprefix("python=").removeprefix("=")] if "python" in word.text else []
        )
    action = next((word.text for word in words if not word.text.startswith("-")), "")
    if action in ("clean", "config", "init", "activate", "info", "list", "tos"):
        state.leave("no environment of conda is in the image")
    elif action == "run":
        state.undecided("runs a command in an environment of conda; write it as one of the image's Python")
    else:
        state.undecided("packages of conda: name them as wheels or as packages of the distribution")
    del command


def _python_version(state: State, words: list[str]) -> None:
    for word in words:
        found = re.fullmatch(r"(?:python)?(3\.[0-9]{1,2})(?:\.[0-9]+)?", word)
        if found is not None and "runtime" in (state.roles or ("runtime",)):
            state.draft.top["python"] = found[1]
            state.into("python")


def python(state: State, command: Command, words: list[Filled]) -> None:
    """Read a python command."""
    texts = [word.text for word in words]
    if texts[:2] == ["-m", "pip"]:
        pip(state, command, words[2:])
    elif texts[:2] in (["-m", "venv"], ["-m", "virtualenv"], ["-m", "ensurepip"], ["-m", "compileall"]):
        state.leave("the program installs for the image's Python, and compiles bytecode itself")
    elif texts[:2] == ["-m", "build"]:
        _build(
            state, command, state.path(next((t for t in texts[2:] if t[:1] != "-"), ".")), extras=(), no_deps=False
        )
    elif texts[:1] == ["-c"] and len(texts) > 1:
        snippets.read_code(state, texts[1])
    elif texts and re.fullmatch(r"setup\w*\.py", texts[0]):
        _setup(state, command, texts)
    elif texts[:1] in (["--version"], ["-V"]):
        state.leave("prints")
    else:
        state.undecided(
            "runs a program of Python; a build command of a component, or a patch, would do what it does"
        )


def _setup(state: State, command: Command, texts: list[str]) -> None:
    if texts[0] != "setup.py" or not {"install", "develop", "bdist_wheel"} & set(texts[1:]):
        state.undecided(f"{' '.join(texts)}: a wheel is built by setup.py or pyproject.toml alone; write "
                        "build commands, or a patch that makes this file the setup.py")  # fmt: skip
        if not {"install", "develop", "bdist_wheel"} & set(texts[1:]):
            return
    _build(state, command, state.cwd, extras=(), no_deps=False)


def _uninstall(state: State, words: list[Filled]) -> None:
    for word in words:
        if word.text.startswith("-"):
            continue
        name = canonicalize_name(word.text)
        if state.draft.component(name) is not None:
            state.undecided(f"{name} is installed before, and removed here: keep the component, or forbid it")
        else:
            state.draft.forbid(name)
            state.into("forbid")


def _install(state: State, command: Command, words: list[Filled]) -> None:
    given, others = options(words, _WITH_ARGUMENT)
    no_deps = "--no-deps" in given
    for key in ("-t", "--target", "--prefix", "--no-binary"):
        if key in given:
            state.undecided(
                f"{key} {' '.join(given[key])}: wheels are installed where the image's Python finds them"
            )
    indexes = [text for key in ("-i", "--index-url", "--default-index") for text in given.get(key, [])]
    extra = [text for key in ("--extra-index-url", "--index") for text in given.get(key, [])]
    links = [text for key in ("-f", "--find-links") for text in given.get(key, [])]
    for key in ("-c", "--constraint", "--override"):
        for file in given.get(key, []):
            state.undecided(
                f"{file}: versions of others are in the lock; make a component of what has to have one"
            )
    for key in ("-r", "--requirement"):
        for file in given.get(key, []):
            _requirements(state, file)
    for file in given.get("-e", []) + given.get("--editable", []):
        path = file if file.startswith((".", "/", "git+", "~")) else f"./{file}"
        _target(state, command, Filled(path), no_deps=no_deps, index=None)
    for word in others:
        _target(state, command, word, no_deps=no_deps, index=(indexes, extra, links))
    if not others and not any(key in given for key in ("-r", "--requirement", "-e", "--editable")):
        state.undecided("installs what is not said here")


def _requirements(state: State, file: str) -> None:
    tree = state.tree_of(state.path(file))
    if tree is None:
        origin = state.origin_of(state.path(file))
        where = f"{origin}, beside the Dockerfile" if origin else state.shown(file)
        state.undecided(f"the requirements of {where}: name them as components, or in 'requires' of one")
        return
    component = _component_of(state, tree[0], ".")
    add(component, "requires-files", [tree[1]])
    state.into(f"component.{component['name']}.requires-files")


Where = tuple[list[str], list[str], list[str]]


def _target(state: State, command: Command, word: Filled, *, no_deps: bool, index: Where | None) -> None:
    text = word.text
    if word.unknown:
        state.undecided(f"installs {state.shown(text)}, where {', '.join(word.unknown)} has no value here")
    elif text.startswith("git+") or " @ git+" in text:
        _from_git(state, command, text, no_deps=no_deps)
    elif text.endswith(".whl") or "*" in text:
        if "://" in text:
            state.undecided(
                f"{state.shown(text)}: a wheel by its address; name the index that lists it, or mirror it"
            )
        else:
            tree = state.tree_of(state.path(text))
            built = [
                each["name"] for each in state.draft.components if tree is None or each.get("source") == tree[0]
            ]
            state.installed.extend(name for name in built if name in _NEEDED and name not in state.installed)
            state.leave("wheels that are built here are installed by the program")
    elif re.match(r"[./~]", text) or (
        (state.tree_of(state.path(text.partition("[")[0])) or ("", "."))[1] != "."
        and "==" not in text
        and "/" in text
    ):
        path, _, extras = text.partition("[")
        names = tuple(part.strip() for part in extras.rstrip("]").split(",") if part.strip())
        _build(state, command, state.path(path), extras=names, no_deps=no_deps)
    else:
        _requirement(state, text, no_deps=no_deps, index=index or ([], [], []))


def _from_git(state: State, command: Command, text: str, *, no_deps: bool) -> None:
    address = text.rpartition("git+")[2]
    address, _, fragment = address.partition("#")
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    path, at, ref = path.partition("@")
    source = trees.source_of_address(state, f"{scheme}://{host}{slash}{path}")
    if at:
        trees.note_ref(state, source, command, ref, unknown=False)
    folder = re.search(r"subdirectory=([^&]+)", fragment)
    root = f"/.fetched/{source}"
    state.trees[root] = source
    name = text.partition(" @ ")[0] if " @ " in text else ""
    extras = tuple(re.findall(r"[\w-]+", name.partition("[")[2]))
    _build(state, command, posixpath.join(root, folder[1]) if folder else root, extras=extras, no_deps=no_deps)


def _component_of(state: State, source: str, folder: str) -> dict[str, Any]:
    """Return the component that is built of a folder of a source; made where there is none."""
    folder = posixpath.normpath(folder)
    for component in state.draft.components:
        if component.get("source") == source and "build" not in component:
            at = component.get("subdirectory", ".")
            if at == folder or folder == "." or at == ".":
                if at == "." and folder != "." and component.get("built"):
                    continue
                if folder != ".":
                    component["subdirectory"] = folder
                return component
    last = posixpath.basename(folder)
    name = source if folder == "." or last in ("python", "src") else named(last)
    name = _DISTRIBUTIONS.get(name, name)
    if "/pytorch/" in str(state.draft.sources[source]["git"]):
        name = _OF_PYTORCH.get(name, name)
    if state.draft.component(name) is not None:
        name = f"{source}-{name}"
    component = {"name": name, "source": source}
    if folder != ".":
        component["subdirectory"] = folder
    state.draft.components.append(component)
    return component


def _build(state: State, command: Command, path: str, *, extras: tuple[str, ...], no_deps: bool) -> None:
    tree = state.tree_of(path)
    if tree is None:
        origin = state.origin_of(path)
        where = f"{origin}, beside the Dockerfile" if origin else state.shown(path)
        state.undecided(f"builds {where}: a [source] with 'path' would name the folder beside the recipe")
        return
    component = _component_of(state, *tree)
    name = str(component["name"])
    component["built"] = state.account
    if extras:
        add(component, "extras", list(extras))
    if state.build_env:
        component.setdefault("build-env", {}).update(state.build_env)
        state.into(f"component.{name}.build-env")
    needs = [other for other in state.installed if other in _NEEDED and other != name]
    if needs:
        add(component, "needs", needs)
    if no_deps:
        state.no_deps[name] = state.account
    state.into(f"component.{name}")
    del command


def _requirement(state: State, text: str, *, no_deps: bool, index: Where) -> None:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        state.undecided(f"{state.shown(text)} is no requirement that could be read")
        return
    name = canonicalize_name(requirement.name)
    if requirement.url is not None:
        state.undecided(f"{name} by its address; name the index that lists it, or a [source]")
        return
    if name in _INSTALLERS:
        left = f"{name} installs nothing in the image; the program brings its own"
        state.account.left = state.account.left or left
        return
    if requirement.marker is not None:
        state.undecided(f"{name} depends on '{requirement.marker}': keep it where that holds for this image")
    if name in _TOOLS and not index[0] and not index[2]:
        state.tools.append((text, state.account))
        return
    present = state.draft.component(name)
    if present is not None and "wheel" not in present:
        state.undecided(f"{name} is a component of another kind already")
    else:
        _wheel(state, requirement, present, no_deps=no_deps, index=index)


def _wheel(
    state: State, requirement: Requirement, present: dict[str, Any] | None, *, no_deps: bool, index: Where
) -> None:
    """Make a component of a wheel, or go by the later one of two commands that install it."""
    name = canonicalize_name(requirement.name)
    version = _exact(requirement)
    component: dict[str, Any] = {"name": name, "wheel": name} if present is None else present
    if present is None:
        state.draft.components.append(component)
    elif version is None:
        state.into(f"component.{name}")  # is there already, and stays
        return
    elif present["version"] != version:
        state.undecided(f"{name} is installed before, at another version; the later one is in the draft")
    said = f" ({requirement.specifier})" if requirement.specifier else ""
    component["version"] = version or state.mark(
        f"the exact version of {name}; the Dockerfile leaves it open{said}"
    )
    _where(state, component, index)
    if requirement.extras:
        add(component, "extras", sorted(requirement.extras))
    if name in _PROTECTED:
        component["protected"] = True
        state.installed.extend([name] if name not in state.installed else [])
    if no_deps:
        component.pop("extras", None)
        component["requires"] = []
        component["reason"] = state.mark(
            f"why {name} is installed without what it declares; 'requires' may list what it needs"
        )
    state.into(f"component.{name}")


def _exact(requirement: Requirement) -> str | None:
    """Return the one version that a requirement allows, in its normal form."""
    for each in requirement.specifier:
        if each.operator in ("==", "===") and "*" not in each.version:
            try:
                return str(Version(each.version))
            except InvalidVersion:
                return None
    return None


def _where(state: State, component: dict[str, Any], index: Where) -> None:
    """Name the index of a wheel, where the command decides it."""
    main, extra, links = index
    if any(has_secret(each) or "@" in each for each in (*main, *extra, *links)):
        component["index"] = state.mark("the index without user and password, which belong into ~/.netrc")
        return
    local = "+" in str(component["version"]) if not isinstance(component["version"], Mark) else False
    pages = [each for each in links if "://" in each]
    if len(pages) < len(links):
        state.undecided("wheels of a local folder: mirrors.toml names it as a wheelhouse")
    value: object = None
    if main and not extra and not pages:
        value = main[0]
    elif local and not main and len(extra) + len(pages) == 1:
        value = extra[0] if extra else {"url": pages[0], "kind": "flat"}
    elif main or extra or pages:
        all_of = ", ".join((*main, *extra, *pages))
        value = state.mark(
            f"the one index of {component['name']}: {all_of}" + ("" if main else ", or none for the default")
        )
    if value is not None:
        component["index"] = value
        environment_note = None if isinstance(value, Mark) else f"component.{component['name']}.index"
        if environment_note:
            state.into(environment_note)
