"""Tests images that are there: those of this project against their recipes, and any other against what it says."""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from builder import context
from builder.engine import cards, contents, images
from builder.engine.cards import Card
from builder.engine.contents import Config
from builder.errors import EngineError, LockError, RecipeError
from builder.grammar import FINGERPRINT_VARIABLE
from builder.project import Prepared, load_recipe, names, prepare
from builder.recipe import Recipe, parse_recipe
from builder.reference import parse_reference
from builder.smoke.contract import Contract
from builder.smoke.derived import derive
from builder.smoke.promised import contract, promised
from builder.smoke.run import SmokeReport, require_passed, run_smoke, tier_not_run
from builder.sources.store import Store
from builder.story import Story
from builder.workspace import Workspace

_LABEL = "rocm-images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms images are tested: the tiers that have to run, and a folder with a model for the engine."""

    tiers: tuple[str, ...] = ()
    model: Path | None = None

    def card(self, image: str) -> Card | str:
        """Return how the GPU is handed over, or why not. Raises `SmokeError` where it is required and missing."""
        if self.model is not None and not (self.model / "config.json").is_file():
            raise RecipeError(f"--model: {self.model} holds no model: there is no config.json")
        found = cards.card(model=self.model)
        if isinstance(found, str) and "gpu" in self.tiers:
            raise tier_not_run(image, "gpu", found)
        return found


def smoke(
    prepared: Prepared, image: str, *, workspace: Workspace, story: Story, terms: Terms | None = None
) -> SmokeReport:
    """Run the smoke tests on an image of this project. Raises `SmokeError` unless they passed."""
    terms = terms or Terms()
    name = prepared.recipe.name
    report = run_smoke(
        image, promised(prepared, wheel=Store(workspace.store).get), results=workspace.dist / name, story=story,
        extra_tests=_own_tests(workspace, name), card=terms.card(name),
    )  # fmt: skip
    require_passed(report, tiers=terms.tiers)
    return report


def own_image(name: str, *, workspace: Workspace, story: Story, terms: Terms | None = None) -> SmokeReport:
    """Run the smoke tests on the image that was built here. Raises `SmokeError` when one fails."""
    with context.sole_run(workspace, name):
        prepared = prepare(workspace, name)
        here = images.local_id(prepared.local)
        if here is None:
            raise LockError(f"{prepared.local}: not in the engine's store", hint=f"rocm-images build {name}")
        return smoke(prepared, here, workspace=workspace, story=story, terms=terms)


def any_image(
    reference: str,
    *,
    recipe: str | None,
    workspace: Workspace | None,
    results: Path | None,
    story: Story,
    terms: Terms | None = None,
) -> SmokeReport:
    """Run the smoke tests on any image, which is pulled where the engine does not have it.

    `recipe` is a name of the workspace, or a file; without it the image is held to what it says of itself.
    Results go to the folder `results`, to `dist/` of the workspace, or nowhere. The report may have failed.
    """
    terms = terms or Terms()
    card = terms.card(reference)
    image = _bring(reference, story)
    own: Path | None = None
    if recipe is None:
        with story.step(f"seeing what {reference} says of itself"):
            held_to = derive(image.id, reference)
    else:
        held_to, own = _by_recipe(recipe, image, workspace)
    held_to = replace(held_to, image=reference)
    with ExitStack() as stack:
        if results is None and workspace is not None:
            results = workspace.dist / f"test-{re.sub(r'[^A-Za-z0-9._-]+', '-', reference)}"
        folder = results or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocm-images-")))
        return run_smoke(image.id, held_to, results=folder, story=story, extra_tests=own, card=card)


def _bring(reference: str, story: Story) -> Config:
    found = contents.config(reference)
    if found is not None:
        return found
    try:
        parsed = parse_reference(reference)
    except ValueError as error:
        raise EngineError(
            f"{reference}: neither an image of this project nor one in the engine, nor one to pull: {error}",
            hint="rocm-images list; docker images",
        ) from error
    named = parsed if parsed.tag or parsed.digest else parsed.at(tag="latest")
    brought = contents.config(contents.pull(named, story))
    if brought is None:
        raise EngineError(f"{reference}: the image went away", hint=f"docker pull {reference}")
    return brought


def _by_recipe(recipe: str, image: Config, workspace: Workspace | None) -> tuple[Contract, Path | None]:
    """Return what an image is held to by a recipe, also one built elsewhere, and the recipe's own tests."""
    ours = image.labels.get(f"{_LABEL}.content-key")
    if workspace is not None and recipe in names(workspace):
        prepared = prepare(workspace, recipe)
        whole = promised(prepared, wheel=Store(workspace.store).get)
        own = _own_tests(workspace, recipe)
        if ours == prepared.content_key:
            return whole, own
        return _elsewhere(contract(prepared.recipe, fingerprint=prepared.fingerprint), image, ours), own
    path = Path(recipe)
    if not path.is_file():
        known = ", ".join(names(workspace)) if workspace is not None else "none"
        raise RecipeError(f"--recipe: {recipe} is neither a recipe of this project nor a file; known: {known}")
    parsed: Recipe = parse_recipe(path.read_text(encoding="utf-8"), file=recipe)
    return _elsewhere(
        contract(parsed, fingerprint=image.labels.get(f"{_LABEL}.fingerprint", "")), image, ours
    ), None


def _elsewhere(held_to: Contract, image: Config, ours: str | None) -> Contract:
    """Take out of a contract what only a build from this recipe and this lock can keep."""
    why = "the image was not built from this recipe and its lock"
    fingerprint = image.labels.get(f"{_LABEL}.fingerprint")
    silent = dict(held_to.silent) | {"distributions": why, "sizes": why}
    if ours is None:
        silent |= {"labels": why}
    if fingerprint is None:
        silent |= {"fingerprint": why}
    labels = {**held_to.labels, f"{_LABEL}.fingerprint": fingerprint or ""}
    # What the recipe fills in with the fingerprint has that of the image.
    env = {
        name: image.env.get(name, value) if held_to.fingerprint and held_to.fingerprint in value else value
        for name, value in held_to.env.items()
        if name != FINGERPRINT_VARIABLE or fingerprint is not None
    }
    return replace(held_to, silent=silent, fingerprint=fingerprint, labels=labels, env=env, patches=())


def _own_tests(workspace: Workspace, name: str) -> Path | None:
    own = workspace.images / load_recipe(workspace, name).folder / "tests"
    return own if own.is_dir() else None
