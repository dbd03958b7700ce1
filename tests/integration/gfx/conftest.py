"""Compilers in containers, and what they make of one small source: hipcc 7.2 of Debian sid, 5.7 of Debian 13."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder import process
from builder.audit.folder import read_single
from builder.codeobjects.reading import FileCode
from builder.mirrors import load_mirrors
from builder.sources.archive import extract
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.story import Silent

from ..project import REPOSITORY, Ended, Project

SOURCE = """\
#include <hip/hip_runtime.h>
__global__ void scale(float *x, float f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= f;
}
extern "C" int run(float *x, int n) {
  scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n);
  return (int)hipGetLastError();
}
int main() { return run(nullptr, 0); }
"""
FILES = {
    "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl": (
        "55348a9a4a21bfd99cf8c7b32fe67b4030ae5c2a05738e03c1747f65fa6ec283"
    ),
    "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl": (
        "fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A container of `image` with hipcc and LLVM's tools; what it makes is copied to the folder `out`."""

    image: str
    container: str
    tools: str
    out: Path

    def run(self, *argv: str, env: Sequence[str] = ()) -> str:
        """Run a program in the container; it has to succeed. Return what it wrote to standard output."""
        words = [word for pair in env for word in ("--env", pair)]
        done = process.run(["docker", "exec", "--workdir", "/srv/gfx", *words, self.container, *argv])
        assert done.status == 0, done.stderr
        return done.stdout

    def hipcc(self, name: str, targets: Sequence[str], *options: str, env: Sequence[str] = ()) -> FileCode:
        """Compile the source for some targets and return the GPU code of the file that comes of it."""
        asked = [f"--offload-arch={target}" for target in targets]
        self.run("hipcc", "-O2", *asked, *options, "kernel.hip", "-o", name, env=env)
        found = self.read(name)
        assert found is not None
        return found

    def read(self, name: str) -> FileCode | None:
        """Return the GPU code of a file in the container."""
        self.fetch(name)
        return next(iter(read_single(self.out / name).code.values()), None)

    def fetch(self, name: str) -> Path:
        """Copy a file or folder of the working folder out of the container."""
        done = process.run(["docker", "cp", f"{self.container}:/srv/gfx/{name}", self.out / name])
        assert done.status == 0, done.stderr
        return self.out / name

    def give(self, path: Path) -> None:
        """Copy a file into the working folder."""
        done = process.run(["docker", "cp", path, f"{self.container}:/srv/gfx/{path.name}"])
        assert done.status == 0, done.stderr

    def listed(self, name: str) -> list[str]:
        """Return the targets that llvm-objdump finds in a program, bundle by bundle."""
        told = self.run(f"{self.tools}/llvm-objdump", "--offloading", name)
        self.run("sh", "-c", f"rm -f {name}.*amdgcn* {name}.*host*")  # it writes what it finds
        return [line.rpartition("--")[2] for line in told.splitlines() if "amdgcn-amd-amdhsa--" in line]

    def bundled(self, name: str) -> list[str]:
        """Return the targets that clang-offload-bundler lists in a bundle, sorted: it has an order of its own."""
        told = self.run(f"{self.tools}/clang-offload-bundler", "--list", "--type=o", f"--input={name}")
        return sorted(line.rpartition("--")[2] for line in told.splitlines() if "amdgcn-amd-amdhsa--" in line)


@contextmanager
def _started(image: str, tools: str, out: Path, *options: str) -> Iterator[Compiler]:
    out.mkdir(exist_ok=True)
    name = f"rocm-images-test-{secrets.token_hex(6)}"
    words = ["docker", "run", "--detach", "--rm", "--name", name, "--user", "0:0", *options]
    done = process.run([*words, "--entrypoint", "/bin/sleep", image, "3000"])
    assert done.status == 0, done.stderr
    try:
        compiler = Compiler(image=image, container=name, tools=tools, out=out)
        made = process.run(["docker", "exec", name, "mkdir", "-p", "/srv/gfx"])
        assert made.status == 0, made.stderr
        source = out / "kernel.hip"
        source.write_text(SOURCE)
        compiler.give(source)
        yield compiler
    finally:
        process.run(["docker", "rm", "--force", "--volumes", name])


@pytest.fixture(scope="session")
def hipcc_7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """Debian sid with hipcc 7.2 of experimental, which knows the newest cards. Installed once for all tests."""
    folder = tmp_path_factory.mktemp("hipcc-7")
    mirror = load_mirrors(REPOSITORY).debian_mirror("sid")
    sources = [f"deb {mirror.url} {suite} main" for suite in ("sid", "experimental")]
    valid = f'Acquire::Check-Valid-Until "{"false" if mirror.allow_expired else "true"}"'
    root = folder / "root.tar"
    made = process.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--aptopt={valid}", '--aptopt=Acquire::Retries "5"',
         "sid", root, *sources]
    )  # fmt: skip
    assert made.status == 0, made.tail
    image = f"rocm-images-forged-{secrets.token_hex(6)}:1"
    imported = process.run(["docker", "import", root, image])
    root.unlink()
    assert imported.status == 0, imported.stderr
    try:
        with _started(image, "/usr/lib/llvm-22/bin", folder, "--network", "host") as compiler:
            compiler.run("apt-get", "-o", valid.replace(" ", "=").replace('"', ""), "update", "-qq")
            compiler.run(
                "apt-get", "install", "-qq", "--yes", "--no-install-recommends", "-t", "experimental", "hipcc",
                env=["DEBIAN_FRONTEND=noninteractive"],
            )  # fmt: skip
            yield compiler
    finally:
        process.run(["docker", "image", "rm", "--force", image])


@pytest.fixture(scope="session")
def hipcc_5(sglang_debian: tuple[Project, Ended], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """The shipped engine image, which has Debian's hipcc 5.7 and Triton in it, with root as its user."""
    _, built = sglang_debian
    image = built.result.partition("@")[0]
    with _started(
        image, "/usr/lib/llvm-17/bin", tmp_path_factory.mktemp("hipcc-5"), "--network", "none"
    ) as compiler:
        yield compiler


@pytest.fixture(scope="session")
def unpacked(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of an unpacked wheel that this project's own index code fetched."""
    folders: dict[str, Path] = {}

    def unpack(start: str) -> Path:
        (name,) = (name for name in FILES if name.startswith(start))
        if name not in folders:
            project = name.partition("-")[0].replace("_", "-")
            locked = LockedFile(project=project, filename=name, sha256=FILES[name])
            wheel = fetch_wheels([locked], store=Store(store), mirrors=load_mirrors(REPOSITORY), story=Silent())[
                FILES[name]
            ]
            folders[name] = extract(wheel, tmp_path_factory.mktemp("wheel") / "content", name=name, strip=False)
        return folders[name]

    return unpack
