"""Real faults of Python sets and libraries, one per test, each made in a real image and told with whole messages.

The ids are those of the failure catalog in the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builder import process
from builder.smoke import probes
from builder.smoke.contract import OF_EVERY_IMAGE, Contract
from builder.smoke.pythonset import Accepted, LockedDistribution, PythonSet
from builder.smoke.run import SmokeReport

from .conftest import Run, failed

pytestmark = pytest.mark.engine

SITE = "/usr/local/lib/python3.13/dist-packages"
DEBIAN = "/usr/lib/python3/dist-packages"
LIB = "/usr/lib/x86_64-linux-gnu"
LOCKED = "the distributions are the locked ones"
SURPLUS = "no other distribution is there"
FILES = "the files are those of the locked wheels"
REQUIREMENTS = "declared requirements are met"
FORBIDDEN = "no forbidden distribution is there"
HARDWARE = "nothing is built for other hardware"
OPERATORS = "torchvision registers its operators"
MODULES = "compiled modules import"
STAMPS = "version stamps name a version"
MEANT = "every module is of the distribution that is meant"
REMNANTS = "no remnants of removed distributions are left"
NEEDED = "every needed library is found"
VERSIONS = "needed symbol versions are there"
TWICE = "no library is there twice with other content"
RELOCATIONS = "no library has text relocations"
PATHS = "search paths lead into the image"
# A distribution as pip leaves it: metadata and a record of it.
INSTALL = (
    "RUN cd {site} && mkdir {name}-{version}.dist-info && cd {name}-{version}.dist-info"
    " && printf 'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n' > METADATA && echo pip > INSTALLER"
    " && printf '{name}-{version}.dist-info/METADATA,,\\n{more}' > RECORD"
)
MODULE = (
    "RUN mkdir -p {folder} && touch {folder}/__init__.py && cd {folder}"
    " && printf '#include <Python.h>\\n{more}\\nstatic struct PyModuleDef m = "
    '{{PyModuleDef_HEAD_INIT, "{name}"}};'
    "\\nPyMODINIT_FUNC PyInit_{name}(void) {{ {body} return PyModule_Create(&m); }}\\n' > /tmp/m.c"
    " && gcc -shared -fPIC $(python3-config --includes) {flags} /tmp/m.c -o {name}.so {libraries}"
)

UNRESOLVED = "-Wl,--unresolved-symbols=ignore-all"

Only = Callable[..., Contract]
Forge = Callable[..., str]
About = Callable[..., Contract]


def installed(name: str, version: str, more: str = "") -> str:
    return INSTALL.format(site=SITE, name=name, version=version, more=more)


def module(folder: str, name: str, *, more: str = "", body: str = "", flags: str = "", libraries: str = "") -> str:
    return MODULE.format(
        folder=f"{SITE}/{folder}", name=name, more=more, body=body, flags=flags, libraries=libraries
    )


@pytest.fixture(scope="module")
def python_set(image: str) -> PythonSet:
    """What is locked for the sound image, as its own manifest says, with the records as they were installed."""

    def said(command: list[str]) -> str:
        done = process.run(["docker", "run", "--rm", "--network", "none", image, *command])
        assert done.status == 0, done.stderr
        return done.stdout

    manifest = json.loads(said(["cat", "/usr/share/rocm-images/manifest.json"]))
    command = probes.argv("/usr/bin/python3", "python_set", {"packages": []}, limit_seconds=120, token="t")
    answer = probes.read_answer(said(command), "t")
    assert answer is not None
    assert answer.ok, answer.evidence
    records = {
        each["name"].lower().replace("_", "-").replace(".", "-"): each["identity"]
        for each in answer.figures["distributions"]
        if each["identity"] is not None
    }
    sglang = next(each for each in answer.figures["distributions"] if each["name"] == "sglang")
    return PythonSet(
        distributions=tuple(
            LockedDistribution(project=name, record=records[name], **{key: told[key] for key in WHEEL})
            for name, told in manifest["distributions"].items()
        ),
        debian={"torch": "python3-torch", "torchvision": "python3-torchvision", "numpy": "python3-numpy"},
        protected=("numpy", "torch", "torchvision", "triton"),
        requires={sglang["name"]: ("numpy", "orjson", "transformers==5.12.1")},
        forbid=("flashinfer-*", "kernels", "nvidia-*", "sglang-kernel"),
    )


WHEEL = ("version", "layer", "file", "sha256")


@pytest.fixture(scope="module")
def about(only: Only, python_set: PythonSet) -> About:
    """Return the contract cut down to what tests about some subjects need."""

    def cut(*subjects: str, **changes: Any) -> Contract:
        silent = {each: "this test is about something else" for each in OF_EVERY_IMAGE if each not in subjects}
        return only(**({"python_set": python_set, "silent": silent} | changes))

    return cut


def cause(report: SmokeReport, title: str) -> str:
    """Return why a test failed."""
    finding = failed(report, title).finding
    assert finding is not None
    return finding.cause


def test_the_sound_image_passes_all_of_them(smoke: Run, about: About, image: str, ours: object) -> None:
    report = smoke(image, about(*OF_EVERY_IMAGE, dlopen=("libnuma.so.1", "libamdhip64.so.5")))
    assert [(test.title, test.finding) for test in report.failed] == []
    outcomes = {test.title: test.outcome for test in report.tests}
    titles = (
        LOCKED, SURPLUS, FILES, REQUIREMENTS, FORBIDDEN, HARDWARE, OPERATORS, MODULES, STAMPS, MEANT, REMNANTS,
        NEEDED, VERSIONS, TWICE, RELOCATIONS, PATHS, "the library opens by name (libnuma.so.1)",
    )  # fmt: skip
    assert {title: outcomes[title] for title in titles} == dict.fromkeys(titles, "passed")


def test_f03_a_library_that_slimming_took_out(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    told = cause(smoke(forge(f"RUN rm {LIB}/libnuma.so.1*"), about("installed", "libraries")), NEEDED)
    assert told.startswith("libnuma.so.1 is not found and needed by ")
    assert "/libhsa-runtime64.so" in told or "/libhsakmt.so" in told


def test_f03_a_library_that_is_only_opened_by_name(smoke: Run, about: About, image: str, ours: object) -> None:
    report = smoke(image, about("installed", "libraries", dlopen=("libnuma.so",)))
    assert [test.title for test in report.failed] == ["the library opens by name (libnuma.so)"]
    assert cause(report, "the library opens by name (libnuma.so)") == (
        "libnuma.so does not open: libnuma.so: cannot open shared object file: No such file or directory; "
        "there is libnuma.so.1"
    )


def test_f12_a_module_that_slimming_broke(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    image = forge(f"RUN truncate -s 100 {SITE}/PIL/_imaging.cpython-313-x86_64-linux-gnu.so")
    path = f"{SITE}/PIL/_imaging.cpython-313-x86_64-linux-gnu.so"
    report = smoke(image, about("installed", "modules"))
    assert cause(report, MODULES) == f"import PIL._imaging ({path}): ImportError: {path}: cannot read file data"
    assert cause(report, FILES) == f"pillow 13.0.0: 1 file is not as its RECORD says: {path}"


def test_f17_a_protected_triton_that_pip_replaced(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    new = f"{SITE}/triton-3.7.1.dist-info"
    image = forge(
        f"RUN cd {SITE} && mv triton-3.6.0.dist-info {new} && echo pip > {new}/INSTALLER"
        f" && sed -i 's/^Version: .*/Version: 3.7.1/' {new}/METADATA"
        f" && sed -i 's/triton-3.6.0/triton-3.7.1/' {new}/RECORD"
    )  # fmt: skip
    report = smoke(image, about("installed"))
    assert cause(report, LOCKED) == f"protected triton is 3.7.1 (installed by pip at {new}), locked is 3.6.0"


def test_f20_the_same_version_from_another_index(
    smoke: Run, about: About, python_set: PythonSet, forge: Forge, ours: object
) -> None:
    file = f"{SITE}/triton/language/core.py"
    image = forge(
        f"RUN echo '# built elsewhere' >> {file} && cd {SITE}/triton-3.6.0.dist-info"
        " && new=\"$(python3 -c 'import base64, hashlib; print(base64.urlsafe_b64encode("
        f'hashlib.sha256(open("{file}", "rb").read()).digest()).rstrip(b"=").decode())\')"'
        ' && sed -i "s|^triton/language/core.py,.*|triton/language/core.py,sha256=$new,1|" RECORD'
    )
    wheel = next(each for each in python_set.distributions if each.project == "triton")
    report = smoke(image, about("installed"))
    assert [test.title for test in report.failed] == [FILES]
    assert cause(report, FILES) == (
        f"triton 3.6.0 (installed by uv at {SITE}/triton-3.6.0.dist-info) is not what the locked {wheel.file} "
        "holds: its RECORD lists other files"
    )


def test_f18_a_torchvision_that_was_not_built_for_this_torch(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    report = smoke(forge(f"RUN rm {DEBIAN}/torchvision/_C*.so"), about("installed", "modules"))
    assert cause(report, OPERATORS) == (
        "import torchvision: torchvision does not fit torch: its operator torchvision::nms is not registered"
    )
    assert cause(report, FILES).startswith("package python3-torchvision: 1 file of it is gone: ")


def test_f19_a_cuda_torch_in_an_image_for_rocm(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    image = forge(installed("torch", "2.12.0+cu130"))
    report = smoke(image, about("installed", "modules", rocm="7.2.4"))
    where = f"(installed by pip at {SITE}/torch-2.12.0+cu130.dist-info)"
    assert cause(report, HARDWARE) == (
        f"torch 2.12.0+cu130 {where} is a CUDA build; torch 2.6.0+debian is not built for HIP "
        "(torch.version.hip is None), the image has ROCm 7.2.4"
    )
    assert (
        cause(report, LOCKED)
        == f"protected torch is 2.12.0+cu130 {where}, and hides that of package python3-torch"
    )


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        pytest.param("kernels", "kernels", id="f23"),
        pytest.param("flashinfer-python", "flashinfer-*", id="f24"),
        pytest.param("sglang-kernel", "sglang-kernel", id="f25"),
    ],
)
def test_f23_f24_f25_a_distribution_that_the_recipe_forbids(
    smoke: Run, about: About, forge: Forge, ours: object, name: str, pattern: str
) -> None:
    report = smoke(forge(installed(name, "0.15.0")), about("installed"))
    where = f"(installed by pip at {SITE}/{name}-0.15.0.dist-info)"
    assert cause(report, FORBIDDEN) == f"{name} 0.15.0 {where} is in the image, forbidden by {pattern!r}"
    assert cause(report, SURPLUS) == f"{name} 0.15.0 {where} is neither locked nor brought by a Debian package"


def test_f26_an_extension_with_a_symbol_that_torch_does_not_have(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    symbol = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSsOld"
    image = forge(
        module(
            "sgl_kernel", "common_ops", more=f"void {symbol}(void);", body=f"{symbol}();",
            flags=UNRESOLVED,
        )
    )  # fmt: skip
    path = f"{SITE}/sgl_kernel/common_ops.so"
    assert cause(smoke(image, about("installed", "modules")), MODULES) == (
        f"import sgl_kernel.common_ops ({path}): ImportError: {path}: undefined symbol: {symbol}"
    )


def test_f26_an_extension_that_crashes_does_not_hide_the_others(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    image = forge(
        module("a_kernel", "crashing", more="#include <stdlib.h>", body="abort();"),
        module("b_kernel", "broken", more="void gone(void);", body="gone();", flags=UNRESOLVED),
    )  # fmt: skip
    path = f"{SITE}/b_kernel/broken.so"
    assert cause(smoke(image, about("installed", "modules")), MODULES) == (
        f"import a_kernel.crashing ({SITE}/a_kernel/crashing.so): the process died of SIGABRT; "
        f"import b_kernel.broken ({path}): ImportError: {path}: undefined symbol: gone"
    )


def test_f28_a_library_beside_a_torch_that_it_does_not_take(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    image = forge(
        f"RUN sed -i '/^Version:/a Requires-Dist: torch==2.10.0' {SITE}/transformers-5.12.1.dist-info/METADATA"
    )
    assert cause(smoke(image, about("installed")), REQUIREMENTS) == (
        "transformers 5.12.1 asks for torch==2.10.0, the image has 2.6.0+debian"
    )


def test_f33_an_extension_for_another_abi_of_numpy(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    include = f"{DEBIAN}/numpy/_core/include"
    image = forge(
        f"RUN cp -rL {include} /tmp/include"
        " && sed -i 's/define NPY_VERSION .*/define NPY_VERSION 0x01000009/'"
        " /tmp/include/numpy/numpyconfig.h",
        module(
            "old_kernel", "ops", flags="-I/tmp/include -DNPY_NO_DEPRECATED_API=7",
            more="#include <numpy/arrayobject.h>", body="if (_import_array() < 0) return NULL;",
        ),
    )  # fmt: skip
    assert cause(smoke(image, about("installed", "modules")), MODULES) == (
        f"import old_kernel.ops ({SITE}/old_kernel/ops.so): RuntimeError: "
        "module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000"
    )


def test_f36_an_extension_for_a_newer_c_library(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    image = forge(
        "RUN mkdir /tmp/new && printf 'GLIBCXX_3.4.99 { global: newer; };' > /tmp/new/map"
        " && echo 'void newer(void) {}' > /tmp/new/s.c && gcc -shared -fPIC -Wl,--version-script=/tmp/new/map"
        " -Wl,-soname,libstdc++.so.6 /tmp/new/s.c -o /tmp/new/libstdc++.so.6",
        module(
            "aiter_kernel", "jit", more="void newer(void);", body="newer();", libraries="/tmp/new/libstdc++.so.6"
        )
        + " && rm -r /tmp/new",
    )
    path = f"{SITE}/aiter_kernel/jit.so"
    report = smoke(image, about(*OF_EVERY_IMAGE))
    assert cause(report, VERSIONS) == (
        f"/lib/x86_64-linux-gnu/libstdc++.so.6 has no GLIBCXX_3.4.99, needed by {path}"
    )
    assert cause(report, MODULES) == (
        f"import aiter_kernel.jit ({path}): ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: "
        f"version `GLIBCXX_3.4.99' not found (required by {path})"
    )


@pytest.mark.parametrize("version", [pytest.param("0.0.0", id="f39"), pytest.param("0.1.dev1+g3f1a2b4", id="f50")])
def test_f39_f50_a_version_that_a_build_stamped_because_it_knew_none(
    smoke: Run, about: About, forge: Forge, ours: object, version: str
) -> None:
    report = smoke(forge(installed("amd-aiter", version)), about("installed"))
    assert cause(report, STAMPS) == (
        f"amd-aiter is stamped {version}, which a build does that finds no version: "
        f"{SITE}/amd-aiter-{version}.dist-info"
    )


def test_f39_a_distribution_that_is_called_unknown(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    told = cause(smoke(forge(installed("UNKNOWN", "0.0.0")), about("installed")), STAMPS)
    assert told == f"the distribution at {SITE}/UNKNOWN-0.0.0.dist-info has no name"


def test_f76_two_libraries_of_one_name_in_one_process(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    build = "gcc -shared -fPIC -Wl,-soname,libamd_smi.so.26 /tmp/s.c -o"
    image = forge(
        f"RUN echo 'int smi(void) {{ return 1; }}' > /tmp/s.c && {build} {LIB}/libamd_smi.so.26"
        f" && ln -s libamd_smi.so.26 {LIB}/libamd_smi.so && ldconfig",
        module("hip_torch", "_C", more="int smi(void);", body="smi();", libraries="-lamd_smi"),
        f"RUN mkdir {SITE}/amdsmi && touch {SITE}/amdsmi/__init__.py"
        f" && echo 'int smi(void) {{ return 2; }}' > /tmp/s.c && {build} {SITE}/amdsmi/libamd_smi.so",
    )
    assert cause(smoke(image, about("installed", "libraries")), TWICE) == (
        f"libamd_smi.so.26 is there 2 times with other content: {LIB}/libamd_smi.so.26 and "
        f"{SITE}/amdsmi/libamd_smi.so"
    )


def test_an_unrelated_distribution_that_takes_over_the_engines_module(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    image = forge(
        installed("aiter", "0.14.0", more="aiter/__init__.py,,\\n"),
        f"RUN mkdir {SITE}/aiter && touch {SITE}/aiter/__init__.py",
    )
    assert cause(smoke(image, about("installed")), MEANT) == (
        "import aiter gives aiter 0.14.0, which is not amd-aiter"
    )


def test_a_folder_that_a_removed_distribution_left(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    image = forge(f"RUN mkdir -p {SITE}/aiter/ops/__pycache__")
    assert cause(smoke(image, about("installed")), REMNANTS) == (
        f"import aiter gives an empty module: {SITE}/aiter has no __init__ and belongs to no distribution"
    )


def test_a_locked_distribution_that_was_removed(smoke: Run, about: About, forge: Forge, ours: object) -> None:
    report = smoke(forge(f"RUN rm -r {SITE}/orjson {SITE}/orjson-*.dist-info"), about("installed"))
    assert cause(report, LOCKED) == "orjson 3.13.0 is locked and is not in the image"
    assert cause(report, REQUIREMENTS) == "sglang 0.5.16 asks for orjson, which is not in the image"


def test_text_relocations_and_search_paths_of_a_build_directory(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    image = forge(
        "RUN printf 'int here;\\n__asm__(\".text\\\\n.quad here\\\\n\");\\n' > /tmp/t.c"
        " && gcc -shared -Wl,-z,notext -Wl,-rpath,/build/lib:/tmp/lib /tmp/t.c -o /usr/local/lib/libt.so"
        " && gcc -shared -Wl,-rpath,/build/lib /tmp/t.c -Wl,-z,notext -o /usr/local/lib/libu.so"
    )
    report = smoke(image, about("installed", "libraries"))
    assert cause(report, RELOCATIONS) == (
        "/usr/local/lib/libt.so has text relocations (DT_TEXTREL); "
        "/usr/local/lib/libu.so has text relocations (DT_TEXTREL)"
    )
    assert cause(report, PATHS) == (
        "/usr/local/lib/libt.so looks for libraries in /tmp/lib, which its user can write to; "
        "/usr/local/lib/libu.so looks for libraries in /build/lib, which is not in the image"
    )


def test_what_a_recipe_accepts_passes_while_it_lasts_and_fails_when_it_has_ended(
    smoke: Run, about: About, forge: Forge, ours: object
) -> None:
    image = forge(f"RUN mkdir -p {SITE}/aiter/ops/__pycache__")
    accepted = Accepted(
        finding="remnant", subject=f"{SITE}/ai*", reason="nothing imports it", until="triton==3.6.0"
    )
    report = smoke(image, about("installed", accepted=(accepted,)))
    test = next(test for test in report.tests if test.title == REMNANTS)
    assert test.outcome == "passed"
    assert test.figures["accepted"] == [
        (
            f"import aiter gives an empty module: {SITE}/aiter has no __init__ and belongs to no distribution; "
            "accepted until triton==3.6.0: nothing imports it"
        )
    ]
    ended = smoke(image, about("installed", accepted=(replace(accepted, until="triton==3.5.0"),)))
    assert cause(ended, REMNANTS).endswith(
        f"smoke.accept: '{SITE}/ai*' ended: it was for triton==3.5.0, the image has triton 3.6.0"
    )


def test_without_a_lock_everything_else_is_tested_all_the_same(
    smoke: Run, about: About, image: str, ours: object
) -> None:
    report = smoke(image, about(*OF_EVERY_IMAGE, python_set=None))
    outcomes = {test.title: test.outcome for test in report.tests}
    assert (outcomes[LOCKED], outcomes[SURPLUS], outcomes[FORBIDDEN]) == ("skipped",) * 3
    assert (outcomes[FILES], outcomes[MODULES], outcomes[NEEDED], outcomes[TWICE]) == ("passed",) * 4
    assert cause(report, REQUIREMENTS).startswith("sglang 0.5.16 asks for ")
