"""The kinds of input that come with sources and with components that are built, as `kinds` has the others."""

from __future__ import annotations

from . import samples
from .kinds import OTHER_KEYS, WHEELS, kind
from .on_disk import OnDisk, component, wheel

PINS = "the tree of a `[source]`'s commit, the commit of a submodule, the hash of an sdist or archive"
WHERE_PIN = "its address, tag, branch and commit, as long as its tree stays"
LEFT = "what is left of a `[source]` that ignores something"
IGNORED = "what a `[source]` ignores; one that nothing but patches is taken from"
BUILDS = "a component's `subdirectory`, `build-env`, `needs`, `gfx`"
IN_THE_LOCK = "its `extras`, `requires-files`, `build-requires`, as long as the lock stays"
RULES = "`override`, `rocm`"
INVENTORY = "the engine's inventory in the lock"
COMMIT = "fdebc938f7f4d16fe6b9f55dcd9a767cf0899ea1"
BUILT = f"""
[source.engine]
git = "https://git.example.org/engine"
tag = "v1"
commit = "{COMMIT}"

[source.release]
sdist = "release"
version = "1.0"

[source.archive]
archive = "https://example.org/archive-1.0.tar.gz"
sha256 = "{"ab" * 32}"

[source.fork]
git = "https://git.example.org/fork"
branch = "main"
commit = "{COMMIT}"

[[component]]
name = "release"
source = "release"
version = "1.0"
build-requires = ["setuptools"]

[[component]]
name = "engine"
source = "engine"
version = "1.0"
build = ["make install"]

[[component]]
name = "archive"
source = "archive"
version = "1.0"
build = ["make install"]
"""
TEXT = samples.FULL.replace("[image]\n", BUILT + "\n[image]\n")
IGNORING = TEXT.replace('tag = "v1"', 'tag = "v1"\nignore = ["docs"]')


def other_commit(word: str) -> str:
    return samples.digest(word)[:40]


@kind(WHEELS, text=TEXT)
def what_a_component_is_built_with(state: OnDisk, word: str) -> None:
    state.lock["python"].append(wheel(state, "numpy") | {"project": word, "layer": "release.build"})


def another_commit(state: OnDisk, word: str, name: str = "engine") -> None:
    """Pin a commit, and lock it with the tree that there was before."""
    state.recipe["source"][name]["commit"] = other_commit(word)
    state.lock["source"][name]["commit"] = other_commit(word)


@kind(WHERE_PIN, text=TEXT)
def commit_of_the_same_tree(state: OnDisk, word: str) -> None:
    another_commit(state, word)


@kind(PINS, text=TEXT)
def commit_of_another_tree(state: OnDisk, word: str) -> None:
    another_commit(state, word)
    state.lock["source"]["engine"]["tree"] = other_commit(f"tree {word}")


@kind(IGNORED, text=TEXT)
def commit_that_patches_alone_are_taken_from(state: OnDisk, word: str) -> None:
    another_commit(state, word, "fork")
    state.lock["source"]["fork"]["tree"] = other_commit(f"tree {word}")


@kind(IGNORED, text=IGNORING)
def commit_that_changes_what_is_ignored(state: OnDisk, word: str) -> None:
    another_commit(state, word)
    state.lock["source"]["engine"]["tree"] = other_commit(f"tree {word}")


@kind(IGNORED, text=IGNORING)
def submodule_that_is_ignored(state: OnDisk, word: str) -> None:
    inner = {"path": "docs/theme", "url": "https://git.example.org/inner", "commit": other_commit(word)}
    state.lock["source"]["engine"]["submodule"] = [inner]


@kind(IGNORED, text=IGNORING)
def another_pattern_that_leaves_the_same(state: OnDisk, word: str) -> None:
    state.recipe["source"]["engine"]["ignore"].append(word)


@kind(LEFT, text=IGNORING)
def what_is_left(state: OnDisk, word: str) -> None:
    state.lock["source"]["engine"]["built"] = other_commit(word)


@kind(PINS, text=TEXT)
def submodule(state: OnDisk, word: str) -> None:
    inner = {"path": "third_party/inner", "url": "https://git.example.org/inner", "commit": other_commit(word)}
    state.lock["source"]["engine"] |= {"commit": COMMIT, "submodule": [inner]}


@kind(PINS, text=TEXT)
def sdist(state: OnDisk, word: str) -> None:
    state.lock["source"]["release"] = {"file": "release-1.0.tar.gz", "size": 1, "sha256": samples.digest(word)}


@kind(PINS, text=TEXT)
def archive(state: OnDisk, word: str) -> None:
    state.recipe["source"]["archive"]["sha256"] = samples.digest(word)
    state.lock["source"]["archive"] = {"size": 1, "sha256": samples.digest(word)}


@kind(WHERE_PIN, text=TEXT)
def address(state: OnDisk, word: str) -> None:
    state.recipe["source"]["engine"]["git"] = f"https://{word}.example.org/engine"


@kind(WHERE_PIN, text=TEXT)
def tag(state: OnDisk, word: str) -> None:
    state.recipe["source"]["engine"]["tag"] = word


@kind(WHERE_PIN, text=TEXT)
def branch_instead_of_tag(state: OnDisk, word: str) -> None:
    del state.recipe["source"]["engine"]["tag"]
    state.recipe["source"]["engine"]["branch"] = word


@kind(BUILDS, text=TEXT)
def subdirectory(state: OnDisk, word: str) -> None:
    component(state, "release")["subdirectory"] = word


@kind(BUILDS, text=TEXT)
def environment_of_a_build(state: OnDisk, word: str) -> None:
    component(state, "release")["build-env"] = {"WORD": word}


@kind(BUILDS, text=TEXT)
def needs(state: OnDisk, word: str) -> None:
    component(state, "release")["needs"] = ["triton"]


@kind(BUILDS, text=TEXT)
def targets_of_a_component(state: OnDisk, word: str) -> None:
    component(state, "release")["gfx"] = ["gfx942"]


@kind(IN_THE_LOCK, text=TEXT)
def extras(state: OnDisk, word: str) -> None:
    component(state, "release")["extras"] = [word]


@kind(IN_THE_LOCK, text=TEXT)
def requires_files(state: OnDisk, word: str) -> None:
    component(state, "release")["requires-files"] = [f"{word}.txt"]


@kind(IN_THE_LOCK, text=TEXT)
def build_requires(state: OnDisk, word: str) -> None:
    component(state, "release")["build-requires"].append(word)


@kind(RULES)
def override(state: OnDisk, word: str) -> None:
    state.recipe["override"] = [{"rule": "aiter-of-vllm", "reason": word, "until": "sglang==0.5.16"}]


@kind(RULES)
def rocm(state: OnDisk, word: str) -> None:
    state.recipe["rocm"] = f"7.2.{len(word)}"


@kind(INVENTORY)
def inventory(state: OnDisk, word: str) -> None:
    state.lock["inventory"] = {"sites": {"triton": len(word)}, "headers": [f"{word}.h"]}


@kind(OTHER_KEYS)
def contracts(state: OnDisk, word: str) -> None:
    state.recipe["smoke"]["contracts"] = ["sglang -> triton"]
