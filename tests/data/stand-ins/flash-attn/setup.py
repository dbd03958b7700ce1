import os

from setuptools import find_packages, setup

if os.environ.get("FLASH_ATTENTION_TRITON_AMD_ENABLE") != "TRUE":
    raise SystemExit("git submodule update --init csrc/composable_kernel: no network")
if os.environ.get("FLASH_ATTENTION_FORCE_BUILD") != "TRUE":
    raise SystemExit("guessing wheel URL: no network")
setup(name="flash_attn", version="2.8.3.post2", packages=find_packages())
