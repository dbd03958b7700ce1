"""Builds skinny_gemms_int4_ext for the targets of PYTORCH_ROCM_ARCH, with no card, as EXTENSION_VERSION."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

FLAGS = ["-O3", "-DUSE_ROCM"]

setup(
    name="skinny-gemms-int4-ext",
    version=os.environ["EXTENSION_VERSION"],
    ext_modules=[
        CUDAExtension(
            "skinny_gemms_int4_ext", ["skinny_gemms_int4.cu"], extra_compile_args={"cxx": FLAGS, "nvcc": FLAGS}
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    packages=[],
    py_modules=[],
)
