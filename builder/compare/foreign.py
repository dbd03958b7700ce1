"""What any image is made of, told from the files in it that say so: nothing is guessed, nothing is run.

Which files those are is `TELLING`; they come as texts by path, as they are in the finished image.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email import message_from_string

from packaging.utils import canonicalize_name

from builder import foreign
from builder.compare.sides import Part, Side

GFX_VARIABLES = ("PYTORCH_ROCM_ARCH",)
_INFO = r"[^/]+\.(?:dist-info|egg-info)"
TELLING = re.compile(
    rf"(?:.*/)?{_INFO}/(?:METADATA|RECORD|PKG-INFO|direct_url\.json)|(?:.*/)?[^/]+\.egg-info"
    r"|(?:.*/)?(?:site|dist)-packages/torch/version\.py"
    r"|var/lib/dpkg/(?:status|status\.d/[^/]+)|opt/rocm[^/]*/\.info/version|(?:usr/lib|etc)/os-release"
    r"|usr/share/rocm-images/[^/]+\.json"
)
_TORCH = re.compile(r"(?:site|dist)-packages/torch/version\.py$")
_ASSIGNED = re.compile(r"^(?P<name>[A-Za-z_]+)(?:\s*:[^=]*)?\s*=\s*(?P<value>.+?)\s*$", re.MULTILINE)
_METADATA = (("METADATA", "dist-info"), ("PKG-INFO", "egg-info"))
_ROCM = re.compile(r"opt/(rocm[^/]*)/\.info/version$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """An installed Python distribution: its bytes as its RECORD lists them, and where it says that it is from."""

    name: str
    version: str
    place: str
    size: int | None
    origin: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What the files of an image say. `hip` is that of torch, None where torch is built without or not there."""

    system: str | None
    rocm: Mapping[str, str]
    torch: str | None
    hip: str | None
    distributions: tuple[Distribution, ...]
    packages: Mapping[str, str]


def told_by(texts: Mapping[str, str]) -> Told:
    """Return what the texts of an image say."""
    torch = next((values(text) for path, text in sorted(texts.items()) if _TORCH.search(path)), {})
    rocm = {found[1]: text.strip() for path, text in sorted(texts.items()) if (found := _ROCM.search(path))}
    system = texts.get("etc/os-release") or texts.get("usr/lib/os-release") or ""
    return Told(
        system=values(system).get("PRETTY_NAME"),
        rocm=rocm,
        torch=torch.get("__version__") or torch.get("version"),
        hip=torch.get("hip"),
        distributions=tuple(_distributions(texts)),
        packages=dict(sorted(_packages(texts))),
    )


def with_told(side: Side, told: Told) -> Side:
    """Return a side with what the files of its image say added: every distribution is a component of it."""
    rocm = set(told.rocm.values())
    parts = [
        Part(
            name=each.name, version=each.version, kind="distribution",
            facts={"origin": each.origin} if each.origin else {},
        )
        for each in told.distributions
    ]  # fmt: skip
    return replace(
        side, components=tuple(parts), packages=told.packages or None,
        rocm=next(iter(rocm)) if len(rocm) == 1 else None,
    )  # fmt: skip


def values(text: str) -> dict[str, str]:
    """Return the texts that a file assigns to names, in Python's way or in that of os-release."""
    found = {}
    for match in _ASSIGNED.finditer(text):
        try:
            parsed = ast.literal_eval(match["value"])
        except (ValueError, SyntaxError):
            parsed = match["value"]
        if isinstance(parsed, str) and parsed:
            found[match["name"]] = parsed
    return found


def _distributions(texts: Mapping[str, str]) -> Iterator[Distribution]:
    """Yield the distributions by name; one that lies in two places is there twice."""
    found = []
    for path, text in texts.items():
        folder, file = posixpath.split(path)
        alone = file.endswith(".egg-info")
        if not alone and (file, folder.rpartition(".")[2]) not in _METADATA:
            continue
        fields = message_from_string(text.partition("\n\n")[0])
        name, version = fields.get("Name"), fields.get("Version")
        if not name or not version:
            continue
        found.append(
            Distribution(
                name=canonicalize_name(name), version=version, place=path if alone else folder,
                size=_recorded(texts.get(f"{folder}/RECORD")),
                origin=_origin(texts.get(f"{folder}/direct_url.json")),
            )
        )  # fmt: skip
    return iter(sorted(found, key=lambda each: (each.name, each.place)))


def _recorded(record: str | None) -> int | None:
    """Return the bytes that a RECORD lists (PEP 376); None where it lists none."""
    if record is None:
        return None
    sizes = [line.rpartition(",")[2].strip() for line in record.splitlines()]
    known = [int(size) for size in sizes if size.isdecimal()]
    return sum(known) if known else None


def _origin(direct_url: str | None) -> str | None:
    """Return where a distribution was installed from, as it is recorded (PEP 610)."""
    try:
        table = foreign.loads(direct_url or "null")
        url = str(table["url"])
        revision = (table.get("vcs_info") or {}).get("commit_id")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return f"{url}@{revision}" if revision else url


def _packages(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, text in texts.items():
        if path != "var/lib/dpkg/status" and not path.startswith("var/lib/dpkg/status.d/"):
            continue
        for block in text.split("\n\n"):
            fields = dict(
                line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(" ")
            )
            state = fields.get("Status", "install ok installed")
            if "Package" in fields and "Version" in fields and state.endswith(" installed"):
                yield fields["Package"], fields["Version"]
