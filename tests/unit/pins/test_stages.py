"""Which stage a Debian package belongs to, and what apt is told of a base that is an image of the project."""

from __future__ import annotations

from pathlib import Path

from builder.debian import Stage, _pretend_installed, _stages_of
from builder.lockfile import DebianPackage

BASH = DebianPackage(
    name="bash", version="5.2-1", file="pool/b/bash_5.2-1_amd64.deb", size=1, sha256="ab" * 32, stage="base"
)


def stages(package: str, chosen: dict[str, set[str]], **of: Stage) -> tuple[str, ...]:
    listed = {stage: dict.fromkeys(names, "") for stage, names in chosen.items()}
    return tuple(_stages_of(package, listed, of))


def test_a_package_of_the_bootstrapped_base_is_in_no_stage_on_it() -> None:
    chosen = {"base": {"bash"}, "build": {"bash", "gcc", "make"}, "runtime": {"bash", "make", "bc"}}
    both = {"build": Stage(apt=()), "runtime": Stage(apt=())}
    assert stages("bash", chosen, **both) == ("base",)
    assert stages("gcc", chosen, **both) == ("build",)
    assert stages("bc", chosen, **both) == ("runtime",)
    assert stages("make", chosen, **both) == ("both",)


def test_a_stage_on_an_image_that_gets_a_newer_package_of_the_base_has_it_as_well() -> None:
    chosen = {"base": {"bash"}, "build": {"bash"}, "runtime": {"bash"}}
    of = {"build": Stage(apt=()), "runtime": Stage(apt=(), installed=[BASH])}
    assert stages("bash", chosen, **of) == ("base", "runtime")


def test_apt_is_told_what_is_installed_and_what_that_provides(tmp_path: Path) -> None:
    stanzas = {"bash": {"Provides": "a-shell", "Depends": "libc6 (>= 2.36)", "Essential": "yes"}}
    _pretend_installed(tmp_path, [BASH], stanzas)
    lines = (tmp_path / "status").read_text().splitlines()
    assert "Package: bash" in lines
    assert "Status: install ok installed" in lines
    assert "Architecture: amd64" in lines
    assert "Provides: a-shell" in lines
    assert not [line for line in lines if line.startswith("Depends")]
    _pretend_installed(tmp_path, [], stanzas)
    assert (tmp_path / "status").read_text() == ""
