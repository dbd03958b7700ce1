"""Whose a file is: layers, distributions and packages tell, and the recipe answers for some of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from builder.audit.contents import COMPONENTS, MANIFEST, Contents
from builder.audit.owners import Owner, Owners, made_for
from builder.audit.subject import judge
from builder.codeobjects.reading import FileCode, read_file

from ..codeobjects import forge

SITE = "usr/local/lib/python3.13/dist-packages"


def code(*targets: str) -> FileCode:
    found = read_file(memoryview(forge.program(forge.bundle(*targets))))
    assert found is not None
    return found


def contents(paths: Mapping[str, int] | list[str], texts: Mapping[str, str], *, layers: int = 0) -> Contents:
    layer_of = dict(paths) if isinstance(paths, Mapping) else {}
    return Contents(
        code={path: code("gfx942") for path in paths}, texts=texts, layers=layers,
        layer_of=layer_of | ({COMPONENTS: layers - 1} if layers else {}),
    )  # fmt: skip


def manifest(**more: object) -> str:
    table = {
        "gfx": ["gfx1201"],
        "components": [
            {"name": "kernels"}, {"name": "engine"}, {"name": "rccl", "apt": "librccl1"},
            {"name": "torch", "base": "torch"},
        ],
        "distributions": {"Engine": {"layer": "engine"}, "bitsandbytes": {"layer": "dependencies"}},
    }  # fmt: skip
    return json.dumps(table | more)


def test_a_component_owns_its_layer() -> None:
    paths = {"opt/base.so": 0, "usr/local/bin/kernels": 3, f"{SITE}/bnb/rocm.so": 4, "srv/user": 2}
    texts = {
        MANIFEST: manifest(),
        COMPONENTS: json.dumps({"kernels": {}, "dependencies": {}}),
        f"{SITE}/bitsandbytes-0.50.2.dist-info/RECORD": "bnb/rocm.so,sha256=x,1\n",
    }
    owners = Owners(contents(paths, texts, layers=6))
    assert owners.of("usr/local/bin/kernels") == Owner(name="kernels")
    assert owners.of(f"{SITE}/bnb/rocm.so") == Owner(name="bitsandbytes")
    assert owners.of("opt/base.so") == Owner(name="base", judged=False)
    assert owners.of("srv/user") == Owner(name="base", judged=False)


def test_without_layers_distributions_and_packages_tell() -> None:
    paths = [f"{SITE}/engine/k.so", f"{SITE}/torch/lib/t.so", f"{SITE}/other/o.so", "usr/lib/librccl.so.1",
             "usr/lib/x86_64-linux-gnu/libamdhip64.so.5", "usr/local/bin/probe", "usr/local/bin/tool"]  # fmt: skip
    texts = {
        MANIFEST: manifest(),
        f"{SITE}/engine-1.0.dist-info/RECORD": 'engine/k.so,sha256=x,1\n../../../bin/tool,sha256=x,1\n"a,b",,\n',
        f"{SITE}/torch-2.6.0.dist-info/RECORD": "torch/lib/t.so,,\n",
        f"{SITE}/other_thing-2.dist-info/RECORD": "other/o.so,,\n",
        "var/lib/dpkg/info/librccl1:amd64.list": "/.\n/usr/lib/librccl.so.1\n",
        "var/lib/dpkg/info/libamdhip64-5.list": "/lib/x86_64-linux-gnu/libamdhip64.so.5\n",
    }
    owners = Owners(contents(paths, texts))
    assert [owners.of(path) for path in paths] == [
        Owner(name="engine"), Owner(name="torch"), Owner(name="other-thing", judged=False), Owner(name="rccl"),
        Owner(name="debian:libamdhip64-5", judged=False), Owner(name="unowned"), Owner(name="engine"),
    ]  # fmt: skip


def test_in_an_image_of_somebody_else_everything_is_judged() -> None:
    texts = {"var/lib/dpkg/info/rocblas.list": "/opt/rocm/lib/librocblas.so\n"}
    owners = Owners(contents(["opt/rocm/lib/librocblas.so", "opt/x.so"], texts))
    assert owners.of("opt/rocm/lib/librocblas.so") == Owner(name="debian:rocblas")
    assert owners.of("opt/x.so") == Owner(name="unowned")


def test_what_an_image_says_of_itself_may_be_anything() -> None:
    for text in ("", "[]", "{", '{"components": 3, "distributions": [], "gfx": "x"}', '{"components": [1, {}]}'):
        odd = contents(["a.so"], {MANIFEST: text, COMPONENTS: text, "x.dist-info/RECORD": ",,,\n\n", "y.list": ""})
        assert Owners(odd).of("a.so").name == "unowned"
        assert made_for(odd) == []


def test_f75_only_the_components_parts_fail() -> None:
    texts = {MANIFEST: manifest(), "var/lib/dpkg/info/librocfft.list": "/usr/lib/librocfft.so\n"}
    judged = judge(contents(["usr/lib/librocfft.so", "usr/local/lib/kernels.so"], texts), ["gfx1201"])
    assert [(part.path, part.missing) for part in judged.parts] == [
        ("usr/local/lib/kernels.so", ("gfx1201",)), ("usr/lib/librocfft.so", ("gfx1201",)),
    ]  # fmt: skip
    assert [part.path for part in judged.failed] == ["usr/local/lib/kernels.so"]


def test_a_component_made_for_other_targets_is_held_to_those_unless_somebody_asks_for_others() -> None:
    """AITER's precompiled kernels are for CDNA, also in an image for RDNA that never starts them."""
    record = {f"{SITE}/amd_aiter-0.1.19.dist-info/RECORD": "aiter_meta/hsa/k.co,,\n"}
    for told, failing in (({}, [f"{SITE}/aiter_meta/hsa/k.co"]), ({"gfx": ["gfx942"]}, [])):
        text = manifest(components=[{"name": "aiter", "base": "amd-aiter", **told}])
        there = contents([f"{SITE}/aiter_meta/hsa/k.co"], {MANIFEST: text, **record})
        assert [part.path for part in judge(there, ["gfx1201"], promised=True).failed] == failing
        assert judge(there, ["gfx1201"]).failed


def test_f75_a_distribution_that_is_built_from_source_is_judged_where_layers_are_not_told() -> None:
    """The lock lists wheels of indexes; in a container, what was built here was taken for the base's."""
    text = manifest(components=[{"name": "sglang-kernel", "source": "sglang"}], distributions={})
    texts = {MANIFEST: text, f"{SITE}/sglang_kernel-0.4.5.dist-info/RECORD": "sgl_kernel/ops.co,,\n"}
    (part,) = judge(contents([f"{SITE}/sgl_kernel/ops.co"], texts), ["gfx1201"], promised=True).failed
    assert (part.owner, part.missing) == ("sglang-kernel", ("gfx1201",))
