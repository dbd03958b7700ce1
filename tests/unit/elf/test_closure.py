"""Libraries are looked for in the order of glibc's loader, whatever that finds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from builder.elf.closure import Closure, Loaded, Loader, Surroundings
from builder.elf.dynamic import Dynamic, read

from .forge import library


class Tree:
    """Files of an image that is not there; links lead to paths of the same file."""

    def __init__(self, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> None:
        self._files = {path: read(memoryview(data)) for path, data in files.items()}
        self._links = dict(links or {})

    def same(self, path: str) -> str:
        return self._links.get(path, path)

    def read(self, path: str) -> Dynamic | None:
        return self._files.get(self.same(path))


def closure(tree: Tree, path: str, *, process: tuple[Loaded, ...] = (), **around: object) -> Closure:
    settings = {"default": ("/lib", "/usr/lib"), **around}
    loader = Loader(Surroundings(read=tree.read, same=tree.same, **settings))  # type: ignore[arg-type]
    found = loader.closure(path, process)
    assert found is not None
    return found


def paths(found: Closure) -> list[str]:
    return [each.path for each in found.loaded]


def test_a_whole_chain_is_followed_breadth_first_and_each_file_once() -> None:
    tree = Tree(
        {
            "/bin/a": library(needed=["libb.so", "libc.so"]),
            "/lib/libb.so": library(soname="libb.so", needed=["libd.so", "libc.so"]),
            "/lib/libc.so": library(soname="libc.so"),
            "/usr/lib/libd.so": library(soname="libd.so", needed=["libb.so"]),
        }
    )
    found = closure(tree, "/bin/a")
    assert paths(found) == ["/bin/a", "/lib/libb.so", "/lib/libc.so", "/usr/lib/libd.so"]
    assert (found.missing, found.unversioned) == ([], [])


def test_what_is_missing_is_told_with_who_asks_and_what_was_started() -> None:
    tree = Tree({"/bin/a": library(needed=["libb.so"]), "/lib/libb.so": library(needed=["libgone.so.3"])})
    (lack,) = closure(tree, "/bin/a").missing
    assert (lack.root, lack.asks, lack.name) == ("/bin/a", "/lib/libb.so", "libgone.so.3")


PLACES = {f"/{place}/libb.so": library() for place in ("rpath", "env", "runpath", "cache", "lib")}


@pytest.mark.parametrize(
    ("options", "without", "expected"),
    [
        ({"rpath": "/rpath"}, (), "/rpath/libb.so"),
        ({"rpath": "/rpath"}, ("/rpath",), "/env/libb.so"),
        ({"runpath": "/runpath"}, (), "/env/libb.so"),
        ({"runpath": "/runpath"}, ("/env",), "/runpath/libb.so"),
        ({}, ("/env",), "/cache/libb.so"),
        ({}, ("/env", "/cache"), "/lib/libb.so"),
        ({"rpath": "/rpath", "runpath": "/nowhere"}, (), "/env/libb.so"),
    ],
)
def test_the_places_are_tried_in_the_order_of_the_loader(
    options: dict[str, str], without: tuple[str, ...], expected: str
) -> None:
    files = {path: data for path, data in PLACES.items() if not path.startswith(tuple(without) or ("-",))}
    tree = Tree({"/bin/a": library(needed=["libb.so"], **options), **files})  # type: ignore[arg-type]
    found = closure(tree, "/bin/a", library_path=("/env",), cache={"libb.so": ("/cache/libb.so",)})
    assert paths(found) == ["/bin/a", expected]


def test_an_rpath_serves_what_it_loads_and_a_runpath_does_not() -> None:
    files = {"/opt/libb.so": library(needed=["libc.so"]), "/opt/libc.so": library()}
    by_rpath = Tree({"/bin/a": library(needed=["libb.so"], rpath="/opt"), **files})
    by_runpath = Tree({"/bin/a": library(needed=["libb.so"], runpath="/opt"), **files})
    assert closure(by_rpath, "/bin/a").missing == []
    assert [each.name for each in closure(by_runpath, "/bin/a").missing] == ["libc.so"]


def test_the_runpath_of_one_in_between_ends_what_it_inherits() -> None:
    tree = Tree(
        {
            "/bin/a": library(needed=["libb.so"], rpath="/opt"),
            "/opt/libb.so": library(needed=["libc.so"], runpath="/elsewhere"),
            "/opt/libc.so": library(),
        }
    )
    assert [each.name for each in closure(tree, "/bin/a").missing] == ["libc.so"]


def test_origin_is_the_folder_a_file_was_found_in_and_not_where_a_link_leads() -> None:
    tree = Tree(
        {
            "/bin/a": library(needed=["libb.so"]),
            "/opt/real/libb.so": library(needed=["libc.so"], runpath="$ORIGIN/../more"),
            "/opt/more/libc.so": library(),
        },
        links={"/lib/libb.so": "/opt/real/libb.so", "/lib/../more/libc.so": "/opt/more/libc.so-not"},
    )
    assert [each.name for each in closure(tree, "/bin/a").missing] == ["libc.so"]


@pytest.mark.parametrize("entry", ["${ORIGIN}/../$LIB", "/usr/$LIB", "/usr/lib/x86_64-linux-gnu"])
def test_tokens_of_a_search_path_are_filled_in(entry: str) -> None:
    place = "/usr/lib/x86_64-linux-gnu/libb.so"
    tree = Tree(
        {"/usr/bin/a": library(needed=["libb.so"], runpath=entry), place: library()},
        links={"/usr/bin/../lib/x86_64-linux-gnu/libb.so": place},
    )
    assert closure(tree, "/usr/bin/a", lib="lib/x86_64-linux-gnu").missing == []


def test_a_relative_entry_finds_nothing() -> None:
    tree = Tree({"/bin/a": library(needed=["libb.so"], runpath="lib:"), "lib/libb.so": library()})
    assert [each.name for each in closure(tree, "/bin/a").missing] == ["libb.so"]


def test_a_library_for_another_machine_is_passed_over() -> None:
    tree = Tree(
        {
            "/bin/a": library(needed=["libb.so"], runpath="/arm:/x86"),
            "/arm/libb.so": library(machine=183),
            "/x86/libb.so": library(),
        }
    )
    assert paths(closure(tree, "/bin/a")) == ["/bin/a", "/x86/libb.so"]


def test_a_file_that_asks_for_no_default_folders_gets_none() -> None:
    tree = Tree({"/bin/a": library(needed=["libb.so"], flags_1=0x800), "/lib/libb.so": library()})
    assert [each.name for each in closure(tree, "/bin/a").missing] == ["libb.so"]


def test_a_name_with_a_slash_is_a_path() -> None:
    tree = Tree({"/bin/a": library(needed=["/opt/libb.so", "/opt/gone.so"]), "/opt/libb.so": library()})
    found = closure(tree, "/bin/a")
    assert paths(found) == ["/bin/a", "/opt/libb.so"]
    assert [each.name for each in found.missing] == ["/opt/gone.so"]


def test_what_a_process_has_already_counts_by_soname() -> None:
    tree = Tree({"/site/x.so": library(needed=["libtorch.so"])})
    told = read(memoryview(library(soname="libtorch.so")))
    assert told is not None
    assert closure(tree, "/site/x.so", process=(Loaded("/site/torch/lib/libtorch.so.2", told),)).missing == []
    assert [each.name for each in closure(tree, "/site/x.so").missing] == ["libtorch.so"]


def test_the_rpath_of_the_program_serves_what_it_opens() -> None:
    tree = Tree({"/site/x.so": library(needed=["libb.so"]), "/python/lib/libb.so": library()})
    told = read(memoryview(library(rpath="$ORIGIN/../lib", kind=2)))
    assert told is not None
    tree_with_link = Tree(
        {"/site/x.so": library(needed=["libb.so"]), "/python/lib/libb.so": library()},
        links={"/python/bin/../lib/libb.so": "/python/lib/libb.so"},
    )
    program = Loaded("/python/bin/python3", told)
    assert closure(tree_with_link, "/site/x.so", process=(program,)).missing == []
    assert closure(tree, "/site/x.so").missing != []


def test_a_version_that_the_library_found_has_not_is_told() -> None:
    tree = Tree(
        {
            "/site/x.so": library(needed=["libs.so"], requires={"libs.so": ["S_1", "S_31"]}),
            "/lib/libs.so": library(defines=["libs.so", "S_1", "S_30"]),
        }
    )
    (lack,) = closure(tree, "/site/x.so").unversioned
    assert (lack.asks, lack.library, lack.version) == ("/site/x.so", "/lib/libs.so", "S_31")


def test_a_weak_version_and_a_library_without_any_are_no_fault() -> None:
    tree = Tree(
        {
            "/site/x.so": library(
                needed=["libs.so", "libt.so"], requires={"libs.so": ["S_31"], "libt.so": ["T_1"]}, weak=["S_31"]
            ),
            "/lib/libs.so": library(defines=["libs.so", "S_30"]),
            "/lib/libt.so": library(),
        }
    )
    assert closure(tree, "/site/x.so").unversioned == []


def test_one_file_under_two_names_is_loaded_once() -> None:
    tree = Tree(
        {"/bin/a": library(needed=["libb.so", "libb.so.1"]), "/lib/libb.so.1": library(soname="libb.so.1")},
        links={"/lib/libb.so": "/lib/libb.so.1"},
    )
    assert paths(closure(tree, "/bin/a")) == ["/bin/a", "/lib/libb.so"]


def test_a_file_that_is_not_there_has_no_closure() -> None:
    tree = Tree({})
    loader = Loader(Surroundings(read=tree.read, same=tree.same))
    assert loader.closure("/bin/gone") is None
