"""Image references and digests: what is read, what is refused, and that nothing is lost on the way."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.reference import (
    Digest,
    ImageReference,
    LayoutReference,
    parse_place,
    parse_reference,
    parse_repository,
    parse_target,
)

HEX = "ab" * 32
DIGEST = f"sha256:{HEX}"

HOSTS = st.sampled_from(
    ["docker.io", "ghcr.io", "localhost", "127.0.0.1:5999", "localhost:5000", "[::1]:5000", "a-b.c"]
)
PARTS = st.from_regex(r"[a-z0-9]+(?:(?:\.|_|__|-{1,3})[a-z0-9]+){0,2}", fullmatch=True)
TAGS = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True)
DIGESTS = st.none() | st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True).map(Digest)


@given(HOSTS, st.lists(PARTS, min_size=1, max_size=4), TAGS, DIGESTS)
def test_a_reference_written_and_read_is_the_same(
    host: str, parts: list[str], tag: str | None, digest: Digest | None
) -> None:
    reference = ImageReference(host=host, path="/".join(parts), tag=tag, digest=digest)
    assert parse_reference(str(reference)) == reference


@given(st.text(alphabet="aZ0.:/@-_[]\n ", max_size=30).map("a.b/".__add__) | st.text(max_size=60))
def test_whatever_is_read_as_a_reference_is_written_as_it_was(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a registry host first, as in 'docker.io/rocm/vllm', got ''"),
        ("vllm", "expected a registry host first, as in 'docker.io/rocm/vllm', got 'vllm'"),
        ("rocm/vllm:1", "expected a registry host first, as in 'docker.io/rocm/vllm', got 'rocm/vllm:1'"),
        (
            "https://docker.io/rocm/vllm",
            "expected a registry host first, as in 'docker.io/rocm/vllm', got 'https://docker.io/rocm/vllm'",
        ),
        ("docker.io/", "expected a lower-case repository path after the host, got ''"),
        ("docker.io/ROCm/vllm", "expected a lower-case repository path after the host, got 'ROCm/vllm'"),
        ("docker.io/rocm//vllm", "expected a lower-case repository path after the host, got 'rocm//vllm'"),
        ("docker.io/rocm/../vllm", "expected a lower-case repository path after the host, got 'rocm/../vllm'"),
        ("docker.io/rocm/vllm\n", "expected a lower-case repository path after the host, got 'rocm/vllm\\n'"),
        ("docker.io/rocm/vllm:", "expected a tag of at most 128 letters, digits, '.', '_', '-', got ''"),
        ("docker.io/rocm/vllm:-1", "expected a tag of at most 128 letters, digits, '.', '_', '-', got '-1'"),
        ("docker.io/rocm/vllm:a b", "expected a tag of at most 128 letters, digits, '.', '_', '-', got 'a b'"),
        ("docker.io/rocm/vllm@", "expected 'sha256:' and 64 hex digits, got ''"),
        ("docker.io/rocm/vllm@sha256:abc", "expected 'sha256:' and 64 hex digits, got 'sha256:abc'"),
        (f"docker.io/rocm/vllm@sha512:{HEX}", f"expected 'sha256:' and 64 hex digits, got 'sha512:{HEX}'"),
        (
            f"docker.io/rocm/vllm@{DIGEST}@{DIGEST}",
            f"expected 'sha256:' and 64 hex digits, got '{DIGEST}@{DIGEST}'",
        ),
    ],
)
def test_what_is_no_reference_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_reference(text)


def test_a_tag_of_128_characters_is_the_longest() -> None:
    assert parse_reference(f"docker.io/a/b:{'t' * 128}").tag == "t" * 128
    with pytest.raises(ValueError, match="at most 128"):
        parse_reference(f"docker.io/a/b:{'t' * 129}")


@pytest.mark.parametrize("text", [DIGEST.upper(), f"{DIGEST}0", DIGEST[:-1], f" {DIGEST}", HEX, f"{DIGEST}\n"])
def test_a_digest_is_lower_case_and_of_full_length(text: str) -> None:
    with pytest.raises(ValueError, match="expected 'sha256:' and 64 hex digits"):
        Digest(text)


def test_the_digits_of_a_digest_stand_alone_as_hex() -> None:
    assert Digest(DIGEST).hex == HEX
    assert str(Digest(DIGEST)) == DIGEST


def test_a_reference_can_be_pointed_at_another_tag_and_digest() -> None:
    reference = parse_reference(f"docker.io/rocm/vllm:1@{DIGEST}")
    assert str(reference.at(tag="2")) == "docker.io/rocm/vllm:2"
    assert str(reference.at(digest=Digest(DIGEST))) == f"docker.io/rocm/vllm@{DIGEST}"
    assert reference.name == "docker.io/rocm/vllm"


@pytest.mark.parametrize("text", ["docker.io/rocm/vllm:1", f"docker.io/rocm/vllm@{DIGEST}"])
def test_a_place_to_publish_to_has_neither_tag_nor_digest(text: str) -> None:
    with pytest.raises(ValueError, match="without tag or digest"):
        parse_repository(text)
    assert str(parse_repository("127.0.0.1:5000/rocm-images/tiny")) == "127.0.0.1:5000/rocm-images/tiny"


FOLDERS = st.from_regex(r"/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_-]+){0,3}", fullmatch=True).filter(
    lambda folder: not folder.startswith("./") and folder != "."
)


@given(FOLDERS, TAGS, DIGESTS)
def test_a_layout_written_and_read_is_the_same(folder: str, tag: str | None, digest: Digest | None) -> None:
    place = LayoutReference(folder=folder, tag=tag, digest=digest)
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("text", "beside"),
    [("oci:out/tiny", "oci:out/base"), ("oci:/tiny", "oci:/base"), ("oci:tiny", "oci:base"),
     ("127.0.0.1:5000/team/tiny", "127.0.0.1:5000/team/base"), ("127.0.0.1:5000/tiny", "127.0.0.1:5000/base")],
)  # fmt: skip
def test_what_an_image_is_built_on_is_published_beside_it(text: str, beside: str) -> None:
    assert str(parse_target(text).beside("base")) == beside


@pytest.mark.parametrize("text", ["oci:a:b/tiny", "oci:a@b/tiny", "oci:out/tiny:1", f"oci:out/tiny@{DIGEST}"])
def test_a_folder_of_layouts_is_named_without_what_would_read_as_a_tag_or_digest(text: str) -> None:
    with pytest.raises(ValueError, match="expected 'oci:' and a folder whose name has no ':' and no '@'"):
        parse_target(text)


@pytest.mark.parametrize("text", ["oci:", "oci:a\nb", "oci::1", "oci:out:-1", "oci:out@sha256:1"])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_place(text)


def test_a_place_without_the_word_for_layouts_is_a_registry() -> None:
    assert isinstance(parse_place("docker.io/rocm/vllm:1"), ImageReference)
    with pytest.raises(ValueError, match="without tag or digest"):
        parse_target("docker.io/rocm/vllm:1")
