"""Runs beside each other: one image is worked on once at a time, and a base that two need is made once."""

from __future__ import annotations

import pytest

from .conftest import Tiny
from .moments import hold_smoke_test, until

pytestmark = pytest.mark.engine


def test_a_second_run_on_the_same_image_is_refused_while_the_first_works(tiny: Tiny) -> None:
    project = tiny()
    reached, hold = hold_smoke_test(project)
    first = project.start("build", "tiny", "--publish", project.publish)
    until(lambda: reached.exists() or first.process.poll() is not None)
    second = project.build("tiny")
    assert second.status == 8, second.stderr
    assert "error: another run works on tiny right now" in second.stderr
    assert "hint: wait until it is done, then try again" in second.stderr
    hold.unlink()
    ended = first.wait()
    assert ended.status == 0, ended.stderr
    assert project.done("pin", "tiny").result == ended.result


def test_two_images_that_need_the_same_base_at_once_both_get_it(tiny: Tiny) -> None:
    project = tiny(own=("bases",))
    project.add("other", project.workspace.images / "tiny")
    lock = project.workspace.lock("other")
    lock.write_text(lock.read_text().replace('image = "tiny"', 'image = "other"'))
    runs = [project.start("build", image) for image in ("tiny", "other")]
    ended = [run.wait() for run in runs]
    assert [each.status for each in ended] == [0, 0], [each.stderr for each in ended]
    assert sorted("==> bootstrapping" in each.stderr for each in ended) == [False, True]
    bases = project.workspace.state / "bases"
    assert len([path for path in bases.iterdir() if path.is_dir()]) == 1
