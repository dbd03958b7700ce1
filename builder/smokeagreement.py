"""What the keys about smoke tests must agree on with the rest of a recipe. Knows nothing outside the recipe."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from builder.grammar import shown
from builder.problems import Problem, nearest, quoted_key
from builder.view import View

_TRITON = ("triton", "triton-rocm", "pytorch-triton-rocm")
_LAYERS = ("dependencies", "image", "packages")  # what has a size beside components
_COMPONENTS = {"triton": _TRITON, "sglang-hash": ("sglang",), "torch-inline": ("torch",)}


def smoke_disagreements(recipe: View) -> Iterator[Problem]:
    """Return where the table `smoke` does not agree with the rest."""
    smoke = recipe.table("smoke")
    yield from _names(recipe, smoke)
    for key in ("required", "forbidden"):
        for name in smoke.table("env").texts(key):
            if name in recipe.table("image").table("env"):
                yield Problem(f"smoke.env.{key}", f"{shown(name)} is set in [image.env]")
    if "serve" in smoke and not any("{model}" in word for word in smoke.texts("serve")):
        yield Problem("smoke.serve", "expected '{model}' in it, the folder of the model that is served")
    tried = smoke.texts("jit")
    for key, probes in (("triton-gfx", ("triton",)), ("hip-gfx", ("hipcc", "hip-module"))):
        if key in smoke and set(probes).isdisjoint(tried):
            yield Problem(f"smoke.{key}", f"expected {probes[0]!r} in smoke.jit beside it")
    if "debian" in recipe.table("base").table("runtime"):  # a published base may bring what no component names
        yield from _compiles(recipe, tried)


def _names(recipe: View, smoke: View) -> Iterator[Problem]:
    called = [name for component in recipe.tables("component") if (name := component.text("name")) is not None]
    for text in smoke.texts("contracts"):
        for name in text.split(" -> "):
            if name not in called:
                yield Problem("smoke.contracts", f"no component is called {shown(name)}{nearest(name, called)}")
    for name in smoke.table("sizes").whole:
        if name not in (*called, *_LAYERS):
            others = nearest(name, (*called, *_LAYERS))
            yield Problem(f"smoke.sizes.{quoted_key(name)}", f"no component is called {shown(name)}{others}")


def _compiles(recipe: View, tried: tuple[str, ...]) -> Iterator[Problem]:
    components = recipe.tables("component")
    have = {canonicalize_name(text) for c in components for text in (c.text("name"), c.text("wheel")) if text}
    for probe, wanted in _COMPONENTS.items():
        if probe in tried and have.isdisjoint(wanted):
            yield Problem("smoke.jit", f"{probe!r} needs a component called {wanted[0]!r}")
    packages = recipe.table("base").table("runtime").texts("apt")
    for probe in ("hipcc", "hip-module"):
        if probe in tried and "hipcc" not in packages:
            yield Problem("smoke.jit", f"{probe!r} needs the package 'hipcc' in base.runtime.apt")
