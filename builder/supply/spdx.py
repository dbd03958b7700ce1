"""An image's bill of materials as an SPDX 2.3 document in JSON. Pure.

Source: SPDX specification 2.3. Version 2.3 because it is what scanners and registries read; version 3 is another
model that few of them know. Nothing is a `file` of SPDX, which would need a SHA-1 that no lock has: files of
patches are packages whose purpose is FILE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from builder.reference import Digest
from builder.supply.addresses import image_purl
from builder.supply.licences import Licence
from builder.supply.naming import TOOL, moment, uuid_of
from builder.supply.parts import Part

_PURPOSE = {
    "base": "CONTAINER", "debian": "LIBRARY", "python": "LIBRARY", "built": "APPLICATION", "git": "SOURCE",
    "archive": "ARCHIVE", "folder": "SOURCE", "patch": "FILE", "image": "CONTAINER",
}  # fmt: skip
_IMAGE = "SPDXRef-image"
NOTHING = "NOASSERTION"


def spdx(
    parts: Sequence[Part],
    *,
    name: str,
    version: str,
    digest: Digest,
    epoch: int,
    licences: Mapping[str, Licence],
) -> dict[str, object]:
    """Return the document of the image `digest`. `parts` are all of it; those only the build has are left out."""
    listed = shown(parts)
    document: dict[str, object] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}@{digest}",
        "creationInfo": {"created": moment(epoch), "creators": [f"Tool: {TOOL}"]},
        "packages": [
            _image(name, version, digest),
            *(_package(part, licences.get(part.name) if part.kind == "python" else None) for part in listed),
        ],
        "relationships": list(_relationships(listed)),
    }
    return document | {"documentNamespace": uuid_of(document)}


def shown(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts that are in the image, with the sources they are made from and the patches they carry."""
    held = {part.id: part for part in parts}
    wanted: dict[str, Part] = {}

    def visit(part: Part) -> None:
        if part.id not in wanted:
            wanted[part.id] = part
            for other in (*part.made_from, *part.patches):
                if other in held:
                    visit(held[other])

    for part in parts:
        if part.served:
            visit(part)
    return tuple(wanted[key] for key in sorted(wanted))


def _image(name: str, version: str, digest: Digest) -> dict[str, object]:
    return {
        "SPDXID": _IMAGE, "name": name, "versionInfo": version, "primaryPackagePurpose": "CONTAINER",
        "downloadLocation": NOTHING, "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest.hex}],
        "licenseConcluded": NOTHING, "licenseDeclared": NOTHING, "copyrightText": NOTHING,
        "externalRefs": [_reference(image_purl(name, str(digest)))],
    }  # fmt: skip


def _package(part: Part, licence: Licence | None) -> dict[str, object]:
    package: dict[str, object] = {
        "SPDXID": _id(part.id), "name": part.name, "primaryPackagePurpose": _PURPOSE[part.kind],
        "downloadLocation": _location(part), "filesAnalyzed": False, "licenseConcluded": NOTHING,
        "licenseDeclared": licence.expression if licence and licence.expression else NOTHING,
        "copyrightText": NOTHING,
    }  # fmt: skip
    if part.version is not None:
        package["versionInfo"] = part.version
    if licence is not None and licence.words is not None:
        package["licenseComments"] = f"its metadata says: {licence.words}"
    if part.sha256 is not None:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": part.sha256}]
    if part.purl is not None:
        package["externalRefs"] = [_reference(part.purl)]
    if file := part.told.get("file"):
        package["packageFileName"] = file
    told = {**part.told, **({"git-tree": part.tree} if part.tree and part.commit else {})}
    told |= {"tree": part.tree} if part.tree and not part.commit else {}
    if told:
        package["comment"] = "\n".join(f"{key}: {value}" for key, value in sorted(told.items()))
    return package


def _location(part: Part) -> str:
    if part.kind == "git" or (part.kind == "archive" and part.origin and "index" not in part.told):
        return part.origin or NOTHING
    return NOTHING  # an index or a registry is not where a file itself is (7.7)


def _reference(purl: str) -> dict[str, str]:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}


def _relationships(parts: Sequence[Part]) -> Iterator[dict[str, str]]:
    yield _related("SPDXRef-DOCUMENT", "DESCRIBES", _IMAGE)
    there = {part.id for part in parts}
    for part in parts:
        if part.kind == "base":
            yield _related(_IMAGE, "DESCENDANT_OF", _id(part.id))
        elif part.served:
            yield _related(_IMAGE, "CONTAINS", _id(part.id))
        for other in part.made_from:
            if other in there:
                yield _related(_id(part.id), "CONTAINS" if part.kind == "git" else "GENERATED_FROM", _id(other))
        for other in part.patches:
            if other in there:
                yield _related(_id(other), "PATCH_APPLIED", _id(part.id))


def _related(one: str, how: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other}


def _id(part_id: str) -> str:
    """Return an identifier of SPDX, which has letters, digits, '.' and '-' alone (3.2)."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda found: f".{ord(found[0]):x}.", part_id)
