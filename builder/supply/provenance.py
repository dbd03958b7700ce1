"""How an image was made, as an in-toto statement with SLSA's provenance. Pure.

Source: in-toto attestation framework 1.0 (Statement v1, ResourceDescriptor, DigestSet) and SLSA provenance v1.
There is no time in it but what the lock gives, and no name of a run: the same recipe, lock and image give the same
statement. docs/supply-chain.md describes the build type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.reference import Digest
from builder.supply.naming import TOOL
from builder.supply.parts import Part

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = f"urn:{TOOL}:build:v1"
BUILDER = f"urn:{TOOL}:builder:v1"


def statement(
    parts: Sequence[Part],
    *,
    name: str,
    digest: Digest,
    recipe: str,
    lock: str,
    content_key: str,
    epoch: int,
    byproducts: Mapping[str, tuple[str, str]],
) -> dict[str, object]:
    """Return the statement about the image `digest`, made of `parts`.

    `recipe` and `lock` are the sha256 of those files, `epoch` the lock's, `byproducts` media type and sha256 of
    what came out beside the image, by name.
    """
    folder = f"images/{name}"
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest.hex}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"image": name, "recipe": f"{folder}/recipe.toml"},
                "internalParameters": {"content-key": content_key, "epoch": epoch},
                "resolvedDependencies": [
                    {"name": f"{folder}/recipe.toml", "digest": {"sha256": recipe}},
                    {"name": f"{folder}/recipe.lock", "digest": {"sha256": lock}},
                    *(resource(part) for part in parts if not _made_here(part)),
                ],
            },
            "runDetails": {
                "builder": {"id": BUILDER},
                "byproducts": [
                    {"name": title, "mediaType": media_type, "digest": {"sha256": sha256}}
                    for title, (media_type, sha256) in sorted(byproducts.items())
                ],
            },
        },
    }


def _made_here(part: Part) -> bool:
    """Whether a part came out of the build, and did not go into it."""
    return bool(part.made_from) and part.kind in ("python", "built")


def resource(part: Part) -> dict[str, object]:
    """Return a part as a resource descriptor: what it is, and its hashes; of what floats there is none.

    `gitCommit` and `gitTree` are git's ids, `treeSha256` and `changeSha256` this program's: of a folder's names,
    modes and contents, and of a change that a recipe holds itself.
    """
    digest = {}
    if part.sha256 is not None:
        digest["sha256"] = part.sha256
    if part.commit is not None:
        digest["gitCommit"] = part.commit
    if part.tree is not None:
        digest["gitTree" if part.commit is not None else "treeSha256"] = part.tree
    if "change-sha256" in part.told and part.sha256 is None:
        digest["changeSha256"] = part.told["change-sha256"]
    described: dict[str, object] = {
        "name": f"images/{part.name}/recipe.lock" if part.kind == "image" else part.name
    }
    uri = part.origin if part.kind == "git" else part.purl
    if uri is None and "floating" in part.told:
        uri = f"apt:{part.name}"
    if uri is not None:
        described["uri"] = uri
    if digest:
        described["digest"] = digest
    told = {key: part.told[key] for key in ("stage", "layer", "floating", "path", "target") if key in part.told}
    described["annotations"] = {"kind": part.kind, "served": part.served, **told}
    return described
