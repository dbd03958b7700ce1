from __future__ import annotations

import hashlib
import io
import json
import shutil

from builder.checks.inventory import with_inventory
from builder.checks.offline import check_images
from builder.checks.trees import Fetch
from builder.findings import Finding, exit_code
from builder.lockfile import PythonFile, dump_lock
from builder.mirrors import Mirrors
from builder.project import load_lock, load_recipe
from builder.sources.store import Store
from builder.story import Silent
from builder.workspace import Workspace

from .conftest import COMPILING, Add


def found(workspace: Workspace, *names: str) -> dict[str, Finding]:
    """Return the errors and warnings by check."""
    findings = check_images(workspace, names, mirrors=Mirrors())
    return {finding.check: finding for finding in findings if finding.severity != "note"}


def test_an_image_in_order_has_no_errors(workspace: Workspace, add: Add) -> None:
    add("one")
    assert found(workspace, "one") == {}


def test_f01_a_package_only_in_the_build_stage_is_an_error_that_names_package_and_stage(
    workspace: Workspace, add: Add
) -> None:
    add("one", runtime=COMPILING, build=("libssl-dev",))
    error = found(workspace, "one")["jit-packages"]
    assert error.line == (
        "images/one/recipe.toml: base.runtime.apt: libssl-dev is missing in the runtime stage: needed for "
        "openssl/sha.h (engine/hash.cpp); base.build.apt has it, and that stage is not served"
    )
    assert error.hint == "add 'libssl-dev' to base.runtime.apt, then: rocm-images lock one"
    assert exit_code([error]) == 2


def test_the_lock_knows_the_inventory_where_the_engine_is_not_on_the_machine(
    workspace: Workspace, add: Add
) -> None:
    add("one", runtime=COMPILING)
    recipe = load_recipe(workspace, "one")
    lock, _ = load_lock(workspace, recipe)
    new, told = with_inventory(workspace, recipe, lock, old=None, fetch=Fetch(mirrors=Mirrors(), story=Silent()))
    assert told == (
        "base.runtime.apt: libssl-dev is missing in the runtime stage: needed for openssl/sha.h (engine/hash.cpp)",
    )
    workspace.lock("one").write_text(dump_lock(new))
    assert load_lock(workspace, recipe)[0] == new
    shutil.rmtree(workspace.state)
    shutil.rmtree(workspace.images / "one" / "engine")
    errors = found(workspace, "one")
    assert errors["jit-packages"].message == (
        "libssl-dev is missing in the runtime stage: needed for openssl/sha.h (engine)"
    )
    assert errors["source"].key == "source.engine.path"


def test_what_an_unknown_base_carries_is_not_known_so_that_a_lack_is_a_warning(
    workspace: Workspace, add: Add
) -> None:
    digest = "a" * 64
    for image, severity in (("example.org/base:1", "warning"), ("docker.io/rocm/dev-ubuntu-24.04:7.2.4", "error")):
        stages = "".join(f'[base.{s}]\nimage = "{image}@sha256:{digest}"\n' for s in ("build", "runtime"))
        add("one", bases=stages)
        assert found(workspace, "one")["jit-packages"].severity == severity


def test_a_known_base_brings_what_it_is_known_to_carry(workspace: Workspace, add: Add) -> None:
    image = f'image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{"a" * 64}"\n'
    apt = 'apt = ["libssl-dev", "libtorch-dev", "ninja-build", "python3-setuptools"]\n'
    add("one", bases=f"[base.build]\n{image}[base.runtime]\n{image}{apt}")
    assert "jit-packages" not in found(workspace, "one")


def test_packages_that_no_pin_holds_are_named(workspace: Workspace, add: Add) -> None:
    image = f'image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{"a" * 64}"\n'
    add("one", bases=f'[base.build]\n{image}[base.runtime]\n{image}apt = ["libssl-dev"]\n')
    (note,) = (f for f in check_images(workspace, ["one"], mirrors=Mirrors()) if f.check == "floating")
    assert note.severity == "note"
    assert note.line == (
        "images/one/recipe.toml: base.runtime.apt: libssl-dev float: the archive of the base image decides their "
        "versions"
    )


AITER = {"aiter/__init__.py": "", "aiter/ops.py": "def there(): ...\n"}
VLLM = {"vllm/__init__.py": "from aiter.ops import there, gone\n"}


def test_f34_a_name_that_the_provider_lacks_is_an_error_with_the_place(workspace: Workspace, add: Add) -> None:
    add("one", files={"vllm": VLLM, "aiter": AITER})
    error = found(workspace, "one")["contract"]
    assert error.message == "vllm 1.0 -> aiter 1.0: of 2 imports, 1 names are not there"
    assert error.details == ("aiter.ops.gone: no such name in aiter/ops.py; needed at import, vllm/__init__.py:1",)


def test_contracts_of_a_recipe_replace_the_default_one(workspace: Workspace, add: Add) -> None:
    add("one", files={"vllm": VLLM, "aiter": AITER}, more="[smoke]\ncontracts = []\n")
    assert "contract" not in found(workspace, "one")
    add("one", files={"vllm": VLLM, "aiter": AITER}, more='[smoke]\ncontracts = ["vllm -> aitre"]\n', locked=False)
    error = found(workspace, "one")["recipe"]
    assert error.key.startswith("smoke.contracts")
    assert "no component is called 'aitre'; did you mean 'aiter'?" in error.message


def test_f74_a_known_bad_pin_is_an_error_and_an_override_makes_it_a_note(workspace: Workspace, add: Add) -> None:
    torch = PythonFile(project="torch", version="2.12.0", file="t.whl", sha256="0" * 64, layer="dependencies")
    head = "".join(['gfx = ["gfx1201"]\n'])
    add("one", python=(torch,), locked=True)
    path = workspace.recipe("one")
    path.write_text(path.read_text().replace('gfx = ["gfx1100"]\n', head))
    error = found(workspace, "one")["torch-2.12.0-gfx1201"]
    assert error.line == "images/one/recipe.toml: torch 2.12.0 makes illegal memory accesses on gfx1201"
    assert error.exit_code == 2
    exception = '[[override]]\nrule = "torch-2.12.0-gfx1201"\nreason = "tried"\nuntil = "torch==2.12.0"\n'
    path.write_text(path.read_text() + exception)
    assert "torch-2.12.0-gfx1201" not in found(workspace, "one")
    path.write_text(path.read_text().replace("torch==2.12.0", "torch<2.12"))
    ended = found(workspace, "one")
    assert ended["torch-2.12.0-gfx1201"].severity == "error"
    assert ended["override"].line == (
        "images/one/recipe.toml: override[0]: ended: it was for torch<2.12, and torch is 2.12.0"
    )


def test_a_static_finding_can_be_overridden_like_a_rule(workspace: Workspace, add: Add) -> None:
    exception = '[[override]]\nrule = "jit-packages"\nreason = "never used"\nuntil = "engine==1.0"\n'
    add("one", runtime=COMPILING, more=exception)
    findings = check_images(workspace, ["one"], mirrors=Mirrors())
    (note,) = (finding for finding in findings if finding.check == "jit-packages")
    assert note.severity == "note"
    assert note.message.endswith("; accepted until engine==1.0: never used")


def test_every_image_is_looked_at_and_every_problem_told(workspace: Workspace, add: Add) -> None:
    add("one", locked=False)
    add("two", runtime=COMPILING)
    add("three", locked=False)
    path = workspace.recipe("three")
    path.write_text(path.read_text().replace('python = "3.13"', 'pyton = "3.13"'))
    (workspace.images / "two/engine/more.txt").parent.mkdir(exist_ok=True)
    (workspace.images / "two/engine/more.txt").write_text("later")
    add("four", runtime=COMPILING)
    findings = check_images(workspace, ["one", "two", "three", "four"], mirrors=Mirrors())
    errors = [finding for finding in findings if finding.severity == "error"]
    assert [(error.image, error.check, error.exit_code) for error in errors] == [
        ("four", "jit-packages", 2), ("one", "lock", 3), ("three", "recipe", 2), ("three", "recipe", 2),
        ("two", "source", 3),
    ]  # fmt: skip
    assert errors[1].line == "images/one/recipe.lock: the recipe was never locked"
    assert {error.key for error in errors if error.image == "three"} == {"python", "pyton"}
    assert exit_code(errors) == 2
    assert exit_code(errors[1:2]) == 3
    assert json.dumps([finding.plain() for finding in findings])


def test_a_lock_for_another_recipe_is_an_error_of_its_own_with_both_values(workspace: Workspace, add: Add) -> None:
    add("one")
    path = workspace.recipe("one")
    path.write_text(path.read_text().replace('python = "3.13"', 'python = "3.13"\nforbid = ["cuda-*"]'))
    error = found(workspace, "one")["lock"]
    assert (error.file, error.exit_code) == ("images/one/recipe.lock", 3)
    assert error.details == ('forbid: locked for [], the recipe says ["cuda-*"]',)


def test_images_built_in_a_circle_are_named(workspace: Workspace, add: Add) -> None:
    for name, base in (("one", "two"), ("two", "one")):
        stages = "".join(f'[base.{stage}]\nrecipe = "{base}"\n' for stage in ("build", "runtime"))
        add(name, bases=stages, locked=False)
    errors = check_images(workspace, ["one", "two"], mirrors=Mirrors())
    assert [(error.image, error.exit_code) for error in errors] == [("one", 2), ("two", 2)]
    assert "a circle: one -> two -> one" in errors[0].message


def test_files_that_changed_since_the_lock_are_not_taken_for_the_locked_ones(
    workspace: Workspace, add: Add
) -> None:
    add("one", files={"vllm": VLLM, "aiter": AITER})
    ops = workspace.images / "one/aiter/aiter/ops.py"
    ops.write_text("def there(): ...\ndef gone(): ...\n")
    (note,) = (f for f in check_images(workspace, ["one"], mirrors=Mirrors()) if f.check == "contract")
    assert note.severity == "note"
    assert note.message == "vllm -> aiter was not checked: the files of both have to be read"
    assert note.hint == "rocm-images check --fetch one"
    ops.write_text("def there(): ...\n")
    assert found(workspace, "one")["contract"].severity == "error"


def test_a_component_that_cannot_be_read_is_a_finding_and_the_others_are_still_made(
    workspace: Workspace, add: Add
) -> None:
    engine = PythonFile(
        project="engine", version="1.0", file="engine-1.0-py3-none-any.whl", layer="engine",
        sha256=hashlib.sha256(b"no wheel").hexdigest(),
    )  # fmt: skip
    wheel = '[[component]]\nname = "engine"\nwheel = "engine"\nversion = "1.0"\n'
    exception = '[[override]]\nrule = "no-such-rule"\nreason = "x"\nuntil = "engine==1.0"\n'
    add("one", files={}, head='engine = "engine"\n', more=wheel + exception, python=(engine,))
    Store(workspace.store).add(io.BytesIO(b"no wheel"), engine.sha256)
    errors = found(workspace, "one")
    assert errors["jit-packages"].exit_code == 3
    assert "cannot be read as a wheel, an sdist or a folder" in errors["jit-packages"].message
    assert errors["override"].message.startswith("there is no rule 'no-such-rule'")
