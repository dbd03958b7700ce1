"""Imports every compiled module of an image, one after the other in a process that may crash.

They share that process as they do in production. Where it dies, the next one goes on behind what killed it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import json
import mmap
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from builder.elf import dynamic
from builder.elf.headers import Unreadable
from builder.smoke.inside.evidence import chain
from builder.smoke.inside.python_set import sites

_OPERATORS = ("nms", "roi_align", "roi_pool", "ps_roi_align")


def probe(seconds: float) -> dict[str, Any]:
    """Return, per compiled module and per package with one, nothing or why it does not import.

    `seconds` is what one may take. `torch` and `torchvision` are what these say of themselves, None without one.
    """
    found = dict(_modules())
    # Extensions of torch count on what `import torch` has loaded, as torch.utils.cpp_extension builds them.
    order = sorted(found, key=lambda module: (module.partition(".")[0] != "torch", module))
    # Asked first: an import of theirs that fails leaves modules behind, and a second one says something else.
    work: dict[str, Callable[[], dict[str, Any]]] = {
        name: do for name, do in (("torch", _torch), ("torchvision", _torchvision)) if _is_there(name)
    }
    for module in order:
        top = module.partition(".")[0]
        work.setdefault(f"package {top}", partial(_import_package, top))
        work[f"module {module}"] = partial(_import, module, found[module])
    told = _isolated(work, seconds)
    return {
        "torch": told.pop("torch", None),
        "torchvision": told.pop("torchvision", None),
        "packages": {name[8:]: result for name, result in told.items() if name.startswith("package ")},
        "modules": {name[7:]: result for name, result in told.items() if name.startswith("module ")},
        "files": found,
    }


def _is_there(name: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(name) is not None
    return False


def _modules() -> Iterator[tuple[str, str]]:
    """Yield the modules that are libraries and that Python would find at this place, by full name."""
    first: dict[str, str] = {}
    for site in sites():
        for entry in sorted(Path(site).iterdir()):
            first.setdefault(entry.name.partition(".")[0], site)
        for folder, below, names in os.walk(site):
            below[:] = sorted(name for name in below if name.isidentifier() and name != "__pycache__")
            package = Path(folder).relative_to(site).parts
            for name in sorted(names):
                stem = _stem(name)
                top = package[0] if package else stem
                if stem is None or top is None or first.get(top) != site:
                    continue
                path = f"{folder}/{name}"
                if _initialises(path, stem):
                    yield ".".join((*package, *(() if stem == "__init__" else (stem,)))), path


def _stem(name: str) -> str | None:
    suffix = next((each for each in importlib.machinery.EXTENSION_SUFFIXES if name.endswith(each)), None)
    stem = name[: -len(suffix)] if suffix is not None else ""
    return stem if stem.isidentifier() else None


def _initialises(path: str, name: str) -> bool:
    """Whether a library is the module of this name; one that cannot be read is taken for it."""
    try:
        with (
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
            memoryview(mapped) as data,
        ):
            told = dynamic.read(data)
    except (OSError, ValueError, Unreadable):
        return True
    return told is not None and name in told.initialises


def _import_package(name: str) -> dict[str, Any]:
    importlib.import_module(name)
    return {}


def _import(module: str, path: str) -> dict[str, Any]:
    loaded = importlib.import_module(module)
    origin = getattr(loaded, "__file__", None)
    return {"other": origin} if origin is not None and not _same(origin, path) else {}


def _same(one: str, other: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(one).samefile(other)
    return False


def _torch() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    version = torch.version
    return {
        "version": str(torch.__version__),
        "hip": getattr(version, "hip", None),
        "cuda": getattr(version, "cuda", None),
        "rocm": getattr(version, "rocm", None),
        "file": torch.__file__,
    }


def _torchvision() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    torchvision = importlib.import_module("torchvision")
    return {
        "version": str(torchvision.__version__),
        "operators": {name: hasattr(torch.ops.torchvision, name) for name in _OPERATORS},
    }


def _isolated(work: dict[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Do everything in a child; where that dies, note of what, and go on in another one."""
    left, told = dict(work), {}
    while left:
        name = None
        for name, result in _child(left, seconds):
            told[name] = result
            del left[name]
        if name is None:  # it died before it did anything: of what it began with
            name = next(iter(left))
            told[name] = {"died": "the process could not be started"}
            del left[name]
    return told


def _child(work: dict[str, Callable[[], Any]], seconds: float) -> Iterator[tuple[str, Any]]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _work(work, theirs, seconds)
    os.close(theirs)
    begun: str | None = None
    killed = False
    for line in _lines(ours, lambda: 2 * seconds):
        if line is None:
            os.kill(child, signal.SIGKILL)
            killed = True
            break
        kind, name, result = json.loads(line)
        begun = name if kind == "begin" else None
        if kind == "end":
            yield name, result
    os.close(ours)
    _, status = os.waitpid(child, 0)
    if begun is not None:
        if killed:
            yield begun, {"died": f"it did not end within {seconds:g} s"}
        elif os.WIFSIGNALED(status):
            yield begun, {"died": f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"}
        else:
            yield begun, {"died": f"the process ended with status {os.waitstatus_to_exitcode(status)}"}


def _lines(descriptor: int, patience: Callable[[], float]) -> Iterator[str | None]:
    """Yield the lines of a pipe, None when nothing came for too long."""
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], patience())
        if not ready:
            yield None
            return
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in lines)


def _work(work: dict[str, Callable[[], Any]], into: int, seconds: float) -> None:
    """Be the child: no word of a module reaches anybody, and its end is immediate."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    faulthandler.disable()
    try:
        for name, do in work.items():
            _tell(into, "begin", name, None)
            begun = time.monotonic()
            try:
                result = do()
            except (Exception, SystemExit) as error:
                result = {"chain": chain(error)}
            result["seconds"] = round(time.monotonic() - begun, 3)
            _tell(into, "end", name, result)
    finally:
        os._exit(0)


def _tell(into: int, kind: str, name: str, result: Any) -> None:  # noqa: ANN401 -- JSON
    data = (json.dumps([kind, name, result]) + "\n").encode()
    while data:
        data = data[os.write(into, data) :]
