"""`rocm-images inspect` on images in layouts, as it is called where no engine is: what they say, and no guess."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from builder import render
from builder.cli.app import app
from builder.compare.foreign import told_by
from builder.errors import EngineError, RecipeError
from builder.outputs import inspect_output
from builder.patchledger import ledger

from ..audit.images import Layout, layer
from ..compare.conftest import PATCH, pair

GOLDENS = Path(__file__).resolve().parents[2] / "data/inspections"
TORCH = "opt/venv/lib/python3.12/site-packages/torch"
FOREIGN = {
    "usr/lib/os-release": b'PRETTY_NAME="Ubuntu 24.04.2 LTS"\nID=ubuntu\n',
    "opt/rocm-7.2.4/.info/version": b"7.2.4-81\n",
    f"{TORCH}/version.py": b"from typing import Optional\n\n__all__ = ['hip']\n__version__ = '2.11.0+rocm7.2'\n"
    b"debug = False\ncuda: Optional[str] = None\nhip: Optional[str] = '7.2.53211'\n",
    f"{TORCH}-2.11.0+rocm7.2.dist-info/METADATA": b"Name: torch\nVersion: 2.11.0+rocm7.2\n\nwords",
    f"{TORCH}-2.11.0+rocm7.2.dist-info/RECORD": b"torch/a.py,sha256=x,1000\ntorch/lib/b.so,,2000000\nRECORD,,\n",
    "opt/venv/lib/python3.12/site-packages/vllm-0.28.0.dist-info/METADATA": b"Name: vllm\nVersion: 0.28.0\n\n",
    "opt/venv/lib/python3.12/site-packages/vllm-0.28.0.dist-info/direct_url.json": json.dumps(
        {"url": "https://example.org/vllm.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    ).encode(),
    "usr/lib/python3/dist-packages/six.egg-info": b"Metadata-Version: 1.2\nName: six\nVersion: 1.16.0\n",
    "var/lib/dpkg/status": b"Package: libc6\nStatus: install ok installed\nVersion: 2.39-0\n\n"
    b"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n",
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without an engine, in a folder without recipes."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROCM_IMAGES_MIRRORS", raising=False)
    monkeypatch.chdir(tmp_path)


def inspected(*words: str) -> str:
    result = CliRunner().invoke(app, ["inspect", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def in_json() -> Any:
    told = json.loads(inspected("layout", "--json"))
    Draft7Validator(inspect_output()).validate(told)
    return told


def image(folder: Path, layers: list[bytes], config: dict[str, Any]) -> Path:
    layout = Layout(folder)
    described = layout.blob(json.dumps(config).encode())
    listed = [layout.blob(data) for data in layers]
    return layout.index(layout.blob(json.dumps({"config": described, "layers": listed}).encode()))


def foreign(folder: Path) -> Path:
    upper = {"opt/venv/.wh.gone": b"", "app/main.py": b"pass"}
    config = {
        "config": {
            "Env": ["PATH=/usr/bin", "PYTORCH_ROCM_ARCH=gfx942;gfx1201"], "Entrypoint": ["vllm", "serve"],
            "Labels": {"org.opencontainers.image.base.name": "docker.io/rocm/dev-ubuntu-24.04:7.2.4"},
        },
        "history": [
            {"created_by": "ADD file:1 in /"}, {"created_by": "ENV A=b", "empty_layer": True},
            {"created_by": "COPY app /app # buildkit"},
        ],
    }  # fmt: skip
    return image(folder, [layer(FOREIGN), layer(upper)], config)


def ours(folder: Path) -> Path:
    """An image of this program: base, packages, user, workdir, components, manifest, ledger of patches."""
    recipe, lock = pair(lambda table: table.update(patch=[PATCH]))
    said = render.manifest(recipe, lock, content_key="c" * 64, fingerprint="0123456789abcdef")
    stacked = {"dependencies": 10, "triton": 900, "kernels": 20, "sglang": 300}
    own = {
        "usr/share/rocm-images/manifest.json": json.dumps(said).encode(),
        "usr/share/rocm-images/components.json": json.dumps(
            {name: {"files": 1, "bytes": size * 1000} for name, size in stacked.items()}
        ).encode(),
    }
    proof = {"usr/share/rocm-images/patches.json": json.dumps(ledger(recipe, lock)).encode()}
    below = ["etc/base", "etc/packages", "etc/user", "srv/workdir"]
    files = [{name: name.encode()} for name in [*below, *stacked]]
    steps = [
        "mmdebstrap --variant=minbase trixie", "RUN sh /media/install-debs.sh 1795252544 # buildkit",
        "RUN sh /media/make-user.sh 1795252544 engine # buildkit", "WORKDIR /srv",
    ] + ["COPY /out/ / # buildkit"] * (len(stacked) + 2)  # fmt: skip
    config = {
        "config": {"Labels": {"rocm-images.content-key": "c" * 64}},
        "history": [{"created_by": step} for step in steps],
    }
    return image(folder, [layer(each) for each in [*files, own, proof]], config)


@pytest.mark.parametrize("name", ["ours", "foreign", "foreign-shallow"])
def test_what_is_in_an_image_is_shown_as_a_table(name: str, tmp_path: Path) -> None:
    (ours if name == "ours" else foreign)(tmp_path / "layout")
    shown = inspected("layout", *(["--shallow"] if name == "foreign-shallow" else []))
    assert re.sub(r"sha256:[0-9a-f]+", "sha256:…", shown) == (GOLDENS / f"{name}.txt").read_text()


def test_an_image_of_this_program_is_told_from_its_manifest_and_the_layers_above_it_alone(tmp_path: Path) -> None:
    folder = ours(tmp_path / "layout")
    manifest = json.loads(
        (folder / "blobs/sha256" / json.loads((folder / "index.json").read_text())["manifests"][0]["digest"][7:])
        .read_text()
    )  # fmt: skip
    for each in manifest["layers"][:-2]:
        (folder / "blobs/sha256" / each["digest"].removeprefix("sha256:")).unlink()
    told = in_json()
    assert told["made-by-rocm-images"] is True
    assert [each["owner"] for each in told["layers"]] == [
        "base", "packages", "user", "workdir", "dependencies", "triton", "kernels", "sglang", "manifest",
        "patches",
    ]  # fmt: skip
    assert [(each["name"], each["version"], each["unpacked"]) for each in told["components"]] == [
        ("torch", "2.6.0", None), ("triton", "3.6.0", 900_000), ("kernels", "1.0", 20_000),
        ("sglang", "0.5.16", 300_000),
    ]  # fmt: skip
    assert [each["size"] for each in told["layers"]] == [each["size"] for each in manifest["layers"]]
    assert told["size"] == sum({each["digest"]: each["size"] for each in manifest["layers"]}.values())
    assert [(each["name"], each["state"]) for each in told["patches"]] == [("capacity", "applies")]
    assert told["fingerprint"] == "0123456789abcdef"


def test_an_image_of_somebody_else_is_told_from_what_is_in_it(tmp_path: Path) -> None:
    foreign(tmp_path / "layout")
    told = in_json()
    assert told["made-by-rocm-images"] is False
    assert told["rocm"] == {"rocm-7.2.4": "7.2.4-81"}
    assert told["torch"] == {"version": "2.11.0+rocm7.2", "hip": "7.2.53211"}
    assert (told["gfx"], told["gfx-by"]) == (["gfx942", "gfx1201"], "PYTORCH_ROCM_ARCH")
    assert told["system"] == "Ubuntu 24.04.2 LTS"
    assert told["packages"] == {"libc6": "2.39-0"}
    assert [(each["name"], each["version"], each["size"], each["origin"]) for each in told["installed"]] == [
        ("six", "1.16.0", None, None), ("torch", "2.11.0+rocm7.2", 2_001_000, None),
        ("vllm", "0.28.0", None, f"https://example.org/vllm.git@{'a' * 40}"),
    ]  # fmt: skip
    assert [each["history"] for each in told["layers"]] == ["ADD file:1 in /", "COPY app /app # buildkit"]
    assert {told[key] for key in ("fingerprint", "content-key", "python")} == {None}


def test_what_an_image_does_not_say_is_unknown(tmp_path: Path) -> None:
    image(tmp_path / "layout", [layer({"bin/sh": b"x"})], {"config": {}})
    told = in_json()
    for key in ("bases", "gfx", "system", "torch", "fingerprint", "patches", "packages"):
        assert told[key] is None, key
    assert told["rocm"] == {}
    assert told["installed"] == []
    assert told["layers"][0]["history"] is None


def test_what_an_upper_layer_removes_is_not_in_the_image(tmp_path: Path) -> None:
    lower = layer({"site-packages/a-1.dist-info/METADATA": b"Name: a\nVersion: 1\n"})
    upper = layer(
        {"site-packages/.wh.a-1.dist-info": b"", "site-packages/a-2.dist-info/METADATA": b"Name: a\nVersion: 2"}
    )
    image(tmp_path / "layout", [lower, upper], {})
    installed = in_json()["installed"]
    assert [(each["name"], each["version"]) for each in installed] == [("a", "2")]


def test_a_layer_that_is_not_what_its_digest_says_is_refused(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "layout")
    digest = hashlib.sha256(layer(FOREIGN)).hexdigest()
    (folder / "blobs/sha256" / digest).write_bytes(layer(FOREIGN | {"etc/evil": b""}))
    result = CliRunner().invoke(app, ["inspect", "layout"])
    assert isinstance(result.exception, RecipeError)
    assert result.exception.message == f"layout: the layer sha256:{digest} has other bytes than its digest says"


def test_files_that_are_not_what_they_are_called_say_nothing() -> None:
    told = told_by(
        {
            "site-packages/x.dist-info/METADATA": "no fields",
            "site-packages/y-1.dist-info/METADATA": "Name: y\nVersion: 1\n",
            "site-packages/y-1.dist-info/RECORD": "y.py,,many\n",
            "site-packages/y-1.dist-info/direct_url.json": "[]",
            "site-packages/torch/version.py": "__version__ = compute()\nhip = None\n",
            "var/lib/dpkg/status": "\0\0",
        }
    )
    assert [(each.name, each.size, each.origin) for each in told.distributions] == [("y", None, None)]
    assert (told.hip, told.system, dict(told.rocm), dict(told.packages)) == (None, None, {}, {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tree"], "tree: no image"),
        (["./none"], "./none: no such file or folder"),
        (["layout", "--want", "gfx942"], "--want: goes with --gfx"),
        (["layout", "--gfx", "--shallow"], "--shallow: --gfx looks into every file"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    foreign(tmp_path / "layout")
    result = CliRunner().invoke(app, ["inspect", *words])
    assert isinstance(result.exception, RecipeError)
    assert result.exception.message == message


def test_no_registry_is_asked_for_an_image_that_was_built_here_alone() -> None:
    result = CliRunner().invoke(app, ["inspect", "rocm-images.local/probe:1"])
    assert isinstance(result.exception, EngineError)
    assert result.exception.message.startswith("no container engine answers")
