"""From recipe and lock to one Dockerfile, the same to the byte for the same input.

Every component is installed alone into an empty folder in a stage of its own and joins the image as its own layer
by `COPY --link`, so that a change of one rebuilds one layer and a node pulls one. No step but the package
installation on a foreign base has a network, and none clones or resolves anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from builder.dockerfile import Mount, environment, exec_form, pairs, run
from builder.grammar import FINGERPRINT_VARIABLE
from builder.lockfile import Lock
from builder.patchledger import decided_in_the_build, entry, label
from builder.patchrender import added_stages, edited_stage, probe_stages
from builder.patchset import base_patches, hook_patches, installed_patches, unpatched
from builder.plan import floats, layers
from builder.recipe import BUILD_SUFFIX, Base, Component, Recipe

LABEL = "rocm-images"
# Ids of build secrets: the certificates this machine trusts, and the memory that one compiler takes.
CA_BUNDLE, JOB_MEMORY = "ca-bundle", "job-memory"
# The time of every file in a component's layer: the first second of 1980, the earliest a zip file knows. It is not
# the lock's, which moves with the base: BuildKit compares what it copies without times, so that a layer it kept
# from another epoch would get into an image that is made from nothing elsewhere, and nodes would pull again what
# did not change.
LAYER_TIME = "315532800"
_CCACHE = "/ccache"  # where builder/inside/jobs.sh looks for it
_HEADER = """\
# Rendered by rocm-images from images/{name}; edit the recipe, not this file.
# The build context holds what the lock names, fetched and verified: debs/, wheels/, sources/, tools/, files/.
"""


# The layers that patches add, in order, each with what says whether there is something to add.
_ADDED = {"edits": base_patches, "hooks": hook_patches}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Way:
    """One of the ways a source is built: how the stages are called, and where in the context its tree is."""

    stage: str
    wheel: str
    trees: str


_PATCHED = _Way(stage="component", wheel="wheel", trees="sources")
_UNPATCHED = _Way(stage="unpatched", wheel="wheel.unpatched", trees="unpatched")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """A Dockerfile, and who owns each layer it adds to its runtime base, bottom first."""

    dockerfile: str
    owners: tuple[str, ...]


def render(
    recipe: Recipe, lock: Lock, *, content_key: str, fingerprint: str, below: Recipe | None = None
) -> Rendered:
    """Return the Dockerfile of an image. It starts from the named contexts `base-build` and `base-runtime`.

    `below` is the recipe of the image that its runtime stage is built on.
    """
    stacked = layers(recipe, lock)
    blocks = [
        _HEADER.format(name=recipe.name),
        _base_stage("runtime-packages", "base-runtime", recipe.base.runtime, lock, "runtime", env=False),
        _base_stage("build", "base-build", recipe.base.build, lock, "build", env=True),
    ]
    by_name = {component.name: component for component in recipe.component}
    for layer in _by_need(stacked, by_name):
        component = by_name.get(layer)
        if component is None or component.source is None:
            blocks += _wheel_stages(
                layer, edited=component is not None and bool(installed_patches(recipe, component))
            )
            continue
        ways = [_PATCHED, _UNPATCHED] if component in unpatched(recipe) else [_PATCHED]
        for way in ways:
            if component.is_python_build:
                blocks += [_build_stage(component, recipe, lock, way), _built_wheel_stage(component, way)]
            else:
                blocks.append(_source_stage(component, recipe, way))
    blocks += added_stages(recipe, LAYER_TIME)
    blocks.append(_layout_stage(recipe, stacked))
    served = served_environment(recipe, fingerprint=fingerprint)
    proven = decided_in_the_build(recipe)
    blocks += probe_stages(recipe, stacked, served, LAYER_TIME) if proven else []
    added = [name for name, patches in _ADDED.items() if patches(recipe)]
    proof = ["patches"] if proven else []
    blocks.append(_image_stage(recipe, lock, [*stacked, *added], proof, content_key, fingerprint, below))
    owners = (["packages"] if _adds_packages(recipe.base.runtime, lock, "runtime") else []) + ["user", "workdir"]
    return Rendered(dockerfile="\n".join(blocks), owners=(*owners, *stacked, *added, "manifest", *proof))


def with_ccache(dockerfile: str) -> str:
    """Return a Dockerfile whose builds from source keep what they compiled in a cache of the builder."""
    told = f"  --mount=type=secret,id={JOB_MEMORY} \\\n"
    return dockerfile.replace(told, f"{told}  --mount=type=cache,id={LABEL}-ccache,target={_CCACHE} \\\n")


def _by_need(stacked: Iterable[str], by_name: Mapping[str, Component]) -> tuple[str, ...]:
    """Return the layers so that each comes after those it is built with: a stage copies from earlier ones."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        for need in by_name[name].needs if name in by_name else ():
            if by_name[need].is_layer:
                visit(need)
        ordered[name] = None

    for layer in stacked:
        visit(layer)
    return tuple(ordered)


def _locked_packages(base: Base, lock: Lock, stage: str) -> bool:
    return base.image is None and bool(lock.packages("runtime" if stage == "runtime" else "build"))


def _adds_packages(base: Base, lock: Lock, stage: str) -> bool:
    return _locked_packages(base, lock, stage) or floats(base, lock, stage)


def _base_stage(name: str, context: str, base: Base, lock: Lock, stage: str, *, env: bool) -> str:
    debian = f"Debian {base.debian.words if base.debian else ''}, made of the locked packages"
    origin = base.image or (f"the image {base.recipe} of this project" if base.recipe else debian)
    lines = [f"# {origin}", "# hadolint ignore=DL3006", f"FROM {context} AS {name}"]
    if base.debian is None:  # may end as another user
        lines += ["# hadolint ignore=DL3002", "USER 0:0"]
    if env and base.env:
        lines.append(environment(base.env))
    if _locked_packages(base, lock, stage):
        mounts = (("debs/" + stage, "/mnt"), ("tools/install-debs", "/media"))
        lines.append(run(mounts, "sh", "/media/install-debs.sh", str(lock.epoch)))
    elif floats(base, lock, stage):
        lines.append(_floating_packages(base))
    return "\n".join(lines) + "\n"


def _floating_packages(base: Base) -> str:
    """Install packages on a published base: the one step that asks an archive, which nothing can pin here.

    Certificates of an intercepting proxy come as a secret of the build and stay out of every layer.
    """
    return "\n".join(
        [
            "# hadolint ignore=DL3008",
            f"RUN --mount=type=secret,id={CA_BUNDLE} \\",
            f'  ca=/run/secrets/{CA_BUNDLE}; [ -s "$ca" ] || ca=/etc/ssl/certs/ca-certificates.crt; \\',
            '  apt-get -o "Acquire::https::CaInfo=$ca" update -qq \\',
            '  && apt-get -o "Acquire::https::CaInfo=$ca" install --yes --no-install-recommends \\',
            *(f"    {package} \\" for package in sorted(base.apt)),
            "  && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache",
        ]
    )


def _wheel_stages(layer: str, *, edited: bool) -> list[str]:
    mounts = ((f"wheels/{layer}", "/mnt"), ("tools/install-wheels", "/media"))
    step = run(mounts, "python3", "/media/install_wheels.py", LAYER_TIME)
    installed = f"FROM build AS {'installed' if edited else 'component'}-{layer}\n{step}\n"
    return [installed, edited_stage(layer, LAYER_TIME)] if edited else [installed]


def _source_stage(component: Component, recipe: Recipe, way: _Way) -> str:
    mounts = ((f"{way.trees}/{component.source}", "/mnt"), ("tools/build-source", "/media"))
    commands = [_command(command, component, recipe) for command in component.build]
    step = run(
        mounts, *_build_env(component, recipe), "sh", "/media/build-source.sh", LAYER_TIME, *commands,
        secret=JOB_MEMORY,
    )  # fmt: skip
    return "\n".join([f"FROM build AS {way.stage}-{component.name}", *_needed(component, recipe), step]) + "\n"


def _build_stage(component: Component, recipe: Recipe, lock: Lock, way: _Way) -> str:
    """Build a wheel, with what only this build needs."""
    mounts = [(f"{way.trees}/{component.source}", "/mnt"), ("tools/build-wheel", "/media")]
    layer = component.name + BUILD_SUFFIX
    if lock.wheels(layer):
        mounts.append((f"wheels/{layer}", "/srv"))
    step = run(
        mounts, *_build_env(component, recipe), "python3", "/media/build_wheel.py", LAYER_TIME, component.name,
        component.version, component.subdirectory or ".", secret=JOB_MEMORY,
    )  # fmt: skip
    return "\n".join([f"FROM build AS {way.wheel}-{component.name}", *_needed(component, recipe), step]) + "\n"


def _built_wheel_stage(component: Component, way: _Way) -> str:
    mounts: tuple[Mount, ...] = (
        (f"{way.wheel}-{component.name}", "/out", "/mnt"), ("tools/install-wheels", "/media"),
    )  # fmt: skip
    step = run(mounts, "python3", "/media/install_wheels.py", LAYER_TIME)
    return f"FROM build AS {way.stage}-{component.name}\n{step}\n"


def _needed(component: Component, recipe: Recipe) -> list[str]:
    layers_of = {other.name: other.is_layer for other in recipe.component}
    return [f"COPY --from=component-{need} /out/ /" for need in component.needs if layers_of[need]]


def _build_env(component: Component, recipe: Recipe) -> list[str]:
    targets = ";".join(component.gfx or recipe.gfx)
    pairs = [f"{name}={value.replace('{gfx}', targets)}" for name, value in sorted(component.build_env.items())]
    return ["env", *pairs] if pairs else []


def _command(command: str, component: Component, recipe: Recipe) -> str:
    flags = " ".join(f"--offload-arch={target}" for target in component.gfx or recipe.gfx)
    return command.replace("{destdir}", "/out").replace("{offload-arch}", flags)


def _layout_stage(recipe: Recipe, stacked: Iterable[str]) -> str:
    mounts: list[Mount] = [("files", "/opt"), ("runtime-packages", "", "/media")]
    mounts += [(f"component-{layer}", "/out", f"/mnt/{layer}") for layer in stacked]
    owners = tuple(stacked)
    if hook_patches(recipe):
        mounts.append(("hooks", "/out", "/mnt/hooks"))
        owners += ("hooks",)
    step = "layout"
    if base_patches(recipe):
        mounts.append(("edits", "/out", "/mnt/edits"))
        step = "layout-edits"
    text = run([(f"tools/{step}", "/srv"), *mounts], "sh", f"/srv/{step}.sh", LAYER_TIME, *owners)
    return f"FROM build AS layout\n{text}\n"


def _stage_of(layer: str) -> str:
    own = {"edits": "edits", "hooks": "hooks", "layout": "layout", "patches": "probes"}
    return own.get(layer, f"component-{layer}")


def _image_stage(
    recipe: Recipe,
    lock: Lock,
    stacked: Iterable[str],
    proof: Iterable[str],
    content_key: str,
    fingerprint: str,
    below: Recipe | None,
) -> str:
    image = recipe.image
    env = served_environment(recipe, fingerprint=fingerprint)
    step = "make-user" if below is None else "adopt-user"
    user = ("sh", f"/media/{step}.sh", str(lock.epoch), image.user, str(image.uid), env["HOME"], image.workdir)
    lines = ["FROM runtime-packages", run(((f"tools/{step}", "/media"),), *user, *image.writable)]
    lines.append(f"WORKDIR {image.workdir}")
    lines += [f"COPY --link --from={_stage_of(layer)} /out/ /" for layer in (*stacked, "layout", *proof)]
    lines.append(environment(env))
    said = {
        "org.opencontainers.image.title": recipe.name,
        "org.opencontainers.image.version": recipe.version,
        f"{LABEL}.content-key": content_key,
        **labels(recipe, fingerprint=fingerprint),
    }
    if recipe.patch:
        said[f"{LABEL}.patches"] = label(recipe, lock)
    lines.append(pairs("LABEL", {key: value for key, value in said.items() if value or below}))
    lines += [f"EXPOSE {port}" for port in image.expose]
    # So that a read-only container has them writable even where nobody mounts anything.
    lines += [f"VOLUME {exec_form(*image.writable)}"] if image.writable else []
    lines.append(f"USER {image.uid}:{image.uid}")
    if image.entrypoint or recipe.base.runtime.debian is None:  # another base may have one of its own
        lines.append(f"ENTRYPOINT {exec_form(*image.entrypoint)}")
    lines.append(f"CMD {exec_form(*(image.cmd or ('/bin/sh',)))}")
    return "\n".join(lines) + "\n"


def labels(recipe: Recipe, *, fingerprint: str) -> dict[str, str]:
    """Return the labels that tell whoever runs the image how; a label that is empty may be missing."""
    image = recipe.image
    return {
        f"{LABEL}.fingerprint": fingerprint,
        f"{LABEL}.engine": recipe.engine or "",
        f"{LABEL}.gfx": ",".join(recipe.gfx),
        f"{LABEL}.writable": ",".join(image.writable),
        f"{LABEL}.devices": ",".join(image.devices),
        f"{LABEL}.groups": ",".join(image.groups),
        f"{LABEL}.shm": image.shm or "",
    }


def served_environment(recipe: Recipe, *, fingerprint: str) -> dict[str, str]:
    """Return the environment the image is served with, placeholders filled in, HOME and the fingerprint in it."""
    declared = {"HOME": f"/home/{recipe.image.user}", **recipe.image.env}
    served = {
        name: value.replace("{fingerprint}", fingerprint).replace("{gfx}", ";".join(recipe.gfx))
        for name, value in declared.items()
    }
    return dict(sorted({**served, FINGERPRINT_VARIABLE: fingerprint}.items()))


def manifest(recipe: Recipe, lock: Lock, *, content_key: str, fingerprint: str) -> dict[str, object]:
    """Return what the image says of itself in /usr/share/rocm-images/manifest.json."""
    return {
        "schema": 1,
        "name": recipe.name,
        "version": recipe.version,
        "engine": recipe.engine,
        "content-key": content_key,
        "fingerprint": fingerprint,
        "gfx": list(recipe.gfx),
        "python": recipe.python,
        "bases": {"build": recipe.base.build.origin, "runtime": recipe.base.runtime.origin},
        "components": [component_entry(component, lock, pins=False) for component in recipe.component],
        "distributions": {
            file.project: {"version": file.version, "file": file.file, "sha256": file.sha256, "layer": file.layer}
            for file in lock.served
        },
        "packages": {p.name: p.version for p in lock.deb if p.stage != "build"},
        **({"patches": [entry(recipe, lock, patch) for patch in recipe.patch]} if recipe.patch else {}),
        "contract": recipe.image.model_dump(by_alias=True, mode="json")
        | {"env": served_environment(recipe, fingerprint=fingerprint)},
    }


def component_entry(component: Component, lock: Lock, *, pins: bool = True) -> dict[str, object]:
    """Return one component as records and manifests list it: version, kind, and what it was made of.

    Without `pins`, as in the image itself, a source is named by what is built of it alone, so that other commits
    with the same files are the same image.
    """
    entry: dict[str, object] = {"name": component.name, "version": component.version}
    entry |= {"gfx": list(component.gfx)} if component.gfx else {}
    match component.kind:
        case "wheel":
            files = lock.wheels(component.name)
            entry |= {"wheel": files[0].file, "sha256": files[0].sha256} if files else {}
            entry |= {"index": component.index.url} if component.index is not None else {}
        case "source":
            source = lock.source[component.source or ""]
            facts = {
                "tree": source.tree, "commit": source.commit, "file": source.file, "sha256": source.sha256,
                "patched": source.patched, "built": source.built,
            }  # fmt: skip
            hidden = () if pins else ("commit",) if source.built is None else facts.keys() - {"built"}
            entry |= {"source": component.source} | {
                key: value for key, value in facts.items() if value and key not in hidden
            }
        case "apt":
            package = next((package for package in lock.deb if package.name == component.apt), None)
            entry |= {"apt": component.apt, "package-version": package.version if package else None}
        case "base":
            entry |= {"base": component.base}
        case _:
            assert_never(component.kind)
    return entry
