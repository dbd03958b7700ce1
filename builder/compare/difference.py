"""What differs between two sides: pure values, in a fixed order, for programs and for whoever writes it in words.

A fact that one side does not know is unknown and no difference; a component, a patch or a package that one side
lists and the other does not is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from builder.compare.pulling import Pull, pull
from builder.compare.sides import BUILT, Part, PatchPart, Side

Status = Literal["same", "changed", "added", "removed"]
PATCHES = "patches"  # how a component changed by its patches
# What tells the bytes of a component; any other fact counts where both sides have it.

_TELLING = ("wheel", "file", "sha256", "source", "commit", "tree", "patched", "built", "apt", "package-version")


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A value that differs; None where there is none on that side."""

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A component or a patch on both sides, or on one; `old` and `new` are its version, or its state."""

    name: str
    status: Status
    old: str | None
    new: str | None
    changes: tuple[Change, ...] = ()
    target: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A value of both sides; `moved` is None where one of them is unknown."""

    old: str | None
    new: str | None

    @property
    def moved(self) -> bool | None:
        """Whether it differs."""
        return None if self.old is None or self.new is None else self.old != self.new


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What differs between `old` and `new`. A group that is None cannot be compared: a side does not know it."""

    old: Side
    new: Side
    components: tuple[Compared, ...] | None
    patches: tuple[Compared, ...] | None
    bases: tuple[Change, ...] | None
    packages: tuple[Change, ...] | None
    build_packages: tuple[Change, ...] | None
    distributions: tuple[Change, ...] | None
    gfx: Moved
    python: Moved
    contract: tuple[Change, ...] | None
    fingerprint: Moved
    fingerprint_inputs: tuple[Change, ...] | None
    content_key: Moved
    digest: Moved
    pull: Pull

    @property
    def changed(self) -> tuple[Compared, ...]:
        """The components that are not the same."""
        return tuple(each for each in self.components or () if each.status != "same")

    @property
    def unchanged(self) -> tuple[Compared, ...]:
        """The components that are the same."""
        return tuple(each for each in self.components or () if each.status == "same")

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs as far as both sides say."""
        patches = [each for each in self.patches or () if each.status != "same"]
        groups = (self.bases, self.packages, self.build_packages, self.distributions, self.contract)
        moved = (self.gfx, self.python, self.fingerprint, self.content_key, self.digest)
        return not (self.changed or patches or any(groups) or any(each.moved for each in moved))

    def plain(self) -> dict[str, Any]:
        """Return the difference as a table for JSON."""
        return {
            "old": _side(self.old),
            "new": _side(self.new),
            "components": _plain(self.components),
            "patches": _plain(self.patches),
            "bases": _plain(self.bases),
            "packages": _plain(self.packages),
            "build-packages": _plain(self.build_packages),
            "distributions": _plain(self.distributions),
            "contract": _plain(self.contract),
            "fingerprint-inputs": _plain(self.fingerprint_inputs),
            **{
                key: {"old": each.old, "new": each.new, "moved": each.moved}
                for key, each in (
                    ("gfx", self.gfx), ("python", self.python), ("fingerprint", self.fingerprint),
                    ("content-key", self.content_key), ("digest", self.digest),
                )
            },
            "pull": self.pull.plain(),
        }  # fmt: skip


def compare(old: Side, new: Side) -> Difference:
    """Return what differs between two sides."""
    patches = _patches(old.patches, new.patches)
    return Difference(
        old=old,
        new=new,
        components=_with_patches(_components(old, new), patches),
        patches=patches,
        bases=_changes(old.bases, new.bases),
        packages=_changes(old.packages, new.packages),
        build_packages=_changes(old.build_packages, new.build_packages),
        distributions=_changes(old.distributions, new.distributions),
        gfx=Moved(old=_joined(old.gfx), new=_joined(new.gfx)),
        python=Moved(old=old.python, new=new.python),
        contract=_changes(old.contract, new.contract, either=old.document == new.document),
        fingerprint=Moved(old=old.fingerprint, new=new.fingerprint),
        fingerprint_inputs=_changes(old.fingerprint_inputs, new.fingerprint_inputs),
        content_key=Moved(old=old.content_key, new=new.content_key),
        digest=Moved(old=old.digest, new=new.digest),
        pull=pull(old.layers, new.layers),
    )


def _components(old: Side, new: Side) -> tuple[Compared, ...] | None:
    """Compare by name: in the order of the new side, what is gone last."""
    if old.components is None or new.components is None:
        return None
    before, after = ({each.name: each for each in parts} for parts in (old.components, new.components))
    alike = old.document == new.document
    found = [_component(before.get(name), part, alike=alike) for name, part in after.items()]
    gone = [_component(part, None, alike=alike) for name, part in before.items() if name not in after]
    return tuple(found + gone)


def _component(old: Part | None, new: Part | None, *, alike: bool) -> Compared:
    """Compare a component; of documents that are not `alike` one may not say what the other does."""
    if old is None:
        assert new is not None  # noqa: S101 -- for the type checker
        return Compared(name=new.name, status="added", old=None, new=new.version)
    if new is None:
        return Compared(name=old.name, status="removed", old=old.version, new=None)
    changes = [Change(key="kind", old=old.kind, new=new.kind)] if old.kind != new.kind else []
    keys = {
        key
        for key in (*old.facts, *new.facts)
        if (alike and key in _TELLING) or (key in old.facts and key in new.facts)
    }
    changes += [
        Change(key=key, old=old.facts.get(key), new=new.facts.get(key))
        for key in sorted(keys, key=_order)
        if old.facts.get(key) != new.facts.get(key)
    ]
    same = old.version == new.version and not changes
    return Compared(
        name=new.name, status="same" if same else "changed", old=old.version, new=new.version,
        changes=tuple(changes),
    )  # fmt: skip


def _order(key: str) -> tuple[int, str]:
    known = ("commit", "wheel", "file", "package-version", "sha256", "tree", "patched")
    return (known.index(key), "") if key in known else (len(known) + (key == BUILT), key)


def _patches(old: Sequence[PatchPart] | None, new: Sequence[PatchPart] | None) -> tuple[Compared, ...] | None:
    if old is None or new is None:
        return None
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    found = [_patch(before.get(name), part) for name, part in after.items()]
    gone = [_patch(part, None) for name, part in before.items() if name not in after]
    return tuple(found + gone)


def _patch(old: PatchPart | None, new: PatchPart | None) -> Compared:
    there = new or old
    assert there is not None  # noqa: S101 -- for the type checker
    changes: list[Change] = []
    status: Status = "added" if old is None else "removed"
    if old is not None and new is not None:
        changes = [
            Change(key=key, old=getattr(old, key), new=getattr(new, key))
            for key in ("target", "kind", "state", "sha256")
            if getattr(old, key) != getattr(new, key)
        ]
        status = "changed" if changes else "same"
    return Compared(
        name=there.name, status=status, old=old.state if old else None, new=new.state if new else None,
        changes=tuple(changes), target=there.target, reason=there.reason,
    )  # fmt: skip


def _with_patches(
    components: tuple[Compared, ...] | None, patches: tuple[Compared, ...] | None
) -> tuple[Compared, ...] | None:
    """Call a component changed when a patch of it is: it has other bytes."""
    if components is None:
        return None
    touched: dict[str | None, list[str]] = {}
    for patch in patches or ():
        if patch.status != "same":
            touched.setdefault(patch.target, []).append(patch.name)
    return tuple(
        replace(
            each, status="changed",
            changes=(*each.changes, Change(key=PATCHES, old=None, new=", ".join(touched[each.name]))),
        )
        if each.name in touched and each.status in ("same", "changed") else each
        for each in components
    )  # fmt: skip


def _changes(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None, *, either: bool = True
) -> tuple[Change, ...] | None:
    """Return what differs between two tables, by key; with `either` also what only one of them has."""
    if old is None or new is None:
        return None
    keys = old.keys() | new.keys() if either else old.keys() & new.keys()
    return tuple(
        Change(key=key, old=old.get(key), new=new.get(key)) for key in sorted(keys) if old.get(key) != new.get(key)
    )


def _joined(texts: Iterable[str] | None) -> str | None:
    return ", ".join(texts) if texts is not None else None


def _side(side: Side) -> dict[str, Any]:
    keys = ("label", "document", "image", "version", "reference", "digest", "content_key", "fingerprint")
    return {key.replace("_", "-"): getattr(side, key) for key in keys}


def _plain(group: Sequence[Compared | Change] | None) -> list[dict[str, Any]] | None:
    return None if group is None else [_entry(each) for each in group]


def _entry(each: Compared | Change) -> dict[str, Any]:
    if isinstance(each, Change):
        return {"name": each.key, "old": each.old, "new": each.new}
    told: dict[str, Any] = {"name": each.name, "status": each.status, "old": each.old, "new": each.new}
    if each.target is not None:
        told |= {"target": each.target, "reason": each.reason}
    return told | {"changes": [_entry(change) for change in each.changes]}
