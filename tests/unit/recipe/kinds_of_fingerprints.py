"""How a test moves the fingerprint, or leaves it, by the row of docs/fingerprint.md; the key has `kinds`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import kinds, kinds_of_patches, kinds_of_pins, samples
from .kinds import Change
from .kinds_of_patches import TEXT as PATCHED
from .kinds_of_patches import written
from .on_disk import OnDisk, component, deb, wheel

BASE = "a" * 64
WHEELS = "the wheel of a counted component, by hash"
SOURCES = "the source of a counted component: its files after patches and without what is ignored"
BUILDS = "how a counted source is built: `build`, `build-env`, `subdirectory`, the wheels of `build-requires`"
DEBS = "the Debian package of a counted component: version, hash"
FROM_BASE = "a counted component that is in a published base: its version, and the digest of that base"
PATCHES = "patches of a counted component that change what is installed: what they do, their files, their order"
SETTINGS = "`[kv-cache]`: every setting"
COMPONENTS = "which component is the `engine`; a counted component more or less, or of another kind"
BENEATH = (
    "the fingerprint of the image of this project that it is built on"  # tests/unit/pins/test_image_on_image.py
)

OTHER_WHEELS = "a wheel that is not counted; the index a wheel is from; a wheel's name"
OTHER_SOURCES = (
    "the source of any other component; commit, tag, branch and address of a source with the same files"
)
TARGETS = "`gfx`, of the recipe or a component"
OTHER_DEBS = "any other Debian package: version, hash, stage"
OTHER_BASES = "the digest of a published base that no counted component is from"
OTHER_PATCHES = "patches of any other component; a patch's name, probe, reason, link and drop condition"
OTHER_KEYS = (
    "`[image]`, `[smoke]`, `[build]`, `[publish]`, `description`, `forbid`, `override`, `rocm`, `python`, "
    "the name of the image"
)
OTHER_COMPONENTS = "the order of components; a component more or less that is not counted"
AROUND = "documents, tests, comments, the time, the machine, mirrors, this program"


@dataclass(frozen=True, kw_only=True)
class Moving:
    """A change, given a word that is new: the row of the table it belongs to, and the recipe it is made to."""

    row: str
    name: str
    change: Change
    text: str = samples.FULL


MOVING: list[Moving] = []
STAYING: list[Moving] = []


def moving(row: str, *, text: str = samples.FULL) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        MOVING.append(Moving(row=row, name=change.__name__, change=change, text=text))
        return change

    return add


def staying(row: str, *, text: str = samples.FULL) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        STAYING.append(Moving(row=row, name=change.__name__, change=change, text=text))
        return change

    return add


# The engine from a source of the recipe, with AITER under another name, and compiled with a component of its own.
BUILT = (
    samples.FULL.replace('engine = "sglang"', 'engine = "kernels"')
    .replace(
        "[image]\n",
        """
[source.headers]
path = "kernels"

[[component]]
name = "headers"
wheel = "headers"
version = "1.0"

[[component]]
name = "tensor-engine"
wheel = "amd-aiter"
version = "0.1.7"

[image]
""",
    )
    .replace('build = ["make {', 'needs = ["headers"]\nbuild = ["make {')
)
ON_BASE = f"""
schema = 1
name = "probe"
description = "An engine on a published base"
engine = "sglang"
gfx = ["gfx1100"]
python = "3.13"

[base.build]
image = "docker.io/rocm/dev:1@sha256:{BASE}"

[base.runtime]
image = "docker.io/rocm/dev:1@sha256:{BASE}"

[[component]]
name = "sglang"
wheel = "sglang"
version = "0.5.16"
requires = []
reason = "all it needs is there"
"""
TORCH_OF_THE_BASE = ON_BASE + '\n[[component]]\nname = "pytorch"\nbase = "torch"\nversion = "2.11.0"\n'
TORCH_OF_ITS_OWN = ON_BASE + '\n[[component]]\nname = "pytorch"\nwheel = "torch"\nversion = "2.11.0"\n'


def base_of(state: OnDisk, digest: str, stage: str = "runtime") -> None:
    state.recipe["base"][stage]["image"] = f"docker.io/rocm/dev:1@sha256:{digest}"


for _project in ("sglang", "triton"):

    @moving(WHEELS)
    def hash_of_a_wheel(state: OnDisk, word: str, project: str = _project) -> None:
        wheel(state, project)["sha256"] = samples.digest(word)


@moving(WHEELS, text=BUILT)
def hash_of_aiter_by_its_distribution(state: OnDisk, word: str) -> None:
    wheel(state, "amd-aiter")["sha256"] = samples.digest(word)


@moving(WHEELS, text=BUILT)
def hash_of_what_the_engine_needs(state: OnDisk, word: str) -> None:
    wheel(state, "headers")["sha256"] = samples.digest(word)


for _project in ("torch", "triton-rocm", "pytorch-triton-rocm", "amd-aiter"):

    @moving(WHEELS)
    def distribution_that_nobody_names(state: OnDisk, word: str, project: str = _project) -> None:
        state.lock["python"].append(wheel(state, "numpy") | {"project": project, "sha256": samples.digest(word)})


@moving(SOURCES, text=BUILT)
def source_of_the_engine(state: OnDisk, word: str) -> None:
    kinds.content(state, word)


@moving(SOURCES, text=PATCHED.replace('engine = "sglang"', 'engine = "kernels"'))
def patched_source_of_the_engine(state: OnDisk, word: str) -> None:
    kinds_of_patches.patched_tree(state, word)


@moving(BUILDS, text=BUILT)
def commands(state: OnDisk, word: str) -> None:
    kinds.commands(state, word)


@moving(BUILDS, text=BUILT)
def environment_of_a_build(state: OnDisk, word: str) -> None:
    component(state, "kernels")["build-env"] = {"DEVICE": word}


RELEASE = kinds_of_pins.TEXT.replace('engine = "sglang"', 'engine = "release"')


@moving(BUILDS, text=RELEASE)
def subdirectory(state: OnDisk, word: str) -> None:
    kinds_of_pins.subdirectory(state, word)


@moving(BUILDS, text=RELEASE)
def what_it_is_built_with(state: OnDisk, word: str) -> None:
    kinds_of_pins.what_a_component_is_built_with(state, word)


for _key, _value in (("version", lambda word: word), ("sha256", samples.digest)):

    @moving(DEBS)
    def package_of_torch(state: OnDisk, word: str, key: str = _key, value: Any = _value) -> None:
        deb(state, "python3-torch")[key] = value(word)


for _package in ("python3-triton", "python3-torch-rocm", "libtorch2.6", "libtorch-rocm2.9"):

    @moving(DEBS)
    def package_that_nobody_names(state: OnDisk, word: str, package: str = _package) -> None:
        state.lock["deb"].append(deb(state, "hipcc") | {"name": package, "version": word})


for _package, _stage in (("libtorch-dev", "runtime"), ("python3-torchvision", "both"), ("libtorch2.6", "build")):

    @staying(OTHER_DEBS)
    def package_beside_torch(state: OnDisk, word: str, package: str = _package, stage: str = _stage) -> None:
        state.lock["deb"].append(deb(state, "hipcc") | {"name": package, "stage": stage, "version": word})


@moving(FROM_BASE, text=TORCH_OF_THE_BASE)
def base_that_has_torch(state: OnDisk, word: str) -> None:
    base_of(state, samples.digest(word))


@moving(FROM_BASE, text=TORCH_OF_THE_BASE)
def version_in_the_base(state: OnDisk, word: str) -> None:
    component(state, "pytorch")["version"] = f"2.11.0+{word}"


@moving(FROM_BASE, text=ON_BASE)
def base_of_an_engine_whose_torch_nobody_names(state: OnDisk, word: str) -> None:
    base_of(state, samples.digest(word))


@moving(PATCHES, text=PATCHED)
def edit(state: OnDisk, word: str) -> None:
    kinds_of_patches.what_an_edit_puts_there(state, word)


@moving(PATCHES, text=PATCHED)
def hook(state: OnDisk, word: str) -> None:
    kinds_of_patches.value_of_a_hook(state, word)


@moving(PATCHES, text=PATCHED)
def file_of_a_hook(state: OnDisk, word: str) -> None:
    written(state, "call", text=word)


@moving(PATCHES, text=PATCHED)
def target_of_a_patch(state: OnDisk, word: str) -> None:
    kinds_of_patches.target_of_a_patch(state, word)


@moving(PATCHES, text=PATCHED)
def order_of_patches(state: OnDisk, word: str) -> None:
    kinds_of_patches.place_of_a_patch(state, word)


for _setting in ("page-size", "kv-cache-dtype", "hicache-mem-layout", "anything-else"):

    @moving(SETTINGS)
    def kv_setting(state: OnDisk, word: str, setting: str = _setting) -> None:
        state.recipe["kv-cache"] = {setting: word}


for _kind, _given in (("an integer", 1), ("true", True)):

    @moving(SETTINGS, text=samples.FULL.replace("[image]\n", '[kv-cache]\npage-size = "1"\n\n[image]\n'))
    def type_of_a_kv_setting(state: OnDisk, word: str, given: object = _given) -> None:
        state.recipe["kv-cache"]["page-size"] = given


@moving(COMPONENTS)
def engine(state: OnDisk, word: str) -> None:
    state.recipe["engine"] = "kernels"


@moving(COMPONENTS)
def no_more_triton(state: OnDisk, word: str) -> None:
    state.recipe["component"].remove(component(state, "triton"))
    state.lock["python"].remove(wheel(state, "triton"))
    state.recipe["smoke"]["jit"].remove("triton")


@moving(COMPONENTS)
def kind_of_triton(state: OnDisk, word: str) -> None:
    kinds.kind_of_a_component(state, word)


# Every kind of input of the content key belongs to a row here as well: to the one of its row there, unless it is
# among `COUNTED`, by name, and by the defaults of its function where it has some. There they are as the sample
# recipe has them: its engine is a wheel.
COUNTED: dict[str, tuple[str, ...] | None] = dict.fromkeys(
    (
        "hash_of_a_wheel", "kind_of_a_component", "engine", "place_of_a_patch", "target_of_a_patch",
        "what_an_edit_puts_there", "how_often_an_edit_does", "value_of_a_hook", "type_of_the_value_of_a_hook",
        "whether_a_hook_is_optional", "patch_that_was_not_there",
    )
) | {"patch_file": ("call",)}  # fmt: skip
ROWS = {
    kinds.DEBS: OTHER_DEBS,
    kinds.WHEELS: OTHER_WHEELS,
    kinds.SOURCES: OTHER_SOURCES,
    kinds.COMPONENTS: OTHER_COMPONENTS,
    kinds.BASES: OTHER_BASES,
    kinds.IMAGE: OTHER_KEYS,
    kinds.TOP: OTHER_KEYS,
    kinds.WHERE_DEB: OTHER_DEBS,
    kinds.WHERE_WHEEL: OTHER_WHEELS,
    kinds.WHERE_SOURCE: OTHER_SOURCES,
    kinds.UNSEEN_KEYS: OTHER_COMPONENTS,
    kinds.APT_ORDER: OTHER_BASES,
    kinds.OTHER_KEYS: OTHER_KEYS,
    kinds.FORM: AROUND,
    kinds.ASKED: OTHER_KEYS,
    kinds.AROUND: AROUND,
    kinds_of_pins.PINS: OTHER_SOURCES,
    kinds_of_pins.WHERE_PIN: OTHER_SOURCES,
    kinds_of_pins.LEFT: OTHER_SOURCES,
    kinds_of_pins.IGNORED: OTHER_SOURCES,
    kinds_of_pins.BUILDS: OTHER_SOURCES,
    kinds_of_pins.IN_THE_LOCK: OTHER_SOURCES,
    kinds_of_pins.RULES: OTHER_KEYS,
    kinds_of_pins.INVENTORY: OTHER_KEYS,
    kinds_of_patches.TREES: OTHER_PATCHES,
    kinds_of_patches.CHANGES: OTHER_PATCHES,
    kinds_of_patches.WORDS: OTHER_PATCHES,
    kinds_of_patches.SERIES: OTHER_PATCHES,
}


@staying(OTHER_BASES, text=TORCH_OF_ITS_OWN)
def base_of_an_engine_with_a_torch_of_its_own(state: OnDisk, word: str) -> None:
    for stage in ("build", "runtime"):
        base_of(state, samples.digest(word), stage)


@staying(OTHER_BASES, text=TORCH_OF_THE_BASE)
def tag_of_a_base(state: OnDisk, word: str) -> None:
    state.recipe["base"]["runtime"]["image"] = f"mirror.example.org/rocm/dev:{word}@sha256:{BASE}"


@staying(OTHER_BASES, text=TORCH_OF_THE_BASE)
def base_that_nothing_ships_of(state: OnDisk, word: str) -> None:
    base_of(state, samples.digest(word), "build")


@staying(TARGETS, text=BUILT)
def targets(state: OnDisk, word: str) -> None:
    state.recipe["gfx"].append("gfx942")


@staying(TARGETS, text=BUILT)
def targets_of_the_engine(state: OnDisk, word: str) -> None:
    component(state, "kernels")["gfx"] = ["gfx942"]


@staying(OTHER_COMPONENTS)
def another_component(state: OnDisk, word: str) -> None:
    state.recipe["component"].append({"name": word, "wheel": word, "version": "1.0"})
    state.lock["python"].append(wheel(state, "numpy") | {"project": word, "layer": word, "version": "1.0"})


@staying(OTHER_COMPONENTS)
def flash_attention(state: OnDisk, word: str) -> None:
    another_component(state, "flash-attn")
