"""Real-looking deployments of every kind: byte for byte what stands in tests/data/deployments, and stable."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.deploy.pinning import NotNamed, Pinned, kind_of, pinned, unified_diff
from builder.errors import RecipeError
from builder.patches.apply import apply_patch
from builder.patches.diff import parse_patch
from builder.patches.tree import Held

from .conftest import CASES, DIGEST, NAME, OLD, TAG, target


def of(folder: Path) -> tuple[str, bytes, bytes]:
    (before,) = (folder / "before").iterdir()
    return before.name, before.read_bytes(), (folder / "after" / before.name).read_bytes()


def run(name: str, data: bytes, **options: object) -> Pinned:
    return pinned(data.decode(), file=name, target=target(), **options)  # type: ignore[arg-type]


def test_there_are_deployments_of_every_kind() -> None:
    assert len(CASES) >= 40
    assert {kind_of(of(folder)[0]) for folder in CASES} == {"yaml", "toml", "hcl", "dockerfile"}
    starts = {folder.name.partition("-")[0] for folder in CASES}
    assert starts >= {"kubernetes", "flux", "helm", "kustomize", "compose", "dockerfile", "toml", "terraform"}


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_deployment_is_changed_to_exactly_what_is_expected(folder: Path) -> None:
    name, before, after = of(folder)
    assert before != after
    assert run(name, before).after.encode() == after


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_second_time_changes_nothing(folder: Path) -> None:
    name, _, after = of(folder)
    again = run(name, after)
    assert again.after.encode() == after
    assert again.diff == ""
    assert not any(place.changes for place in again.places)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_diff_leads_from_the_one_to_the_other(folder: Path) -> None:
    name, before, after = of(folder)
    patch = parse_patch(run(name, before).diff.encode(), name="shown")
    applied = apply_patch(patch, Held.of({name: before}))
    made = applied.changes[name]
    assert made is not None
    assert made.data == after
    assert not applied.offsets


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_another_image_of_the_same_registry_is_not_touched(folder: Path) -> None:
    name, before, _ = of(folder)
    with pytest.raises(NotNamed):
        pinned(before.decode(), file=name, target=target(f"{NAME}-next"))


def test_f95_a_moving_tag_with_a_digest_stays_what_renovate_follows() -> None:
    before = f"services:\n  engine:\n    image: {NAME}:nightly@sha256:{'0' * 64}\n"
    done = pinned(before, file="compose.yaml", target=target(keep_tag=True))
    assert done.after == before.replace(f"sha256:{'0' * 64}", DIGEST)
    split = f"image:\n  repository: {NAME}\n  tag: nightly\n"
    done = pinned(split, file="values.yaml", target=target(keep_tag=True))
    assert done.after == split.replace("nightly", f"nightly@{DIGEST}")


def test_f95_a_reference_that_is_put_together_from_a_tag_and_text_is_refused_and_never_guessed() -> None:
    with pytest.raises(RecipeError) as refused:
        pinned(f"ARG MINOR=15\nFROM {NAME}:0.5.${{MINOR}}\n", file="Dockerfile", target=target())
    assert refused.value.details == ("line 2: FROM: its version is put together from several parts",)


def test_the_form_that_stands_there_stays() -> None:
    for before, after in (
        (f"{NAME}:1", f"{NAME}:{TAG}@{DIGEST}"),
        (f"{NAME}:{OLD}", f"{NAME}:{TAG}@{DIGEST}"),
        (f"{NAME}@sha256:{'0' * 64}", f"{NAME}@{DIGEST}"),
    ):
        text = "image: {}\n"
        assert pinned(text.format(before), file="values.yaml", target=target()).after == text.format(after)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("docker.io/rocm/vllm", "rocm/vllm"),
        ("docker.io/rocm/vllm", "docker.io/rocm/vllm"),
        ("docker.io/rocm/vllm", "index.docker.io/rocm/vllm"),
        ("docker.io/library/engine", "engine"),
        ("docker.io/library/engine", "docker.io/engine"),
        ("127.0.0.1:5000/rocm-images/tiny", "127.0.0.1:5000/rocm-images/tiny"),
    ],
)
def test_every_spelling_of_a_repository_is_found_and_stays(name: str, written: str) -> None:
    done = pinned(f"FROM {written}:1\n", file="Dockerfile", target=target(name))
    assert done.after == f"FROM {written}:{TAG}@{DIGEST}\n"


@pytest.mark.parametrize("tag", ["26.4", "1e3", "0x1f", "010", "2026-03-01", "on", "1_000", "12"])
def test_a_tag_that_would_read_as_a_number_or_a_date_is_written_in_quotes(tag: str) -> None:
    before = f"image:\n  repository: {NAME}\n  tag: v1 # plain\n  digest: ''\n"
    done = pinned(before, file="values.yaml", target=target(tag=tag))
    assert done.after == before.replace("v1", f'"{tag}"').replace("''", f"'{DIGEST}'")
    assert pinned(done.after, file="values.yaml", target=target(tag=tag)).diff == ""


def test_a_diff_ends_lines_at_line_feeds_alone_and_tells_of_a_missing_one() -> None:
    shown = unified_diff("a\x0bb\r\nold", "a\x0bb\r\nnew", file="/srv/x.yaml")
    assert shown == (
        "--- a/srv/x.yaml\n+++ b/srv/x.yaml\n@@ -1,2 +1,2 @@\n a\x0bb\r\n"
        "-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n"
    )


def test_a_default_counts_only_where_no_argument_has_one_already() -> None:
    for before in (f"FROM {NAME}:${{T:-1.0}}\n", f"ARG T\nFROM {NAME}:${{T:-1.0}}\n"):
        done = pinned(before, file="Dockerfile", target=target())
        assert done.after == before.replace("1.0", f"{TAG}@{DIGEST}")
    before = f"ARG T=2.0\nFROM {NAME}:${{T:-1.0}}\n"
    assert pinned(before, file="Dockerfile", target=target()).after == before.replace("2.0", f"{TAG}@{DIGEST}")


def test_the_name_of_what_is_built_there_is_not_pinned() -> None:
    bake = f'target "x" {{\n  tags = ["{NAME}:dev"]\n  contexts = {{ base = "docker-image://{NAME}:1" }}\n}}\n'
    done = pinned(bake, file="docker-bake.hcl", target=target())
    assert done.after == bake.replace(f"{NAME}:1", f"{NAME}:{TAG}@{DIGEST}")
    with pytest.raises(NotNamed) as refused:
        pinned(f"services:\n  a:\n    build: .\n    image: {NAME}:1\n", file="compose.yaml", target=target())
    assert refused.value.details == ("line 4: services.a.image is the name of what is built there",)


@pytest.mark.parametrize("empty", ["", " !!str", " &d", " ~ # none", " ''", ' ""', " null"])
def test_every_way_to_write_nothing_takes_a_digest(empty: str) -> None:
    before = f"image:\n  repository: {NAME}\n  digest:{empty}\n  tag: 1\n"
    after = pinned(before, file="values.yaml", target=target()).after
    kept = empty.replace("''", "").replace('""', "").replace("~", "").replace("null", "").split()
    assert [word for word in after.splitlines()[2].split() if DIGEST not in word] == ["digest:", *kept]
    assert DIGEST in after.splitlines()[2]
    assert after.splitlines()[:2] == before.splitlines()[:2]
