"""Parsers of what strangers write end with a value or with words, whatever the bytes are."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...fuzz.targets import TARGETS, Target

# Bounded in number: what takes a disk or whole models gets fewer.
EXAMPLES = {"archive": 40, "toml": 40, "patch": 150, "bundle": 60}
HUGE = st.sampled_from([b"\xff" * 8, b"\0" * 8, b"9" * 5000, b"[" * 3000, b"\x1b[2J", b"\xe2\x80\xae", b"-1"])


@st.composite
def mangled(draw: st.DrawFn, target: Target) -> bytes:
    """An example of what the parser reads, with some places cut, repeated or replaced."""
    data = draw(st.sampled_from(target.seeds))
    for _ in range(draw(st.integers(1, 6))):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        words = st.sampled_from(target.words) if target.words else st.just(b"")
        piece = draw(st.one_of(words, HUGE, st.binary(max_size=12), st.just(data[start:stop])))
        keep = draw(st.booleans())
        data = data[:start] + piece + data[start if keep else min(stop, start + len(piece)) :]
    return data[: 2 * target.longest]


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_parser_reads_anything_to_an_end(name: str) -> None:
    target = TARGETS[name]

    @given(mangled(target))
    @settings(
        deadline=None, max_examples=EXAMPLES.get(name, 100), suppress_health_check=list(HealthCheck), database=None
    )
    def reads(data: bytes) -> None:
        target.run(data)

    reads()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_parser_reads_its_examples(name: str) -> None:
    assert TARGETS[name].seeds
    for seed in TARGETS[name].seeds:
        TARGETS[name].run(seed)
