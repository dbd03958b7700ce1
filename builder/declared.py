"""What a Python source tree declares of itself: its name, and what it needs at run time.

Only what is written down is read: requirements files, `[project]` of pyproject.toml, PKG-INFO. Nothing of the tree
is executed, and what it would only say when executed is an error that names the keys to say it with.
"""

from __future__ import annotations

import email
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import tomli
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from builder.errors import RecipeError
from builder.recipe import Component

_OPTION = re.compile(r"(-{1,2}[A-Za-z][A-Za-z-]*)(?:[ =]+|$)(.*)|(-[rcefi])(\S.*)")
_INCLUDES = ("-r", "--requirement")
# What only says where to look: the recipe's `index` does that.
_WHERE_TO_LOOK = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--no-index")


def runtime_requirements(tree: Path, component: Component, *, python: str, where: str) -> tuple[str, ...]:
    """Return what a component built from `tree` needs at run time, markers evaluated for the image.

    `python` is the image's, `where` is what messages start with, for example `FILE: component.NAME`. Raises
    `RecipeError` for a tree whose requirements only its build would tell.
    """
    if component.requires is not None:
        return component.requires
    folder = tree / component.subdirectory if component.subdirectory else tree
    if not folder.is_dir():
        raise RecipeError(f"{where}.subdirectory: there is no folder {component.subdirectory!r} in the source")
    project = _project(folder, where)
    _require_name(project, component, where)
    environment = marker_environment(python)
    if component.requires_files:
        texts = [
            text
            for number, file in enumerate(component.requires_files)
            for text in _requirements_file(tree, file, where=f"{where}.requires-files[{number}]", seen=())
        ]
        return _applying(texts, environment, extras=component.extras)
    static = _static(project, folder, component, environment)
    if static is None:
        raise RecipeError(
            f"{where}: what it needs at run time is not written in its tree: {_why(project, folder)}",
            hint="name its requirements files with 'requires-files', or list it with 'requires' and 'reason'",
        )
    return static


def marker_environment(python: str) -> dict[str, str]:
    """Return the values of requirement markers for an image with this Python."""
    return {
        "implementation_name": "cpython", "implementation_version": f"{python}.0", "os_name": "posix",
        "platform_machine": "x86_64", "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": "Linux", "platform_version": "", "python_full_version": f"{python}.0",
        "python_version": python, "sys_platform": "linux",
    }  # fmt: skip


def _project(folder: Path, where: str) -> Mapping[str, object]:
    """Return the [project] table of a tree, empty when there is none."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return {}
    try:
        project = tomli.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{where}: the pyproject.toml of its source is not a TOML file: {error}") from error
    return project if isinstance(project, dict) else {}


def _require_name(project: Mapping[str, object], component: Component, where: str) -> None:
    name = project.get("name")
    if isinstance(name, str) and canonicalize_name(name) != canonicalize_name(component.name):
        raise RecipeError(
            f"{where}.name: its source builds the distribution {name!r}, not {component.name!r}",
            hint=f"name = {canonicalize_name(name)!r}",
        )


def _static(
    project: Mapping[str, object], folder: Path, component: Component, environment: Mapping[str, str]
) -> tuple[str, ...] | None:
    dynamic = _strings(project.get("dynamic"))
    if project and "dependencies" not in dynamic and not (component.extras and "optional-dependencies" in dynamic):
        optional = project.get("optional-dependencies")
        groups = {str(canonicalize_name(str(name))): _strings(texts) for name, texts in _items(optional)}
        texts = list(_strings(project.get("dependencies")))
        texts += _extra_requirements(groups, component)
        return _applying(texts, environment, extras=())
    info = folder / "PKG-INFO"
    if not info.is_file():
        return None
    fields = email.message_from_string(info.read_text(encoding="utf-8", errors="replace"))
    dynamic = tuple(value.lower() for value in fields.get_all("Dynamic", []))
    version = tuple(int(part) for part in re.findall(r"\d+", fields.get("Metadata-Version", "1.0"))[:2])
    if version < (2, 2) or "requires-dist" in dynamic:  # before 2.2 nothing of an sdist's metadata is binding
        return None
    return _applying(fields.get_all("Requires-Dist", []), environment, extras=component.extras)


def _extra_requirements(groups: Mapping[str, Sequence[str]], component: Component) -> list[str]:
    """Return what the wanted extras ask for; an extra may name others of its own project."""
    texts: list[str] = []
    waiting, seen = [str(canonicalize_name(extra)) for extra in component.extras], set()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in groups:
            raise RecipeError(
                f"component.{component.name}.extras: its source has no extra {extra!r}",
                hint=f"it has: {', '.join(sorted(groups)) or 'none'}",
            )
        for text in groups[extra]:
            wanted = _parsed(text)
            if canonicalize_name(wanted.name) == canonicalize_name(component.name):
                waiting += [canonicalize_name(name) for name in sorted(wanted.extras)]
            else:
                texts.append(text)
    return texts


def _why(project: Mapping[str, object], folder: Path) -> str:
    if "dependencies" in _strings(project.get("dynamic")):
        return "its pyproject.toml leaves 'dependencies' to the build"
    if "optional-dependencies" in _strings(project.get("dynamic")):
        return "its pyproject.toml leaves 'optional-dependencies' to the build"
    return f"{folder.name} has no [project] table" if not project else "its metadata is dynamic"


def _applying(texts: Sequence[str], environment: Mapping[str, str], *, extras: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements that hold in an environment, without their markers, each once."""
    found: dict[str, None] = {}
    for text in texts:
        wanted = _parsed(text)
        if wanted.marker is not None:
            tried = [{**environment, "extra": extra} for extra in ("", *extras)]
            if not any(wanted.marker.evaluate(each) for each in tried):
                continue
            wanted.marker = None
        found[str(wanted)] = None
    return tuple(found)


def _parsed(text: str) -> Requirement:
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise RecipeError(f"expected a requirement, got {text!r}: {str(error).splitlines()[0]}") from error
    if wanted.url is not None:
        raise RecipeError(
            f"{wanted.name}: a requirement by address is not locked: {wanted.url}",
            hint="make it a component of its own, with a source",
        )
    return wanted


def _requirements_file(tree: Path, file: str, *, where: str, seen: tuple[Path, ...]) -> Iterator[str]:
    """Yield the requirements of a file in the tree and of those it includes."""
    path = (tree / file).resolve()
    if not path.is_relative_to(tree.resolve()):
        raise RecipeError(f"{where}: {file!r} is not inside the source")
    if not path.is_file():
        raise RecipeError(f"{where}: there is no file {file!r} in the source")
    if path in seen:
        raise RecipeError(f"{where}: {file!r} includes itself")
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        wanted = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not wanted:
            continue
        option = _OPTION.fullmatch(wanted)
        if option is None:
            yield re.split(r"\s+--hash[= ]", wanted)[0]
            continue
        word, value = (option[1], option[2]) if option[1] else (option[3], option[4])
        if word in _INCLUDES:
            inner = (path.parent / value.strip()).resolve()
            if not inner.is_relative_to(tree.resolve()):
                raise RecipeError(f"{where}: {value.strip()!r}, included by {file!r}, is not inside the source")
            named = inner.relative_to(tree.resolve()).as_posix()
            yield from _requirements_file(tree, named, where=where, seen=(*seen, path))
        elif word not in _WHERE_TO_LOOK:
            raise RecipeError(
                f"{where}: {file}: expected requirements and '-r FILE', got {wanted!r}",
                hint="list what it needs with 'requires' and 'reason' instead",
            )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _items(value: object) -> list[tuple[object, object]]:
    return list(value.items()) if isinstance(value, dict) else []
