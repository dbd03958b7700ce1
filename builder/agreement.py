"""What the keys of a recipe must agree on with one another.

Looks at the table as written, so that these problems show together with those of single values: whatever has
another type than it should counts as absent here. Knows nothing outside the recipe.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder.grammar import FINGERPRINT_VARIABLE, check_writable, password_in, placeholder, shown
from builder.kvcache import kv_disagreements
from builder.patchagreement import patch_disagreements
from builder.problems import Problem, key_path, nearest, quoted_key
from builder.smokeagreement import smoke_disagreements
from builder.view import View

_PYTHON_OF_SUITE = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
# Set by the container engine or by a shell, whatever the image says.
_SET_BY_OTHERS = ("HOSTNAME", "OLDPWD", "PWD", "SHLVL", "_")
_SECRET = ("_TOKEN", "_SECRET", "_PASSWORD", "_PASSPHRASE", "_API_KEY", "_ACCESS_KEY", "_PRIVATE_KEY")
_BARE_ADDRESS = "expected an address without password; hand it over when the container starts"
_KINDS = ("wheel", "source", "apt", "base")
_SOURCE_KINDS = {
    "path": (), "git": ("commit", "tag", "branch", "submodules"), "sdist": ("version", "index"),
    "archive": ("sha256",),
}  # fmt: skip
_LAYERS_OF_THEIR_OWN, _BUILT_WITH = ("dependencies", "edits", "hooks"), ".build"
_DIVIDED = "dependencies."  # how the layers of dependencies begin: builder/layering.py
_STAGES = ("build", "runtime")
_OF_PYTHON_BUILDS = ("subdirectory", "requires-files", "build-requires")
_OF_SOURCES = ("build", "build-env", "needs", *_OF_PYTHON_BUILDS)


def disagreements(table: Mapping[str, object], name: str | None) -> Iterator[Problem]:
    """Return where the keys of a recipe do not agree. `name` is that of its folder, None where there is none."""
    recipe = View(table)
    given = recipe.text("name")
    if name is not None and given is not None and given != name:
        yield Problem("name", f"expected {name!r}, the name of its folder, got {shown(given)}")
    yield from _bases(recipe)
    yield from _sources(recipe)
    yield from _components(recipe)
    yield from patch_disagreements(recipe)
    yield from kv_disagreements(recipe)
    yield from _served(recipe.table("image"))
    yield from smoke_disagreements(recipe)


def _bases(recipe: View) -> Iterator[Problem]:
    base, given = recipe.table("base"), recipe.text("name")
    for stage in _STAGES:
        if stage in base:
            yield from _one_of(base.table(stage), ("image", "debian", "recipe"), f"base.{stage}")
        if given is not None and base.table(stage).text("recipe") == given:
            yield Problem(f"base.{stage}.recipe", "expected another image; none can be built on itself")
        for key, value in base.table(stage).table("env").pairs().items():
            yield from _variable(key, value, f"base.{stage}.env")
            if stage == "build" and placeholder(value):
                yield _not_filled_in(f"base.build.env.{quoted_key(key)}", value)
    build, runtime = (base.table(stage) for stage in _STAGES)
    if "debian" in build and "debian" in runtime and build.get("debian") != runtime.get("debian"):
        yield Problem("base.build.debian", "expected the same table as base.runtime.debian, of which there is one")
    if runtime.table("env").keys():
        yield Problem(
            "base.runtime.env",
            "expected no table here; what the image is served with is [image.env]",
        )
    for stage in _STAGES:
        yield from _added_suites(base.table(stage).table("debian"), f"base.{stage}.debian")
    suite, python = runtime.table("debian").text("suite"), recipe.text("python")
    brings = _PYTHON_OF_SUITE.get(suite or "")
    if brings is not None and python is not None and python != brings:
        yield Problem("python", f"expected {brings!r}, the Python of Debian {suite}, got {shown(python)}")


def _added_suites(debian: View, where: str) -> Iterator[Problem]:
    """Check that every suite beside a base's own is another one, and every package is taken from one suite."""
    suites, packages = [debian.text("suite")], set[str]()
    for place, added in enumerate(debian.tables("also")):
        suite, here = added.text("suite"), f"{where}.also[{place}]"
        if suite is not None and suite in suites:
            yield Problem(f"{here}.suite", f"expected another suite; {shown(suite)} is named before")
        suites.append(suite)
        for name in added.texts("packages"):
            if name in packages:
                yield Problem(f"{here}.packages", f"{shown(name)} is taken from another suite already")
        packages |= set(added.texts("packages"))


def _one_of(table: View, keys: tuple[str, ...], where: str) -> Iterator[Problem]:
    given = [key for key in keys if key in table]
    if len(given) != 1:
        wanted = f"{', '.join(map(repr, keys[:-1]))} and {keys[-1]!r}"
        got = " and ".join(map(repr, given)) or "none"
        yield Problem(where, f"expected exactly one of {wanted}, got {got}")


def _sources(recipe: View) -> Iterator[Problem]:
    for name in recipe.table("source").whole:
        source, where = recipe.table("source").table(name), f"source.{quoted_key(name)}"
        yield from _one_of(source, tuple(_SOURCE_KINDS), where)
        for kind, keys in _SOURCE_KINDS.items():
            for key in keys:
                if key in source and kind not in source:
                    yield Problem(f"{where}.{key}", f"expected {kind!r} beside it, which is missing")
        for kind, needed in (("git", "commit"), ("sdist", "version"), ("archive", "sha256")):
            if kind in source and needed not in source:
                yield Problem(f"{where}.{needed}", f"missing; {kind!r} alone floats")
        if "git" in source:
            yield from _one_of(source, ("tag", "branch"), where)


def _components(recipe: View) -> Iterator[Problem]:
    components = recipe.tables("component")
    for place, component in enumerate(components):
        name = component.text("name")
        where = key_path(["component", place], recipe.whole)
        yield from _kind(component, where)
        yield from _origin(component, where, recipe)
        if component.text("wheel") is not None:
            yield from _wheel(component, where, recipe)
        for key in ("requires", "build-requires"):
            for number, requirement in enumerate(component.texts(key)):
                yield from _requirement(requirement, f"{where}.{key}[{number}]")
        if name is not None and name.endswith(_BUILT_WITH):
            yield Problem(
                f"{where}.name", f"expected another name; '…{_BUILT_WITH}' is what components are built with"
            )
        if name is not None and (name in _LAYERS_OF_THEIR_OWN or name.startswith(_DIVIDED)):
            yield Problem(f"{where}.name", f"expected another name; {name!r} is the layer of what is no component")
        doubled = [key for key in ("name", "wheel") if _is_again(key, component, components[:place])]
        for key in doubled[:1]:
            yield Problem(f"{where}.{key}", f"expected every {key} once, got {shown(component.text(key))} again")
    yield from _needs(recipe)
    engine = recipe.text("engine")
    names = [name for name in (component.text("name") for component in components) if name is not None]
    if engine is not None and engine not in names:
        others = nearest(engine, names) or "; this recipe has no components"
        yield Problem("engine", f"no component is called {shown(engine)}{others}")


def _is_again(key: str, component: View, earlier: tuple[View, ...]) -> bool:
    word = component.text(key)
    words = [other.text(key) for other in earlier]
    return word is not None and canonicalize_name(word) in [canonicalize_name(w) for w in words if w is not None]


def _kind(component: View, where: str) -> Iterator[Problem]:
    yield from _one_of(component, _KINDS, where)
    beside = {"index": "wheel", "requires": "reason", **dict.fromkeys(_OF_SOURCES, "source")}
    for key, wanted in beside.items():
        if key in component and wanted not in component:
            yield Problem(f"{where}.{key}", f"expected {wanted!r} beside it, which is missing")
    for key in ("requires", "extras"):
        if key in component and "wheel" not in component and "source" not in component:
            yield Problem(f"{where}.{key}", "expected 'wheel' or 'source' beside it, which is missing")
        if key == "extras" and key in component and component.get("build"):
            yield Problem(f"{where}.{key}", "expected it where a wheel is built, not beside 'build'")
    for key in _OF_PYTHON_BUILDS:
        if key in component and component.get("build"):
            yield Problem(f"{where}.{key}", "expected it where a wheel is built, not beside 'build'")
    for key in ("extras", "requires-files"):
        if key in component and "requires" in component:
            yield Problem(f"{where}.{key}", "expected nothing beside 'requires', which is the whole list")


def _origin(component: View, where: str, recipe: View) -> Iterator[Problem]:
    source, package = component.text("source"), component.text("apt")
    if source is not None and source not in recipe.table("source"):
        known = recipe.table("source").keys()
        others = nearest(source, known) or "; this recipe has no [source]"
        yield Problem(f"{where}.source", f"no source is called {shown(source)}{others}")
    if package is None:
        return
    build, runtime = (recipe.table("base").table(stage).texts("apt") for stage in _STAGES)
    if package not in runtime and "recipe" not in recipe.table("base").table("runtime"):
        remedy = nearest(package, runtime) if package not in build else ""
        remedy = remedy or "; add it there" + ("; nothing of base.build is shipped" if package in build else "")
        yield Problem(f"{where}.apt", f"expected a package of base.runtime.apt, got {shown(package)}{remedy}")


def _needs(recipe: View) -> Iterator[Problem]:
    """Check which components are built with which others."""
    components = {name: c for c in recipe.tables("component") if (name := c.text("name")) is not None}
    in_build = recipe.table("base").table("build").texts("apt")
    for place, component in enumerate(recipe.tables("component")):
        where = f"{key_path(['component', place], recipe.whole)}.needs"
        for need in component.texts("needs"):
            if need not in components:
                yield Problem(where, f"no component is called {shown(need)}{nearest(need, components)}")
                continue
            package = components[need].text("apt")
            if package is not None and package not in in_build:
                yield Problem(where, f"{shown(need)} is not in the build stage; add {package!r} to base.build.apt")
    graph = {name: component.texts("needs") for name, component in components.items()}
    circle = next((found for name in sorted(graph) if (found := _circle(graph, (name,)))), ())
    if circle:
        yield Problem(f"component.{circle[0]}.needs", f"a circle: {' -> '.join(circle)}")


def _circle(graph: Mapping[str, tuple[str, ...]], path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first circle a walk on from `path` meets, its first name again at its end."""
    for name in graph.get(path[-1], ()):
        if name in path:
            return (*path[path.index(name) :], name)
        found = _circle(graph, (*path, name))
        if found:
            return found
    return ()


def _wheel(component: View, where: str, recipe: View) -> Iterator[Problem]:
    wheel, version = component.text("wheel"), component.text("version")
    if version is not None:
        yield from _exact(version, f"{where}.version")
    project = canonicalize_name(wheel or "")
    for pattern in recipe.texts("forbid"):
        if fnmatch.fnmatchcase(project, pattern):
            yield Problem(f"{where}.wheel", f"{shown(wheel)} is forbidden by {shown(pattern)} in 'forbid'")
    if project in recipe.table("smoke").texts("absent"):
        yield Problem("smoke.absent", f"{shown(project)} is a component of this image")


def _exact(version: str, where: str) -> Iterator[Problem]:
    """Check a wheel's version: one, in full, as Python writes it, so that `==` means exactly this."""
    try:
        normal = str(Version(version))
    except InvalidVersion:
        yield Problem(where, f"expected one exact version, such as '2.11.0+rocm7.2', got {shown(version)}")
        return
    if normal != version:
        yield Problem(where, f"expected {normal!r}, the normal form, got {shown(version)}")


def _requirement(text: str, where: str) -> Iterator[Problem]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        yield Problem(where, f"expected a requirement such as 'pyzmq>=25.1.2', got {shown(text)}")
        return
    if requirement.url is not None:
        yield Problem(where, f"expected a requirement without address, got {shown(text)}; make it a component")


def _served(image: View) -> Iterator[Problem]:
    for key, value in image.table("env").pairs().items():
        yield from _variable(key, value, "image.env")
    home = image.table("env").text("HOME")
    if home is not None:
        try:
            check_writable(home.replace("{fingerprint}", "0"))
        except ValueError as error:
            yield Problem("image.env.HOME", str(error))
    for key in ("entrypoint", "cmd"):
        for word in image.texts(key):
            if placeholder(word):
                yield _not_filled_in(f"image.{key}", word)
            if password_in(word):
                yield Problem(f"image.{key}", _BARE_ADDRESS)


def _not_filled_in(where: str, value: str) -> Problem:
    return Problem(where, f"'{placeholder(value)}' is filled in only in [image.env], got {shown(value)}")


def _variable(key: str, value: str, where: str) -> Iterator[Problem]:
    where = f"{where}.{quoted_key(key)}"
    if key in _SET_BY_OTHERS:
        yield Problem(where, "expected another name; whoever starts the container sets this one")
    elif key == FINGERPRINT_VARIABLE:
        yield Problem(where, "expected another name; this program sets this one")

    elif key.endswith(_SECRET) and value:
        yield Problem(where, "expected no secret in an image; hand it over when the container starts")
    elif password_in(value):
        yield Problem(where, _BARE_ADDRESS)
    elif key.endswith("PATH") and "$" in value:
        yield Problem(where, f"expected the whole list, '$' is not filled in here, got {shown(value)}")
    elif key == "PATH":
        folders = value.split(":")
        if not all(folder.startswith("/") for folder in folders) or "/usr/bin" not in folders:
            yield Problem(
                where, f"expected absolute paths joined by ':', '/usr/bin' among them, got {shown(value)}"
            )
