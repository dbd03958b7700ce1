"""What a recipe says of environment, labels and words is what BuildKit makes of the rendered Dockerfile."""

from __future__ import annotations

import secrets
from pathlib import Path

import docker
import pytest

from builder.engine.build import build_image
from builder.engine.client import info
from builder.lockfile import Lock
from builder.recipe import parse_recipe
from builder.render import render, served_environment
from builder.story import Silent

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[3]
GOLDENS = ROOT / "tests/data/goldens"
OF_THE_CONFIGURATION = ("ENV ", "LABEL ", "ENTRYPOINT ", "CMD ", "WORKDIR ", "EXPOSE ", "USER ", "VOLUME ")
RECIPES = sorted(path.parent.name for path in GOLDENS.glob("*/recipe.toml"))


@pytest.mark.parametrize("name", RECIPES)
def test_an_image_is_configured_as_its_recipe_says(name: str, tmp_path: Path, engine: docker.DockerClient) -> None:
    text = (GOLDENS / name / "recipe.toml").read_text(encoding="utf-8")
    recipe = parse_recipe(text, file="recipe.toml")
    lock = Lock(schema=1, image=name, epoch=1, asked={})
    last = render(recipe, lock, content_key="c0" * 32, fingerprint="f1" * 8).dockerfile.rpartition("\nFROM ")[2]
    instructions = last.replace(" \\\n", "\0").splitlines()
    kept = [one.replace("\0", " \\\n") for one in instructions if one.startswith(OF_THE_CONFIGURATION)]
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("\n".join(["FROM scratch", *kept]) + "\n", encoding="utf-8")
    tag = f"rocm-images.local/values-{secrets.token_hex(6)}:1"
    (tmp_path / "context").mkdir()
    build_image(
        tmp_path / "context", dockerfile=dockerfile, contexts={}, tag=tag, epoch=1, cache=False, story=Silent(),
        containerd_store=info().containerd_store, log=tmp_path / "log",
    )  # fmt: skip
    try:
        config = engine.images.get(tag).attrs["Config"]
    finally:
        engine.images.remove(tag)
    env = dict(entry.split("=", 1) for entry in config["Env"])
    served = served_environment(recipe, fingerprint="f1" * 8)
    assert {key: env[key] for key in served} == served
    assert set(env) - set(served) <= {"PATH"}  # which BuildKit gives to an image that has none
    assert config["Labels"]["org.opencontainers.image.title"] == recipe.name
    assert config["Labels"]["rocm-images.writable" if recipe.image.writable else "rocm-images.gfx"] == ",".join(
        recipe.image.writable or recipe.gfx
    )
    assert config["Cmd"] == list(recipe.image.cmd or ("/bin/sh",))
    assert (config.get("Entrypoint") or []) == list(recipe.image.entrypoint)
    assert config["WorkingDir"] == recipe.image.workdir
    assert config["User"] == f"{recipe.image.uid}:{recipe.image.uid}"
    assert set(config.get("Volumes") or ()) == set(recipe.image.writable)
    assert set(config.get("ExposedPorts") or ()) == {f"{port}/tcp" for port in recipe.image.expose}
