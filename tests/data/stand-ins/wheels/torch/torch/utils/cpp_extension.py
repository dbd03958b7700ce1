"""Builds an extension for the targets it is told, as torch does it: by hipcc, and a module beside what that makes."""

import os
import subprocess
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

ROCM_HOME = os.environ.get("ROCM_PATH")


def CUDAExtension(name, sources, extra_compile_args=None, **others):
    made = Extension(name, sources)
    made.flags = (extra_compile_args or {}).get("nvcc", [])
    return made


class BuildExtension(build_ext):
    def build_extension(self, extension):
        flags = [flag for flag in extension.flags if flag.startswith("--offload-arch=")]
        named = [each for each in os.environ.get("PYTORCH_ROCM_ARCH", "").split(";") if each]
        flags = flags or [f"--offload-arch={each}" for each in named]
        module = extension.name.rpartition(".")[2]
        folder = Path(self.get_ext_fullpath(extension.name)).parent
        folder.mkdir(parents=True, exist_ok=True)
        print("up to", os.environ["MAX_JOBS"], "at once")
        command = [f"{ROCM_HOME}/bin/hipcc", *flags, *extension.sources, "-o", folder / f"{module}.co"]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        (folder / f"{module}.py").write_text(f"flags = {flags!r}\n")
