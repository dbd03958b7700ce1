"""Which record of an image may be pinned in a deployment: one whose tests passed, on every tier asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from builder.deploy.names import Target
from builder.errors import LockError, RecipeError, SmokeError
from builder.reference import LAYOUT, Digest, ImageReference, Place, parse_place, parse_repository

FORMATS = ("reference", "json", "github", "env", "digest")


def reference_of(table: Mapping[str, Any], *, file: str) -> Place:
    """Return what a record pins. Raises `LockError` where its parts do not agree."""
    try:
        reference = parse_place(str(table.get("reference")))
    except ValueError as error:
        raise LockError(f"{file}: reference: {error}") from error
    if reference.tag is None or reference.digest is None or table.get("digest") != str(reference.digest):
        raise LockError(
            f"{file}: reference: expected the tag and the digest that was tested, {table.get('digest')}; "
            f"got {reference}"
        )
    return reference


def in_layout(table: Mapping[str, Any]) -> bool:
    """Tell whether a record is of an image in a layout on disk."""
    return str(table.get("reference")).startswith(LAYOUT)


def target_of(table: Mapping[str, Any], *, file: str, mirror: str | None = None, keep_tag: bool = False) -> Target:
    """Return what a record has deployments name, below another name where `mirror` gives one."""
    reference = reference_of(table, file=file)
    if mirror is not None:
        name = _mirror(mirror)
    elif isinstance(reference, ImageReference):
        name = reference.at()
    else:
        raise LockError(
            f"{file}: reference: nothing can pull from an image layout, {reference.name}",
            hint="say where it was copied to: --as HOST/PATH; or publish it: --publish HOST/NAMESPACE",
        )
    return Target(name=name, tag=reference.tag or "", digest=Digest(str(reference.digest)), keep_tag=keep_tag)


def require_tested(table: Mapping[str, Any], *, file: str, tiers: Sequence[str] = ()) -> None:
    """Raise `SmokeError` unless every test that ran passed, on the cpu tier and on every other in `tiers`."""
    digest, image = table.get("digest"), str(table.get("image"))
    smoke = table.get("smoke")
    smoke = smoke if isinstance(smoke, Mapping) else {}
    ran, tests = (part if isinstance(part, Mapping) else {} for part in (smoke.get("tiers"), smoke.get("tests")))
    failed = [f"{name}: failed" for name, outcome in tests.items() if outcome == "failed"]
    failed += [f"{tier} tier: failed" for tier, outcome in ran.items() if outcome == "failed" and not failed]
    if failed:
        raise SmokeError(
            f"{file}: the smoke tests of {digest} did not pass",
            details=tuple(failed),
            hint=f"rocm-images test {image}",
        )
    for tier in dict.fromkeys(("cpu", *tiers)):
        if ran.get(tier) != "passed":
            raise SmokeError(
                f"{file}: the {tier} tier of the smoke tests: {ran.get(tier, 'not run')}, on {digest}",
                hint=f"rocm-images build {image} --publish HOST/NAMESPACE{_asking(tier)}",
            )


def _asking(tier: str) -> str:
    return f" --require {tier}, on a machine with a card" if tier != "cpu" else ""


def _mirror(text: str) -> ImageReference:
    try:
        return parse_repository(text)
    except ValueError as error:
        raise RecipeError(f"--as: {error}", hint="for example --as mirror.example.org/llm/sglang") from error


def shown(table: Mapping[str, Any], form: str, *, file: str) -> str:
    """Return a record in one of `FORMATS`. What goes into GitHub's outputs and env files is one line for each."""
    reference = reference_of(table, file=file)
    fingerprint = table.get("fingerprint")
    if not isinstance(fingerprint, str) or not re.fullmatch(r"[0-9a-f]{16}", fingerprint):
        raise LockError(f"{file}: fingerprint: expected 16 hex digits, got {fingerprint!r}")
    values = {
        "reference": str(reference), "repository": reference.name, "tag": str(reference.tag),
        "digest": str(reference.digest), "fingerprint": fingerprint,
    }  # fmt: skip
    match form:
        case "reference" | "digest":
            return values[form]
        case "github":
            return "\n".join(f"{key}={value}" for key, value in values.items())
        case "env":
            return "\n".join(f"IMAGE_{key.upper()}={value}" for key, value in values.items())
        case _:
            return json.dumps(table, indent=2, sort_keys=True, ensure_ascii=False)
