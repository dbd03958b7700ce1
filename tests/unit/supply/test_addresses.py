"""What identifies an address goes into documents, what lets somebody in does not."""

from __future__ import annotations

import pytest

from builder.supply.addresses import git_purl, public

COMMIT = "fdebc938f7f4d16fe6b9f55dcd9a767cf0899ea1"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:secret@git.example.org/a/b.git", "https://git.example.org/a/b.git"),
        ("https://secret@git.example.org:8443/a", "https://git.example.org:8443/a"),
        ("https://files.example.org/a.tar.gz?X-Signature=secret#part", "https://files.example.org/a.tar.gz"),
        ("ssh://git@git.example.org/a", "ssh://git.example.org/a"),
        ("secret@git.example.org:a/b.git", "ssh://git.example.org/a/b.git"),
        ("https://git.example.org/a@b", "https://git.example.org/a@b"),
    ],
)
def test_an_address_without_what_lets_somebody_in(address: str, shown: str) -> None:
    assert public(address) == shown


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/ROCm/Triton",
        "https://github.com/ROCm/Triton.git",
        "ssh://git@github.com/ROCm/Triton.git/",
        "git@github.com:ROCm/Triton.git",
    ],
)
def test_a_commit_on_github_has_one_name_however_it_is_fetched(address: str) -> None:
    assert git_purl("x", address, COMMIT) == f"pkg:github/rocm/triton@{COMMIT}"
