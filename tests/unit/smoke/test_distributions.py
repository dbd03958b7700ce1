"""What an image's distributions are judged by, each problem with its whole message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from builder.smoke import distributions as judged
from builder.smoke.findings import Unfit
from builder.smoke.judging import Problem, require_none
from builder.smoke.pythonset import Accepted, LockedDistribution, PythonSet

SITE, DEBIAN = "/usr/local/lib/python3.13/dist-packages", "/usr/lib/python3/dist-packages"
ENVIRONMENT = {"python_version": "3.13", "sys_platform": "linux", "platform_machine": "x86_64"}


def installed(name: str | None, version: str | None, **changes: Any) -> dict[str, Any]:
    site = DEBIAN if changes.get("package") else SITE
    told = {
        "name": name, "version": version, "path": f"{site}/{name}-{version}.dist-info", "site": site,
        "installer": "uv", "requires": [], "tops": [], "package": None, "identity": "i", "origin": None,
        "changed": [], "gone": [],
    }  # fmt: skip
    return told | changes


def figures(*found: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "environment": ENVIRONMENT, "sites": [SITE, DEBIAN], "distributions": list(found), "claims": [],
        "remnants": [], "packages": {}, **changes,
    }  # fmt: skip


def locked(project: str, version: str, **changes: Any) -> LockedDistribution:
    return LockedDistribution(project=project, version=version, layer=project, **changes)


def causes(problems: Iterable[Problem]) -> list[str]:
    return [problem.cause for problem in problems]


TRITON = PythonSet(distributions=(locked("triton", "3.6.0"),), protected=("triton",))


def test_what_is_as_locked_is_no_problem() -> None:
    found = figures(
        installed("Triton", "3.6.0"), installed("zipp", "3.21.0", package="python3-zipp", identity=None)
    )
    for judge in (judged.differing, judged.surplus, judged.altered, judged.unmet, judged.forbidden):
        assert causes(judge(found, TRITON)) == []


def test_a_replaced_distribution_is_told_with_who_installed_it() -> None:
    found = figures(installed("triton", "3.7.1", installer="pip"))
    assert causes(judged.differing(found, TRITON)) == [
        f"protected triton is 3.7.1 (installed by pip at {SITE}/triton-3.7.1.dist-info), locked is 3.6.0"
    ]


def test_a_missing_distribution_is_told() -> None:
    assert causes(judged.differing(figures(), TRITON)) == [
        "protected triton 3.6.0 is locked and is not in the image"
    ]


def test_a_distribution_that_hides_a_protected_one_of_debian_is_told() -> None:
    found = figures(
        installed("torch", "2.12.1+cu130", installer="pip"), installed("torch", "2.6.0", package="python3-torch")
    )
    wanted = PythonSet(debian={"torch": "python3-torch"})
    assert causes(judged.differing(found, wanted)) == [
        (
            f"protected torch is 2.12.1+cu130 (installed by pip at {SITE}/torch-2.12.1+cu130.dist-info), "
            "and hides that of package python3-torch"
        )
    ]
    assert causes(judged.differing(figures(found["distributions"][1]), wanted)) == []


def test_what_nobody_locked_is_told_unless_the_base_is_of_others() -> None:
    found = figures(installed("nixl", "1.0", installer="pip"))
    assert causes(judged.surplus(found, PythonSet())) == [
        (
            f"nixl 1.0 (installed by pip at {SITE}/nixl-1.0.dist-info) is neither locked nor brought by "
            "a Debian package"
        )
    ]
    assert causes(judged.surplus(found, PythonSet(foreign_base="docker.io/rocm/dev"))) == []


def test_two_versions_in_one_folder_are_told_and_one_that_hides_debians_is_not() -> None:
    twice = figures(installed("triton", "3.6.0"), installed("triton", "3.7.1"))
    assert causes(judged.surplus(twice, TRITON)) == [
        f"triton is there twice: {SITE}/triton-3.6.0.dist-info and {SITE}/triton-3.7.1.dist-info"
    ]
    hidden = figures(installed("triton", "3.6.0"), installed("triton", "3.1", package="python3-triton"))
    assert causes(judged.surplus(hidden, TRITON)) == []


def test_altered_files_and_another_build_of_the_same_version_are_told() -> None:
    wanted = PythonSet(distributions=(locked("triton", "3.6.0", file="triton.whl", sha256="5" * 64, record="r"),))
    found = figures(installed("triton", "3.6.0", changed=["/a", "/b", "/c", "/d"], gone=["/e"]))
    assert causes(judged.altered(found, wanted)) == [
        "triton 3.6.0: 4 files are not as its RECORD says: /a, /b, /c, …",
        "triton 3.6.0: 1 file of its RECORD is gone: /e",
        (
            f"triton 3.6.0 (installed by uv at {SITE}/triton-3.6.0.dist-info) is not what the locked triton.whl "
            "holds: its RECORD lists other files"
        ),
    ]


def test_a_distribution_without_a_record_is_told() -> None:
    found = figures(installed("triton", "3.6.0", identity=None))
    assert causes(judged.altered(found, None)) == [
        (
            f"triton 3.6.0 (installed by uv at {SITE}/triton-3.6.0.dist-info) has no RECORD, "
            "so nobody can say what it brought"
        )
    ]


def test_altered_files_of_debian_packages_are_told() -> None:
    packages = {"python3-torch": {"installed": True, "changed": ["/usr/lib/x"], "gone": ["/y", "/z"]}}
    assert causes(judged.altered(figures(packages=packages), None)) == [
        "package python3-torch: 1 file is not what Debian ships: /usr/lib/x",
        "package python3-torch: 2 files of it are gone: /y, /z",
    ]


def test_what_a_patch_of_the_recipe_edits_in_a_debian_package_is_not_told() -> None:
    changed = [f"{DEBIAN}/torch/a.py", f"{DEBIAN}/torch/b.py"]
    packages = {"python3-torch": {"installed": True, "changed": changed, "gone": []}}
    assert causes(judged.altered(figures(packages=packages), PythonSet(edited=("torch/a.py",)))) == [
        f"package python3-torch: 1 file is not what Debian ships: {DEBIAN}/torch/b.py"
    ]


def test_requirements_are_held_with_markers_extras_and_what_extras_ask_for() -> None:
    found = figures(
        installed("vllm", "0.28.0", requires=[
            "torch==2.13.0", "gone; sys_platform == 'win32'", "uvicorn[standard]", "tests; extra == 'test'",
            "lib>=2",
        ]),
        installed("torch", "2.13.0+rocm7.2"),
        installed("uvicorn", "0.54", requires=["httptools; extra == 'standard'", "rust; extra == 'other'"]),
        installed("lib", "1.9"),
    )  # fmt: skip
    assert causes(judged.unmet(found, None)) == [
        "vllm 0.28.0 asks for lib>=2, the image has 1.9",
        'uvicorn 0.54 asks for httptools; extra == "standard", which is not in the image',
    ]
    chosen = PythonSet(extras={"vllm": ("test",)})
    assert 'vllm 0.28.0 asks for tests; extra == "test", which is not in the image' in causes(
        judged.unmet(found, chosen)
    )


def test_what_a_recipe_says_a_component_requires_counts_instead_of_its_metadata() -> None:
    found = figures(installed("sglang", "0.5.16", requires=["cuda-python>=13"]), installed("orjson", "3.0"))
    assert causes(judged.unmet(found, PythonSet(requires={"sglang": ("orjson",)}))) == []
    assert causes(judged.unmet(found, PythonSet(requires={"sglang": ("orjson>=4",)}))) == [
        "sglang 0.5.16 asks for orjson>=4, the image has 3.0"
    ]


def test_what_debians_packages_ask_of_each_other_is_debians_business() -> None:
    torch = installed("torch", "2.6.0", package="python3-torch", requires=["sympy==1.13.1", "networkx"])
    debians = installed("sympy", "1.13.3", package="python3-sympy")
    assert causes(judged.unmet(figures(torch, debians), None)) == []
    ours = installed("sympy", "1.14")
    assert causes(judged.unmet(figures(ours, torch, debians), None)) == [
        "torch 2.6.0 asks for sympy==1.13.1, the image has 1.14"
    ]


def test_a_requirement_that_is_none_is_told() -> None:
    found = figures(installed("old", "1", requires=["what (is this"]))
    assert causes(judged.unmet(found, None)) == ["old: its requirement 'what (is this' cannot be read"]


def test_what_is_forbidden_is_told_with_its_pattern() -> None:
    found = figures(installed("nvidia-cublas-cu12", "12.1"))
    assert causes(judged.forbidden(found, PythonSet(forbid=("flashinfer-*", "nvidia-*")))) == [
        (
            f"nvidia-cublas-cu12 12.1 (installed by uv at {SITE}/nvidia-cublas-cu12-12.1.dist-info) is in the "
            "image, forbidden by 'nvidia-*'"
        )
    ]


def torch(version: str, *, hip: str | None = None, cuda: str | None = None) -> dict[str, Any]:
    return {"version": version, "hip": hip, "cuda": cuda, "file": "/x", "rocm": None}


@pytest.mark.parametrize(
    ("told", "rocm", "expected"),
    [
        (torch("2.11.0+rocm7.2", hip="7.2.53211"), "7.2.4", []),
        (torch("2.6.0"), None, []),
        (torch("2.12.1", cuda="13.0"), None, ["torch 2.12.1 is built for CUDA 13.0"]),
        (
            torch("2.6.0"),
            "7.2.4",
            ["torch 2.6.0 is not built for HIP (torch.version.hip is None), the image has ROCm 7.2.4"],
        ),
        (torch("2.5", hip="6.4.1"), "7.2.4", ["torch 2.5 is built for HIP 6.4.1, the image has ROCm 7.2.4"]),
        ({"chain": [], "seconds": 1}, "7.2.4", []),
        (None, "7.2.4", []),
    ],
)
def test_torch_has_to_be_built_for_the_images_rocm(
    told: dict[str, Any] | None, rocm: str | None, expected: list[str]
) -> None:
    assert causes(judged.for_other_hardware(figures(), told, rocm)) == expected


def test_cuda_builds_and_libraries_are_told_whatever_the_recipe_says() -> None:
    found = figures(
        installed("torch", "2.12.0+cu130"), installed("nvidia-nccl-cu12", "2"), installed("nvidia-ml-py", "1")
    )
    assert causes(judged.for_other_hardware(found, None, None)) == [
        f"torch 2.12.0+cu130 (installed by uv at {SITE}/torch-2.12.0+cu130.dist-info) is a CUDA build",
        f"nvidia-nccl-cu12 2 (installed by uv at {SITE}/nvidia-nccl-cu12-2.dist-info) is a library of CUDA",
    ]


def raised(kind: str, message: str) -> dict[str, Any]:
    return {"chain": [{"type": kind, "message": message}], "seconds": 0.1}


@pytest.mark.parametrize(
    "message",
    [
        "/x/_C.so: undefined symbol: _ZN3c105ErrorC2E",
        "libamdhip64.so.7: cannot open shared object file: No such file or directory",
        "/lib/libstdc++.so.6: version `GLIBCXX_3.4.31' not found (required by /x/_C.so)",
        "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88",
        "dynamic module does not define module export function (PyInit__C)",
    ],
)
def test_a_compiled_module_that_does_not_fit_is_told_with_its_file(message: str) -> None:
    told = {
        "packages": {"k": {"seconds": 1}},
        "modules": {"k._C": raised("ImportError", message)},
        "files": {"k._C": "/k/_C.so"},
    }
    assert causes(judged.unusable(told)) == [f"import k._C (/k/_C.so): ImportError: {message}"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ModuleNotFoundError", "No module named 'tkinter'"),
        (
            "ImportError",
            "Bindings generation error. Submodule name should always start with a parent module name.",
        ),
    ],
)
def test_an_optional_part_of_a_package_that_imports_is_no_problem(kind: str, message: str) -> None:
    told = {"packages": {"k": {"seconds": 1}}, "modules": {"k._C": raised(kind, message)}, "files": {"k._C": "/k"}}
    assert causes(judged.unusable(told)) == []


def test_a_crash_is_told_and_a_package_that_fails_is_told_once() -> None:
    told = {
        "packages": {"a": raised("AssertionError", "libcudart is not there"), "b": {"seconds": 0}},
        "modules": {
            "a._x": raised("AssertionError", "libcudart"),
            "b._y": {"died": "the process died of SIGSEGV"},
        },
        "files": {"a._x": "/a", "b._y": "/b/_y.so"},
    }
    assert causes(judged.unusable(told)) == [
        "import b._y (/b/_y.so): the process died of SIGSEGV",
        "import a: AssertionError: libcudart is not there",
    ]


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ("No HIP GPUs are available", False),
        ("no ROCm-capable device is detected", False),
        ("Found no NVIDIA driver on your system", False),
        ("[Errno 2] No such file or directory: '/opt/rocm/bin/rocminfo'", False),
        ("GPU arch is not found", False),
        ("libcudart is not there", True),
        ("no HIP GPUs, because of /x/_C.so: undefined symbol: gone", True),
    ],
)
def test_a_package_that_asks_for_a_card_cannot_be_judged_without_one(message: str, counts: bool) -> None:
    told = {"packages": {"aiter": raised("RuntimeError", message)}, "modules": {}, "files": {}}
    assert bool(causes(judged.unusable(told))) is counts


def test_a_package_that_imports_a_broken_module_is_not_told_beside_it() -> None:
    broken = raised("ImportError", "/k/_C.so: file too short")
    told = {
        "packages": {"k": {"seconds": 0}, "engine": broken},
        "modules": {"k._C": broken, "engine._x": broken},
        "files": {"k._C": "/k"},
    }
    assert causes(judged.unusable(told)) == ["import k._C (/k): ImportError: /k/_C.so: file too short"]


@pytest.mark.parametrize(
    "version", ["0.0.0", "0", "0.0.0.dev0", "0+unknown", "0.0.0+g123", "0.1.dev1+gabc", "UNKNOWN"]
)
def test_a_version_without_meaning_is_told(version: str) -> None:
    assert causes(judged.misstamped(figures(installed("aiter", version)), None)) == [
        f"aiter is stamped {version}, which a build does that finds no version: {SITE}/aiter-{version}.dist-info"
    ]


@pytest.mark.parametrize("version", ["0.0.7", "0.1", "0.8.0", "1.0", "0.1.0.dev3", "2026.9.0"])
def test_a_low_version_is_a_version(version: str) -> None:
    assert causes(judged.misstamped(figures(installed("lib", version)), None)) == []


def test_a_version_without_meaning_that_is_locked_is_a_version_and_a_nameless_distribution_is_none() -> None:
    found = figures(installed("lib", "0.0.0"), installed("UNKNOWN", "1.0"), installed(None, None))
    assert causes(judged.misstamped(found, PythonSet(distributions=(locked("lib", "0.0.0"),)))) == [
        f"the distribution at {SITE}/UNKNOWN-1.0.dist-info has no name",
        f"the distribution at {SITE}/None-None.dist-info has no name",
    ]


def test_the_module_of_another_distribution_is_told() -> None:
    meant = installed("amd-aiter", "0.1.7", tops=["aiter", "aiter_meta"])
    assert causes(judged.mistaken(figures(meant))) == []
    other = installed("aiter", "0.14.0", tops=["aiter"])
    assert causes(judged.mistaken(figures(other))) == ["import aiter gives aiter 0.14.0, which is not amd-aiter"]


def test_two_that_brought_one_file_are_told_once() -> None:
    claims = [
        {"path": f"/s/cv2/{number}", "names": ["opencv-python", "opencv-python-headless"]} for number in "ab"
    ]
    assert causes(judged.mistaken(figures(claims=claims))) == [
        "opencv-python and opencv-python-headless have both brought /s/cv2/a"
    ]


def test_a_remnant_is_told_by_the_name_it_imports_under() -> None:
    assert causes(judged.remnants(figures(remnants=[f"{SITE}/triton"]))) == [
        f"import triton gives an empty module: {SITE}/triton has no __init__ and belongs to no distribution"
    ]


ACCEPTED = Accepted(
    finding="library", subject="libcuda*", reason="never opened without a card", until="triton==3.6.0"
)
CUDA = Problem(subject="libcuda.so.1", cause="libcuda.so.1 is not found")
OTHER = Problem(subject="libx.so", cause="libx.so is not found")


def test_an_accepted_problem_is_told_with_its_reason_and_end() -> None:
    assert require_none("library", [CUDA], [ACCEPTED], {"triton": "3.6.0"}) == [
        "libcuda.so.1 is not found; accepted until triton==3.6.0: never opened without a card"
    ]


@pytest.mark.parametrize(
    ("problems", "versions", "expected"),
    [
        ([CUDA, OTHER], {"triton": "3.6.0"}, "libx.so is not found"),
        (
            [CUDA],
            {"triton": "3.7.1"},
            (
                "libcuda.so.1 is not found; smoke.accept: 'libcuda*' ended: it was for triton==3.6.0, "
                "the image has triton 3.7.1"
            ),
        ),
        (
            [CUDA],
            {},
            (
                "libcuda.so.1 is not found; smoke.accept: 'libcuda*' ended: it was for triton==3.6.0, "
                "the image has triton not at all"
            ),
        ),
        ([], {"triton": "3.6.0"}, "smoke.accept: library 'libcuda*' excuses nothing in this image"),
    ],
)
def test_what_is_not_accepted_any_more_or_in_vain_fails(
    problems: list[Problem], versions: dict[str, str], expected: str
) -> None:
    with pytest.raises(Unfit) as caught:
        require_none("library", problems, [ACCEPTED], versions)
    assert caught.value.finding.cause == expected


def test_many_problems_are_counted_and_all_are_in_the_details() -> None:
    many = [Problem(subject=str(number), cause=f"problem {number}") for number in range(8)]
    with pytest.raises(Unfit) as caught:
        require_none("library", many, [], {})
    finding = caught.value.finding
    assert finding.cause == "problem 0; problem 1; problem 2; problem 3; problem 4; and 3 more"
    assert finding.details == ("problem 5", "problem 6", "problem 7")
