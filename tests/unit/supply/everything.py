"""A recipe with every kind of thing that can go into an image, its lock, and secrets where some can be written."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tomli

from builder.project import Prepared
from builder.reference import Digest

from ..recipe import samples
from ..recipe.on_disk import OnDisk

SECRET = "s3cr3t-t0k3n"
COMMIT = "fdebc938f7f4d16fe6b9f55dcd9a767cf0899ea1"
INNER = "0123456789abcdef0123456789abcdef01234567"
IMAGE = Digest("sha256:" + "d" * 64)
EPOCH = 1795252544
ROCM = "https://wheels.example.org/whl/rocm7.2"
_WORDS = f"""
reason = "without it the engine refuses"
upstream = "https://git.example.org/engine/pull/1?token={SECRET}"
drop-when = "engine 1.1 is out"
"""
TEXT = f"""
schema = 1
name = "probe"
description = "Every kind of thing"
engine = "engine"
gfx = ["gfx1201"]
python = "3.13"

[base.build]
image = "docker.io/rocm/dev:7.2.4-complete@sha256:{"b" * 64}"
apt = ["git"]

[base.runtime]
debian = {{ suite = "trixie" }}
apt = ["libstdc++6", "python3-torch"]

[source.engine]
git = "https://github.com/Example/Engine.git"
tag = "v1.0"
commit = "{COMMIT}"

[source.kernels]
git = "ssh://git@git.example.org/rocm/kernels"
branch = "main"
commit = "{INNER}"
submodules = false

[source.release]
sdist = "release.tool"
version = "2.0"

[source.archive]
archive = "https://files.example.org/archive-1.0.tar.gz"
sha256 = "{"e" * 64}"

[source.folder]
path = "folder"

[[component]]
name = "torch"
wheel = "torch"
version = "2.11.0+rocm7.2"
index = "{ROCM}"

[[component]]
name = "debian-torch"
apt = "python3-torch"
version = "2.6.0"

[[component]]
name = "numpy"
base = "numpy"
version = "2.2.4"

[[component]]
name = "engine"
source = "engine"
version = "1.0"

[[component]]
name = "kernels"
source = "kernels"
version = "0.1"
build = ["make install DESTDIR={{destdir}}"]

[[component]]
name = "release-tool"
source = "release"
version = "2.0"

[[component]]
name = "archive"
source = "archive"
version = "1.0"
build = ["make"]

[[component]]
name = "folder"
source = "folder"
version = "3"
build = ["make"]

[[patch]]
name = "connector"
target = "engine"
series = {{ directory = "patches/probe", made-for = "{COMMIT}" }}
{_WORDS}
[[patch]]
name = "wider"
target = "torch"
edit = {{ file = "torch/a.py", find = "1", replace = "2" }}
probe = {{ module = "torch.a", expression = "A", before = 1, after = 2 }}
{_WORDS}
[[patch]]
name = "capacity"
target = "engine"
hook = {{ module = "engine.b", attribute = "B", expect = 1, value = 2 }}
{_WORDS}
"""
LOCK = f"""
schema = 1
epoch = {EPOCH}

[source.engine]
tree = "{"1" * 40}"
commit = "{COMMIT}"
patched = "{"2" * 40}"

[[source.engine.submodule]]
path = "third_party/composable_kernel"
url = "https://oauth2:{SECRET}@git.example.org/rocm/composable_kernel.git"
commit = "{INNER}"

[source.kernels]
tree = "{"3" * 40}"
commit = "{INNER}"

[source.release]
file = "release_tool-2.0.tar.gz"
size = 5
sha256 = "{"4" * 64}"
index = "default"

[source.archive]
size = 6
sha256 = "{"e" * 64}"

[source.folder]
tree = "{"5" * 64}"

[[patch]]
name = "connector"
state = "applies"

[[patch.file]]
file = "patches/probe/0001-connector.patch"
sha256 = "{samples.digest("0001")}"
state = "applies"
hunks = 1

[[patch.file]]
file = "patches/probe/0002-more.patch"
sha256 = "{samples.digest("0002")}"
state = "redundant"
hunks = 1

[[deb]]
name = "libc6"
version = "2.41-12+deb13u1"
file = "pool/main/g/glibc/libc6_2.41-12+deb13u1_amd64.deb"
size = 1
sha256 = "{"6" * 64}"
stage = "base"

[[deb]]
name = "libstdc++6"
version = "14.2.0-19"
file = "pool/main/g/gcc-14/libstdc++6_14.2.0-19_amd64.deb"
size = 2
sha256 = "{"7" * 64}"
stage = "runtime"

[[deb]]
name = "python3-torch"
version = "1:2.6.0+dfsg-7"
file = "pool/main/p/pytorch/python3-torch_2.6.0+dfsg-7_all.deb"
size = 3
sha256 = "{"8" * 64}"
stage = "runtime"

[[python]]
project = "jinja2"
version = "3.1.6"
file = "jinja2-3.1.6-py3-none-any.whl"
sha256 = "{"9" * 64}"
layer = "dependencies"
index = "default"

[[python]]
project = "setuptools"
version = "80.9.0"
file = "setuptools-80.9.0-py3-none-any.whl"
sha256 = "{"a" * 64}"
layer = "engine.build"
index = "default"

[[python]]
project = "torch"
version = "2.11.0+rocm7.2"
file = "torch-2.11.0+rocm7.2-cp313-cp313-manylinux_2_28_x86_64.whl"
sha256 = "{"c" * 64}"
layer = "torch"
index = "{ROCM}"
"""
ABOVE = """
schema = 1
name = "above"
description = "One thing on another image"
gfx = ["gfx1201"]
python = "3.13"

[base.build]
recipe = "probe"

[base.runtime]
recipe = "probe"

[[component]]
name = "jinja2"
wheel = "jinja2"
version = "3.2.0"
"""
ABOVE_LOCK = f"""
schema = 1
epoch = {EPOCH}

[[python]]
project = "jinja2"
version = "3.2.0"
file = "jinja2-3.2.0-py3-none-any.whl"
sha256 = "{"f" * 64}"
layer = "jinja2"
index = "default"
"""


def everything(root: Path) -> Prepared:
    """Write the project and read it as the program does."""
    files = {"patches/probe/0001-connector.patch": "0001", "patches/probe/0002-more.patch": "0002"}
    (root / "images/probe/folder").mkdir(parents=True)
    return OnDisk(root=root, recipe=tomli.loads(TEXT), lock=tomli.loads(LOCK), files=files).prepared()


def above(root: Path) -> Prepared:
    """Return a preparation of an image on `everything`, as far as documents look at it."""
    below = everything(root)
    table = tomli.loads(ABOVE)
    lock = samples.Lock.model_validate({**tomli.loads(ABOVE_LOCK), "image": "above", "asked": {}})
    return dataclasses.replace(
        below, recipe=samples.recipe(ABOVE, **table), lock=lock, lock_hash="0" * 64, below={"probe": below}
    )
