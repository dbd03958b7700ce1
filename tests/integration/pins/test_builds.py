"""Every kind of source, base and component, built by the real engine on Debian 12, from lock to smoke test."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli
import tomli_w

from builder.layering import LARGE

from .conftest import FILES, GIT, Outcome, Project, Site, archive_of, project_at, serving

pytestmark = pytest.mark.engine

HOME = '[image]\nwritable = ["/tmp", "/var/cache/engine"]\nenv = { HOME = "/var/cache/engine" }\n'
ON_DEBIAN = (
    '[base.build]\ndebian = { suite = "bookworm" }\napt = ["ccache", "gcc", "libc6-dev", "make", "python3"]\n\n'
    '[base.runtime]\ndebian = { suite = "bookworm" }\napt = ["python3"]\n'
)
ON_TOOLS = '[base.build]\nrecipe = "tools"\n\n[base.runtime]\nrecipe = "tools"\napt = ["bc"]\n'
MAKEFILE = (
    "install:\n\tmkdir -p $(DESTDIR)/usr/bin\n\t$(CC) -o $(DESTDIR)/usr/bin/greet main.c third_party/word/word.c\n"
)
MAIN = '#include <stdio.h>\nconst char *word(void);\nint main(void) { printf("%s\\n", word()); return 0; }\n'
WORD = 'const char *word(void) { return "from the submodule"; }\n'
# A build backend that needs nothing: it packs one module, which says what the build saw.
BACKEND = """
import os, zipfile
import demo

def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = os.environ.get("STAMP") or os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"]
    name, info = f"above-{version}-py3-none-any.whl", f"above-{version}.dist-info"
    seen = {"needs": demo.version, "gfx": os.environ["TARGETS"], "network": os.path.exists("/sys/class/net/eth0")}
    import helper
    seen["build-requires"] = helper.version
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("above.py", f"seen = {seen!r}\\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: above\\nVersion: {version}\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", f"above.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
    return name
"""
PYPROJECT = """
[build-system]
requires = ["a-backend-that-nobody-fetches"]
build-backend = "backend"
backend-path = ["."]
[project]
name = "above"
version = "3.1"
dependencies = ["demo"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("loopback") / "site") as made:
        yield made


@pytest.fixture(scope="module")
def project(site: Site) -> Iterator[Project]:
    made = project_at(site.root.parent / "project", site)
    yield made
    for name in ("tools", "above", "stamped", "bumped", "recalled", "vllm-empty", "sharing"):
        listed = docker("image", "ls", "--quiet", "--filter", f"reference=rocm-images.local/{name}")
        for image in dict.fromkeys(listed.split()):
            docker("image", "rm", "--force", image)


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(image: str, code: str) -> str:
    return docker("run", "--rm", "--network=none", "--entrypoint", "/usr/bin/python3", image, "-c", code).strip()


def build(project: Project, name: str, *words: str) -> str:
    locked = project.run("lock", name, *words)
    assert locked.code == 0, locked.err
    built = project.run("build", name, *words)
    assert built.code == 0, built.err[-3000:]
    return built.out.strip()


@pytest.fixture(scope="module")
def tools(site: Site, project: Project) -> str:
    """Build an image of a git source with a submodule, an archive, a wheel and packages; return its id."""
    word, greet = site.repository("word"), site.repository("greet")
    pinned = word.commit({"word.c": WORD})
    greet.commit(
        {"Makefile": MAKEFILE, "main.c": MAIN,
         ".gitmodules": '[submodule "w"]\n\tpath = third_party/word\n\turl = ../word\n'}
    )  # fmt: skip
    greet.git("update-index", "--add", "--cacheinfo", f"160000,{pinned},third_party/word")
    greet.git("commit", "--quiet", "-m", "pin the submodule")
    greet.git("tag", "-a", "-m", "release", "v1.0")
    greet.push("main", "v1.0")
    archive = site.archive(
        "notes-2.0.tar.gz", archive_of({"notes-2.0/notes.txt": "a note\n", "notes-2.0/.git": "x"})
    )
    site.wheel("demo", "1.5")
    site.wheel("helper", "0.3")
    project.recipe(
        f'[source.greet]\ngit = "{greet.url}"\ntag = "v1.0"\ncommit = "{greet.git("rev-parse", "HEAD")}"\n\n'
        f'[source.notes]\narchive = "{FILES}/notes-2.0.tar.gz"\nsha256 = "{archive}"\n\n'
        '[[component]]\nname = "greet"\nsource = "greet"\nversion = "1.0"\nbuild-env = { CC = "gcc -O1" }\n'
        'build = ["test -z \\"$(find . -name .git)\\"", "make install DESTDIR={destdir}"]\n\n'
        '[[component]]\nname = "notes"\nsource = "notes"\nversion = "2.0"\n'
        'build = ["mkdir -p {destdir}/usr/share/notes", "cp -a . {destdir}/usr/share/notes/"]\n\n'
        '[[component]]\nname = "demo"\nwheel = "demo"\nversion = "1.5"\n\n' + HOME,
        name="tools", python="3.11", base=ON_DEBIAN,
    )  # fmt: skip
    return build(project, "tools")


def test_a_git_source_is_compiled_with_its_submodule(tools: str) -> None:
    assert (
        docker("run", "--rm", "--network=none", "--entrypoint", "/usr/bin/greet", tools) == "from the submodule\n"
    )


def test_an_archive_is_laid_out_without_its_top_folder_and_nothing_of_git_is_in_the_image(tools: str) -> None:
    found = "import pathlib; print(*sorted(p.name for p in pathlib.Path('/usr/share/notes').iterdir()))"
    assert python(tools, found) == "notes.txt"
    names: list[str] = []
    container = docker("create", tools).strip()
    try:
        exported = subprocess.run(["docker", "export", container], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(exported)) as archive:
            names = archive.getnames()
    finally:
        docker("rm", "--force", "--volumes", container)
    assert not [name for name in names if "/.git" in f"/{name}"]
    manifest = json.loads(python(tools, "print(open('/usr/share/rocm-images/manifest.json').read())"))
    entries = {entry["name"]: entry for entry in manifest["components"]}
    assert len(entries["greet"]["tree"]) == 40
    assert "commit" not in entries["greet"]  # another one with these files is the same image
    assert len(entries["notes"]["sha256"]) == 64


def test_compiles_that_the_builder_made_before_are_taken_from_ccache_and_give_the_same_layer(
    site: Site, project: Project, tools: str
) -> None:
    def built(*commands: str) -> tuple[str, str]:
        project.recipe(
            f'[source.greet]\ngit = "{GIT}/greet"\ntag = "v1.0"\ncommit = "{commit}"\n\n'
            f'[[component]]\nname = "greet"\nsource = "greet"\nversion = "1.0"\n'
            f"build = {json.dumps([*commands, 'make install DESTDIR={destdir} CC=cc'])}\n\n" + HOME,
            name="recalled", python="3.11", base=ON_DEBIAN,
        )  # fmt: skip
        assert project.run("lock", "recalled").code == 0
        ended = project.run("build", "recalled", "--ccache", "--publish", f"oci:{site.root.parent / 'layout'}")
        assert ended.code == 0, ended.err[-3000:]
        record = json.loads((project.root / "pins/recalled.json").read_text())
        said = next(line for line in ended.err.splitlines() if "ccache: " in line)
        return said.strip(), next(layer["digest"] for layer in record["layers"] if layer["owner"] == "greet")

    commit = subprocess.run(
        ["git", "rev-parse", "v1.0^{commit}"],
        cwd=site.root / "git/greet",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    compiles = "cc -O2 -c main.c && cc -O2 -c third_party/word/word.c"
    first, layer = built(compiles)
    assert first == "[component-greet] sh build-source.sh: ccache: 0 of 2 compiles were known"
    second, same = built("true", compiles)
    assert second == "[component-greet] sh build-source.sh: ccache: 2 of 2 compiles were known"
    assert same == layer


def test_a_file_of_two_distributions_in_two_layers_is_for_the_recipe_to_accept(
    site: Site, project: Project
) -> None:
    def built(accepted: str) -> Outcome:
        """Build with a large dependency, which has a layer of its own, and a small one, which has none."""
        project.recipe(
            '[[component]]\nname = "topmost"\nwheel = "topmost"\nversion = "1.0"\n\n' + accepted + HOME,
            name="sharing", python="3.11", base=ON_DEBIAN,
        )  # fmt: skip
        assert project.run("lock", "sharing").code == 0
        lock = project.root / "images/sharing/recipe.lock"
        table = tomli.loads(lock.read_text())
        for wheel in table["python"]:  # as of an index that tells sizes, which pages of links do not
            wheel["size"] = (site.root / "simple" / wheel["project"] / wheel["file"]).stat().st_size
        lock.write_text(tomli_w.dumps(table))
        return project.run("build", "sharing")

    site.wheel("little", "1.0", files={"shared.py": "name = 'of the little one'\n"})
    site.wheel("large", "1.0", files={"shared.py": "name = 'of the large one'\n", "large.bin": "0" * LARGE})
    site.wheel("topmost", "1.0", requires=("large", "little"))
    refused = built("")
    assert refused.code == 6, refused.err[-3000:]
    shared = "/usr/local/lib/python3.11/dist-packages/shared.py"
    assert f"failed: large and little have both brought {shared}\n" in refused.err

    accept = f'[[smoke.accept]]\nfinding = "claim"\nsubject = "{shared}"\nreason = "one is enough"\n'
    ended = built(f'{accept}until = "large==1.0"\n\n')
    assert ended.code == 0, ended.err[-3000:]
    said = "import json; print(*json.load(open('/usr/share/rocm-images/components.json')))"
    assert python(ended.out.strip(), said) == "dependencies dependencies.large topmost"
    assert (
        python(ended.out.strip(), "import shared; print(shared.name)") == "of the large one"
    )  # the upper layer's


@pytest.fixture(scope="module")
def above(site: Site, project: Project, tools: str) -> str:
    """Build an image on the image `tools`: a wheel from an sdist, a distribution that is there already."""
    site.sdist("above", "3.1", {"pyproject.toml": PYPROJECT, "backend.py": BACKEND})
    project.recipe(
        '[source.above]\nsdist = "above"\nversion = "3.1"\n\n'
        '[[component]]\nname = "demo"\nbase = "demo"\nversion = "1.5"\n\n'
        '[[component]]\nname = "above"\nsource = "above"\nversion = "3.1"\nbuild-requires = ["helper"]\n'
        'build-env = { TARGETS = "{gfx}" }\ngfx = ["gfx942", "gfx1201"]\n\n'
        '[smoke]\nimports = ["above", "demo"]\n\n' + HOME,
        name="above", python="3.11", base=ON_TOOLS,
    )  # fmt: skip
    return build(project, "above")


def test_an_image_on_another_one_has_what_that_has_and_its_own(above: str) -> None:
    assert (
        docker("run", "--rm", "--network=none", "--entrypoint", "/usr/bin/greet", above) == "from the submodule\n"
    )
    assert (
        docker("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", above, "-c", "echo 2+3 | bc") == "5\n"
    )
    said = python(above, "import importlib.metadata as m; print(m.version('above'), m.version('demo'))")
    assert said == "3.1 1.5"


def test_only_what_the_base_lacks_is_locked_and_installed(project: Project, above: str) -> None:
    lock = project.lock_file("above").read_text()
    packages = {line for line in lock.splitlines() if line.startswith("name = ")}
    assert 'name = "bc"' in packages
    assert 'name = "python3"' not in packages
    assert 'project = "demo"' not in lock
    manifest = json.loads(python(above, "print(open('/usr/share/rocm-images/manifest.json').read())"))
    assert (manifest["name"], manifest["distributions"]) == ("above", {})


def test_f69_a_wheel_is_built_with_what_it_needs_for_its_targets_and_without_a_network(above: str) -> None:
    seen = python(above, "import above, json; print(json.dumps(above.seen))")
    assert json.loads(seen) == {
        "needs": "1.5", "build-requires": "0.3", "gfx": "gfx942;gfx1201", "network": False
    }  # fmt: skip
    assert python(above, "import importlib.util; print(importlib.util.find_spec('helper'))") == "None"


def test_a_wheel_of_another_version_than_the_pin_ends_the_build_with_both(project: Project, above: str) -> None:
    text = project.lock_file("above").with_name("recipe.toml").read_text()
    recipe = project.root / "images/stamped/recipe.toml"
    recipe.parent.mkdir()
    recipe.write_text(
        text.replace('name = "above"\ndescription', 'name = "stamped"\ndescription').replace(
            'TARGETS = "{gfx}"', 'TARGETS = "{gfx}", STAMP = "0.0.0"'
        )
    )
    assert project.run("lock", "stamped").code == 0
    outcome = project.run("build", "stamped")
    assert outcome.code == 5
    assert "component above: the build made above 0.0.0, the recipe says above 3.1" in outcome.err


def test_a_commit_of_documents_is_no_build_and_the_same_digest_and_one_of_code_is_a_build(
    site: Site, project: Project, tools: str
) -> None:
    engine = site.repository("engine")
    first = engine.commit({"serve": "#!/bin/sh\necho one\n", "docs/use.md": "How to.\n", "version.txt": "1\n"})
    build_commands = [
        "mkdir -p {destdir}/usr/bin",
        "install -m 755 serve {destdir}/usr/bin/serve",
        "test ! -e docs",
    ]
    text = (
        f'engine = "engine"\n[source.engine]\ngit = "{engine.url}"\nbranch = "main"\ncommit = "{first}"\n'
        f'ignore = ["docs"]\n\n[[component]]\nname = "engine"\nsource = "engine"\nversion = "1.0"\n'
        f"build = {json.dumps(build_commands)}\n\n{HOME}"
    )

    def bump(commit: str) -> str:
        project.recipe(text.replace(first, commit), name="bumped", python="3.11", base=ON_TOOLS)
        in_project("add", "--all", "images/bumped")
        in_project("commit", "--quiet", "-m", "bump")
        checked = project.run("bump-check", "HEAD~1..HEAD", "bumped", "--write")
        assert checked.code == 0, checked.err
        return checked.out

    def in_project(*words: str) -> None:
        user = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *user, *words], cwd=project.root, check=True, capture_output=True)

    in_project("init", "--quiet")
    in_project("add", "images/tools")
    in_project("commit", "--quiet", "-m", "what is there")
    assert "### bumped: has to be built" in bump(first)
    in_project("add", "--all", "images/bumped")
    in_project("commit", "--quiet", "-m", "lock")
    built = project.run("build", "bumped")
    assert built.code == 0, built.err[-3000:]

    documents = engine.commit({"docs/use.md": "How to do it otherwise.\n"})
    said = bump(documents)
    assert "### bumped: no build: no build input changed" in said
    assert "1 file changed, it does not reach the build: `docs/use.md`" in said
    assert f'commit = "{documents}"' in project.lock_file("bumped").read_text()
    assert project.run("plan", "bumped").out.splitlines()[-1].startswith("bumped: skip - ")
    again = project.run("build", "bumped")
    assert (again.code, again.out) == (0, built.out)
    anew = project.run("build", "bumped", "--no-cache")
    assert anew.code == 0, anew.err[-3000:]
    assert anew.out == built.out  # nothing of the commit is in the bytes

    in_project("add", "--all", "images/bumped")
    in_project("commit", "--quiet", "-m", "lock")
    assert "### bumped: has to be built" in bump(engine.commit({"serve": "#!/bin/sh\necho two\n"}))
    planned = project.run("plan", "bumped").out.splitlines()[-1]
    assert planned.startswith("bumped: build - source.engine: built ")


@pytest.mark.network
def test_a_real_engine_is_built_from_its_source_archive(project: Project, tools: str, tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    project.recipe(
        '[source.vllm]\nsdist = "vllm"\nversion = "0.28.0"\n\n'
        '[[component]]\nname = "vllm"\nsource = "vllm"\nversion = "0.28.0"\n'
        'build-env = { VLLM_TARGET_DEVICE = "empty", VLLM_VERSION_OVERRIDE = "0.28.0" }\n'
        'build-requires = ["packaging", "setuptools>=77.0.3,<81", "setuptools-scm>=8", "setuptools-rust>=1.9", '
        '"wheel", "jinja2"]\nrequires = []\nreason = "only its own files are looked at here"\n\n' + HOME,
        name="vllm-empty", python="3.11",
        base=ON_DEBIAN.replace('"python3"]\n\n', '"python3", "python3-torch"]\n\n'),
    )  # fmt: skip
    image = build(project, "vllm-empty", "--mirrors", str(tmp_path / "real.toml"))
    assert python(image, "import importlib.metadata; print(importlib.metadata.version('vllm'))") == "0.28.0"
    record = "import importlib.metadata as m; print(len([f for f in m.files('vllm') if f.suffix == '.py']))"
    assert int(python(image, record)) > 1000
