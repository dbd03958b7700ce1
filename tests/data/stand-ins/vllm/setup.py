import os
import shutil

import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

if os.environ.get("VLLM_TARGET_DEVICE") != "rocm" or torch.version.hip is None:
    raise SystemExit("CMake Error: nvcc not found")
kernels = os.environ.get("TRITON_KERNELS_SRC_DIR")
if not kernels:
    raise SystemExit("CMake Error: [triton_kernels] git clone https://github.com/ROCm/triton.git: no network")
shutil.copytree(kernels, "vllm/third_party/triton_kernels")
setup(
    name="vllm",
    version=os.environ["VLLM_VERSION_OVERRIDE"],
    packages=find_packages(),
    package_data={"vllm": ["third_party/**/*.py"]},
    ext_modules=[CUDAExtension("vllm._rocm_C", ["csrc/rocm/skinny_gemms.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
