"""Builds awq_gemv_hip_ext for the targets of PYTORCH_ROCM_ARCH, with no card, as EXTENSION_VERSION."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

FLAGS = ["-O3", "-DUSE_ROCM"]

setup(
    name="awq-gemv-hip-ext",
    version=os.environ["EXTENSION_VERSION"],
    ext_modules=[
        CUDAExtension("awq_gemv_hip_ext", ["awq_gemv_hip.cu"], extra_compile_args={"cxx": FLAGS, "nvcc": FLAGS})
    ],
    cmdclass={"build_ext": BuildExtension},
    packages=[],
    py_modules=[],
)
