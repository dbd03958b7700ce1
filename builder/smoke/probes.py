"""Turns a probe into a program for `python -c` in a container, and what that printed back into an answer.

Nothing is mounted or copied: the source travels on the command line, so a remote engine works as well, and an
image with a read-only root, too.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from builder import foreign
from builder.smoke.inside.evidence import MARK, telling_lines

_PACKAGE = "builder.smoke.inside"
_SHARED = ("evidence", "code_object")
_STEPS = "builder.inside"  # what runs in build stages as well
_ELF = ("builder.elf.headers", "builder.elf.dynamic", "builder.elf.cache", "builder.elf.closure")
# What a probe needs beside the shared ones: modules that need nothing but the standard library.
BORROWED: Mapping[str, tuple[str, ...]] = {
    "compiled_modules": (*_ELF[:2], f"{_PACKAGE}.records", f"{_PACKAGE}.python_set"),
    "elf_files": _ELF,
    "opened_libraries": ("builder.elf.cache",),
    "engine_contract": (
        "builder.sourcetree",
        "builder.pynames",
        "builder.namespaces",
        "builder.interfaces",
    ),
    "patches": (f"{_STEPS}.probing",),
    "python_set": (f"{_PACKAGE}.records",),
}
# Unpacks modules under their own names and runs the probe; kept free of quotes, it passes two shells.
_BOOT = """\
import base64,json,sys,types,zlib
told=json.loads(zlib.decompress(base64.b64decode(sys.argv[1])))
for name in told["packages"]:
    package=types.ModuleType(name); package.__path__=[]; sys.modules[name]=package
for name,source in told["modules"]:
    module=types.ModuleType(name); sys.modules[name]=module
    setattr(sys.modules[name.rpartition(".")[0]],name.rpartition(".")[2],module)
    exec(compile(source,"<"+name+">","exec"),module.__dict__)
sys.argv=[told["name"]]
sys.modules[told["packages"][-1]+".evidence"].answer(told["name"],module.probe,told["arguments"],told["limit"],told["token"])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a probe told. `chain` has (type, message) pairs, the innermost first; `seconds` is its own time."""

    ok: bool
    seconds: float
    figures: Mapping[str, Any]
    chain: tuple[tuple[str, str], ...] = ()
    compiler: tuple[str, ...] = ()

    @property
    def evidence(self) -> str:
        """The whole chain and the compiler's lines as one text, the innermost first."""
        return "\n".join([f"{kind}: {message}" for kind, message in self.chain] + list(self.compiler))

    @property
    def innermost(self) -> str:
        """The innermost cause on one line."""
        kind, message = self.chain[0] if self.chain else ("Exception", "no cause was given")
        first = next((line for line in message.splitlines() if line.strip()), "")
        return first if kind == "Wrong" else f"{kind}: {first}"


def argv(python: str, name: str, arguments: Mapping[str, Any], *, limit_seconds: float, token: str) -> list[str]:
    """Return the command that runs a probe with an image's interpreter. Its answer starts with `token`."""
    told = {
        "name": name,
        "arguments": dict(arguments),
        "limit": limit_seconds,
        "token": token,
        "packages": ["builder", "builder.elf", _STEPS, "builder.smoke", _PACKAGE],
        "modules": [
            (module, _text(module))
            for module in (
                *(f"{_PACKAGE}.{each}" for each in _SHARED),
                *BORROWED.get(name, ()),
                f"{_PACKAGE}.{name}",
            )
        ],
    }
    packed = base64.b64encode(zlib.compress(json.dumps(told).encode(), 9)).decode()
    return [python, "-c", _BOOT, packed]


def _text(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (files(package) / f"{name}.py").read_text(encoding="utf-8")


def gpu_files_argv(python: str) -> list[str]:
    """Return the command that writes the files with GPU code to standard output, as a tar archive."""
    return [python, "-I", "-c", (files(_PACKAGE) / "gpu_files.py").read_text(encoding="utf-8")]


def read_answer(stdout: str, token: str) -> Answer | None:
    """Return the answer in what a probe printed, or None when it died before it gave one.

    Whatever else is in the image may print as well: lines that do not start with `token` are none of ours, and
    neither is one that has another form.
    """
    start = f"{MARK}{token} "
    line = next((line for line in reversed(stdout.split("\n")) if line.startswith(start)), None)
    if line is None:
        return None
    try:
        told = foreign.loads(line.removeprefix(start))
        return Answer(
            ok=bool(told["ok"]),
            seconds=float(told["seconds"]),
            figures=dict(told.get("figures", {})),
            chain=tuple((str(link["type"]), str(link["message"])) for link in told.get("chain", ())),
            compiler=tuple(map(str, told.get("compiler", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def last_words(stderr: str) -> tuple[str, ...]:
    """Return the lines of a dead probe's standard error that tell most."""
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    at = next(
        (number for number, line in enumerate(lines) if line.startswith(("Timeout (", "Fatal Python"))), None
    )
    if at is not None:
        return tuple(lines[at : at + 20])
    return tuple(telling_lines(stderr) or lines[-10:])
