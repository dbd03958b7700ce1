"""What a finished image promises, as the smoke tests read it. Values only; it must not look at an image.

The contract travels as a JSON file to the process that runs the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from builder.errors import RecipeError
from builder.smoke.promises import PatchPromise
from builder.smoke.pythonset import Accepted, PythonSet

JIT_PROBES = ("sglang-hash", "torch-inline", "hip-module", "hipcc", "triton")
# What a contract may be silent about: nobody says it, so there is nothing to hold the image to.
SUBJECTS = (
    "python", "user", "workdir", "env", "writable", "gfx", "components", "imports", "absent", "argv", "loaders",
    "distributions", "requirements", "paths", "required", "sizes", "contracts", "labels", "fingerprint", "program",
    "shell", "torch",
    *(f"jit {name}" for name in JIT_PROBES),
)  # fmt: skip
# What every image can be held to, with or without a recipe. Silence about these spares the time that it takes.
OF_EVERY_IMAGE = ("installed", "modules", "libraries", "files", "nameless")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentVersion:
    """A pinned component and where the image itself tells its version.

    `distribution` is the name of its Python distribution, `apt` that of its Debian package. A component with
    neither cannot be asked for its version.
    """

    name: str
    version: str
    distribution: str | None = None
    apt: str | None = None

    @property
    def asked(self) -> str | None:
        """The distribution that tells its version; None where dpkg does.

        Debian calls its packages of Python `python3-…`; compilers and libraries are no distribution.
        """
        return self.distribution if self.apt is None or self.apt.startswith("python3-") else None

    def is_pinned_at(self, found: str) -> bool:
        """Tell whether a version that the image tells is the pinned one.

        A pin is exact. Only a Debian package may add what Debian adds: its revision (`5.7.1-6+deb13u1`), its
        mark on repacked sources (`2.6.0+dfsg-7`), and the local label it gives a distribution (`2.6.0+debian`).
        """
        if found == self.version:
            return True
        if self.apt is None:
            return False
        upstream = found if self.asked is not None else found.partition(":")[2] or found
        return re.sub(r"(\+(dfsg|ds|debian)[^-]*)?(-[^-]+)?$", "", upstream) == self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What to hold an image to.

    `python` is the path of the interpreter in the image, empty where it has none. `user` is what USER says,
    `user_name` how that user is called, `env` what ENV says, of the finished image. `writable` are the only
    directories that it may write to; `read_only` False is for an image that does not say which those are.

    `jit` names what compiles at run time, out of `JIT_PROBES`; `triton_gfx` and `hip_gfx` are the targets it
    compiles for; `loaders` are expressions (`module:expression`) that must end with an extension loaded.
    `argv` has to end well without a card, behind `entrypoint` and without it; `serve` starts the engine.
    `packages` maps a stage of the recipe (`base.build`, `base.runtime`) to its apt list; without a recipe it is
    empty. `shm` is the size of /dev/shm as docker writes it.

    `paths` must exist. `required` must be set by ENV, `allowed` may be, `forbidden` must not be set. `ships`
    maps what looks as if it must not ship to the reason why it does. `sizes` are budgets in bytes by component;
    `layers` says who owns each layer beyond the base, bottom first.
    `contracts` are pairs of distributions, the first imports from the second. `labels` tell how to run it.

    `silent` maps what nobody says, out of `SUBJECTS` and `OF_EVERY_IMAGE`, to the reason; tests about that are not
    run. `patches` are those of its recipe.

    `python_set` are the Python distributions it has to have, None where nobody says it. `rocm` is the version
    that torch has to be built for. `dlopen` are libraries that must open by name, `accepted` are findings that do
    not count.
    """

    image: str
    python: str = "/usr/bin/python3"
    user: str = ""
    user_name: str | None = None
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    components: tuple[ComponentVersion, ...] = ()
    imports: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    jit: tuple[str, ...] = ()
    triton_gfx: tuple[str, ...] = ()
    hip_gfx: tuple[str, ...] = ()
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shm: str | None = None
    read_only: bool = True
    engine: str | None = None
    fingerprint: str | None = None
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    loaders: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    ships: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    contracts: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[PatchPromise, ...] = ()
    python_set: PythonSet | None = None
    rocm: str | None = None
    dlopen: tuple[str, ...] = ()
    accepted: tuple[Accepted, ...] = ()

    def to_json(self) -> str:
        """Return the contract as a JSON document with sorted keys."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Contract:
        """Read back what `to_json` wrote. Raises `RecipeError` for anything else."""
        try:
            table: dict[str, Any] = json.loads(text)
            table["components"] = tuple(ComponentVersion(**entry) for entry in table["components"])
            table["patches"] = tuple(PatchPromise(**entry) for entry in table["patches"])
            table["accepted"] = tuple(Accepted(**entry) for entry in table["accepted"])
            if table["python_set"] is not None:
                table["python_set"] = PythonSet.from_table(table["python_set"])
            table["packages"] = {stage: tuple(names) for stage, names in table["packages"].items()}
            table["contracts"] = tuple((importer, provider) for importer, provider in table["contracts"])
            for each in fields(cls):
                if isinstance(each.default, tuple):
                    table[each.name] = tuple(table[each.name])
            return cls(**table)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecipeError(
                f"the smoke contract cannot be read: {type(error).__name__}: {error}",
                hint="let rocm-images test write it",
            ) from error
