"""Real faults of images, one per test, each made in a real image and found with its cause, package and stage.

The ids are those of the failure catalog in the documentation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builder.errors import SmokeError
from builder.smoke.contract import ComponentVersion, Contract
from builder.smoke.run import require_passed

from .conftest import Run, failed

pytestmark = pytest.mark.engine

HASH = "the hash extension compiles from a cold cache"
HIP = "hipcc compiles and links a program (gfx1100)"
TRITON = "triton compiles a kernel from a cold cache (gfx1100)"
PATH = "the programs that compiles start are on the path"
PURGE_OPENSSL = "RUN dpkg --purge --force-depends libssl-dev"

Only = Callable[..., Contract]
Forge = Callable[..., str]


def test_f01_openssl_headers_in_no_stage(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    report = smoke(forge(PURGE_OPENSSL), only("sglang-hash", without="libssl-dev"))
    with pytest.raises(SmokeError) as raised:
        require_passed(report)
    assert raised.value.message == (
        "sglang-debian: smoke test 'the hash extension compiles from a cold cache' failed: "
        "the header openssl/sha.h is missing: libssl-dev is in no stage, and the runtime stage needs it"
    )
    assert raised.value.hint == 'add "libssl-dev" to base.runtime.apt'
    assert any("hash_binding.cpp:5:10: fatal error: openssl/sha.h" in line for line in raised.value.details)


def test_f02_openssl_headers_in_the_build_stage_only(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    report = smoke(forge(PURGE_OPENSSL), only("sglang-hash", without="libssl-dev", build="libssl-dev"))
    found = failed(report, HASH).finding
    assert found is not None
    assert found.cause == (
        "the header openssl/sha.h is missing: libssl-dev is installed in base.build only, "
        "and the runtime stage needs it"
    )
    assert (found.package, found.stage) == ("libssl-dev", "base.runtime")
    assert [test.title for test in report.failed] == [HASH]


def test_f04_cpp_headers_pruned_beside_a_working_hipcc(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    report = smoke(forge("RUN rm -r /usr/include/c++ && hipcc --version"), only("hipcc"))
    found = failed(report, HIP).finding
    assert found is not None
    assert found.cause == (
        "the header cmath is missing although g++ is in base.runtime.apt: something took it out of the image"
    )
    assert any("'cmath' file not found" in line for line in found.details)


def test_f06_no_host_compiler_for_tritons_launcher(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge("RUN rm /usr/bin/gcc /usr/bin/cc /usr/bin/c++ /usr/bin/g++")
    report = smoke(image, only("triton", without="g++"))
    for title in (PATH, TRITON):
        found = failed(report, title).finding
        assert found is not None
        assert found.cause == (
            "the program gcc is missing: g++ is installed in base.build only, and the runtime stage needs it"
        )


def test_f07_ninja_in_no_stage(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge("RUN dpkg --purge --force-depends ninja-build")
    report = smoke(image, only("sglang-hash", without="ninja-build"))
    for title in (PATH, HASH):
        found = failed(report, title).finding
        assert found is not None
        assert found.cause == (
            "ninja, on the PATH as served, is missing: ninja-build is in no stage, and the runtime stage needs it"
        )
        assert (found.package, found.stage) == ("ninja-build", "base.runtime")


def test_f07_ninja_in_a_folder_that_is_not_on_the_path(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge("RUN mkdir -p /opt/venv/bin && mv /usr/bin/ninja /opt/venv/bin/ninja")
    contract = only("sglang-hash")
    found = failed(smoke(image, contract), HASH).finding
    assert found is not None
    assert found.cause == (
        f"ninja is not on the PATH as served ({contract.env['PATH']}) although ninja-build is in base.runtime.apt"
    )
    assert found.hint == "add the folder of ninja to PATH in image.env"


def test_python_headers_missing(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge("RUN dpkg --purge --force-depends python3-dev python3.13-dev libpython3-dev libpython3.13-dev")
    report = smoke(image, only("sglang-hash", "triton", without="python3-dev", build="python3-dev"))
    for title in (HASH, TRITON):
        found = failed(report, title).finding
        assert found is not None
        assert found.cause == (
            "the header Python.h is missing: python3-dev is installed in base.build only, "
            "and the runtime stage needs it"
        )
        assert (found.package, found.stage) == ("python3-dev", "base.runtime")


def test_f10_a_home_at_the_root_for_a_user_without_a_name(
    smoke: Run, only: Only, forge: Forge, ours: object
) -> None:
    moved = {"HOME": "/", "TORCH_EXTENSIONS_DIR": "/.cache/torch_extensions"}
    image = forge("ENV " + " ".join(f"{name}={value}" for name, value in moved.items()), user="4711:4711")
    report = smoke(image, only("sglang-hash", user="4711:4711", env={**only().env, **moved}))
    home = failed(report, "the home directory takes files").finding
    assert home is not None
    assert home.cause.startswith("HOME=/ cannot be written, it is in none of image.writable")
    found = failed(report, HASH).finding
    assert found is not None
    assert "/.cache cannot be written by user 4711:4711 (HOME=/): read-only file system" in found.cause


def test_f88_a_cache_outside_the_writable_directories(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    # Where the user may write by its rights, and neither the contract nor a volume of the image lets it.
    cache = "/var/lib/torch_extensions"
    image = forge(f"RUN mkdir {cache} && chown 1000:1000 {cache}", f"ENV TORCH_EXTENSIONS_DIR={cache}")
    contract = only("sglang-hash", env={**only().env, "TORCH_EXTENSIONS_DIR": cache})
    found = failed(smoke(image, contract), HASH).finding
    assert found is not None
    assert (
        f"cannot be written by user 1000:1000 (TORCH_EXTENSIONS_DIR={cache}): read-only file system" in found.cause
    )
    assert found.cause.endswith(f"it is in none of image.writable ({', '.join(contract.writable)})")
    assert found.hint == f'add "{cache}" to image.writable, or point TORCH_EXTENSIONS_DIR into one of them'


def test_f88_a_cache_that_belongs_to_root(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    cache = only().writable[-1]
    report = smoke(forge(f"RUN chown -R 0:0 {cache} && chmod -R go-w {cache}"), only())
    found = failed(report, "the image itself gives its user the declared directories").finding
    assert found is not None
    assert found.cause == (
        f"{cache} cannot be written by user 1000:1000: permission denied, although {cache} is in image.writable"
    )


def test_f14_a_build_setting_that_leaked_into_the_image(
    smoke: Run, only: Only, forge: Forge, ours: object
) -> None:
    report = smoke(forge("ENV SCCACHE_BUCKET=builds"), only())
    found = failed(report, "the variables are the declared ones").finding
    assert found is not None
    assert found.cause == "SCCACHE_BUCKET is set and not declared"


def test_f90_a_variable_that_only_an_entrypoint_sets(smoke: Run, only: Only, image: str, ours: object) -> None:
    env = {**only().env, "SGLANG_RDNA4_DISABLE_STORE_CACHE": "1"}
    found = failed(smoke(image, only(env=env)), "the variables are the declared ones").finding
    assert found is not None
    assert found.cause == "SGLANG_RDNA4_DISABLE_STORE_CACHE is not set"


def test_f23_a_distribution_that_has_to_be_absent(smoke: Run, only: Only, image: str, ours: object) -> None:
    found = failed(
        smoke(image, only(absent=("transformers",))), "the distribution is absent (transformers)"
    ).finding
    assert found is not None
    assert found.cause.startswith("transformers ")
    assert found.cause.endswith("is in the image and has to be absent")


def test_f39_a_version_stamp_without_meaning(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge(
        'RUN meta="$(python3 -c \'import importlib.metadata as m; print(m.distribution("sglang")._path)\')"'
        ' && sed -i "s/^Version: .*/Version: 0.0.0/" "$meta/METADATA"'
    )
    sglang = ComponentVersion(name="sglang", version="0.5.16", distribution="sglang")
    found = failed(smoke(image, only(components=(sglang,))), "the version equals the pin (sglang)").finding
    assert found is not None
    assert found.cause == "component sglang: the distribution sglang is 0.0.0, pinned is 0.5.16"


def test_f15_a_declared_module_that_was_not_copied(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge(
        'RUN rm "$(python3 -c \'import importlib.util as u; print(u.find_spec("partial_json_parser").origin)\')"'
        " && rm -rf /usr/lib/python3*/*-packages/partial_json_parser/__pycache__"
    )
    found = failed(
        smoke(image, only(imports=("partial_json_parser",))), "the module imports (partial_json_parser)"
    ).finding
    assert found is not None
    assert found.cause == "import partial_json_parser finds an empty namespace: its files are not in the image"


def test_an_image_that_runs_as_root_instead_of_its_user(
    smoke: Run, only: Only, forge: Forge, ours: object
) -> None:
    report = smoke(forge("RUN true", user="0:0"), only())
    found = failed(report, "the image runs as the declared user").finding
    assert found is not None
    assert found.cause == "the image runs as root (0:0), declared is 1000:1000 (1000:1000)"


def test_a_volume_that_nobody_declared(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    report = smoke(forge("RUN mkdir /workspace && chown 1000:1000 /workspace", "VOLUME /workspace"), only())
    found = failed(report, "nothing else is writable").finding
    assert found is not None
    assert found.cause == "/workspace can be written and is not in image.writable"


def test_an_image_whose_user_does_not_exist_does_not_start(
    smoke: Run, only: Only, forge: Forge, ours: object
) -> None:
    report = smoke(forge("RUN true", user="nobody-knows"), only())
    assert not report.passed
    assert "nobody-knows" in str(report.failed[0].finding)
