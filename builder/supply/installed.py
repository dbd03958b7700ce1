"""Reads from a built image what the metadata of its Python distributions says of their licences."""

from __future__ import annotations

import secrets

from builder import foreign
from builder.engine import containers
from builder.errors import SmokeError
from builder.story import Story
from builder.supply.licences import Licence, licences

# Runs in the image, by its own Python. The first distribution of a name is the one that is imported.
_PROGRAM = """
import importlib.metadata, json
told = {}
for each in importlib.metadata.distributions():
    metadata = each.metadata
    told.setdefault(metadata["Name"], {
        "expression": metadata["License-Expression"], "license": metadata["License"],
        "classifiers": [text for text in metadata.get_all("Classifier") or () if text.startswith("License :: ")],
    })
print(json.dumps({name: table for name, table in told.items() if name}))
"""


def licences_in(image: str, story: Story) -> dict[str, Licence]:
    """Return the licences of the Python distributions of an image in the engine's store, by normal name.

    The same image gives the same answer: that is why the image is asked, and not whatever this machine has of it.
    """
    with (
        story.step("reading what licences the image declares"),
        containers.running(image, run=f"licences-{secrets.token_hex(4)}") as container,
    ):
        told = b"".join(containers.output(container.name, ["python3", "-c", _PROGRAM]))
    try:
        table = foreign.loads(told)
    except ValueError as error:
        raise SmokeError(f"{image}: its Python does not say what is installed") from error
    return licences(table)
