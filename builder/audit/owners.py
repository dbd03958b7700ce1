"""Says which component a file of an image belongs to, from what the image tells of itself. Looks nothing up."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from builder import foreign
from builder.audit.contents import COMPONENTS, MANIFEST, Contents

UNOWNED = "unowned"
BASE = "base"


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Who a file belongs to, and whether the recipe answers for it."""

    name: str
    judged: bool = True


class Owners:
    """The owners of the files with GPU code.

    In an image of this project a component answers for its layer, for the distributions in it, and for the Debian
    package or the distribution of the base that it declares; for the rest of its base nobody does. In any other
    image, and in a folder, everything is judged, and owners are only names.
    """

    def __init__(self, contents: Contents) -> None:
        manifest = _table(contents.texts.get(MANIFEST, ""))
        self._ours = bool(manifest)
        entries = [entry for entry in _list(manifest.get("components")) if isinstance(entry.get("name"), str)]
        self._names = {entry["name"] for entry in entries}
        self.targets = {
            entry["name"]: [each for each in entry["gfx"] if isinstance(each, str)]
            for entry in entries
            if isinstance(entry.get("gfx"), list)
        }
        self._declared = {entry["apt"]: entry["name"] for entry in entries if isinstance(entry.get("apt"), str)}
        self._bases = {entry["base"]: entry["name"] for entry in entries if isinstance(entry.get("base"), str)}
        self._built = {normalized(entry["name"]): entry["name"] for entry in entries if "source" in entry}
        served = manifest.get("distributions")
        self._layers = {
            normalized(project): str(told.get("layer"))
            for project, told in (served.items() if isinstance(served, dict) else ())
            if isinstance(told, dict)
        }
        self._layer_of = contents.layer_of
        self._stack = _component_layers(contents)
        self._distributions = dict(_recorded(contents.texts, contents.code))
        self._packages = dict(_packaged(contents.texts, contents.code))

    def of(self, path: str) -> Owner:
        """Return the owner of a file with GPU code."""
        layer = self._stack.get(self._layer_of.get(path, -1))
        distribution = self._distributions.get(path)
        if layer is not None:
            return Owner(name=layer if layer in self._names or distribution is None else distribution)
        if distribution is not None:
            return self._of_distribution(distribution)
        if (package := self._packages.get(path)) is not None:
            declared = self._declared.get(package)
            return Owner(name=declared or f"debian:{package}", judged=declared is not None or not self._ours)
        if self._stack:
            return Owner(name=BASE, judged=False)
        return Owner(name=UNOWNED)

    def _of_distribution(self, distribution: str) -> Owner:
        if (built := self._built.get(distribution)) is not None:  # which no lock lists
            return Owner(name=built)
        layer = self._layers.get(distribution)
        if layer is not None:
            return Owner(name=layer if layer in self._names else distribution)
        declared = next((name for base, name in self._bases.items() if normalized(base) == distribution), None)
        return Owner(name=declared or distribution, judged=declared is not None or not self._ours)


def made_for(contents: Contents) -> list[str]:
    """Return the targets in the manifest that an image of this project has in it, none for any other."""
    told = _table(contents.texts.get(MANIFEST, "")).get("gfx")
    return [str(each) for each in told] if isinstance(told, list) else []


def normalized(project: str) -> str:
    """Return the name of a Python project as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def _component_layers(contents: Contents) -> dict[int, str]:
    """Return the layers that components are, by number: they lie below the last one, which lists them in order."""
    names = list(_table(contents.texts.get(COMPONENTS, "")))
    top = contents.layers - 1
    if contents.layer_of.get(COMPONENTS) != top or len(names) > top:
        return {}
    return {top - len(names) + number: name for number, name in enumerate(names)}


def _recorded(texts: Mapping[str, str], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield path and distribution of the files that installed distributions list."""
    for path, text in texts.items():
        folder, file = posixpath.split(path)
        if file != "RECORD":
            continue
        site, information = posixpath.split(folder)
        distribution = normalized(information.removesuffix(".dist-info").rpartition("-")[0])
        for line in text.splitlines():
            name = line.rsplit(",", 2)[0].strip('"')
            listed = posixpath.normpath(posixpath.join(f"/{site}", name)).lstrip("/")
            if listed in wanted:
                yield listed, distribution


def _packaged(texts: Mapping[str, str], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield path and Debian package of the files that packages list; /lib may be a link to /usr/lib."""
    by_name = {path.removeprefix("usr/"): path for path in wanted}
    for path, text in texts.items():
        if not path.endswith(".list"):
            continue
        package = posixpath.basename(path).removesuffix(".list").partition(":")[0]
        for line in text.splitlines():
            if (found := by_name.get(line.lstrip("/").removeprefix("usr/"))) is not None:
                yield found, package


def _table(text: str) -> dict[str, Any]:
    try:
        table = foreign.loads(text) if text else {}
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def _list(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
