"""Builds the module with hipcc, for the targets that ROCM_IMAGES_PROBE_GFX names."""

import os
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildHip(build_ext):
    """Compiles a HIP source straight into the module, for the targets that are named and no others."""

    def build_extension(self, ext: Extension) -> None:
        """Write the module `ext` where setuptools looks for it."""
        targets = os.environ["ROCM_IMAGES_PROBE_GFX"].split(";")
        module = Path(self.get_ext_fullpath(ext.name))
        module.parent.mkdir(parents=True, exist_ok=True)
        self.spawn(
            [
                "hipcc", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                *(f"--offload-arch={target}" for target in targets),
                f"-isystem{sysconfig.get_path('include')}", *ext.sources, "-o", str(module),
            ]
        )  # fmt: skip


setup(
    ext_modules=[Extension("rocm_images_probe", ["rocm_images_probe.hip"])],
    cmdclass={"build_ext": BuildHip},
)
