"""The build step that evaluates probes: values by type, in interpreters of their own, and no promise on trust."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from builder.inside import probe_patches, probing
from builder.patchagreement import same

PROBE = {"module": "engine", "expression": "WIDTH", "before": 8, "after": 16}


class Stages:
    """Folders in place of the stages of a build: what a module is in each, and what its probes gave there."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.monkeypatch = place, monkeypatch
        monkeypatch.setattr(probe_patches, "LEDGER", place / "mnt/patches.json")
        monkeypatch.setattr(probe_patches, "OUT", place / "out")
        monkeypatch.setattr(probe_patches, "STAGES", place / "srv")

    def promise(self, **patch: Any) -> None:
        entry = {
            "name": "wider",
            "kind": "edit",
            "target": "engine",
            "state": "applies",
            "probe": dict(PROBE),
            **patch,
        }
        self.write("mnt/patches.json", json.dumps({"schema": 1, "image": "probe", "patches": [entry]}))

    def evaluate(self, text: str, *mode: str) -> None:
        """Run the program where the module `engine` has this text; what it would leave in / lands in its stage."""
        self.write("modules/engine.py", text)
        self.monkeypatch.setenv("PYTHONPATH", str(self.place / "modules"))
        self.monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        values = self.place / "srv" / mode[0] / probe_patches.VALUES.relative_to("/")
        values.parent.mkdir(parents=True, exist_ok=True)
        with self.monkeypatch.context() as here:
            here.setattr(sys, "argv", ["probe_patches.py", *mode])
            if mode[0] != "judge":
                here.setattr(probe_patches, "VALUES", values)
            probe_patches.main()

    def write(self, name: str, text: str) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def judged(self, before: str, after: str) -> dict[str, Any]:
        """Return the only patch of the ledger that is written."""
        self.evaluate(before, "unpatched")
        self.evaluate(after, "judge", "315532800")
        file = self.place / "out" / probe_patches.WRITTEN
        assert file.stat().st_mtime == 315532800
        (patch,) = json.loads(file.read_text())["patches"]
        return dict(patch)


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(tmp_path, monkeypatch)


def test_a_probe_that_keeps_its_promise_is_in_the_ledger_with_both_values(stages: Stages) -> None:
    stages.promise()
    patch = stages.judged("WIDTH = 8", "WIDTH = 16")
    assert patch["probe"]["found"] == {"before": 8, "after": 16}
    assert patch["state"] == "effective"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("WIDTH = 8", "WIDTH = 8", ["with the patch: expected 16, found 8"]),
        ("WIDTH = 16", "WIDTH = 16", ["without the patch: expected 8, found 16"]),
        ("WIDTH = 8.0", "WIDTH = 16", ["without the patch: expected 8, found 8.0"]),
        ("WIDTH = 8", "WIDTH = '16'", ['with the patch: expected 16, found "16"']),
        (
            "WIDTH = 9", "WIDTH = 17",
            ["without the patch: expected 8, found 9", "with the patch: expected 16, found 17"],
        ),
        ("WIDTH = 8", "", ["with the patch: expected 16, found no value: NameError: name 'WIDTH' is not defined"]),
        ("WIDTH = 8", "raise SystemExit(3)", ["with the patch: expected 16, found no value: SystemExit: 3"]),
        (
            "WIDTH = 8", "import os; os._exit(7)",
            ["with the patch: expected 16, found no value: the interpreter ended with status 7: it said nothing"],
        ),
        (
            "WIDTH = 8", "WIDTH = object",
            ["TypeError: its value is no boolean, number, string, list or table: <class 'object'>"],
        ),
    ],
)  # fmt: skip
def test_a_probe_that_breaks_its_promise_ends_the_step_with_the_exit_code_of_patches(
    stages: Stages, capsys: pytest.CaptureFixture[str], before: str, after: str, said: list[str]
) -> None:
    stages.promise()
    with pytest.raises(SystemExit) as ended:
        stages.judged(before, after)
    assert ended.value.code == 4
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("patch wider: WIDTH of engine ")
        assert part in line
    assert not (stages.place / "out").exists()


def test_a_redundant_patch_is_not_asked_for_a_value_before_it(stages: Stages) -> None:
    stages.promise(state="redundant")
    assert stages.judged("WIDTH = 16", "WIDTH = 16")["probe"]["found"] == {"before": 16, "after": 16}


def test_a_patch_without_a_probe_is_listed_as_it_is_promised(stages: Stages) -> None:
    stages.promise(probe=None)
    assert stages.judged("", "")["probe"] is None


def test_the_state_of_what_was_edited_is_what_its_step_said(stages: Stages) -> None:
    stages.promise(probe=None)
    stages.write("srv/base-edits/edits.json", json.dumps({"patches": [{"name": "wider", "state": "redundant"}]}))
    assert stages.judged("", "")["state"] == "redundant"


def test_a_module_is_imported_once_for_all_its_probes(stages: Stages) -> None:
    stages.promise()
    asked = [{"name": str(n), "probe": {"module": "engine", "expression": f"WIDTH + {n}"}} for n in range(3)]
    count = stages.place / "count"
    stages.write("modules/engine.py", f"open({str(count)!r}, 'a').write('x')\nWIDTH = 8")
    stages.monkeypatch.setenv("PYTHONPATH", str(stages.place / "modules"))
    assert probe_patches.values(asked) == {"0": {"value": 8}, "1": {"value": 9}, "2": {"value": 10}}
    assert count.read_text() == "x"


def test_a_module_that_ends_the_interpreter_takes_no_other_with_it(stages: Stages) -> None:
    modules = ("engine", "deadly", "other")
    asked = [{"name": each, "probe": {"module": each, "expression": "WIDTH"}} for each in modules]
    stages.write("modules/engine.py", "WIDTH = 8")
    stages.write("modules/deadly.py", "import os; os._exit(7)")
    stages.write("modules/other.py", "WIDTH = 9")
    stages.monkeypatch.setenv("PYTHONPATH", str(stages.place / "modules"))
    assert probe_patches.values(asked) == {
        "engine": {"value": 8},
        "deadly": {"error": "the interpreter ended with status 7: it said nothing"},
        "other": {"value": 9},
    }


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("True", True), ("1", 1), ("1.5", 1.5), ("'x'", "x"), ("(1, [2, {'a': 3}])", [1, [2, {"a": 3}]]),
        ("__import__('enum').IntEnum('E', 'A').A", 1),
    ],
)  # fmt: skip
def test_values_are_those_that_toml_has(expression: str, value: object) -> None:
    found = probing.evaluate("json", expression)
    assert same(found["value"], value)
    assert probing.is_value(found, value)


@pytest.mark.parametrize("expression", ["None", "float('inf')", "{1: 2}", "b'x'", "1 +", "nowhere"])
def test_other_values_are_none(expression: str) -> None:
    found = probing.evaluate("json", expression)
    assert "value" not in found
    assert not probing.is_value(found, None)


def test_an_expression_sees_the_names_of_its_module_and_changes_none() -> None:
    assert probing.evaluate("json", "[dumps := 1, dumps]") == {"value": [1, 1]}
    assert probing.evaluate("json", "dumps(1)") == {"value": "1"}
