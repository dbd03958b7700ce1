"""Builds the engine's native kernels by upstream's own setup_rocm.py: for AMDGPU_TARGET, with no card.

Upstream runs that file by itself, past the packaging beside it, which is that of the CUDA build.
"""

import os
import runpy
from pathlib import Path

os.chdir(Path(__file__).resolve().parents[1])
runpy.run_path("setup_rocm.py", run_name="__main__")
