"""The kinds of input that come with patches, as `kinds` has the others."""

from __future__ import annotations

from typing import Any

from . import samples
from .kinds import kind
from .on_disk import OnDisk

TREES = "a `[source]`'s tree after its patches; the name and the hash of a patch file"
CHANGES = "a patch: its place, `name`, `target`, `edit`, `overlay`, `hook`, `probe`"
WORDS = "a patch's `reason`, `upstream`, `drop-when` and `acknowledge-redundant`"
SERIES = "the `pattern` and `order` of a series, as long as the lock has the same files"
COMMIT = "fdebc938f7f4d16fe6b9f55dcd9a767cf0899ea1"
_WORDS = 'reason = "r"\nupstream = "https://git.example/1"\ndrop-when = "w"\n'
PATCHES = f"""
[[patch]]
name = "series"
target = "kernels"
series = {{ directory = "patches/probe", made-for = "{COMMIT}" }}
{_WORDS}
[[patch]]
name = "overlay"
target = "kernels"
overlay = {{ file = "a.py", from = "overlays/a.py" }}
{_WORDS}
[[patch]]
name = "installed"
target = "sglang"
edit = {{ file = "sglang/a.py", find = "1", replace = "2" }}
probe = {{ module = "sglang.a", expression = "A", before = 1, after = 2 }}
{_WORDS}
[[patch]]
name = "value"
target = "sglang"
hook = {{ module = "sglang.b", attribute = "B", expect = 1, value = 2 }}
{_WORDS}
[[patch]]
name = "call"
target = "sglang"
hook = {{ module = "sglang.b", attribute = "f", expect-source = "{"ab" * 32}", call = "hooks/b.py:f" }}
{_WORDS}
"""
PINNED = samples.FULL.replace(
    'path = "kernels"', f'git = "https://git.example/kernels"\ntag = "v1"\ncommit = "{COMMIT}"'
)
TEXT = PINNED.replace("[image]\n", PATCHES + "\n[image]\n")
NAMES = ("series", "overlay", "installed", "value", "call")


def patch(state: OnDisk, name: str) -> dict[str, Any]:
    """Return a patch of the recipe."""
    return next(each for each in state.recipe["patch"] if each["name"] == name)


def locked(state: OnDisk, name: str) -> dict[str, Any]:
    """Return a patch of the lock."""
    return next(each for each in state.lock["patch"] if each["name"] == name)


def written(state: OnDisk, name: str, *, number: int = 0, text: str) -> None:
    """Write another text into a file of a patch, and lock it."""
    entry = locked(state, name)["file"][number]
    state.files[entry["file"]] = text
    entry["sha256"] = samples.digest(text)


@kind(TREES, text=TEXT)
def patched_tree(state: OnDisk, word: str) -> None:
    state.lock["source"]["kernels"]["patched"] = samples.digest(word)[:40]


for _name in ("series", "overlay", "call"):

    @kind(TREES, text=TEXT)
    def patch_file(state: OnDisk, word: str, name: str = _name) -> None:
        written(state, name, text=word)


@kind(TREES, text=TEXT)
def name_of_a_patch_file(state: OnDisk, word: str) -> None:
    entry = locked(state, "series")["file"][1]
    name = f"patches/probe/0002-{word}.patch"
    state.files[name] = state.files.pop(entry["file"])
    entry["file"] = name


for _name in NAMES:

    @kind(CHANGES, text=TEXT)
    def name_of_a_patch(state: OnDisk, word: str, name: str = _name) -> None:
        if name in ("series", "overlay", "call"):
            locked(state, name)["name"] = word
        patch(state, name)["name"] = word

    for _key in ("reason", "drop-when", "acknowledge-redundant", "upstream"):

        @kind(WORDS, text=TEXT)
        def words(state: OnDisk, word: str, name: str = _name, key: str = _key) -> None:
            patch(state, name)[key] = f"https://git.example/{word}"


@kind(CHANGES, text=TEXT)
def place_of_a_patch(state: OnDisk, word: str) -> None:
    state.recipe["patch"].reverse()
    state.lock["patch"].reverse()


@kind(CHANGES, text=TEXT)
def target_of_a_patch(state: OnDisk, word: str) -> None:
    patch(state, "installed")["target"] = "triton"


@kind(CHANGES, text=TEXT)
def what_an_edit_puts_there(state: OnDisk, word: str) -> None:
    patch(state, "installed")["edit"]["replace"] = word


@kind(CHANGES, text=TEXT)
def how_often_an_edit_does(state: OnDisk, word: str) -> None:
    patch(state, "installed")["edit"]["count"] = len(word)


@kind(CHANGES, text=TEXT)
def where_an_overlay_goes(state: OnDisk, word: str) -> None:
    patch(state, "overlay")["overlay"]["file"] = word


@kind(CHANGES, text=TEXT)
def value_of_a_hook(state: OnDisk, word: str) -> None:
    patch(state, "value")["hook"]["value"] = word


@kind(CHANGES, text=TEXT)
def type_of_the_value_of_a_hook(state: OnDisk, word: str) -> None:
    patch(state, "value")["hook"]["value"] = 2.0


@kind(CHANGES, text=TEXT)
def whether_a_hook_is_optional(state: OnDisk, word: str) -> None:
    patch(state, "call")["hook"]["optional"] = True


@kind(CHANGES, text=TEXT)
def probe(state: OnDisk, word: str) -> None:
    patch(state, "installed")["probe"]["expression"] = word


@kind(CHANGES, text=TEXT)
def probe_that_was_not_there(state: OnDisk, word: str) -> None:
    patch(state, "series")["probe"] = {"module": "a", "expression": word, "before": 1, "after": 2}


@kind(CHANGES, text=TEXT)
def patch_that_was_not_there(state: OnDisk, word: str) -> None:
    state.recipe["patch"].append({**patch(state, "value"), "name": word})


@kind(SERIES, text=TEXT)
def order_of_a_series(state: OnDisk, word: str) -> None:
    patch(state, "series")["series"]["order"] = "number"


@kind(SERIES, text=TEXT)
def pattern_of_a_series(state: OnDisk, word: str) -> None:
    patch(state, "series")["series"]["pattern"] = "0*.patch"
