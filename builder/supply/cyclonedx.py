"""An image's bill of materials as a CycloneDX 1.6 document in JSON. Pure.

Source: CycloneDX specification 1.6 (ECMA-424), the version that scanners read and the first to tell a declared
licence from one that somebody concluded. Sources and patches are told twice: as components of their own, which
scanners look at, and as the pedigree of what was made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.reference import Digest
from builder.supply.addresses import image_purl
from builder.supply.licences import Licence
from builder.supply.naming import TOOL, moment, uuid_of
from builder.supply.parts import Part
from builder.supply.spdx import shown

_TYPE = {
    "base": "container", "debian": "library", "python": "library", "built": "application", "git": "library",
    "archive": "library", "folder": "library", "patch": "file", "image": "container",
}  # fmt: skip
_PATCH = {"series": "unofficial", "edit": "unofficial", "overlay": "unofficial", "hook": "monkey"}
_IMAGE = "image"


def cyclonedx(
    parts: Sequence[Part],
    *,
    name: str,
    version: str,
    digest: Digest,
    epoch: int,
    suite: str | None,
    licences: Mapping[str, Licence],
) -> dict[str, object]:
    """Return the document of the image `digest`; `suite` is the Debian at its bottom, if it is one.

    `parts` are all of it; those only the build has are left out.
    """
    listed = shown(parts)
    held = {part.id: part for part in listed}
    served = [part.id for part in listed if part.served]
    debian = {"type": "operating-system", "bom-ref": "debian", "name": "debian", "version": suite}
    document: dict[str, object] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": moment(epoch),
            "tools": {"components": [{"type": "application", "name": TOOL}]},
            "component": {
                "type": "container", "bom-ref": _IMAGE, "name": name, "version": version,
                "purl": image_purl(name, str(digest)),
                "hashes": [{"alg": "SHA-256", "content": digest.hex}],
            },
        },
        "components": [
            *([debian] if suite else []),
            *(
                _component(part, held, licences.get(part.name) if part.kind == "python" else None)
                for part in listed
            ),
        ],
        "dependencies": [
            {"ref": _IMAGE, "dependsOn": sorted([*served, *(["debian"] if suite else [])])},
            *(
                {"ref": part.id, "dependsOn": sorted(set(_known(part.made_from + part.patches, held)))}
                for part in listed
            ),
        ],
    }  # fmt: skip
    return {"serialNumber": uuid_of(document)} | document


def _known(ids: Sequence[str], held: Mapping[str, Part]) -> list[str]:
    return [each for each in ids if each in held]


def _component(part: Part, held: Mapping[str, Part], licence: Licence | None) -> dict[str, object]:
    component: dict[str, object] = {"type": _TYPE[part.kind], "bom-ref": part.id, "name": part.name}
    if part.version is not None:
        component["version"] = part.version
    if not part.served:
        component["scope"] = "excluded"  # of what the image is made of, not of what it runs
    if part.sha256 is not None:
        component["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    if licence is not None:
        named = {"expression": licence.expression} if licence.expression else {"license": {"name": licence.words}}
        component["licenses"] = [named | ({"acknowledgement": "declared"} if licence.expression else {})]
    if part.purl is not None:
        component["purl"] = part.purl
    if part.origin is not None:
        kind = {"git": "vcs", "archive": "source-distribution"}.get(part.kind, "distribution")
        component["externalReferences"] = [{"type": kind, "url": part.origin}]
    if pedigree := _pedigree(part, held):
        component["pedigree"] = pedigree
    told = {**part.told, **({"tree": part.tree} if part.tree else {})}
    if told:
        component["properties"] = [
            {"name": f"{TOOL}:{key}", "value": value} for key, value in sorted(told.items())
        ]
    return component


def _pedigree(part: Part, held: Mapping[str, Part]) -> dict[str, object]:
    """Return where a component comes from: the trees it was built from, their commits, and its patches."""
    pedigree: dict[str, object] = {}
    origins = [held[each] for each in _known(part.made_from, held)] if part.kind != "git" else []
    if origins:
        pedigree["ancestors"] = [_ancestor(origin) for origin in origins]
    commits = [origin for origin in (*origins, part) if origin.commit is not None]
    if commits:
        pedigree["commits"] = [{"uid": each.commit, "url": each.origin} for each in commits]
    if patches := [held[each] for each in _known(part.patches, held)]:
        pedigree["patches"] = [_patch(patch) for patch in patches]
    return pedigree


def _ancestor(origin: Part) -> dict[str, object]:
    ancestor: dict[str, object] = {"type": _TYPE[origin.kind], "name": origin.name}
    if origin.version is not None:
        ancestor["version"] = origin.version
    if origin.sha256 is not None:
        ancestor["hashes"] = [{"alg": "SHA-256", "content": origin.sha256}]
    if origin.purl is not None:
        ancestor["purl"] = origin.purl
    return ancestor


def _patch(patch: Part) -> dict[str, object]:
    told = patch.told
    return {
        "type": _PATCH[told["kind"]],
        "resolves": [
            {
                "type": "defect", "id": told["patch"], "name": patch.name, "description": told["reason"],
                "references": [told["upstream"]],
            }
        ],
    }  # fmt: skip
