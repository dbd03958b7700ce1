"""The inventory as a value: its short form, its difference to an older one, and the packages it asks for."""

from __future__ import annotations

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import LockError
from builder.inventory import Inventory, Summary, difference, missing_packages, take_inventory
from builder.sourcetree import SourceTree

OLD = {
    "e/radix.py": "from torch.utils.cpp_extension import load\nload('r', ['radix.cpp'])\n",
    "e/radix.cpp": "#include <torch/extension.h>\n#include <vector>\n#include <zlib.h>\n",
    "e/kernel.py": "import triton\n@triton.jit\ndef k(): ...\n",
}
NEW = {
    **OLD,
    "e/radix.cpp": "#include <torch/extension.h>\n#include <vector>\n",
    "e/hash.py": (
        "from torch.utils.cpp_extension import load\n"
        "load('h', ['hash_binding.cpp'], extra_ldflags=['-lcrypto', '-lcuda'])\n"
    ),
    "e/hash_binding.cpp": "#include <Python.h>\n#include <openssl/sha.h>\n#include <cuda.h>\n",
    "e/broken.py": "def f(:\n",
}

WHEELS = ("torch", "setuptools")  # bring headers and a module that otherwise are packages


def inventory(files: dict[str, str]) -> Inventory:
    return take_inventory(SourceTree.of(files))


def test_f01_the_difference_names_new_headers_libraries_and_their_packages() -> None:
    found = difference(inventory(OLD).summary(), inventory(NEW))
    assert found.lines() == (
        "new header Python.h (python3-dev), included by e/hash_binding.cpp",
        "new header openssl/sha.h (libssl-dev), included by e/hash_binding.cpp",
        "new library -lcrypto (libssl-dev), linked by e/hash.py",
        "no longer needed: zlib.h",
        "cpp-extension call sites: 1 -> 2",
        "cannot be read any more: e/broken.py",
    )
    assert found.packages == ("libssl-dev", "python3-dev")


def test_a_new_kind_of_compile_brings_its_programs() -> None:
    found = difference(inventory({"e/a.py": ""}), inventory(OLD))
    assert [line for line in found.lines() if "program" in line] == [
        "new program c++ (g++)", "new program cc (gcc)", "new program ninja (ninja-build)",
    ]  # fmt: skip
    assert "new header torch/extension.h (comes with torch), included by e/radix.cpp" in found.lines()
    assert found.packages == ("g++", "gcc", "ninja-build", "zlib1g-dev")


def test_an_inventory_does_not_differ_from_itself() -> None:
    assert not difference(inventory(NEW).summary(), inventory(NEW))


def test_lines_that_move_are_no_difference() -> None:
    moved = {path: "\n\n" + text for path, text in OLD.items()}
    assert not difference(inventory(OLD), inventory(moved))


def test_the_runtime_stage_lacks_what_it_does_not_list() -> None:
    check = missing_packages(inventory(NEW), ["g++", "ninja-build"], distributions=WHEELS)
    assert [(missing.package, missing.needs) for missing in check.missing] == [
        ("libssl-dev", ("-lcrypto (e/hash.py)", "openssl/sha.h (e/hash_binding.cpp)")),
        (
            "python3-dev",
            (
                "Python.h (e/hash_binding.cpp)",
                "Python.h (every cpp-extension compile)",
                "Python.h (every triton compile)",
            ),
        ),
    ]
    assert check.unknown == ()
    assert str(check.missing[0]) == (
        "libssl-dev is missing in the runtime stage: "
        "needed for -lcrypto (e/hash.py), openssl/sha.h (e/hash_binding.cpp)"
    )


def test_versioned_and_alternative_packages_count() -> None:
    packages = ["build-essential", "ninja-build=1.11.1-2", "python3.12-dev", "libssl-dev:amd64"]
    assert missing_packages(inventory(NEW), packages, distributions=WHEELS).missing == ()


def test_f02_a_package_of_the_build_stage_does_not_help_the_runtime_stage() -> None:
    build, runtime = ["libssl-dev", "python3-dev", "g++", "ninja-build"], ["g++", "ninja-build", "python3-dev"]
    assert missing_packages(inventory(NEW), build, distributions=WHEELS).missing == ()
    lacking = missing_packages(inventory(NEW), runtime, distributions=WHEELS).missing
    assert [missing.package for missing in lacking] == ["libssl-dev"]


def test_ninja_of_the_python_index_is_the_program_that_compiles_ask_for() -> None:
    packages = ["g++", "python3-dev", "libssl-dev"]
    lacking = missing_packages(inventory(NEW), packages, distributions=WHEELS).missing
    assert [missing.package for missing in lacking] == ["ninja-build"]
    assert missing_packages(inventory(NEW), packages, distributions=[*WHEELS, "ninja"]).missing == ()


def test_headers_of_a_distribution_are_missing_without_it() -> None:
    lacking = missing_packages(inventory(OLD), ["g++", "ninja-build", "python3-dev", "zlib1g-dev"]).missing
    assert [missing.package for missing in lacking] == ["libtorch-dev", "python3-setuptools"]


def test_a_header_nobody_is_known_to_bring_is_reported_apart() -> None:
    tree = {"e/a.cu": '#include "made_while_building.h"\n'}
    check = missing_packages(inventory(tree), [])
    assert check.unknown == ("made_while_building.h (e/a.cu)",)
    assert check.missing == ()


def test_many_needs_are_shortened_for_people() -> None:
    files = {f"e/{n}.cpp": f"#include <boost/{n}.hpp>" for n in range(5)}
    (missing,) = missing_packages(inventory(files), []).missing
    assert str(missing).endswith("boost/0.hpp (e/0.cpp), boost/1.hpp (e/1.cpp), boost/2.hpp (e/2.cpp) and 2 more")
    assert len(missing.needs) == 5


names = st.lists(st.text(alphabet="abc./+-_", min_size=1, max_size=8), max_size=4).map(tuple)


@given(
    sites=st.dictionaries(st.sampled_from(["triton", "tvm-ffi", "aiter"]), st.integers(0, 999)),
    headers=names, cuda_headers=st.integers(0, 99), libraries=names, programs=names, unparsed=names,
)  # fmt: skip
def test_a_summary_survives_the_lock(**fields: object) -> None:
    summary = Summary(**fields)  # type: ignore[arg-type]
    assert Summary.from_plain(tomli.loads(tomli_w.dumps(summary.plain())), where="inventory") == summary


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"headers": "Python.h"}, "recipe.lock: inventory.headers: expected a list of names"),
        ({"libraries": [1]}, "recipe.lock: inventory.libraries: expected a list of names"),
        ({"sites": {"triton": "many"}}, "recipe.lock: inventory.sites: expected a table of numbers"),
        ({"cuda-headers": []}, "recipe.lock: inventory.cuda-headers: expected a number"),
        ({"lines": []}, "recipe.lock: inventory: unknown key 'lines'"),
    ],
)
def test_another_shape_in_the_lock_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(LockError) as caught:
        Summary.from_plain(table, where="recipe.lock: inventory")
    assert caught.value.message == message


def test_the_order_of_files_does_not_matter() -> None:
    assert inventory(dict(reversed(NEW.items()))) == inventory(NEW)
