"""The files that a recipe repository begins with, and the recipe of an image that begins as a copy of another.

Knows the texts, and writes nothing.
"""

from __future__ import annotations

import json
import re

from pydantic import TypeAdapter, ValidationError

from builder import __version__, grammar
from builder.errors import RecipeError

OPEN = "OWNER/REPO and COMMIT"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9.:-]*(?:/[a-z0-9][a-z0-9._-]*)+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME_LINE = re.compile(r"^name[ \t]*=[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*')", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_NAME: TypeAdapter[str] = TypeAdapter(grammar.Name)

_IGNORED = """\
/.rocm-images/
/dist/
/mirrors.toml
"""

_EXAMPLE = """\
# A small image to begin with: Triton on Debian's own Python. It needs no vendor's registry, and no card to build.
schema = 1
name = "example"
description = "Triton on Debian 13, to see a recipe built, tested and pinned"
gfx = ["gfx1201"]
python = "3.13"

[base.build]
debian = { suite = "trixie" }
apt = ["python3"]

[base.runtime]
debian = { suite = "trixie" }
# Triton compiles its launcher on the first kernel, with the compiler and headers of this stage.
apt = ["gcc", "libc6-dev", "python3", "python3-dev"]

[[component]]
name = "triton"
wheel = "triton"
version = "3.6.0"
protected = true

[image]
writable = ["/tmp", "/var/cache/example"]
cmd = ["python3"]

[image.env]
HOME = "/var/cache/example"
TRITON_CACHE_DIR = "/var/cache/example/triton"

[smoke]
imports = ["triton"]
"""

_MIRRORS = """\
# Where this machine gets things from, if not from where recipes say. These lines count in mirrors.toml, which is
# not committed, and without the '#'; docs/mirrors.md of the program describes every key.
#
# wheelhouses = ["wheels"]
#
# [registries]
# "docker.io" = "registry.corp.example:5000/hub"
#
# [git]
# "https://github.com" = "https://git.corp.example/github"
#
# [indexes]
# default = "https://index.corp.example/simple"
"""

_IMAGES = """\
name: images
on:
  push: {{branches: [main], paths: [images/**, patches/**]}}
  workflow_dispatch:
jobs:
  images:
    uses: {program}/.github/workflows/images.yml@{commit} # v{version}
    permissions: {{contents: read, packages: write}}
{publish}  pins:
    needs: images
    uses: {program}/.github/workflows/pins.yml@{commit} # v{version}
    permissions: {{contents: write}}
"""

_BUMP = """\
name: bump
on:
  push: {{branches: [renovate/**]}}
jobs:
  bump:
    uses: {program}/.github/workflows/bump.yml@{commit} # v{version}
    permissions: {{contents: write, pull-requests: write}}
    with: {{base: main}}
"""

_FETCHABLE = """\
name: fetchable
on:
  schedule: [{{cron: "17 4 * * *"}}]
jobs:
  fetchable:
    uses: {program}/.github/workflows/fetchable.yml@{commit} # v{version}
    permissions: {{contents: read, packages: read}}
"""

_README = """\
# Images

Recipes of container images, built, smoke-tested and pinned by rocm-images.

| folder | what |
| --- | --- |
| `images/NAME/` | `recipe.toml`, which people and Renovate write, and `recipe.lock`, which the program writes |
| `patches/` | patch series of sources |
| `pins/` | records of published images, with the one reference to deploy |

## First steps

{steps}
"""


def files_of(
    *, example: bool, program: str | None = None, commit: str | None = None, publish: str | None = None
) -> dict[str, str]:
    """Return the files of a new recipe repository, by their path in it.

    `program` is OWNER/REPO of this program and `commit` the whole commit of it; without them the workflows have
    these words. `publish` is HOST/NAMESPACE. Raises `RecipeError` for a value that is none of these.
    """
    for option, value, form, expected in (
        ("--program", program, _REPOSITORY, "OWNER/REPO"),
        ("--program-ref", commit, _COMMIT, "40 hex digits, the whole commit"),
        ("--publish", publish, _NAMESPACE, "HOST/NAMESPACE in small letters"),
    ):
        if value is not None and not form.fullmatch(value):
            raise RecipeError(f"{option} {grammar.shown(value)}: expected {expected}")
    words = {
        "program": program or "OWNER/REPO",
        "commit": commit or "COMMIT",
        "version": __version__,
        "publish": f"    with: {{publish: {publish}}}\n" if publish else "",
    }
    preset = f"github>{words['program']}" + (f"({publish})" if publish else "")
    renovate = {
        "$schema": "https://docs.renovatebot.com/renovate-schema.json",
        "extends": ["config:recommended", "helpers:pinGitHubActionDigests", preset],
    }
    files = {
        ".gitignore": _IGNORED,
        "README.md": _README.format(
            steps=_steps(example=example, filled=program is not None and commit is not None)
        ),
        "mirrors.example.toml": _MIRRORS,
        "renovate.json": json.dumps(renovate, indent=2) + "\n",
        ".github/workflows/images.yml": _IMAGES.format(**words),
        ".github/workflows/bump.yml": _BUMP.format(**words),
        ".github/workflows/fetchable.yml": _FETCHABLE.format(**words),
    }
    return files | ({"images/example/recipe.toml": _EXAMPLE} if example else {"images/.gitkeep": ""})


def _steps(*, example: bool, filled: bool) -> str:
    steps = [
        "`git init`, if this is no repository yet.",
        "`rocm-images lock example`, then `rocm-images build example`: the first image, tested and pinned."
        if example
        else "`rocm-images adopt PATH/TO/Dockerfile --into images/NAME` drafts the first recipe; or write one.",
        "`rocm-images check` says what is not in order; it is what CI runs first.",
    ]
    if not filled:
        steps.append(
            f"In `.github/workflows/` and `renovate.json`, write the program's repository and commit for {OPEN}."
        )
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def check_name(name: str) -> None:
    """Check the name of an image. Raises `RecipeError`."""
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise RecipeError(f"the name of an image: {said}", hint="--name NAME") from error


def renamed(text: str, name: str, *, file: str) -> str:
    """Return the text of a recipe with another name; nothing else of it changes. Raises `RecipeError`."""
    table = _TABLE.search(text)
    head, rest = (text, "") if table is None else (text[: table.start()], text[table.start() :])
    changed, count = _NAME_LINE.subn(f'name = "{name}"', head)
    if count != 1:
        raise RecipeError(f"{file}: name: expected it once, on a line of its own, before all tables")
    return changed + rest
