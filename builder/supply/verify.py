"""Checks a published image: is it what its record says, is the record the one at hand, who vouches for it.

Every check says passed, failed or not checked, and why. One that could not be decided although it was asked for is
not passed over: `undecided` tells of it. Documents that nobody signed are as good as whoever may write to the
registry; only the record at hand, or a signature, is more than that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder import foreign
from builder.errors import LockError
from builder.mirrors import Mirrors
from builder.record import parse_pin
from builder.reference import Digest, ImageReference, Place
from builder.registries.artifacts import Attachment
from builder.sources.transport import Patience
from builder.story import Story
from builder.supply.agreements import (
    byproducts,
    record_and_image,
    record_and_record,
    statement_and_lock,
    statement_and_record,
)
from builder.supply.documents import CYCLONEDX, PROVENANCE, RECORD, SPDX
from builder.supply.holding import Broken, Holding, holding
from builder.supply.signing import NotSigned, Trusted, Undecided
from builder.supply.verdicts import Findings, State, Verdict
from builder.supply.vouching import attested, presence, signatures

_KINDS = {SPDX: "spdx", CYCLONEDX: "cyclonedx"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A record at hand: how messages call its file, and its text."""

    file: str
    text: str


def verify(
    place: Place,
    *,
    held: Held | None,
    expected: Mapping[str, Any] | None,
    trusted: Trusted | None,
    deep: bool,
    mirrors: Mirrors,
    story: Story,
    patience: Patience | None = None,
) -> Verdict:
    """Check the image that `place` names by digest or tag.

    `held` is the record at hand, `expected` the provenance that follows from the recipe and lock at hand, where
    they are those of the record. `trusted` says whose signature has to be there. `deep` reads every byte. Raises
    `EngineError` for a registry that cannot be asked, `LockError` for a record at hand that cannot be read.
    """
    with holding(place, mirrors=mirrors, patience=patience) as there:
        return _Verification(
            place, there, held, expected=expected, trusted=trusted, deep=deep, mirrors=mirrors, story=story
        ).verdict()


class _Verification:
    """One image under examination, and what was found of it so far."""

    def __init__(
        self,
        place: Place,
        there: Holding,
        held: Held | None,
        *,
        expected: Mapping[str, Any] | None,
        trusted: Trusted | None,
        deep: bool,
        mirrors: Mirrors,
        story: Story,
    ) -> None:
        self._place = place
        self._there = there
        self._held = held
        self._own = parse_pin(held.text, file=held.file) if held is not None else None
        self._expected = expected
        self._trusted = trusted
        self._deep = deep
        self._mirrors = mirrors
        self._story = story
        self._findings = Findings()

    def verdict(self) -> Verdict:
        digest = self._digest()
        if digest is not None and (manifest := self._manifest(digest)) is not None:
            labels = self._blobs(manifest)
            documents = self._documents(digest)
            record = self._record(documents, digest, manifest, labels)
            if record is not None:
                self._bills(record, documents)
                statement = self._provenance(record, documents, digest)
                self._signatures(record, statement, digest)
            else:
                for name in ("sbom", "provenance", "signature"):
                    self._findings.say(name, "not checked", "there is no record to hold it against")
        return Verdict(
            reference=str(self._place), digest=str(digest) if digest else None,
            checks=tuple(self._findings.checks), undecided=tuple(self._findings.undecided),
        )  # fmt: skip

    def _digest(self) -> Digest | None:
        """Say what the tag names, and return the digest that is to be examined: the one that is pinned."""
        pinned = self._place.digest
        if pinned is None and self._own is not None and self._place.tag in _tags(self._own):
            pinned = Digest(str(self._own["digest"]))
        tag = self._place.tag or (None if self._place.digest else "latest")
        if tag is None:
            self._findings.say("tag", "not checked", "the reference has none")
            return pinned
        try:
            named = self._there.named(tag)
        except Broken as broken:
            self._findings.say("tag", "failed", f"{tag}: {broken}")
            return pinned
        if pinned is None:
            state: State = "not checked" if named is not None else "failed"
            why = f"names {named}; nothing at hand says which digest it has to name" if named else "does not exist"
            self._findings.say("tag", state, f"{tag} {why}")
            return named
        if named == pinned:
            self._findings.say("tag", "passed", f"{tag} names {named}")
        else:
            whose = "the reference" if self._place.digest else f"{self._held.file if self._held else ''}"
            self._findings.say("tag", "failed", f"{tag} names {named or 'nothing'}, {whose} pins {pinned}")
        return pinned

    def _manifest(self, digest: Digest) -> dict[str, Any] | None:
        try:
            document = self._there.manifest(digest)
            if document is None:
                self._findings.say("image", "failed", f"{digest} is not served any more")
                return None
            table: dict[str, Any] = foreign.loads(document.content)
            _ = [(Digest(each["digest"]), int(each["size"])) for each in (table["config"], *table["layers"])]
        except Broken as broken:
            self._findings.say("image", "failed", str(broken))
        except (ValueError, KeyError, TypeError):
            self._findings.say("image", "failed", f"{digest} is not the manifest of one image")
        else:
            return table
        return None

    def _blobs(self, manifest: Mapping[str, Any]) -> dict[str, str] | None:
        """Look for every part of the image; return its labels, None where they cannot be read."""
        parts = {Digest(each["digest"]): int(each["size"]) for each in (manifest["config"], *manifest["layers"])}
        wrong = []
        for number, (digest, size) in enumerate(parts.items(), start=1):
            try:
                if not self._there.has(digest, size):
                    wrong.append(f"{digest} is not there with {size} bytes")
                elif self._deep:
                    with self._story.step(f"reading part {number} of {len(parts)}, {size / 1e6:.1f} MB"):
                        seen = self._there.hashed(digest)
                    if seen != digest:
                        wrong.append(f"{digest} has the bytes of {seen or 'nothing that can be read'}")
            except Broken as broken:
                wrong.append(f"{digest}: {broken}")
        total = f"{len(parts)} parts, {sum(parts.values()) / 1e6:.1f} MB"
        if wrong:
            self._findings.say("image", "failed", f"{len(wrong)} of {total} are not served as they were", *wrong)
        else:
            how = "read and hashed" if self._deep else "there in their sizes; --deep reads and hashes them"
            self._findings.say("image", "passed", f"{total}, all {how}")
        try:
            config = foreign.loads(self._there.small(Digest(manifest["config"]["digest"])))
            return {str(key): str(value) for key, value in (config["config"].get("Labels") or {}).items()}
        except (Broken, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _documents(self, digest: Digest) -> dict[str, list[Attachment]]:
        """Fetch what is beside the image, by kind; what is broken of it is a failed check of its own."""
        found: dict[str, list[Attachment]] = {kind: [] for kind in (RECORD, SPDX, CYCLONEDX, PROVENANCE)}
        try:
            for referrer, fetch in self._there.beside(digest):
                if referrer.artifact_type in found:
                    try:
                        found[referrer.artifact_type].append(fetch())
                    except Broken as broken:
                        self._findings.say("documents", "failed", f"{referrer.artifact_type}: {broken}")
        except Broken as broken:
            self._findings.say("documents", "failed", str(broken))
        except LockError as error:
            self._findings.say("documents", "failed", error.message)
        return found

    def _record(
        self,
        documents: Mapping[str, Sequence[Attachment]],
        digest: Digest,
        manifest: Mapping[str, Any],
        labels: Mapping[str, str] | None,
    ) -> _Record | None:
        """Say whether the record beside the image is the one at hand, and agrees with the image."""
        found = [_Record.of(each.content) for each in documents[RECORD]]
        attached = [each for each in found if each is not None]
        if self._held is None and len(found) > 1 and self._trusted is not None:
            attached = self._signed(attached, self._trusted, digest)
            found = list(attached)
        if self._held is not None and self._own is not None:
            mine = self._held.text.encode()
            same = [each for each in attached if each.content == mine]
            if same:
                self._findings.say(
                    "record", "passed", f"{self._held.file} is, to the byte, the one beside the image"
                )
            elif not attached:
                self._findings.say("record", "failed", f"{self._held.file}: there is no record beside the image")
            else:
                keys = record_and_record(self._own, attached[-1].table)
                by = f"differs in {', '.join(keys)}" if keys else "is written differently"
                self._findings.say(
                    "record", "failed", f"{self._held.file} is not the one beside the image: it {by}"
                )
            chosen = _Record(table=self._own, content=mine)
        elif len(attached) == 1 and len(found) == 1:
            chosen = attached[0]
            self._findings.say("record", "not checked", "none is at hand to compare the one beside the image with")
        else:
            what = f"there are {len(found)} beside the image" if found else "there is none beside the image"
            self._findings.say("record", "failed", f"{what}, and none is at hand; --record names one")
            return None
        layers = [(str(each["digest"]), int(each["size"])) for each in manifest["layers"]]
        wrong = list(record_and_image(chosen.table, digest=str(digest), layers=layers, labels=labels or {}))
        if self._place.tag is not None and self._place.tag not in _tags(chosen.table):
            wrong.append(f"tag: the record is of {', '.join(sorted(_tags(chosen.table)))}, not {self._place.tag}")
        if wrong:
            self._findings.say("contents", "failed", "the record does not agree with the image", *wrong)
        else:
            self._findings.say(
                "contents", "passed", "digest, layers, content key and fingerprint are those of the record"
            )
        return chosen

    def _signed(self, records: Sequence[_Record], trusted: Trusted, digest: Digest) -> list[_Record]:
        """Return those records that a signed provenance names: an image that was tested anew has several."""
        if not isinstance(self._place, ImageReference):
            return list(records)
        try:
            told = attested(self._place.at(digest=digest), trusted, mirrors=self._mirrors)
        except (NotSigned, Undecided):
            return []
        named = {sha256 for statement in told for sha256 in byproducts(statement)}
        return [each for each in records if hashlib.sha256(each.content).hexdigest() in named]

    def _bills(self, record: _Record, documents: Mapping[str, Sequence[Attachment]]) -> None:
        named = record.table.get("sbom")
        if not isinstance(named, dict) or not named:
            self._findings.say("sbom", "not checked", "the record names none")
            return
        wrong = []
        for kind, name in _KINDS.items():
            there = [f"sha256:{hashlib.sha256(each.content).hexdigest()}" for each in documents[kind]]
            if named.get(name) not in there:
                instead = f"only {', '.join(there)}" if there else "none"
                wrong.append(f"{name}: the record names {named.get(name)}, beside the image is {instead}")
        if wrong:
            self._findings.say("sbom", "failed", "a bill of materials is not the one of the record", *wrong)
        else:
            self._findings.say("sbom", "passed", "SPDX and CycloneDX documents are those of the record")

    def _provenance(
        self, record: _Record, documents: Mapping[str, Sequence[Attachment]], digest: Digest
    ) -> dict[str, Any] | None:
        """Say whether a statement fits image, record and lock, and return it."""
        beside = {"the record": hashlib.sha256(record.content).hexdigest()}
        sbom = record.table.get("sbom") or {}
        beside |= {f"the {name} document": str(value).removeprefix("sha256:") for name, value in sbom.items()}
        best: tuple[str, ...] | None = None
        for each in documents[PROVENANCE]:
            try:
                statement: dict[str, Any] = foreign.loads(each.content)
            except ValueError:
                continue
            wrong = statement_and_record(statement, record.table, digest=str(digest), documents=beside)
            if not wrong and self._expected is not None:
                wrong = statement_and_lock(statement, self._expected)
            if not wrong:
                with_lock = " and the lock at hand" if self._expected is not None else ""
                self._findings.say(
                    "provenance", "passed", f"it is about this image and agrees with the record{with_lock}"
                )
                return statement
            best = wrong if best is None or len(wrong) < len(best) else best
        if best is None:
            self._findings.say("provenance", "failed", "there is none beside the image")
        else:
            self._findings.say("provenance", "failed", "it does not agree with image and record", *best)
        return None

    def _signatures(self, record: _Record, statement: Mapping[str, Any] | None, digest: Digest) -> None:
        if not isinstance(self._place, ImageReference):
            words = "an image layout has none; cosign signs images in registries"
            if self._trusted is not None:
                self._findings.leave_open("signature", words)
            else:
                self._findings.say("signature", "not checked", words)
            return
        subject = self._place.at(digest=digest)
        if self._trusted is not None:
            signatures(subject, self._trusted, statement, mirrors=self._mirrors, findings=self._findings)
        else:
            signed = record.table.get("signed")
            presence(subject, str(signed) if signed else None, is_there=self._is_there, findings=self._findings)

    def _is_there(self, tag: str) -> bool:
        try:
            return self._there.named(tag) is not None
        except Broken:
            return False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """A record to the byte, and read."""

    table: dict[str, Any]
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> _Record | None:
        try:
            table = parse_pin(content.decode(), file="the record beside the image")
        except (LockError, UnicodeDecodeError):
            return None
        return cls(table=table, content=content)


def _tags(record: Mapping[str, Any]) -> set[str]:
    """Return the tags that a record says its image has."""
    named = record.get("tags")
    reference = str(record.get("reference", "")).partition("@")[0].rpartition("/")[2].partition(":")[2]
    return {reference, *(str(tag) for tag in named if named)} if isinstance(named, list) else {reference}
