"""What variables of a Dockerfile become: environment, GPU targets, versions, or nothing because of a reason."""

from __future__ import annotations

import re

from builder.adopt.draft import add
from builder.adopt.state import State
from builder.adopt.words import HIDDEN, NO_SECRETS, has_secret, is_secret_name
from builder.grammar import check_writable, password_in

_GFX = re.compile(r"gfx[0-9a-f]{3,4}(?::(?:xnack|sramecc)[+-])*")
_GFX_VARIABLES = (
    "AITER_ROCM_ARCH", "AMDGPU_TARGET", "AMDGPU_TARGETS", "ARCH_LIST", "CMAKE_HIP_ARCHITECTURES", "GFX_ARCH",
    "GFX_TARGETS", "GPU_ARCH", "GPU_ARCHS", "GPU_TARGETS", "HCC_AMDGPU_TARGET", "HIP_ARCHITECTURES",
    "MORI_GPU_ARCHS", "PYTORCH_ROCM_ARCH", "ROCM_ARCH",
)  # fmt: skip
_LEFT = {
    "DEBIAN_FRONTEND": "no package of the recipe asks while it is installed",
    "MAX_JOBS": "[build] memory-per-job decides it, for the machine that builds",
    "CMAKE_BUILD_PARALLEL_LEVEL": "[build] memory-per-job decides it, for the machine that builds",
    "CARGO_BUILD_JOBS": "[build] memory-per-job decides it, for the machine that builds",
    "VIRTUAL_ENV": "components are installed for the image's Python, without an environment of their own",
    "HSA_OVERRIDE_GFX_VERSION": None,
}  # fmt: skip
_SET_BY_OTHERS = ("HOSTNAME", "OLDPWD", "PWD", "SHLVL", "_")
_OF_INSTALLERS = re.compile(r"(?:PIP|UV|CONDA|MAMBA|CCACHE|SCCACHE)_")
_INDEX = re.compile(r"(?:PIP|UV)_.*(?:INDEX|FIND_LINKS)")
_PYTHONS = {"24.04": "3.12", "22.04": "3.10", "noble": "3.12", "jammy": "3.10"}
_ROCM_TAG = re.compile(r"(?:^|[:_-])(?:rocm-?)?(?P<version>[0-9]+\.[0-9]+(?:\.[0-9]+)?)(?=$|[-_@])")
_PY_TAG = re.compile(r"py(?:thon)?-?(?P<version>3\.[0-9]{1,2})")


def told_by_image(state: State, image: str) -> None:
    """Take what the name of a base image tells: the versions of ROCm and of Python."""
    name = image.partition("@")[0]
    path, _, tag = name.rpartition(":")
    python = _PY_TAG.search(name)
    for release, version in _PYTHONS.items():
        if python is None and release in name and "runtime" in state.roles:
            state.draft.top.setdefault("python", version)
            state.into("python")
    if python is not None:
        state.draft.top["python"] = python["version"]
        state.into("python")
    rocm = _ROCM_TAG.search(f":{tag}")
    if rocm is not None and "rocm" in f"{path}:{tag}" and "runtime" in state.roles:
        state.draft.top["rocm"] = rocm["version"]
        state.into("rocm")


def secret(state: State, name: str, value: str | None) -> bool:
    """Leave a variable out that holds a secret; tell whether it does."""
    if (value or "").lower() in NO_SECRETS:
        return False
    bare = value is not None and (has_secret(value) or password_in(value))
    if not bare and not (is_secret_name(name) and not (value or "").startswith("$")):
        return False
    if value:
        state.secrets.add(value)
    word = state.account.text.partition(" ")[0]
    if word in ("ARG", "ENV"):
        state.account.text = f"{word} {name}={HIDDEN}"
    state.leave("a secret belongs into no image and no recipe; hand it over when the container starts")
    return True


def gfx_of(value: str) -> list[str]:
    """Return the GPU targets that a value lists, none where it has something else as well."""
    words = [word for word in re.split(r"[;,\s]+", value.strip("\"'")) if word]
    return words if words and all(_GFX.fullmatch(word) for word in words) else []


def gfx(state: State, name: str, value: str) -> bool:
    """Take GPU targets; tell whether the variable has such."""
    targets = gfx_of(value)
    if not targets or name not in _GFX_VARIABLES:
        return False
    add(state.draft.top, "gfx", targets)
    state.gfx_values.append((state.account, name, targets))
    state.into("gfx")
    return True


def variable(state: State, name: str, raw: str) -> None:
    """Take a variable that ENV sets."""
    filled = state.expand_text(raw)
    value = filled.text
    if state.stage is None or secret(state, name, value):
        return
    if not filled.unknown:
        state.stage.env[name] = value
        state.scope[name] = value
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        state.undecided(f"{name} is not the name of an environment variable")
    elif not state.roles:
        state.leave("nothing of this stage reaches the image")
    elif gfx(state, name, value):
        state.note_gfx_variable(name)
        if "runtime" in state.roles:
            state.draft.env[name] = "{gfx}"
            state.into(f"image.env.{name}")
    elif name in _LEFT and _LEFT[name] is not None:
        state.leave(_LEFT[name] or "")
    elif _INDEX.match(name) and value:
        state.undecided(f"{name}: an index of wheels; name it as 'index' of the components that come from it")
    elif _OF_INSTALLERS.match(name):
        state.leave("it steers an installer; the lock decides what is installed")
    elif name in _SET_BY_OTHERS:
        state.leave("whoever starts the container sets it")
    elif name == "HSA_OVERRIDE_GFX_VERSION":
        state.undecided(
            "must not be set on a card that this ROCm knows, not even empty; else put it into image.env"
        )
    else:
        _keep(state, name, value, filled.unknown)


def _keep(state: State, name: str, value: str, unknown: tuple[str, ...]) -> None:
    kept: object = value
    if unknown or (name.endswith("PATH") and "$" in value):
        kept = state.mark(f"the whole value of {name}: {state.shown(value)} has variables without a value")
    elif name == "PATH" and not _is_path(value):
        kept = state.mark(f"the whole PATH, of absolute paths, /usr/bin among them: {state.shown(value)}")
    elif name == "HOME" and "runtime" in state.roles and not _is_home(value):
        kept = state.mark(f"a HOME that the image's user may write to; the Dockerfile has {state.shown(value)}")
    elif re.search(r"\{[a-z][a-z0-9_-]*\}", value) and "${" not in value:
        kept = state.mark(f"the value of {name}: braces are placeholders of the recipe: {state.shown(value)}")
    if "runtime" in state.roles:
        state.draft.env[name] = kept
        state.into(f"image.env.{name}")
    if "build" in state.roles and state.account.first < state.last_run:
        state.draft.build.setdefault("env", {})[name] = kept
        state.into(f"base.build.env.{name}")


def _is_path(value: str) -> bool:
    folders = value.split(":")
    return "/usr/bin" in folders and all(folder.startswith("/") for folder in folders)


def _is_home(value: str) -> bool:
    try:
        check_writable(value)
    except ValueError:
        return False
    return True


def build_variable(state: State, name: str, value: str, unknown: tuple[str, ...]) -> None:
    """Take a variable that a build command is started with."""
    if secret(state, name, value):
        return
    if gfx(state, name, value):
        state.note_gfx_variable(name)
    elif (why := _LEFT.get(name)) is not None:
        state.account.left = state.account.left or f"{name}: {why}"
    elif _OF_INSTALLERS.match(name):
        state.account.left = (
            state.account.left or f"{name} steers an installer; the lock decides what is installed"
        )
    elif unknown:
        state.undecided(f"the value of {name}, for build-env of what is built with it")
    else:
        state.build_env[name] = value
