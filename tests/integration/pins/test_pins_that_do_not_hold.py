"""Pins that do not hold: each is refused with both values and exit code 3, and no lock is written or changed.

Everything goes over HTTP on loopback, through `mirrors.toml` and the real command line.
"""

from __future__ import annotations

import shutil

import pytest
import tomli

from .conftest import FILES, ROCM, Project, Repository, Site, archive_of

GONE = "0123456789abcdef0123456789abcdef01234567"


def from_git(repository: Repository, commit: str, *, tag: str | None = None, branch: str | None = None) -> str:
    ref = f'tag = "{tag}"' if tag is not None else f'branch = "{branch}"'
    return (
        f'[source.engine]\ngit = "{repository.url}"\ncommit = "{commit}"\n{ref}\n\n'
        '[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\nbuild = ["make DESTDIR={destdir}"]\n'
    )


def component(name: str, version: str, index: str | None = None, more: str = "", wheel: str | None = None) -> str:
    where = f'index = "{index}"\n' if index is not None else ""
    return f'[[component]]\nname = "{name}"\nwheel = "{wheel or name}"\nversion = "{version}"\n{where}{more}\n'


@pytest.fixture
def repository(site: Site) -> Repository:
    return site.repository("engine")


@pytest.mark.parametrize("kind", ["lightweight", "annotated"])
def test_f35_f49_a_tag_that_moved_is_refused_with_both_commits(
    repository: Repository, project: Project, kind: str
) -> None:
    words = ["-a", "-m", "release"] if kind == "annotated" else []
    first = repository.commit({"Makefile": "all:\n"})
    repository.git("tag", *words, "v1.0")
    repository.push("v1.0")
    project.recipe(from_git(repository, first, tag="v1.0"))
    locked = project.lock()
    assert f'commit = "{first}"' in locked
    second = repository.commit({"Makefile": "all: install\n"})
    repository.git("tag", "--force", *words, "v1.0")
    repository.push("v1.0")
    said = project.refused()
    assert f"tag 'v1.0' has moved: pinned is {first}, it is now at {second}" in said
    project.lock_file().unlink()
    assert f"it is now at {second}" in project.refused()


def test_the_object_of_an_annotated_tag_is_not_its_commit(repository: Repository, project: Project) -> None:
    commit = repository.commit({"Makefile": "all:\n"})
    repository.git("tag", "-a", "-m", "release", "v1.0")
    repository.push("v1.0")
    object_ = repository.git("rev-parse", "v1.0")
    project.recipe(from_git(repository, object_, tag="v1.0"))
    said = project.refused()
    assert f"{object_} is the object of tag 'v1.0', not its commit" in said
    assert f"commit = '{commit}'" in said


def test_a_commit_that_is_not_on_its_branch_is_refused(repository: Repository, project: Project) -> None:
    tip = repository.commit({"Makefile": "all:\n"})
    aside = repository.commit({"Makefile": "all: aside\n"}, branch="aside")
    project.recipe(from_git(repository, aside, branch="main"))
    said = project.refused()
    assert f"commit {aside} is not on branch 'main', which is at {tip}" in said
    repository.git("push", "--quiet", "origin", "--delete", "aside")
    project.recipe(from_git(repository, tip, branch="main"))
    project.lock()


def test_a_branch_that_is_gone_is_refused_and_no_other_is_taken(repository: Repository, project: Project) -> None:
    commit = repository.commit({"Makefile": "all:\n"}, branch="release")
    repository.commit({"Makefile": "all:\n"})
    project.recipe(from_git(repository, commit, branch="release"))
    project.lock()
    repository.git("push", "--quiet", "origin", "--delete", "release")
    repository.served()
    assert "there is no branch 'release'" in project.refused()


def test_a_commit_that_the_repository_does_not_have_is_refused(repository: Repository, project: Project) -> None:
    tip = repository.commit({"Makefile": "all:\n"})
    project.recipe(from_git(repository, GONE, branch="main"))
    assert f"commit {GONE} is not on branch 'main', which is at {tip}" in project.refused()


def test_a_repository_that_is_not_there_is_refused_and_nobody_is_asked_for_a_password(
    repository: Repository, project: Project
) -> None:
    commit = repository.commit({"Makefile": "all:\n"}, branch="main")
    project.recipe(from_git(repository, commit, branch="main"))
    shutil.rmtree(repository.bare)
    said = project.refused()
    assert "https://git.example.org/engine: there is no such repository" in said


def test_a_submodule_that_is_gone_is_named(site: Site, repository: Repository, project: Project) -> None:
    inner = site.repository("inner")
    pinned = inner.commit({"inner.c": "int inner;\n"})
    repository.commit({".gitmodules": '[submodule "inner"]\n\tpath = third_party/inner\n\turl = ../inner\n'})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{pinned},third_party/inner")
    repository.git("commit", "--quiet", "-m", "pin inner")
    repository.push("main")
    commit = repository.git("rev-parse", "HEAD")
    project.recipe(from_git(repository, commit, branch="main"))
    locked = project.lock()
    assert tomli.loads(locked)["source"]["engine"]["submodule"] == [
        {"path": "third_party/inner", "url": "https://git.example.org/inner", "commit": pinned}
    ]
    shutil.rmtree(project.root / ".rocm-images")
    shutil.rmtree(inner.bare)
    said = project.refused()
    assert "submodule 'third_party/inner' of https://git.example.org/engine: " in said
    assert "there is no such repository" in said


def from_archive(sha256: str) -> str:
    return (
        f'[source.engine]\narchive = "{FILES}/engine-1.0.tar.gz"\nsha256 = "{sha256}"\n\n'
        '[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\nbuild = ["make DESTDIR={destdir}"]\n'
    )


def test_an_archive_that_is_cut_short_is_refused_with_both_hashes(site: Site, project: Project) -> None:
    whole = archive_of({"engine-1.0/Makefile": "all:\n", "engine-1.0/engine.c": "int engine;\n" * 500})
    sha256 = site.archive("engine-1.0.tar.gz", whole)
    cut = site.archive("engine-1.0.tar.gz", whole[:-40])
    project.recipe(from_archive(sha256))
    said = project.refused()
    assert f"engine-1.0.tar.gz: expected sha256 {sha256}, got {cut}" in said


def test_an_archive_that_was_cut_short_before_it_was_pinned_is_refused(site: Site, project: Project) -> None:
    whole = archive_of({"engine-1.0/Makefile": "all:\n", "engine-1.0/engine.c": "int engine;\n" * 500})
    project.recipe(from_archive(site.archive("engine-1.0.tar.gz", whole[:-40])))
    assert "engine-1.0.tar.gz: is no complete archive" in project.refused()


def test_an_archive_with_another_hash_is_refused_with_both(site: Site, project: Project) -> None:
    sha256 = site.archive("engine-1.0.tar.gz", archive_of({"engine-1.0/Makefile": "all:\n"}))
    project.recipe(from_archive(sha256))
    project.lock()
    shutil.rmtree(project.root / ".rocm-images")
    other = site.archive("engine-1.0.tar.gz", archive_of({"engine-1.0/Makefile": "all: more\n"}))
    said = project.refused()
    assert f"expected sha256 {sha256}" in said
    assert f"got {other}" in said


def test_an_archive_that_is_gone_is_refused(site: Site, project: Project) -> None:
    project.recipe(from_archive("ab" * 32))
    said = project.refused()
    assert "engine-1.0.tar.gz: can no longer be fetched: 404 at " in said


def test_a_source_archive_whose_bytes_are_not_what_its_index_says_is_refused(site: Site, project: Project) -> None:
    sha256 = site.sdist("engine", "1.0", {"PKG-INFO": "Metadata-Version: 2.2\nName: engine\nVersion: 1.0\n"})
    (site.root / "simple/engine/engine-1.0.tar.gz").write_bytes(b"another build")
    project.recipe(
        '[source.engine]\nsdist = "engine"\nversion = "1.0"\n\n'
        '[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\n'
    )
    said = project.refused()
    assert f"engine-1.0.tar.gz: expected sha256 {sha256}" in said


def test_a_release_without_source_archive_is_refused_with_those_that_have_one(
    site: Site, project: Project
) -> None:
    site.sdist("engine", "0.9", {"PKG-INFO": "Metadata-Version: 2.2\nName: engine\nVersion: 0.9\n"})
    site.wheel("engine", "1.0")
    project.recipe(
        '[source.engine]\nsdist = "engine"\nversion = "1.0"\n\n'
        '[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\n'
    )
    said = project.refused()
    assert "source.engine: there is no sdist of engine 1.0" in said
    assert "there is: 0.9" in said


def test_an_index_that_serves_only_another_build_of_the_version_is_refused(site: Site, project: Project) -> None:
    site.wheel("torch", "2.11.0+cpu", index="rocm")
    site.wheel("torch", "2.11.0")
    project.recipe(component("torch", "2.11.0+rocm7.2", ROCM))
    said = project.refused()
    assert f"component.torch: {ROCM} has no wheel of torch 2.11.0+rocm7.2" in said
    assert "there is torch 2.11.0+cpu" in said


def test_a_generic_triton_that_is_newer_is_never_taken_for_the_rocm_one(site: Site, project: Project) -> None:
    site.wheel("triton", "3.7.0")
    rocm = site.wheel("triton", "3.6.0+rocm7.2", index="rocm")
    project.recipe(component("triton", "3.6.0+rocm7.2", ROCM, "protected = true"))
    locked = project.lock()
    assert (
        f'version = "3.6.0+rocm7.2"\nfile = "triton-3.6.0+rocm7.2-py3-none-any.whl"\nsha256 = "{rocm}"' in locked
    )
    assert f'index = "{ROCM}"' in locked
    site.wheel("torch", "2.12.0", index="rocm", requires=("triton>=3.7",))
    project.recipe(
        component("triton", "3.6.0+rocm7.2", ROCM, "protected = true") + component("torch", "2.12.0", ROCM)
    )
    said = project.refused()
    assert "component.triton: triton is protected at 3.6.0+rocm7.2, but torch==2.12.0 asks for triton>=3.7" in said


def test_f17_f32_a_distribution_that_the_base_protects_is_not_replaced(site: Site, project: Project) -> None:
    site.wheel("torch", "2.12.0")
    site.wheel("engine", "1.0", requires=("torch>=2.12",))
    project.recipe(
        '[[component]]\nname = "torch"\nbase = "torch"\nversion = "2.11.0+rocm7.2"\n\n'
        + component("engine", "1.0")
    )
    said = project.refused()
    assert "torch is protected at 2.11.0+rocm7.2, but engine==1.0 asks for torch>=2.12" in said


def test_the_unrelated_distribution_aiter_is_not_taken_for_amd_aiter(site: Site, project: Project) -> None:
    site.wheel("aiter", "0.13.20191203")
    site.wheel("amd-aiter", "0.1.19")
    project.recipe(component("aiter", "0.1.19"))
    said = project.refused()
    assert "component.aiter: the default Python index has no wheel of aiter 0.1.19" in said or (
        "/simple has no wheel of aiter 0.1.19" in said
    )
    assert "there is aiter 0.13.20191203" in said
    project.recipe(component("aiter", "0.1.19", wheel="amd-aiter"))
    assert 'project = "amd-aiter"' in project.lock()


def test_a_forbidden_aiter_that_the_engine_asks_for_is_refused_naming_the_engine(
    site: Site, project: Project
) -> None:
    site.wheel("aiter", "0.13.20191203")
    site.wheel("vllm", "0.28.0", requires=("aiter",))
    project.recipe('forbid = ["aiter"]\n' + component("vllm", "0.28.0"))
    said = project.refused()
    assert "forbid: the resolved set would contain aiter" in said
    assert "aiter==0.13.20191203" in said
    assert "via vllm" in said


def test_a_yanked_file_is_refused_with_the_reason(site: Site, project: Project) -> None:
    site.wheel("triton", "3.6.0", yanked="miscompiles on gfx1201")
    project.recipe(component("triton", "3.6.0"))
    said = project.refused()
    assert "triton-3.6.0-py3-none-any.whl: yanked by its authors: miscompiles on gfx1201" in said


def test_a_yanked_source_archive_is_refused_with_the_reason(site: Site, project: Project) -> None:
    site.sdist(
        "engine", "1.0", {"PKG-INFO": "Metadata-Version: 2.2\nName: engine\nVersion: 1.0\n"}, yanked="wrong branch"
    )
    project.recipe(
        '[source.engine]\nsdist = "engine"\nversion = "1.0"\n\n'
        '[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\n'
    )
    assert "engine-1.0.tar.gz: yanked by its authors: wrong branch" in project.refused()
