"""The suite on a sound image: it passes, tells figures, takes an image's own tests, and leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from builder.errors import EngineError, SmokeError
from builder.smoke.contract import Contract
from builder.smoke.run import require_passed

from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]


def test_a_sound_image_passes_every_test_of_the_cpu_tier(
    smoke: Run, image: str, sound: Contract, tmp_path: Path, ours: object
) -> None:
    package = Path(str(files("builder")))
    before = sorted(path for path in package.rglob("*") if "__pycache__" not in path.parts)
    bytecode = sorted((package / "smoke" / "suite").rglob("*.pyc"))

    # What its components are allowed to deviate from is the recipe's, see the tests of the Python set.
    report = smoke(image, replace(sound, silent={"installed": "this test has no recipe"}))
    require_passed(report)
    assert report.tiers == {"cpu": "passed", "gpu": "not run"}
    assert all(test.production.endswith(".") and test.seconds >= 0 for test in report.tests)

    figures = {test.title: test.figures for test in report.tests}
    digest = hashlib.sha256(struct.pack("<4I", 1, 2, 3, 4)).hexdigest()
    assert figures["the hash extension compiles from a cold cache"]["hash_extension"]["digest"] == digest
    for gfx in ("gfx1100", "gfx1201"):
        compiled = figures[f"triton compiles a kernel from a cold cache ({gfx})"]["triton_compile"]
        assert compiled["targets"][gfx]["bytes"] > 1000
    linked = figures["hipcc compiles and links a program (gfx1100)"]["hip_compile"]["targets"]["gfx1100"]
    assert linked["found"] == ["gfx1100"]

    results = tmp_path / "results"
    assert sorted(path.name for path in results.iterdir()) == ["smoke.json", "smoke.log", "smoke.xml"]
    told = json.loads((results / "smoke.json").read_text(encoding="utf-8"))
    assert told["passed"] is True
    assert told["reference"] == image
    suite = ElementTree.parse(results / "smoke.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert int(suite.get("tests") or 0) == len(report.tests)
    assert sorted(path for path in package.rglob("*") if "__pycache__" not in path.parts) == before
    assert sorted((package / "smoke" / "suite").rglob("*.pyc")) == bytecode


def test_what_the_contract_does_not_ask_for_is_not_tested(
    smoke: Run, image: str, only: Only, ours: object
) -> None:
    names = {test.name for test in smoke(image, only()).tests}
    assert names
    assert not any("jit" in name or "component" in name for name in names)


def test_an_images_own_tests_get_the_same_container_and_fail_like_any_other(
    smoke: Run, image: str, only: Only, tmp_path: Path, ours: object
) -> None:
    own = tmp_path / "tests"
    own.mkdir()
    (own / "test_server.py").write_text(
        "import pytest\n\n\ndef test_the_server_file_is_there(host, contract):\n"
        '    """The server would not start."""\n'
        "    assert host.file('/usr/bin/python3').exists\n"
        "    assert host.user().name == 'engine' or contract.user\n\n\n"
        '@pytest.mark.hint("ship the file")\n'
        'def test_a_file_that_nobody_ships(host):\n    """Nothing would work."""\n'
        "    assert host.file('/srv/model').exists, 'the model is not there'\n\n\n"
        "@pytest.mark.gpu\n"
        'def test_a_card_answers(host):\n    """Nothing would run."""\n    assert False\n',
        encoding="utf-8",
    )
    report = smoke(image, only(), extra_tests=own)
    by_title = {test.title: test for test in report.tests}
    assert by_title["the server file is there"].outcome == "passed"
    assert by_title["a card answers"].outcome == "not run"
    assert report.tiers == {"cpu": "failed", "gpu": "not run"}
    missing = failed(report, "a file that nobody ships")
    assert missing.production == "Nothing would work."
    with pytest.raises(SmokeError, match="smoke test 'a file that nobody ships' failed: the model is not there"):
        require_passed(report)


def test_an_own_test_that_cannot_be_loaded_is_an_error_and_no_pass(
    smoke: Run, image: str, only: Only, tmp_path: Path, ours: object
) -> None:
    own = tmp_path / "tests"
    own.mkdir()
    (own / "test_broken.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    with pytest.raises(SmokeError) as raised:
        smoke(image, only(), extra_tests=own)
    assert "test_broken.py cannot be loaded" in raised.value.message
    assert any("nothing_of_that_name" in line for line in raised.value.details)
    assert not (tmp_path / "results" / "smoke.json").exists()


def test_a_stale_lock_in_the_extension_cache_is_named_instead_of_waited_for(
    smoke: Run, image: str, only: Only, tmp_path: Path, ours: object
) -> None:
    own = tmp_path / "tests"
    own.mkdir()
    (own / "test_lock.py").write_text(
        "def test_the_extension_loads_beside_a_lock(fresh_host, probe):\n"
        '    """The scheduler would wait for ever."""\n'
        "    cache = '$TORCH_EXTENSIONS_DIR/hicache_hash_cpp'\n"
        "    made = fresh_host.run(f'mkdir -p {cache} && touch {cache}/lock')\n"
        "    assert made.rc == 0, made.stderr\n"
        '    probe("hash_extension", limit_seconds=40)\n',
        encoding="utf-8",
    )
    contract = only()
    found = failed(smoke(image, contract, extra_tests=own), "the extension loads beside a lock").finding
    assert found is not None
    cache = contract.env["TORCH_EXTENSIONS_DIR"]
    assert found.cause == f"the extension loader waits for ever for a lock file that somebody left in {cache}"
    assert any("file_baton.py" in line for line in found.details)


def test_an_image_that_is_not_there_is_no_verdict(smoke: Run, only: Only, tmp_path: Path, ours: object) -> None:
    with pytest.raises(EngineError) as raised:
        smoke("rocm-images.local/nobody:1", only())
    assert raised.value.exit_code == 8
    assert "rocm-images.local/nobody:1: no such image in the container engine" in raised.value.message
    assert raised.value.hint == "docker pull rocm-images.local/nobody:1"
    assert not (tmp_path / "results" / "smoke.json").exists()
