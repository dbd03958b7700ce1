import os
import shutil

from setuptools import setup

if os.environ.get("AITER_USE_SYSTEM_TRITON") != "1":
    raise SystemExit("install_triton.sh: no network to install another Triton from")
if os.environ.get("PREBUILD_KERNELS") != "0":
    raise SystemExit("PREBUILD_KERNELS: no device to tune on")
shutil.copytree("hsa", "aiter_meta/hsa")
open("aiter_meta/__init__.py", "w").close()
setup(
    name="amd-aiter",
    packages=["aiter", "aiter.ops", "aiter.ops.triton", "aiter_meta"],
    package_data={"aiter_meta": ["hsa/*/*.co"]},
)
