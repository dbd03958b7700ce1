"""Real faults in what an image ships and says of itself, one per test, and the sound image without them.

The ids are those of the failure catalog in the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from builder.smoke.contract import OF_EVERY_IMAGE, Contract
from builder.smoke.findings import Finding

from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]
Forge = Callable[..., str]
SHIPS = "nothing is in the image that must not ship"
WARM = "no cache came along with the image"
NEVER = "no variable is set that must not be"
ONE_FINGERPRINT = "variable and label and manifest have one fingerprint"
MADE = "printf '\\177ELF\\2\\1\\1\\0\\0\\0\\0\\0\\0\\0\\0\\0\\4\\0' > /core"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.fixture(scope="module")
def looking(only: Only) -> Contract:
    """A contract about the files of the image, beside what every image is held to."""
    silent = {subject: "not looked at here" for subject in OF_EVERY_IMAGE if subject != "files"}
    return only(silent=silent)


def finding(run: Run, image: str, contract: Contract, title: str) -> Finding:
    """Return why the test of this title failed, which must be the only one."""
    report = run(image, contract)
    found = failed(report, title).finding
    assert found is not None
    assert [test.title for test in report.failed] == [title]
    return found


def test_the_sound_image_ships_nothing_it_must_not_and_keeps_its_promises(
    smoke: Run, looking: Contract, image: str, ours: object
) -> None:
    contract = replace(
        looking, paths=("/usr/local/bin/gfx-probe",), sizes={"image": 6 * 2**30}, required=("HOME",),
        cmd=("python3",), fingerprint=looking.env["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"].rpartition("/")[2],
        labels={"rocm-images.engine": "sglang"},
    )  # fmt: skip
    report = smoke(image, contract)
    assert report.passed, [(test.title, test.finding) for test in report.failed]
    run = {test.title for test in report.tests if test.outcome == "passed"}
    assert {
        SHIPS,
        WARM,
        NEVER,
        ONE_FINGERPRINT,
        "the variable is set by the image (HOME)",
    } <= run
    assert {"the path exists (/usr/local/bin/gfx-probe)", "the size is within its budget (image)"} <= run


MUST_NOT_SHIP = (
    (f"RUN {MADE}", "/core must not ship: a core dump, 18 bytes"),
    ("RUN printf 'https://me:secret@example.org' > /etc/pip.conf",
     "/etc/pip.conf must not ship: an address with a password, 29 bytes"),
    (f"RUN printf -- '{KEY}' > /etc/ssl/engine.pem", "/etc/ssl/engine.pem must not ship: a private key, 35 bytes"),
    ("RUN mkdir -p /opt/engine/.git && printf 'ref: refs/heads/main' > /opt/engine/.git/HEAD",
     "/opt/engine/.git must not ship: a git repository, 20 bytes"),
    ("RUN mkdir -p /opt/engine/build && touch /opt/engine/build/CMakeCache.txt",
     "/opt/engine/build must not ship: a build tree of CMake, 0 bytes"),
    ("RUN mkdir -p /root/.cache/pip/http && printf wheel > /root/.cache/pip/http/one",
     "/root/.cache/pip must not ship: pip's cache, 5 bytes"),
    ("RUN mkdir -p /root/.cache/uv && printf wheel > /root/.cache/uv/CACHEDIR.TAG",
     "/root/.cache/uv must not ship: uv's cache, 5 bytes"),
    ("RUN printf 'machine example.org' > /root/.netrc", "/root/.netrc must not ship: credentials, 19 bytes"),
    ("RUN printf deb > /var/lib/apt/lists/one",
     "/var/lib/apt/lists must not ship: apt's package lists, 3 bytes"),
)  # fmt: skip


def test_everything_that_must_not_ship_is_named_with_its_kind_and_size(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    found = finding(smoke, forge(*(instruction for instruction, _ in MUST_NOT_SHIP)), looking, SHIPS)
    assert found.details == tuple(told for _, told in MUST_NOT_SHIP)
    assert found.cause == f"{MUST_NOT_SHIP[0][1]}; and {len(MUST_NOT_SHIP) - 1} more"


def test_what_ships_for_a_reason_passes(smoke: Run, looking: Contract, forge: Forge, ours: object) -> None:
    image = forge("RUN mkdir -p /opt/engine/.git && echo 'ref: refs/heads/main' > /opt/engine/.git/HEAD")
    assert smoke(image, replace(looking, ships={"/opt/engine/.git": "a demonstration of git"})).passed


def test_f08_a_warm_extension_cache_that_a_loader_would_rebuild_in_place(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    cache = looking.env["TORCH_EXTENSIONS_DIR"]
    image = forge(f"RUN install -D -o 1000 -g 1000 /usr/bin/true {cache}/hash/hash.so")
    found = finding(smoke, image, looking, WARM)
    assert found.cause.startswith(
        f"{cache.rpartition('/')[0]} is in the image: a warm cache of torch extensions, "
    )


def test_a_lock_file_that_a_build_left_is_told_before_anything_waits_for_it(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    image = forge("RUN install -D /dev/null /root/.cache/torch_extensions/py313_cpu/hash/lock")
    found = finding(smoke, image, looking, WARM)
    assert found.cause == (
        "/root/.cache/torch_extensions/py313_cpu/hash/lock is in the image: "
        "a lock file of an extension that was being compiled, 0 bytes"
    )


def test_a_triton_cache_that_a_build_left(smoke: Run, looking: Contract, forge: Forge, ours: object) -> None:
    image = forge("RUN install -D /usr/bin/true /root/.triton/cache/abc/kernel.hsaco")
    found = finding(smoke, image, looking, WARM)
    assert found.cause.startswith("/root/.triton/cache is in the image: a warm cache of Triton, ")


def test_f13_a_path_that_a_program_shells_out_to(smoke: Run, looking: Contract, image: str, ours: object) -> None:
    wanted = "/opt/rocm/llvm/bin/amdgpu-arch"
    found = finding(smoke, image, replace(looking, paths=(wanted,)), f"the path exists ({wanted})")
    assert found.cause == f"{wanted} is not in the image"


@pytest.mark.parametrize("value", ["", "11.0.0"], ids=["even empty", "of another card"])
def test_f79_an_override_of_the_gpus_version(
    value: str, smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    image = forge(f"ENV HSA_OVERRIDE_GFX_VERSION={value}")
    contract = replace(looking, env={**looking.env, "HSA_OVERRIDE_GFX_VERSION": value})
    assert finding(smoke, image, contract, NEVER).cause == (
        "HSA_OVERRIDE_GFX_VERSION is set: even empty, it makes the runtime take the card for another one"
    )
    assert smoke(image, replace(contract, allowed=("HSA_OVERRIDE_GFX_VERSION",))).passed


def test_f14_settings_of_a_compiler_cache_in_an_image_that_nobody_declared(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    contract = replace(looking, silent={**looking.silent, "env": "nobody says it"})
    image = forge("ENV SCCACHE_BUCKET=builds AWS_SECRET_ACCESS_KEY=never-told")
    found = finding(smoke, image, contract, NEVER)
    assert found.cause == (
        "AWS_SECRET_ACCESS_KEY is set: of the machine that built the image; "
        "SCCACHE_BUCKET is set: a cache of the build's compiler"
    )
    assert "never-told" not in str(found)


def test_f90_a_setting_that_must_be_env_because_entrypoints_are_passed_over(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    name = "SGLANG_RDNA4_DISABLE_STORE_CACHE"
    script = f"RUN printf '#!/bin/sh\\nexport {name}=1\\nexec \"$@\"\\n' > /entry && chmod 755 /entry"
    contract = replace(looking, required=(name,), entrypoint=("/entry",))
    found = finding(
        smoke, forge(script, 'ENTRYPOINT ["/entry"]'), contract, f"the variable is set by the image ({name})"
    )
    assert found.cause == f"{name} is not set by ENV"
    assert found.hint is None
    allowed = replace(contract, allowed=(name,))
    assert smoke(forge(script, 'ENTRYPOINT ["/entry"]', f"ENV {name}=1"), allowed).passed


def test_f94_a_store_of_cache_pages_that_outlives_the_engine_that_wrote_them(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    name = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
    fingerprint = looking.env[name].rpartition("/")[2]
    moved = "/var/cache/rocm-images/hicache/mine"
    contract = replace(looking, fingerprint=fingerprint, env={**looking.env, name: moved})
    found = finding(
        smoke, forge(f"ENV {name}={moved}"), contract, "stored cache pages belong to this engine alone"
    )
    assert found.cause == f"{name}={moved} does not have the engine's fingerprint {fingerprint} in it"


def test_f94_a_label_that_names_another_engine(smoke: Run, looking: Contract, forge: Forge, ours: object) -> None:
    label = "rocm-images.fingerprint"
    fingerprint = looking.env["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"].rpartition("/")[2]
    contract = replace(looking, labels={label: fingerprint})
    found = finding(
        smoke, forge(f"LABEL {label}=0000"), contract, f"the label tells how to run the image ({label})"
    )
    assert found.cause == f"the label {label} is '0000' instead of '{fingerprint}'"


def test_f94_a_variable_that_names_another_engine(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    name = "ROCM_IMAGES_FINGERPRINT"
    contract = replace(looking, fingerprint=looking.env[name], env={**looking.env, name: "0000"})
    found = finding(smoke, forge(f"ENV {name}=0000"), contract, ONE_FINGERPRINT)
    assert found.cause == f"{name} has the fingerprint 0000, expected {looking.env[name]}"


def test_f83_a_label_that_does_not_say_which_groups_the_devices_need(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    label = "rocm-images.groups"
    contract = replace(looking, labels={label: "render,video"}, groups=("render", "video"))
    found = finding(smoke, forge(f"LABEL {label}="), contract, f"the label tells how to run the image ({label})")
    assert found.cause == f"the label {label} is '' instead of 'render,video'"


@pytest.mark.parametrize(
    ("part", "least"), [("triton", 600), ("dependencies", 300)], ids=["a-component", "the-dependencies"]
)
def test_a_part_that_outgrew_its_budget_is_named_with_the_largest_files(
    smoke: Run, looking: Contract, image: str, ours: object, part: str, least: int
) -> None:
    large = ("hf-xet", "jedi", "pillow", "transformers", "xgrammar")
    divided = tuple(f"dependencies.{each}" for each in (*range(1, 9), *large))
    layers = ("packages", "user", "workdir", *divided, "triton", "gfx-probe", "sglang", "manifest")
    contract = replace(looking, layers=layers, sizes={part: 2**20, "sglang": 2**30})
    found = finding(smoke, image, contract, f"the size is within its budget ({part})")
    held = re.match(rf"{part} holds ([0-9.]+) MiB, ", found.cause)
    assert held is not None
    assert float(held[1]) > least  # of all its layers together
    assert found.cause.endswith(" more than its 1.0 MiB")
    assert any(line.endswith("/triton/_C/libtriton.so") for line in found.details)


def test_f34_an_aiter_without_the_module_that_the_engine_imports(
    smoke: Run, looking: Contract, forge: Forge, ours: object
) -> None:
    site = "/usr/local/lib/python3.13/dist-packages"

    def brought(name: str, files: dict[str, str]) -> str:
        listed = "".join(f"{path},,\\n" for path in files)
        info = f"{site}/{name}-1.0.dist-info"
        made = [f"mkdir -p {info}", f"printf 'Name: {name}\\nVersion: 1.0\\n' > {info}/METADATA"]
        made.append(f"printf '{listed}' > {info}/RECORD")
        for path, text in files.items():
            made.append(f"mkdir -p $(dirname {site}/{path}) && printf '{text}' > {site}/{path}")
        return " && ".join(made)

    engine = brought("engine", {"engine/__init__.py": "from aiter.ops.triton.unified_attention import attend\\n"})
    new = brought("amd_aiter", {"aiter/__init__.py": "", "aiter/ops/triton/attention.py": "def attend(): pass\\n"})
    old = brought(
        "amd_aiter", {"aiter/__init__.py": "", "aiter/ops/triton/unified_attention.py": "def attend(): pass\\n"}
    )
    contract = replace(looking, contracts=(("engine", "amd-aiter"),))
    found = finding(
        smoke, forge(f"RUN {engine} && {new}"), contract, "the engine finds what it imports (engine -> amd-aiter)"
    )
    assert found.cause.startswith("engine -> amd-aiter: aiter.ops.triton.unified_attention: ")
    assert "engine/__init__.py:1" in found.cause
    assert smoke(forge(f"RUN {engine} && {old}"), contract).passed
