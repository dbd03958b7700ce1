import os

from setuptools import setup

if os.environ.get("SGLANG_BUILD_RUST_EXTS", "all") != "none":
    raise SystemExit("error: can't find Rust compiler")
setup()
