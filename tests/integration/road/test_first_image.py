"""The page about the first image, followed word by word: what it tells people to type is typed, in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
import yaml

from ..conftest import MakeProject
from ..project import COMMAND, REPOSITORY, SAFETY_SECONDS

pytestmark = [pytest.mark.engine, pytest.mark.network]

PAGE = REPOSITORY / "docs/first-image.md"
PLACE = "127.0.0.1:5000/mine"  # where the page publishes to
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def typed() -> list[str]:
    """Return the blocks of the page as a shell reads them. The first sets a machine up, and that is done."""
    blocks = [re.sub(r"(?m)^# ", "", block) for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    assert blocks[0].startswith("./quickstart\n")
    return blocks[1:]


def test_the_page_about_the_first_image_leads_to_one_that_is_pinned_in_a_deployment(make: MakeProject) -> None:
    home = make()
    made = home.workspace.root
    script = "\n".join(typed()).replace(PLACE, home.publish).replace("~/my-images", str(made))
    assert home.publish in script
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script], cwd=home.folder, capture_output=True, text=True, check=False,
        timeout=SAFETY_SECONDS, env=os.environ | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    record = json.loads(home.workspace.pin("warps").read_text())
    assert [patch["probe"]["found"] for patch in record["patches"]] == [{"before": 4, "after": 8}]
    compose = yaml.safe_load((made / "compose.yaml").read_text())
    assert compose["services"]["kernels"]["image"] == record["reference"]
    assert done.stdout.splitlines()[-1] == "8"
    assert len(home.tags("warps")) == 2
