import os
import sys
from pathlib import Path

import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

root = Path(__file__).parent.resolve()


def _get_version():
    with open(root / "pyproject.toml") as file:
        for line in file:
            if line.startswith("version"):
                return line.split("=")[1].strip().strip('"')


target = os.environ.get("AMDGPU_TARGET", "gfx942")
if torch.cuda.is_available():
    target = torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]

if target not in ["gfx942", "gfx950"]:
    print(f"Warning: Unsupported GPU architecture detected '{target}'. Expected 'gfx942' or 'gfx950'.")
    sys.exit(1)

setup(
    name="sglang-kernel",
    version=_get_version(),
    packages=find_packages(where="python"),
    package_dir={"": "python"},
    ext_modules=[
        CUDAExtension(
            name="sgl_kernel.common_ops",
            sources=["csrc/elementwise/pos_enc.cu"],
            extra_compile_args={"nvcc": [f"--offload-arch={target}"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
