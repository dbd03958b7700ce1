"""What is in an image, as a table for people and as a value for programs. Reads none itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.compare.foreign import Told
from builder.compare.sides import Part, PatchPart, Side, short
from builder.compare.words import printable, rounded, size
from builder.layering import part_of

_UNKNOWN = "unknown"
_WIDTH = 12
_MOST = 25  # rows of what can be hundreds
_LONGEST = 90
_SHORT = ("user", "uid", "workdir", "entrypoint", "cmd", "expose", "writable", "devices", "groups", "shm")


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerRow:
    """A layer, bottom first: who owns it, its digest, its bytes as it is pulled, and what its history says.

    None is unknown. An owner is known in images of this program alone.
    """

    owner: str | None
    digest: str | None
    size: int | None
    history: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What is in an image. `told` is what the files of an image say that this program did not make, else None.

    `where` is the kind of place it was read from. `unpacked` has the bytes of components as they are installed.
    `gfx_by` says where the GPU targets are from. `files_read` tells whether the image's own files were looked at.
    """

    side: Side
    where: str
    layers: tuple[LayerRow, ...]
    unpacked: Mapping[str, int] = field(default_factory=dict)
    gfx_by: str | None = None
    told: Told | None = None
    files_read: bool = True

    @property
    def total(self) -> int | None:
        """The bytes of all layers as they are pulled, each blob once; None where one is unknown."""
        sizes = {row.digest or str(number): row.size for number, row in enumerate(self.layers)}
        known = [each for each in sizes.values() if each is not None]
        return sum(known) if len(known) == len(sizes) else None

    def pulled(self, owner: str) -> int | None:
        """Return the compressed bytes of the layers of a part; None where it has none, or one is unknown."""
        sizes = [row.size for row in self.layers if row.owner is not None and part_of(row.owner) == owner]
        known = [each for each in sizes if each is not None]
        return sum(known) if sizes and len(known) == len(sizes) else None

    def plain(self) -> dict[str, Any]:
        """Return this as a table for JSON."""
        side = self.side
        return {
            "image": side.image,
            "version": side.version,
            "reference": side.reference,
            "digest": side.digest,
            "read-from": self.where,
            "made-by-rocm-images": self.told is None and self.side.content_key is not None,
            "content-key": side.content_key,
            "fingerprint": side.fingerprint,
            "gfx": list(side.gfx) if side.gfx is not None else None,
            "gfx-by": self.gfx_by,
            "python": side.python,
            "rocm": dict(self.told.rocm) if self.told is not None else side.rocm,
            "bases": dict(side.bases) if side.bases is not None else None,
            "components": [self._component(part) for part in side.components or ()]
            if side.components is not None
            else None,
            "patches": [_patch(patch) for patch in side.patches] if side.patches is not None else None,
            "packages": dict(side.packages) if side.packages is not None else None,
            "distributions": dict(side.distributions) if side.distributions is not None else None,
            "contract": dict(side.contract) if side.contract is not None else None,
            "layers": [
                {"owner": row.owner, "digest": row.digest, "size": row.size, "history": row.history}
                for row in self.layers
            ],
            "size": self.total,
            **(_foreign(self.told) if self.told is not None else {}),
        }

    def _component(self, part: Part) -> dict[str, Any]:
        return {
            "name": part.name, "version": part.version, "kind": part.kind, **part.facts,
            "size": self.pulled(part.name), "unpacked": self.unpacked.get(part.name),
        }  # fmt: skip


def text(summary: Summary) -> str:
    """Return a summary as lines for a terminal."""
    return "".join(f"{printable(line).rstrip()}\n" for line in _lines(summary))


def _lines(summary: Summary) -> Iterator[str]:
    side = summary.side
    yield _field("image", side.reference or side.label)
    yield _field("digest", side.digest or _UNKNOWN)
    if summary.told is None and side.content_key is not None:
        yield _field("made by", f"rocm-images: {side.image} {side.version}, content key {side.content_key[:12]}")
    elif summary.files_read:
        yield _field("made by", "something else; what follows is what its own files say")
    else:
        yield _field("made by", "something else; no file of it was read")
    yield from _bases(summary)
    gfx = ", ".join(side.gfx) if side.gfx else _UNKNOWN
    yield _field("gfx", f"{gfx} ({summary.gfx_by})" if side.gfx and summary.gfx_by else gfx)
    yield _field("python", side.python or _UNKNOWN)
    yield from _rocm(summary)
    yield _field("fingerprint", side.fingerprint or _UNKNOWN)
    yield from _contract(side.contract)
    yield ""
    yield from _components(summary)
    yield ""
    yield from _patches(side.patches)
    yield ""
    rows = [
        (str(number), row.owner or "", _told(row.size), (row.digest or _UNKNOWN)[:19], row.history or "")
        for number, row in enumerate(summary.layers, start=1)
    ]
    owned = any(row.owner for row in summary.layers)
    head = ("layer", "owner", "compressed", "digest", "made by")
    chosen = (0, 1, 2, 3) if owned else (0, 2, 3, 4)
    yield from _table([tuple(each[place] for place in chosen) for each in (head, *rows)], right=("compressed",))
    yield _field("total", f"{size(summary.total)} in {len(summary.layers)} layers, compressed")


def _bases(summary: Summary) -> Iterator[str]:
    if summary.told is not None:
        yield _field("system", summary.told.system or _UNKNOWN)
    bases = summary.side.bases
    if not bases:
        yield _field("base", _UNKNOWN)
    for number, (stage, words) in enumerate(sorted((bases or {}).items(), reverse=True)):
        yield _field("base" if number == 0 else "", f"{words} ({stage})")


def _rocm(summary: Summary) -> Iterator[str]:
    if summary.told is None:
        if not summary.files_read:
            yield _field("rocm", _UNKNOWN)
        return
    rocm, told = summary.told.rocm, summary.told
    yield _field("rocm", ", ".join(f"{version} (/opt/{name})" for name, version in rocm.items()) or _UNKNOWN)
    if told.torch is not None:
        hip = f"HIP {told.hip}" if told.hip is not None else "built without HIP, as it says"
        yield _field("torch", f"{told.torch}, {hip}")


def _contract(contract: Mapping[str, str] | None) -> Iterator[str]:
    if contract is None:
        yield _field("contract", _UNKNOWN)
        return
    told = [f"{key} {contract[key]}" for key in _SHORT if contract.get(key) not in (None, "", "[]", "null", "{}")]
    env = [key.removeprefix("env.") for key in contract if key.startswith("env.")]
    kept = [f"{key.removeprefix('kv-cache.')} {contract[key]}" for key in contract if key.startswith("kv-cache.")]
    yield from _wrapped("contract", "; ".join(told) or "none")
    if env:
        yield from _wrapped("environment", ", ".join(env))
    if kept:
        yield from _wrapped("kv cache", "; ".join(kept))


def _components(summary: Summary) -> Iterator[str]:
    parts = summary.side.components
    if parts is None:
        yield _field("components", _UNKNOWN)
        return
    if summary.told is not None:
        yield from _distributions(summary.told)
        return
    rows = [("component", "version", "from", "compressed", "installed")]
    layers = dict.fromkeys(part_of(row.owner) for row in summary.layers if row.owner is not None)
    installed = Counter[str]()
    for layer, unpacked in summary.unpacked.items():
        installed[part_of(layer)] += unpacked
    for part in parts:
        held = installed.get(part.name)
        pulled = summary.pulled(part.name)
        shared = "with the base" if part.kind == "base" else "with packages" if part.kind == "apt" else _UNKNOWN
        rows.append(
            (
                part.name, part.version, _origin(part), _told(pulled) if part.name in layers else shared,
                rounded(held) if held is not None else "",
            )
        )  # fmt: skip
    for owner in [owner for owner in layers if owner not in {part.name for part in parts}]:
        held = installed.get(owner)
        rows.append(
            (f"({owner})", "", "", _told(summary.pulled(owner)), rounded(held) if held is not None else "")
        )
    yield from _table(rows, right=("compressed", "installed"))


def _distributions(told: Told) -> Iterator[str]:
    """Show the largest distributions of an image that nobody described, by the sizes in their RECORD."""
    listed = sorted(told.distributions, key=lambda each: (-(each.size or 0), each.name))
    rows = [("distribution", "version", "from", "installed")]
    rows += [(each.name, each.version, each.origin or "", _told(each.size)) for each in listed[:_MOST]]
    yield from _table(rows, right=("installed",))
    if (more := len(listed) - _MOST) > 0:
        yield f"and {more} more distributions; --json has all"
    yield _field("packages", f"of Debian: {len(told.packages)}" if told.packages else _UNKNOWN)


def _origin(part: Part) -> str:
    facts = part.facts
    match part.kind:
        case "wheel":
            index = f" of {facts['index']}" if "index" in facts else ""
            return f"wheel {short(facts.get('sha256', ''))}".strip() + index
        case "source":
            told = facts.get("commit") or facts.get("file") or facts.get("tree")
            return f"source {facts.get('source', '')} {short(told or '')}".strip()
        case "apt":
            return f"package {facts.get('apt', '')} {facts.get('package-version', '')}".strip()
        case "base":
            return "the base"
        case _:
            return facts.get("origin", "")


def _patches(patches: Sequence[PatchPart] | None) -> Iterator[str]:
    if patches is None:
        yield _field("patches", _UNKNOWN)
        return
    if not patches:
        yield _field("patches", "none")
        return
    rows = [("patch", "of", "kind", "state")]
    rows += [(each.name, each.target, each.kind, each.state) for each in patches]
    yield from _table(rows, right=())


def _table(rows: Sequence[tuple[str, ...]], *, right: Sequence[str]) -> Iterator[str]:
    cut = [tuple(cell if len(cell) <= _LONGEST else f"{cell[: _LONGEST - 1]}…" for cell in row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cut, strict=True)]
    for row in cut:
        cells = [
            cell.rjust(width) if head in right else cell.ljust(width)
            for cell, width, head in zip(row, widths, rows[0], strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _wrapped(name: str, words: str) -> Iterator[str]:
    """Yield words in lines of a terminal's width, broken where there is a space."""
    line, label = "", name
    for word in words.split(" "):
        if line and len(line) + len(word) + 1 > _LONGEST:
            yield _field(label, line)
            line, label = "", ""
        line = f"{line} {word}".strip()
    yield _field(label, line)


def _field(name: str, words: str) -> str:
    return f"{name:<{_WIDTH}}  {words}"


def _told(number: int | None) -> str:
    return rounded(number) if number is not None else _UNKNOWN


def _patch(patch: PatchPart) -> dict[str, Any]:
    return {
        "name": patch.name, "target": patch.target, "kind": patch.kind, "state": patch.state,
        "sha256": patch.sha256,
    }  # fmt: skip


def _foreign(told: Told) -> dict[str, Any]:
    return {
        "system": told.system,
        "torch": {"version": told.torch, "hip": told.hip} if told.torch is not None else None,
        "installed": [
            {
                "name": each.name, "version": each.version, "place": each.place, "size": each.size,
                "origin": each.origin,
            }
            for each in told.distributions
        ],
    }  # fmt: skip
