"""Dockerfiles: byte for byte as expected, clean for hadolint, and the same whatever the order of hashes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from builder import process
from builder.lockfile import Lock, parse_lock
from builder.recipe import Recipe, parse_recipe
from builder.recipefiles import recipe_text
from builder.render import manifest, render, served_environment
from builder.workspace import Workspace

from . import dockerfile, samples

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
GOLDENS = sorted((ROOT / "tests/data/goldens").iterdir())
SMALL = [folder for folder in GOLDENS if (folder / "recipe.toml").exists()]
HERE = Workspace(root=ROOT)
SHIPPED = sorted(path.parent for path in ROOT.glob("images/*/recipe.toml"))
LOCKED = [folder for folder in SHIPPED if (folder / "recipe.lock").exists()]
KEY, FINGERPRINT = "c0" * 32, "f1" * 8


def rendered(recipe: Recipe, lock: Lock) -> str:
    return render(recipe, lock, content_key=KEY, fingerprint=FINGERPRINT).dockerfile


def load(folder: Path) -> tuple[Recipe, Lock]:
    """Return a recipe with its own lock, or with one made for the test; the time is the same for all."""
    shipped = folder.parent == ROOT / "images"
    text = recipe_text(HERE, folder.name) if shipped else (folder / "recipe.toml").read_text(encoding="utf-8")
    recipe = parse_recipe(text, file="recipe.toml", name=folder.name)
    own = folder / "recipe.lock"
    lock = (
        parse_lock(own.read_text(encoding="utf-8"), file="recipe.lock") if own.exists() else samples.lock(recipe)
    )
    return recipe, lock.model_copy(update={"epoch": samples.EPOCH})


def golden(folder: Path) -> Path:
    return ROOT / "tests/data/goldens" / folder.name / "Dockerfile"


@pytest.mark.parametrize("folder", [*SMALL, *SHIPPED], ids=lambda folder: folder.name)
def test_a_dockerfile_is_the_golden_one_byte_for_byte(folder: Path) -> None:
    assert rendered(*load(folder)).encode() == golden(folder).read_bytes()


def test_every_golden_has_a_recipe() -> None:
    assert {folder.name for folder in GOLDENS} == {folder.name for folder in [*SMALL, *SHIPPED]}
    assert len(SMALL) >= 5


def test_hadolint_has_nothing_to_say_about_any_golden() -> None:
    done = process.run([BIN / "hadolint", "--no-color", *(golden(folder) for folder in [*SMALL, *SHIPPED])])
    assert (done.status, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("folder", LOCKED, ids=lambda folder: folder.name)
def test_hadolint_has_nothing_to_say_about_what_is_shipped(folder: Path, tmp_path: Path) -> None:
    done = process.run([BIN / "rocm-images", "--root", ROOT, "render", folder.name])
    assert done.status == 0, done.stderr
    (tmp_path / "Dockerfile").write_text(done.stdout)
    linted = process.run([BIN / "hadolint", "--no-color", tmp_path / "Dockerfile"])
    assert (linted.status, linted.stdout + linted.stderr) == (0, "")


@pytest.mark.parametrize("folder", [*SMALL[:2], *SHIPPED], ids=lambda folder: folder.name)
def test_a_dockerfile_does_not_depend_on_the_order_of_hashes(folder: Path) -> None:
    program = f"from tests_recipe.test_render import *; sys.stdout.write(rendered(*load(Path({str(folder)!r}))))"
    load_tests = (
        "import importlib.util as u, sys; "
        f"s = u.spec_from_file_location('tests_recipe', {str(Path(__file__).parent / '__init__.py')!r}, "
        f"submodule_search_locations=[{str(Path(__file__).parent)!r}]); "
        "sys.modules['tests_recipe'] = u.module_from_spec(s); "
    )
    texts = set()
    for seed in ("1", "2", "4242"):
        done = process.run([sys.executable, "-c", load_tests + program], env={"PYTHONHASHSEED": seed})
        assert done.status == 0, done.stderr
        texts.add(done.stdout)
    assert texts == {golden(folder).read_text(encoding="utf-8")}


@pytest.mark.parametrize("folder", [*SMALL, *SHIPPED], ids=lambda folder: folder.name)
def test_every_layer_has_an_owner_and_its_own_copy(folder: Path) -> None:
    recipe, lock = load(folder)
    made = render(recipe, lock, content_key=KEY, fingerprint=FINGERPRINT)
    final = dockerfile.parse(made.dockerfile.rpartition("\nFROM ")[2])
    copies = [one.rest for one in final if one.keyword == "COPY"]
    stages = {"manifest": "layout", "edits": "edits", "hooks": "hooks", "patches": "probes"}
    added = [owner for owner in made.owners if owner not in ("packages", "user", "workdir")]
    assert copies == [f"--link --from={stages.get(name, f'component-{name}')} /out/ /" for name in added]
    assert "manifest" in added
    runs = sum(one.keyword == "RUN" for one in final)
    packages = sum(
        one.keyword == "RUN"
        for one in dockerfile.parse(made.dockerfile.partition(" AS runtime-packages\n")[2].partition("\nFROM ")[0])
    )
    assert (made.owners[0] == "packages") == (packages == 1)
    assert runs == 1  # the user


@pytest.mark.parametrize("folder", [*SMALL, *SHIPPED], ids=lambda folder: folder.name)
def test_no_step_but_the_installation_on_a_published_base_has_a_network(folder: Path) -> None:
    recipe, lock = load(folder)
    for one in dockerfile.parse(rendered(recipe, lock)):
        if one.keyword == "RUN" and not one.rest.startswith("--network=none "):
            assert one.rest.startswith("--mount=type=secret,id=ca-bundle ")
            assert '; apt-get -o "Acquire::https::CaInfo=$ca" update ' in " ".join(one.rest.split())
            assert recipe.base.build.image or recipe.base.runtime.image


def test_what_is_served_says_home_and_fills_in_what_it_promises() -> None:
    recipe, _ = load(ROOT / "tests/data/goldens/environment")
    served = served_environment(recipe, fingerprint=FINGERPRINT)
    assert served["HOME"] == "/home/engine"
    assert served["KV"] == f"/var/cache/kv/{FINGERPRINT}"
    assert served["ARCH"] == "gfx1100"
    assert served["DOLLAR"] == recipe.image.env["DOLLAR"]
    assert list(served) == sorted(served)


def test_the_manifest_lists_components_distributions_packages_and_the_contract() -> None:
    recipe = samples.recipe()
    made = manifest(recipe, samples.lock(recipe), content_key=KEY, fingerprint=FINGERPRINT)
    components = made["components"]
    assert isinstance(components, list)
    assert [component["name"] for component in components] == ["torch", "triton", "kernels", "sglang"]
    assert components[0] == {
        "name": "torch", "version": "2.6.0", "apt": "python3-torch", "package-version": "1.0-1"
    }  # fmt: skip
    assert components[1]["wheel"] == "triton-3.6.0-py3-none-any.whl"
    assert components[2]["tree"] == samples.digest("kernels")
    assert made["packages"] == {
        "bash": "1.0-1", "hipcc": "1.0-1", "ninja-build": "1.0-1", "python3": "1.0-1", "python3-torch": "1.0-1"
    }  # fmt: skip
    contract = made["contract"]
    assert isinstance(contract, dict)
    assert contract["env"]["KV"] == f"/var/cache/engine/{FINGERPRINT}"
    assert contract["env"]["GFX"] == "gfx1100;gfx1201"
