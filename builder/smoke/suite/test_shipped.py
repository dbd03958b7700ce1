"""What is in the image's files: what was promised to be there, nothing that must not ship, and not too much."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from builder.engine import contents
from builder.engine.containers import read_files
from builder.grammar import FINGERPRINT_VARIABLE
from builder.layering import part_of
from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.fromoutside import looked_through
from builder.smoke.probing import Probing

MANIFEST = "/usr/share/rocm-images/manifest.json"
FINGERPRINT_LABEL = "rocm-images.fingerprint"
_MOST = 12
# Where engines keep pages of the KV cache beyond their own life.
_KV_STORES = ("SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", "LMCACHE_LOCAL_DISK", "VLLM_KV_CACHE_DIR")
_STEPS_WITH_FILES = ("RUN ", "COPY ", "ADD ", "WORKDIR ")


@pytest.fixture(scope="session")
def shipped(probing: Probing) -> dict[str, Any]:
    """Look through all files of the image once, as root, with nothing mounted over them."""
    contract = probing.contract
    arguments: dict[str, Any] = {
        "declared": list(contract.writable) if "writable" not in contract.silent else [],
        "caches": _caches(contract),
        "ships": sorted(contract.ships),
    }
    if "python" in contract.silent:
        return looked_through(probing.image, **arguments)
    with probing.start(writable=(), read_only=False, user="0:0") as uncovered:
        return probing.probe_in(uncovered)("shipped_files", **arguments)


@pytest.mark.asks("paths")
@pytest.mark.hint("find the package or component that brings it, and why it is not in the runtime stage")
def test_the_path_exists(path: str, probing: Probing) -> None:
    """What is started, loaded or read by this name would not be found."""
    with contents.created(probing.image) as (client, name):
        if not contents.exists(client, name, path):
            raise unfit(f"{path} is not in the image")


@pytest.mark.asks("files")
@pytest.mark.hint("take it out in the step that makes it, or say in smoke.ships why it is there")
def test_nothing_is_in_the_image_that_must_not_ship(shipped: dict[str, Any]) -> None:
    """Credentials and sources would be handed to everybody, and every node would pull dead bytes."""
    _require_none(shipped["unwanted"], "must not ship")


@pytest.mark.asks("files")
@pytest.mark.hint("let the build compile elsewhere than in the caches of the served image, or clear them")
def test_no_cache_came_along_with_the_image(shipped: dict[str, Any]) -> None:
    """A stale lock would hang the first request for ever, and code for another machine would be loaded."""
    locks = [each for each in shipped["warm"] if "lock file" in each["words"]]
    _require_none([*locks, *(each for each in shipped["warm"] if each not in locks)], "is in the image")


@pytest.mark.asks("sizes")
@pytest.mark.hint("look at what the named files are for; leave them out, or raise the budget in smoke.sizes")
def test_the_size_is_within_its_budget(sized: str, shipped: dict[str, Any], probing: Probing) -> None:
    """Every node would pull more on every roll-out, and a cold start would take longer."""
    contract, budget = probing.contract, probing.contract.sizes[sized]
    steps = contents.layers(probing.image)
    if sized == "image":
        held = sum(size for _, size in steps)
    else:
        made = [size for by, size in steps if by.startswith(_STEPS_WITH_FILES)][-len(contract.layers) :]
        owned = Counter[str]()
        for layer, size in zip(contract.layers, made, strict=False):
            owned[part_of(layer)] += size
        if sized not in owned:
            raise unfit(f"{sized} has no layer of its own in this image, which has: {', '.join(owned) or 'none'}")
        held = owned[sized]
    if held > budget:
        largest = [f"{_megabytes(size)} {path}" for path, size in shipped["largest"]]
        raise unfit(
            f"{sized} holds {_megabytes(held)}, {_megabytes(held - budget)} more than its {_megabytes(budget)}",
            details=(*_owners(contract, steps), "the largest files of the image:", *largest),
        )


@pytest.mark.asks("labels")
@pytest.mark.hint("build the image from its recipe, and let nothing later change its labels")
def test_the_label_tells_how_to_run_the_image(label: str, probing: Probing) -> None:
    """Whoever deploys the image by its labels would start it without its devices, groups, caches or memory."""
    config = contents.config(probing.image)
    found = (config.labels if config is not None else {}).get(label, "")
    expected = probing.contract.labels[label]
    if found != expected:
        raise unfit(f"the label {label} is {found!r} instead of {expected!r}")


@pytest.mark.asks("fingerprint")
@pytest.mark.hint("put {fingerprint} into the path in image.env")
def test_stored_cache_pages_belong_to_this_engine_alone(fingerprint: str, probing: Probing) -> None:
    """Pages that another engine, torch or kernel wrote would be read as this one's own: silent garbage."""
    config = contents.config(probing.image)
    env = config.env if config is not None else {}
    for name in _KV_STORES:
        if env.get(name) and fingerprint not in env[name]:
            raise unfit(f"{name}={env[name]} does not have the engine's fingerprint {fingerprint} in it")


@pytest.mark.asks("fingerprint")
@pytest.mark.hint("build the image again; the manifest, the label and the caches come from one lock")
def test_variable_and_label_and_manifest_have_one_fingerprint(fingerprint: str, probing: Probing) -> None:
    """Nobody could tell from a running container, or from its image, which stored pages are its own."""
    config = contents.config(probing.image)
    (manifest,) = read_files(probing.image, [MANIFEST])
    said = {
        FINGERPRINT_VARIABLE: config.env.get(FINGERPRINT_VARIABLE) if config is not None else None,
        f"the label {FINGERPRINT_LABEL}": config.labels.get(FINGERPRINT_LABEL) if config is not None else None,
        MANIFEST: json.loads(manifest).get("fingerprint") if manifest is not None else None,
    }
    wrong = [f"{place} has the fingerprint {found}" for place, found in said.items() if found != fingerprint]
    if wrong:
        raise unfit(f"{'; '.join(wrong)}, expected {fingerprint}")


def _caches(contract: Contract) -> dict[str, str]:
    """Return the variables that name the caches of compiles."""
    names = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")
    return {name: contract.env[name] for name in names if contract.env.get(name, "").startswith("/")}


def _require_none(found: Iterable[dict[str, Any]], what: str) -> None:
    lines = [f"{each['path']} {what}: {each['words']}, {_megabytes(each['bytes'])}" for each in found]
    if lines:
        more = f"; and {len(lines) - 1} more" if len(lines) > 1 else ""
        raise unfit(lines[0] + more, details=tuple(lines[:_MOST]))


def _owners(contract: Contract, steps: tuple[tuple[str, int], ...]) -> list[str]:
    made = [size for by, size in steps if by.startswith(_STEPS_WITH_FILES)][-len(contract.layers) :]
    sizes = sorted(zip(contract.layers, made, strict=False), key=lambda each: -each[1]) if contract.layers else []
    return [f"{_megabytes(size)} {owner}" for owner, size in sizes[:6]]


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size} bytes"
