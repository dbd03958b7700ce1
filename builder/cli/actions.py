"""What a step of GitHub's CI hands on: values for later steps and jobs, and the summary that people read.

Outside of it, where neither file is named in the environment, nothing happens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def set_outputs(values: Mapping[str, str]) -> None:
    """Append `name=value` lines to the file of the step's outputs. Values are one line each."""
    for name, value in values.items():
        if "\n" in value or "\r" in value:
            raise ValueError(f"an output is one line: {name}")
    _append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in values.items()))


def add_summary(markdown: str) -> None:
    """Append to the job's summary."""
    _append("GITHUB_STEP_SUMMARY", markdown.rstrip("\n") + "\n\n")


def _append(variable: str, text: str) -> None:
    if name := os.environ.get(variable):
        with Path(name).open("a", encoding="utf-8") as sink:
            sink.write(text)
