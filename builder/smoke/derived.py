"""What an image promises that comes without a recipe: what it says of itself, and for the rest why nobody says it.

A test that has nothing to go by is not run, and the reason is told; it is never passed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from builder import foreign
from builder.engine import containers, contents
from builder.engine.contents import Config
from builder.errors import EngineError, Failure
from builder.smoke.contract import JIT_PROBES, ComponentVersion, Contract
from builder.smoke.findings import Unfit
from builder.smoke.probing import Probing
from builder.target import GfxTarget

MANIFEST = "/usr/share/rocm-images/manifest.json"
_LABEL = "rocm-images"
_ENGINES = ("sglang", "vllm")
_MODULES = ("torch", "torchvision", "triton", "sglang", "vllm")
_AITER = ("amd-aiter", "aiter")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO_RECIPE = "the image comes without a recipe, and nothing in it says this"
_DEVIATIONS = "what components need instead of what they declare is in the recipe: name it with --recipe"
_DISCOVER_SECONDS = 60.0
_OLDEST_PYTHON = (3, 10)


def derive(image: str, name: str) -> Contract:
    """Return what an image in the engine's store can be held to. `name` is how results call it."""
    config = contents.config(image)
    if config is None:
        raise EngineError(f"{name}: no such image in the container engine", hint=f"docker pull {name}")
    (told,) = containers.read_files(image, [MANIFEST])
    manifest = _read(told)
    promises = _by_manifest(manifest) if manifest is not None else _by_config(config)
    with contents.created(image) as (client, container):
        shell = all(contents.exists(client, container, path) for path in ("/bin/sh", "/bin/sleep"))
        folders = config.env.get("PATH", _DEFAULT_PATH).split(":")
        pythons = [f"{folder}/python3" for folder in folders if PurePosixPath(folder).is_absolute()]
        python = next((path for path in pythons if contents.exists(client, container, path)), None)
    silent: dict[str, str] = dict(promises.pop("silent"))
    if not shell:
        silent["shell"] = "there is no /bin/sh with /bin/sleep in the image, which containers of the tests need"
    if python is None or not shell:
        silent["python"] = silent.get("shell") or "there is no python3 on the PATH of the image, which probes need"
        found: dict[str, Any] | None = None
    else:
        found = _discover(image, Contract(image=name, **{**promises, "python": python}), silent)
    promises |= {"image": name, "python": python or "", "entrypoint": config.entrypoint, "cmd": config.cmd}
    if not (config.entrypoint or config.cmd):
        silent["program"] = "the image has neither ENTRYPOINT nor CMD"
    promises |= _by_content(found, promises["gfx"], silent)
    return Contract(**promises, silent=silent)


def _read(told: bytes | None) -> dict[str, Any] | None:
    try:
        manifest = foreign.loads(told) if told is not None else None
    except ValueError:
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("schema") == 1 else None


def _by_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an image of this program says of itself in its manifest."""
    said: Mapping[str, Any] = manifest["contract"]
    keys = ("writable", "devices", "groups")
    labels = {key: ",".join(said[key]) for key in keys} | {
        "fingerprint": manifest["fingerprint"], "engine": manifest["engine"] or "",
        "gfx": ",".join(manifest["gfx"]), "shm": said["shm"] or "",
    }  # fmt: skip
    return {
        "user": f"{said['uid']}:{said['uid']}", "user_name": said["user"], "workdir": said["workdir"],
        "env": dict(said["env"]), "shm": said["shm"], **{key: tuple(said[key]) for key in keys},
        "gfx": tuple(manifest["gfx"]), "engine": manifest["engine"], "fingerprint": manifest["fingerprint"],
        "labels": {f"{_LABEL}.{key}": value for key, value in labels.items()},
        "components": tuple(_component(entry) for entry in manifest["components"]),
        "silent": _reasons("required", "absent", "argv", "loaders", "paths", "sizes", "distributions")
        | {"requirements": _DEVIATIONS},
    }  # fmt: skip


def _component(entry: Mapping[str, Any]) -> ComponentVersion:
    wheel = str(entry.get("wheel", "")).partition("-")[0].replace("_", "-").lower()
    return ComponentVersion(
        name=entry["name"], version=entry["version"], apt=entry.get("apt"),
        distribution=entry.get("base") or wheel or None,
    )  # fmt: skip


def _by_config(config: Config) -> dict[str, Any]:
    """Return what any image says of itself: its configuration."""
    labels = {name.removeprefix(f"{_LABEL}."): value for name, value in config.labels.items()}
    return {
        "user": config.user, "workdir": config.workdir, "env": dict(config.env),
        # Nobody says which directories it writes to: it is run as a plain `docker run` would, with a /tmp.
        "writable": ("/tmp",), "read_only": False,  # noqa: S108 -- a path of the image
        "gfx": tuple(labels["gfx"].split(",")) if labels.get("gfx") else (),
        "silent": _reasons(
            "user", "workdir", "env", "writable", "components", "absent", "argv", "loaders", "paths", "required",
            "sizes", "labels", "fingerprint", "distributions",
        ),
    }  # fmt: skip


def _reasons(*subjects: str) -> dict[str, str]:
    return dict.fromkeys(subjects, _NO_RECIPE)


def _discover(image: str, contract: Contract, silent: dict[str, str]) -> dict[str, Any] | None:
    """Ask the image's Python what there is; where it does not answer, say so for all probes."""
    run = secrets.token_hex(8)
    probing = Probing(image, contract, run)
    try:
        with probing.start() as container:
            found = probing.probe_in(container)(
                "discover", modules=[*_MODULES, "aiter"], limit_seconds=_DISCOVER_SECONDS
            )
    except Unfit as unfit:
        silent["python"] = f"{contract.python} of the image runs no probe: {unfit.finding.cause}"
        return None
    except Failure as failure:
        if isinstance(failure, EngineError):
            raise
        silent["shell"] = silent["python"] = f"no container of the image starts: {failure.message}"
        return None
    if tuple(found["python"]) < _OLDEST_PYTHON:
        silent["python"] = f"the image has Python {'.'.join(map(str, found['python']))}, probes need 3.10"
        return None
    return found


def _by_content(found: Mapping[str, Any] | None, gfx: tuple[str, ...], silent: dict[str, str]) -> dict[str, Any]:
    """Return what follows from what there is: what is there has to work. What is not is said in `silent`."""
    if found is None:
        subjects = ("imports", "contracts", "torch", *(f"jit {name}" for name in JIT_PROBES))
        silent.update(dict.fromkeys(subjects, silent["python"]))
        return {}
    modules = set(found["modules"])
    targets = gfx or tuple(text for text in found["targets"] if _is_target(text))
    engines = [engine for engine in _ENGINES if engine in modules]
    kernels = next((name for name in _AITER if name in found["distributions"]), None)
    if not targets:
        silent["gfx"] = "neither a label nor PYTORCH_ROCM_ARCH says which GPU targets the image is for"
    if not modules.intersection(_MODULES):
        silent["imports"] = f"none of {', '.join(_MODULES)} is in the image"
    if not engines or kernels is None:
        silent["contracts"] = "there is no engine with an AITER in the image"
    if "torch" not in modules:
        silent["torch"] = "there is no torch in the image"
    elif found["hip"] is None:
        silent["torch"] = "the torch of the image is no HIP build"
    jit = _compiles(found, modules, targets, engines, kernels, silent)
    return {
        "imports": tuple(module for module in _MODULES if module in modules),
        "jit": jit, "triton_gfx": targets if "triton" in jit else (),
        "hip_gfx": targets if "hipcc" in jit or "hip-module" in jit else (),
        "contracts": tuple((engine, kernels) for engine in engines if kernels is not None),
        "gfx": targets,
    }  # fmt: skip


def _compiles(
    found: Mapping[str, Any],
    modules: set[str],
    targets: tuple[str, ...],
    engines: list[str],
    kernels: str | None,
    silent: dict[str, str],
) -> tuple[str, ...]:
    """Return what has to compile at run time, and say for the rest why not."""
    lacking = {
        "sglang-hash": None if found["hash_extension"] else "there is no SGLang with it in the image",
        "torch-inline": None if engines and "torch" in modules else "there is no engine with a torch in the image",
        "hip-module": None if kernels and found["hipcc"] else "there is no AITER with a hipcc in the image",
        "hipcc": None if found["hipcc"] else "there is no hipcc in the image",
        "triton": None if "triton" in modules else "there is no triton in the image",
    }
    for name in ("hip-module", "hipcc", "triton"):
        if lacking[name] is None and not targets:
            lacking[name] = silent["gfx"]
    silent.update({f"jit {name}": why for name, why in lacking.items() if why is not None})
    return tuple(name for name, why in lacking.items() if why is None)


def _is_target(text: str) -> bool:
    try:
        GfxTarget(text)
    except ValueError:
        return False
    return True
