"""What a lock holds of every kind of pin, and what an update of one of them leaves alone."""

from __future__ import annotations

import shutil

import pytest
import tomli

from .conftest import FILES, ROCM, Project, Site, archive_of

PYPROJECT = """
[project]
name = "engine"
version = "1.0"
dependencies = ["numpy", "tomli; python_version < '3.11'"]
[project.optional-dependencies]
all = ["engine[audio]"]
audio = ["soundfile>=0.12"]
"""
ENGINE = '\n[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\n'


def projects(lock: str) -> dict[str, str]:
    """Return the layer of every Python distribution of a lock."""
    return {file["project"]: file["layer"] for file in tomli.loads(lock)["python"]}


@pytest.fixture
def wheels(site: Site) -> None:
    for project, version in (("numpy", "2.2.4"), ("soundfile", "0.13"), ("setuptools", "80.1"), ("tomli", "2.2")):
        site.wheel(project, version)


@pytest.mark.usefixtures("wheels")
def test_f27_a_lock_holds_every_kind_of_source_and_is_the_same_twice(site: Site, project: Project) -> None:
    repository = site.repository("kernels")
    commit = repository.commit({"Makefile": "all:\n"})
    repository.git("tag", "v1.0")
    repository.push("v1.0")
    sdist = site.sdist("engine", "1.0", {"pyproject.toml": PYPROJECT})
    archive = site.archive("data-1.0.tar.gz", archive_of({"data-1.0/Makefile": "all:\n"}))
    (project.root / "images/probe/probe").mkdir(parents=True)
    (project.root / "images/probe/probe/Makefile").write_text("all:\n")
    build = 'version = "1.0"\nbuild = ["make DESTDIR={destdir}"]\n'
    project.recipe(
        f'[source.kernels]\ngit = "{repository.url}"\ncommit = "{commit}"\ntag = "v1.0"\n'
        '[source.engine]\nsdist = "engine"\nversion = "1.0"\n'
        f'[source.data]\narchive = "{FILES}/data-1.0.tar.gz"\nsha256 = "{archive}"\n'
        '[source.probe]\npath = "probe"\n'
        + "".join(
            f'[[component]]\nname = "{name}"\nsource = "{name}"\n{build}' for name in ("kernels", "data", "probe")
        )
        + ENGINE
        + 'extras = ["all"]\nbuild-requires = ["setuptools"]\n'
    )
    locked = project.lock()
    assert project.lock() == locked
    sources = tomli.loads(locked)["source"]
    tree = repository.git("rev-parse", f"{commit}^{{tree}}")
    assert sources["kernels"] == {"tree": tree, "commit": commit}
    assert sources["engine"]["file"] == "engine-1.0.tar.gz"
    assert (sources["engine"]["sha256"], sources["engine"]["index"]) == (sdist, "default")
    assert sources["data"]["sha256"] == archive
    assert sources["data"]["size"] == (site.root / "files/data-1.0.tar.gz").stat().st_size
    assert len(sources["probe"]["tree"]) == 64
    assert projects(locked) == {"numpy": "dependencies", "soundfile": "dependencies", "setuptools": "engine.build"}


@pytest.mark.usefixtures("wheels")
def test_requirements_come_from_the_files_the_recipe_names(site: Site, project: Project) -> None:
    site.sdist(
        "engine", "1.0",
        {
            "setup.py": "raise SystemExit('this is executed')\n",
            "requirements/rocm.txt": "-r common.txt\n--extra-index-url https://elsewhere.example.org/simple\n"
                                     "soundfile >= 0.12  # for audio\n",
            "requirements/common.txt": "numpy; platform_machine == 'x86_64'\nold; python_version < '3.12'\n",
        },
    )  # fmt: skip
    source = '[source.engine]\nsdist = "engine"\nversion = "1.0"\n'
    project.recipe(source + ENGINE + 'requires-files = ["requirements/rocm.txt"]\n')
    assert projects(project.lock()) == {"numpy": "dependencies", "soundfile": "dependencies"}
    project.recipe(source + ENGINE)
    said = project.refused(code=2)
    assert "component.engine: what it needs at run time is not written in its tree" in said
    assert "'requires-files'" in said
    assert "'requires' and 'reason'" in said


def test_a_tree_of_another_distribution_is_refused_when_it_is_locked(site: Site, project: Project) -> None:
    site.sdist("engine", "1.0", {"pyproject.toml": PYPROJECT.replace('"engine"', '"engine-rocm"')})
    project.recipe('[source.engine]\nsdist = "engine"\nversion = "1.0"\n' + ENGINE)
    assert (
        "component.engine.name: its source builds the distribution 'engine-rocm', not 'engine'"
        in project.refused(code=2)
    )


def test_a_flat_index_is_read_and_named_in_the_lock(site: Site, project: Project) -> None:
    sha256 = site.wheel("torch", "2.11.0+rocm7.2", index="rocm")
    page = site.root / "rocm/torch/index.html"
    (site.root / "rocm/index.html").write_text(page.read_text().replace('href="', 'href="torch/'))
    page.unlink()
    project.recipe(
        '[[component]]\nname = "torch"\nwheel = "torch"\nversion = "2.11.0+rocm7.2"\n'
        f'index = {{ url = "{ROCM}", kind = "flat" }}\n'
    )
    (file,) = tomli.loads(project.lock())["python"]
    assert (file["sha256"], file["index"], file["index-kind"]) == (sha256, ROCM, "flat")


def wheel(name: str, version: str) -> str:
    return f'[[component]]\nname = "{name}"\nwheel = "{name}"\nversion = "{version}"\n'


def test_a_wheelhouse_stands_in_for_an_index_that_does_not_answer(site: Site, project: Project) -> None:
    text = f'[[component]]\nname = "torch"\nwheel = "torch"\nversion = "2.11.0+cpu"\nindex = "{ROCM}"\n'
    hashes = {
        version: site.wheel("torch", version, index="rocm", tag="cp312-cp312-manylinux_2_28_x86_64")
        for version in ("2.10.0+cpu", "2.11.0+cpu", "2.12.0+cpu")
    }
    site.wheel("torch", "2.11.0+cpu", index="rocm", tag="cp311-cp311-manylinux_2_28_x86_64")
    project.recipe(text)
    answered = project.lock()
    assert f'sha256 = "{hashes["2.11.0+cpu"]}"' in answered
    shutil.move(site.root / "rocm/torch", project.root / "wheels")
    mirrors = project.root / "mirrors.toml"
    silent = mirrors.read_text().replace(f"{site.url}/rocm", "http://127.0.0.1:9/whl")
    mirrors.write_text(f'wheelhouses = ["wheels"]\n{silent}')
    outcome = project.run("lock", "probe")
    assert outcome.code == 0, outcome.err
    assert f"component.torch: {ROCM} does not answer; torch-2.11.0+cpu-cp312" in outcome.err
    assert tomli.loads(project.lock_file().read_text())["python"] == tomli.loads(answered)["python"]


def test_an_update_of_one_component_leaves_every_other_line_alone(site: Site, project: Project) -> None:
    site.wheel("numpy", "2.2.4")
    for version in ("3.6.0", "3.6.1"):
        site.wheel("triton", version, requires=("numpy",))
    site.wheel("sglang", "0.5.16", requires=("numpy", "orjson"))
    site.wheel("orjson", "3.10")
    project.recipe(wheel("triton", "3.6.0") + wheel("sglang", "0.5.16"))
    before = project.lock()
    for name, version in (("numpy", "2.3.0"), ("orjson", "3.11")):
        site.wheel(name, version)
    project.recipe(wheel("triton", "3.6.1") + wheel("sglang", "0.5.16"))
    outcome = project.run("lock", "probe", "--update", "triton")
    assert outcome.code == 0, outcome.err
    assert "triton: 3.6.0 -> 3.6.1" in outcome.err
    assert "orjson:" not in outcome.err
    after = project.lock_file().read_text()
    old, new = tomli.loads(before), tomli.loads(after)
    assert new["asked"].pop("component.triton") != old["asked"].pop("component.triton")
    kept = [[file for file in lock["python"] if file["project"] != "triton"] for lock in (old, new)]
    assert kept[0] == kept[1]
    assert {**old, "python": []} == {**new, "python": []}
    assert len(after.splitlines()) == len(before.splitlines())
    assert projects(project.lock())  # a whole lock takes what is newer
    assert 'version = "2.3.0"' in project.lock_file().read_text()


def test_an_update_is_refused_when_more_has_changed_and_names_it(site: Site, project: Project) -> None:
    for name, version in (("triton", "3.6.0"), ("triton", "3.6.1"), ("sglang", "0.5.16"), ("sglang", "0.5.17")):
        site.wheel(name, version)
    project.recipe(wheel("triton", "3.6.0") + wheel("sglang", "0.5.16"))
    assert "there is no lock to update" in project.refused("--update", "triton")
    project.lock()
    project.recipe(wheel("triton", "3.6.1") + wheel("sglang", "0.5.17"))
    said = project.refused("--update", "triton")
    assert "not only triton changed since it was made: component.sglang" in said
    assert "no component or source is called 'tritn'" in project.refused("--update", "tritn", code=2)


def test_an_update_of_a_folder_leaves_the_rest_alone_and_its_change_alone_is_told(
    site: Site, project: Project
) -> None:
    site.wheel("triton", "3.6.0")
    folder = project.root / "images/probe/probe"
    folder.mkdir(parents=True)
    (folder / "Makefile").write_text("all:\n")
    project.recipe(
        '[source.probe]\npath = "probe"\n' + wheel("triton", "3.6.0")
        + '[[component]]\nname = "probe"\nsource = "probe"\nversion = "1"\nbuild = ["make DESTDIR={destdir}"]\n'
    )  # fmt: skip
    before = project.lock()
    (folder / "Makefile").write_text("all: more\n")
    site.asked.clear()
    outcome = project.run("lock", "probe", "--update", "probe")
    assert outcome.code == 0, outcome.err
    after = project.lock_file().read_text()
    (old,), (new,) = (
        set(before.splitlines()) - set(after.splitlines()),
        set(after.splitlines()) - set(before.splitlines()),
    )
    assert old.startswith("tree = ")
    assert new.startswith("tree = ")
    assert "source probe: " in outcome.err
    assert site.asked == []


def test_an_image_on_another_one_installs_nothing_that_is_there(site: Site, project: Project) -> None:
    site.wheel("numpy", "2.2.4")
    site.wheel("torch", "2.11.0", requires=("numpy",))
    site.wheel("sglang", "0.5.16", requires=("torch>=2.11", "numpy", "orjson"))
    site.wheel("orjson", "3.10")
    project.recipe(wheel("torch", "2.11.0"), name="bottom")
    project.lock(name="bottom")
    site.wheel("numpy", "2.3.0")
    on_bottom = '[base.build]\nrecipe = "bottom"\n[base.runtime]\nrecipe = "bottom"\n'
    project.recipe(
        '[[component]]\nname = "torch"\nbase = "torch"\nversion = "2.11.0"\n' + wheel("sglang", "0.5.16"),
        base=on_bottom,
    )
    locked = project.lock()
    assert projects(locked) == {"orjson": "dependencies", "sglang": "sglang"}
    project.recipe('[[component]]\nname = "torch"\nbase = "torch"\nversion = "2.12.0"\n', base=on_bottom)
    said = project.refused()
    assert "component.torch.version: the recipe pins 2.12.0, image bottom has 2.11.0" in said
    project.recipe(wheel("numpy", "2.3.0"), base=on_bottom)
    said = project.refused(code=2)
    assert "component.numpy: image bottom has numpy 2.2.4 already" in said
