"""Every kind of input of an image, by the row of docs/plan.md it belongs to, and how a test changes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tomli_w

from builder.recipe import Image

from . import samples
from .on_disk import OnDisk, component, deb, wheel

PUBLISHED = "docker.io/library/debian:13@sha256:" + "a" * 64
ON_IMAGES = samples.SMALL.replace(
    'debian = { suite = "trixie" }', f'image = "{PUBLISHED}"\napt = ["g++", "python3"]'
)

Change = Callable[[OnDisk, str], None]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of input: the row of the table it belongs to, and how it changes, given a word that is new."""

    row: str
    name: str
    change: Change
    text: str = samples.FULL


KINDS: list[Kind] = []


def kind(row: str, *, text: str = samples.FULL) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        KINDS.append(Kind(row=row, name=change.__name__.strip("_"), change=change, text=text))
        return change

    return add


DEBS = "a Debian package of the base or of a stage: version, hash, stage"
WHEELS = "a wheel: file name, version, hash, layer, also of what a component is built with"
SOURCES = "a file of a `[source]`: path, content, whether it may be executed"
COMPONENTS = "a component: its place, version, kind, `index`, `build` commands"
BASES = "`base.*.image`, `base.*.debian`, `base.build.env`, `base.*.apt` on an `image` base"
IMAGE = "`[image]`: every key"
KV_CACHE = "`[kv-cache]`: every setting"
TOP = "`gfx`, `python`, `engine`, `name`"
WHERE_DEB = "where in the archive it lies"
WHERE_WHEEL = "the index the lock has it from"
WHERE_SOURCE = "the name of the folder a `[source]` is in"
UNSEEN_KEYS = "a component's `requires`, `reason` and `protected`"
APT_ORDER = "the order of the packages in `base.*.apt`"
OTHER_KEYS = "`description`, `forbid`, `[smoke]`, `[build]`, `[publish]`"
FORM = "comments, white space and the order of keys in a recipe"
ASKED = "what the lock was asked for, as long as it holds the same files"
AROUND = "documents, tests, the time, the machine, the mirror"
# What is of this program is changed by tests of their own below.
PROGRAM = (
    "this program: the Dockerfile and the manifest it makes, a build step's text, its format number, "
    "the version of uv"
)
OTHER_PROGRAM = "this program: anything else"


for _stage, _name in (("base", "bash"), ("both", "python3"), ("runtime", "hipcc"), ("build", "g++")):

    @kind(DEBS)
    def version(state: OnDisk, word: str, name: str = _name) -> None:
        deb(state, name)["version"] += f"+{word}"

    @kind(DEBS)
    def digest_of_a_package(state: OnDisk, word: str, name: str = _name) -> None:
        deb(state, name)["sha256"] = samples.digest(word)

    @kind(WHERE_DEB)
    def path(state: OnDisk, word: str, name: str = _name) -> None:
        deb(state, name)["file"] = f"pool/{word}.deb"


@kind(DEBS)
def stage_of_a_package(state: OnDisk, word: str) -> None:
    deb(state, "hipcc")["stage"] = "both"


@kind(DEBS)
def another_package(state: OnDisk, word: str) -> None:
    state.lock["deb"].append(deb(state, "bash") | {"name": f"lib{word}"})


@kind(WHEELS)
def file_name(state: OnDisk, word: str) -> None:
    wheel(state, "triton")["file"] = f"triton-3.6.0-1{word}-py3-none-any.whl"


@kind(WHEELS)
def version_of_a_dependency(state: OnDisk, word: str) -> None:
    wheel(state, "numpy")["version"] = f"2.2.4+{word}"


@kind(WHEELS)
def hash_of_a_wheel(state: OnDisk, word: str) -> None:
    wheel(state, "sglang")["sha256"] = samples.digest(word)


@kind(WHEELS)
def layer(state: OnDisk, word: str) -> None:
    wheel(state, "numpy")["layer"] = "sglang"


@kind(WHEELS)
def another_wheel(state: OnDisk, word: str) -> None:
    state.lock["python"].append(wheel(state, "numpy") | {"project": word})


@kind(WHERE_WHEEL)
def index_in_the_lock(state: OnDisk, word: str) -> None:
    wheel(state, "numpy")["index"] = f"https://{word}.example.org/simple"


@kind(SOURCES)
def content(state: OnDisk, word: str) -> None:
    (state.source / "kernel.hip").write_text(f"// {word}\n")
    state.relock()


@kind(SOURCES)
def name_of_a_file(state: OnDisk, word: str) -> None:
    (state.source / "kernel.hip").rename(state.source / f"{word}.hip")
    state.relock()


@kind(SOURCES)
def executable(state: OnDisk, word: str) -> None:
    (state.source / "configure").chmod(0o755)
    state.relock()


@kind(WHERE_SOURCE)
def folder(state: OnDisk, word: str) -> None:
    state.source.rename(state.source.with_name(word))
    state.recipe["source"]["kernels"]["path"] = word


@kind(COMPONENTS)
def place(state: OnDisk, word: str) -> None:
    state.recipe["component"].reverse()


@kind(COMPONENTS)
def version_of_a_component(state: OnDisk, word: str) -> None:
    component(state, "torch")["version"] += f"+{word}"


@kind(COMPONENTS)
def kind_of_a_component(state: OnDisk, word: str) -> None:
    triton = component(state, "triton")
    triton |= {"source": "kernels", "build": ["make"]}
    del triton["wheel"]


@kind(COMPONENTS)
def wheel_of_a_component(state: OnDisk, word: str) -> None:
    component(state, "triton")["wheel"] = word
    wheel(state, "triton")["project"] = word


@kind(COMPONENTS)
def index(state: OnDisk, word: str) -> None:
    component(state, "triton")["index"] = f"https://{word}.example.org/simple"


@kind(COMPONENTS)
def commands(state: OnDisk, word: str) -> None:
    component(state, "kernels")["build"].append(f"make {word}")


@kind(COMPONENTS)
def no_more_a_component(state: OnDisk, word: str) -> None:
    state.recipe["component"].remove(component(state, "kernels"))


@kind(UNSEEN_KEYS)
def requires(state: OnDisk, word: str) -> None:
    component(state, "sglang")["requires"].append(word)


@kind(UNSEEN_KEYS)
def reason(state: OnDisk, word: str) -> None:
    component(state, "sglang")["reason"] = word


@kind(UNSEEN_KEYS)
def protected(state: OnDisk, word: str) -> None:
    component(state, "torch")["protected"] = False


for _stage in ("build", "runtime"):

    @kind(BASES, text=ON_IMAGES)
    def digest(state: OnDisk, word: str, stage: str = _stage) -> None:
        state.recipe["base"][stage]["image"] = f"docker.io/library/debian:13@sha256:{samples.digest(word)}"

    @kind(BASES, text=ON_IMAGES)
    def packages_of_a_published_base(state: OnDisk, word: str, stage: str = _stage) -> None:
        state.recipe["base"][stage]["apt"].append(word)

    @kind(APT_ORDER, text=ON_IMAGES)
    def order_on_a_published_base(state: OnDisk, word: str, stage: str = _stage) -> None:
        state.recipe["base"][stage]["apt"].reverse()

    @kind(APT_ORDER)
    def order_on_a_bootstrapped_base(state: OnDisk, word: str, stage: str = _stage) -> None:
        state.recipe["base"][stage]["apt"].reverse()


@kind(BASES)
def areas_of_a_bootstrapped_base(state: OnDisk, word: str) -> None:
    for base in state.recipe["base"].values():
        base["debian"]["components"] = ["main", word]


@kind(BASES)
def packages_of_another_suite(state: OnDisk, word: str) -> None:
    for base in state.recipe["base"].values():
        base["debian"]["also"] = [{"suite": "experimental", "packages": [word]}]


@kind(BASES)
def build_environment(state: OnDisk, word: str) -> None:
    state.recipe["base"]["build"]["env"]["CC"] = word


@kind(BASES, text=ON_IMAGES)
def kind_of_a_base(state: OnDisk, word: str) -> None:
    state.recipe["base"]["build"] = {"debian": {"suite": "trixie"}}


OTHER_IMAGE: dict[str, Callable[[str], Any]] = {
    "user": lambda word: word,
    "uid": lambda word: 2000 + len(word),
    "workdir": lambda word: f"/srv/{word}",
    "env": lambda word: {"HOME": f"/var/cache/{word}"},
    "entrypoint": lambda word: [word],
    "cmd": lambda word: ["python3", word],
    "expose": lambda word: [8000 + len(word)],
    "writable": lambda word: ["/tmp", f"/var/cache/{word}"],
    "devices": lambda word: [f"/dev/{word}"],
    "groups": lambda word: [word],
    "shm": lambda word: f"1{len(word)}g",
}
for _key in (field.alias or name for name, field in Image.model_fields.items()):

    @kind(IMAGE)
    def key_of_the_image(state: OnDisk, word: str, key: str = _key) -> None:
        state.recipe["image"][key] = OTHER_IMAGE[key](word)


@kind(IMAGE)
def a_variable_more(state: OnDisk, word: str) -> None:
    state.recipe["image"]["env"][word.upper()] = ""


@kind(KV_CACHE)
def kv_setting(state: OnDisk, word: str) -> None:
    state.recipe["kv-cache"] = {"kv-cache-dtype": word}


@kind(TOP)
def targets(state: OnDisk, word: str) -> None:
    state.recipe["gfx"].append("gfx942")


@kind(TOP)
def order_of_targets(state: OnDisk, word: str) -> None:
    state.recipe["gfx"].reverse()


@kind(TOP, text=ON_IMAGES)
def python(state: OnDisk, word: str) -> None:
    state.recipe["python"] = f"3.{len(word)}"


@kind(TOP)
def engine(state: OnDisk, word: str) -> None:
    state.recipe["engine"] = "triton"


@kind(TOP)
def name(state: OnDisk, word: str) -> None:
    state.source.parent.rename(state.source.parent.with_name(word))
    state.recipe["name"] = word


@kind(OTHER_KEYS)
def description(state: OnDisk, word: str) -> None:
    state.recipe["description"] = word


@kind(OTHER_KEYS)
def forbid(state: OnDisk, word: str) -> None:
    state.recipe["forbid"].append(word)


@kind(OTHER_KEYS)
def smoke(state: OnDisk, word: str) -> None:
    state.recipe["smoke"] = {"imports": [word], "absent": [word]}


@kind(OTHER_KEYS)
def what_a_build_takes(state: OnDisk, word: str) -> None:
    state.recipe["build"] = {"disk": f"{len(word)}g", "memory-per-job": f"{len(word)}00m"}


@kind(OTHER_KEYS)
def what_names_it_beside_its_version_tag(state: OnDisk, word: str) -> None:
    state.recipe["publish"] = {"moving-tags": [word]}


@kind(FORM)
def comments_and_space(state: OnDisk, word: str) -> None:
    lines = tomli_w.dumps(state.recipe).splitlines()
    state.text = "\n".join(f"{line}  # {word}" if line.endswith(('"', "]")) else f"{line}\n" for line in lines)


@kind(FORM)
def order_of_keys(state: OnDisk, word: str) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    state.text = tomli_w.dumps(turned(state.recipe))
    assert state.text != tomli_w.dumps(state.recipe)


@kind(ASKED)
def asked(state: OnDisk, word: str) -> None:
    component(state, "sglang")["requires"] = [f"numpy>={len(word)}"]
    state.recipe["forbid"] = []


@kind(AROUND)
def documents_and_tests(state: OnDisk, word: str) -> None:
    for file in ("README.md", f"images/probe/{word}.md", f"images/probe/tests/test_{word}.py", f"docs/{word}.md"):
        (state.root / file).parent.mkdir(parents=True, exist_ok=True)
        (state.root / file).write_text(word)


@kind(AROUND)
def time(state: OnDisk, word: str) -> None:
    for file in state.source.iterdir():
        os.utime(file, (len(word), len(word)))
    state.relock()


@kind(AROUND)
def machine(state: OnDisk, word: str) -> None:
    elsewhere = state.root.parent / f"{state.root.name}-{word}"
    state.root.rename(elsewhere)
    state.root = elsewhere


@kind(AROUND)
def mirror(state: OnDisk, word: str) -> None:
    (state.root / "mirrors.toml").write_text(f'[indexes]\ndefault = "https://{word}.example.org/simple"\n')
