"""What failing programs really said, and what it is taken for. The texts are outputs of the tools themselves."""

from __future__ import annotations

import pytest

from builder.diagnosis import Circumstances, Diagnosis, diagnose

GCC_OPENSSL = """\
CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
RuntimeError: Error building extension 'hicache_hash_cpp': [1/2] c++ -MMD -MF hash_binding.o.d -O3 -std=c++17 -c \
/usr/lib/python3/dist-packages/sglang/srt/mem_cache/cpp_utils/hash_binding.cpp -o hash_binding.o
FAILED: [code=1] hash_binding.o
/usr/lib/python3/dist-packages/sglang/srt/mem_cache/cpp_utils/hash_binding.cpp:5:10: fatal error: openssl/sha.h: \
No such file or directory
    5 | #include <openssl/sha.h>
      |          ^~~~~~~~~~~~~~~
compilation terminated.
ninja: build stopped: subcommand failed.
RuntimeError: Failed to load HiCache native hash extension
"""
NINJA = """\
RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)
RuntimeError: Failed to load HiCache native hash extension
"""


def of(build: tuple[str, ...] = (), runtime: tuple[str, ...] = ()) -> Circumstances:
    return Circumstances(
        stages={"base.build": build, "base.runtime": runtime},
        writable=("/tmp", "/var/cache/engine"),
        env={"PATH": "/usr/bin:/bin", "HOME": "/home/engine", "TORCH_EXTENSIONS_DIR": "/srv/cache/torch"},
        user="engine",
    )


def told(evidence: str, circumstances: Circumstances) -> Diagnosis:
    found = diagnose(evidence, circumstances)
    assert found is not None
    return found


def test_f01_openssl_headers_in_no_stage_name_the_package_and_the_stage_to_add_it_to() -> None:
    assert told(GCC_OPENSSL, of(build=("g++",), runtime=("g++", "ninja-build"))) == Diagnosis(
        cause="the header openssl/sha.h is missing: libssl-dev is in no stage, and the runtime stage needs it",
        hint='add "libssl-dev" to base.runtime.apt',
        package="libssl-dev",
        stage="base.runtime",
    )


def test_f02_a_package_of_the_build_stage_only_is_told_apart_from_one_that_is_nowhere() -> None:
    assert told(GCC_OPENSSL, of(build=("libssl-dev=3.5.1-1",), runtime=("g++",))) == Diagnosis(
        cause=(
            "the header openssl/sha.h is missing: libssl-dev is installed in base.build only, "
            "and the runtime stage needs it"
        ),
        hint='add "libssl-dev" to base.runtime.apt',
        package="libssl-dev",
        stage="base.runtime",
    )


def test_a_package_that_is_listed_and_missing_all_the_same_was_taken_out() -> None:
    found = told(GCC_OPENSSL, of(runtime=("libssl-dev",)))
    assert found.cause == (
        "the header openssl/sha.h is missing although libssl-dev is in base.runtime.apt: "
        "something took it out of the image"
    )
    assert found.hint == "look for what deletes it, for example with: dpkg --verify libssl-dev"


def test_an_image_without_a_recipe_gets_advice_without_stages() -> None:
    assert told(GCC_OPENSSL, Circumstances()) == Diagnosis(
        cause="the header openssl/sha.h is missing from the image",
        hint="install libssl-dev in the image's final stage",
        package="libssl-dev",
    )


@pytest.mark.parametrize(
    "evidence",
    [
        "/tmp/smoke.hip.cpp:4:10: fatal error: 'cmath' file not found\n",
        "RuntimeError: Could not find standard C++ header 'cmath'. Add -v to your compilation command",
    ],
)
def test_f04_pruned_cpp_headers_are_the_compilers_package(evidence: str) -> None:
    found = told(evidence, of(runtime=("hipcc",)))
    assert found.cause == "the header cmath is missing: g++ is in no stage, and the runtime stage needs it"
    assert found.package == "g++"


def test_f04_a_compiler_listed_by_its_version_counts_as_listed() -> None:
    found = told("fatal error: 'cmath' file not found", of(runtime=("g++-14",)))
    assert found.cause.startswith("the header cmath is missing although g++-14 is in base.runtime.apt")


@pytest.mark.parametrize(
    "evidence",
    [
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set",
        "FileNotFoundError: [Errno 2] No such file or directory: 'gcc'",
        "/bin/sh: 1: gcc: not found",
        "bash: line 1: gcc: command not found",
        "bash: line 1: /usr/bin/gcc: No such file or directory",
    ],
)
def test_f06_a_missing_c_compiler_is_named_as_the_shell_or_python_or_triton_tell_it(evidence: str) -> None:
    found = told(evidence, of(build=("build-essential",)))
    assert found.cause == (
        "the program gcc is missing: build-essential is installed in base.build only, "
        "and the runtime stage needs it"
    )


def test_f07_ninja_in_no_stage_is_a_package_to_add() -> None:
    assert told(NINJA, of(build=("ninja-build",), runtime=("g++",))) == Diagnosis(
        cause=(
            "ninja, on the PATH as served, is missing: ninja-build is installed in base.build only, "
            "and the runtime stage needs it"
        ),
        hint='add "ninja-build" to base.runtime.apt',
        package="ninja-build",
        stage="base.runtime",
    )


def test_f07_ninja_that_is_installed_is_a_matter_of_the_path() -> None:
    assert told(NINJA, of(runtime=("ninja-build",))) == Diagnosis(
        cause="ninja is not on the PATH as served (/usr/bin:/bin) although ninja-build is in base.runtime.apt",
        hint="add the folder of ninja to PATH in image.env",
        package="ninja-build",
        stage="base.runtime",
    )


def test_missing_python_headers_are_the_development_package() -> None:
    evidence = (
        "hash_binding.cpp:1:10: fatal error: Python.h: No such file or directory\n    1 | #include <Python.h>"
    )
    found = told(evidence, of(build=("python3-dev",)))
    assert (found.package, found.stage) == ("python3-dev", "base.runtime")
    assert "the header Python.h is missing: python3-dev is installed in base.build only" in found.cause


@pytest.mark.parametrize(
    "evidence",
    [
        "/usr/bin/ld: cannot find -lcrypto: No such file or directory\ncollect2: error: ld returned 1 exit status",
        "ld.lld: error: unable to find library -lcrypto",
    ],
)
def test_a_missing_development_link_is_named_by_what_the_linker_asked_for(evidence: str) -> None:
    assert told(evidence, of()).cause == (
        "the library for -lcrypto is missing: libssl-dev is in no stage, and the runtime stage needs it"
    )


def test_f88_a_cache_outside_the_writable_directories_names_the_variable_that_points_there() -> None:
    evidence = (
        "OSError: [Errno 30] Read-only file system: '/srv/cache/torch/py313_cpu'\nRuntimeError: Failed to load"
    )
    assert told(evidence, of()) == Diagnosis(
        cause=(
            "/srv/cache/torch/py313_cpu cannot be written by user engine (TORCH_EXTENSIONS_DIR=/srv/cache/torch): "
            "read-only file system, it is in none of image.writable (/tmp, /var/cache/engine)"
        ),
        hint='add "/srv/cache/torch" to image.writable, or point TORCH_EXTENSIONS_DIR into one of them',
    )


def test_f88_a_declared_directory_of_somebody_else_is_a_matter_of_its_owner() -> None:
    found = told("PermissionError: [Errno 13] Permission denied: '/var/cache/engine/triton'", of())
    assert found.cause == (
        "/var/cache/engine/triton cannot be written by user engine: permission denied, "
        "although /var/cache/engine is in image.writable"
    )
    assert found.hint == "let the image make /var/cache/engine and give it to its user"


def test_f10_a_home_of_root_shows_where_it_comes_from() -> None:
    evidence = "PermissionError: [Errno 13] Permission denied: '/.triton'"
    circumstances = Circumstances(env={"HOME": "/"}, writable=("/tmp",), user="12345")
    found = told(evidence, circumstances)
    assert "/.triton cannot be written by user 12345 (HOME=/): permission denied" in found.cause
    assert found.hint == 'add "/.triton" to image.writable, or point HOME into one of them'


def test_a_variable_that_is_empty_sends_a_cache_to_the_working_directory() -> None:
    circumstances = Circumstances(env={"TORCH_EXTENSIONS_DIR": "", "HOME": "/"})
    assert told("OSError: [Errno 30] Read-only file system: 'hicache_hash_cpp'", circumstances).cause == (
        "hicache_hash_cpp is written relative to the working directory, which is read-only; "
        "these are empty: TORCH_EXTENSIONS_DIR"
    )


def test_a_refused_write_of_a_shell_tool_is_understood_too() -> None:
    found = told("mkdir: cannot create directory '/srv/cache/torch/a': Read-only file system", of())
    assert "TORCH_EXTENSIONS_DIR" in found.cause


def test_f36_a_symbol_version_that_the_base_lacks_is_the_file_that_asks_for_it() -> None:
    evidence = (
        "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.31' not found "
        "(required by /opt/aiter/jit/module_rmsnorm.so)"
    )
    assert told(evidence, of()).cause == (
        "/opt/aiter/jit/module_rmsnorm.so needs GLIBCXX_3.4.31, which this image's system libraries do not have"
    )


def test_f18_a_foreign_torchvision_is_recognised_by_its_operator() -> None:
    evidence = "RuntimeError: operator torchvision::nms does not exist"
    assert told(evidence, of()).cause.startswith("torchvision does not fit torch")


def test_f26_an_undefined_symbol_names_the_file_built_for_another_torch() -> None:
    evidence = "ImportError: /usr/lib/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"
    found = told(evidence, of())
    assert "/usr/lib/sgl_kernel/common_ops.abi3.so was built against other libraries" in found.cause


def test_a_library_that_is_only_opened_at_run_time_is_found_by_its_unversioned_name() -> None:
    found = told("OSError: libnuma.so: cannot open shared object file: No such file or directory", of())
    assert (found.package, found.stage) == ("libnuma-dev", "base.runtime")


def test_a_missing_python_module_of_debian_is_a_package_and_any_other_a_component() -> None:
    setuptools = told("ModuleNotFoundError: No module named 'setuptools'", of())
    assert setuptools.package == "python3-setuptools"
    other = told("ModuleNotFoundError: No module named 'sgl_kernel.infllm_v2'", of())
    assert other.cause == "the Python module sgl_kernel.infllm_v2 is not in the image"
    assert other.package is None


def test_a_gpu_the_compiler_does_not_know_is_named() -> None:
    evidence = "clang++-17: error: invalid target ID 'gfx1201'; format is a processor name followed by"
    assert told(evidence, of()).cause == "the compiler does not know gfx1201"


def test_a_loader_that_waits_for_a_stale_lock_is_told_from_the_place_where_it_hangs() -> None:
    evidence = (
        'Timeout (0:01:00)!\nThread 0x0 (most recent call first):\n  File "/x/file_baton.py", line 45 in wait'
    )
    assert "lock file that somebody left in /srv/cache/torch" in told(evidence, of()).cause


def test_a_wrapper_alone_is_no_cause() -> None:
    assert diagnose("RuntimeError: Failed to load HiCache native hash extension", of()) is None
    assert diagnose("RuntimeError: Error building extension 'hicache_hash_cpp'", of()) is None
    assert diagnose("", of()) is None


def test_a_compilers_word_wins_over_a_refused_write_beside_it() -> None:
    evidence = "mkdir -p failed for path /home/engine/.config: [Errno 30] Read-only file system: '/home/engine'\n"
    assert told(evidence + GCC_OPENSSL, of()).package == "libssl-dev"
