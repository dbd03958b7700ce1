"""Builds, smoke-tests and pins container images of ROCm LLM engines from declarative recipes."""

__version__ = "0.1.0"
