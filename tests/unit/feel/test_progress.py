"""What long work shows of itself: steps, layers, bytes, tests, and about how long it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from builder.cli import console
from builder.cli.console import Console, told
from builder.engine.build import _Steps
from builder.engine.images import Transfer
from builder.pace import Pace
from builder.story import Reached, Silent

DOCKERFILE = """\
FROM base-build AS build
RUN --network=none ["sh", "/media/install-debs.sh"]

FROM build AS component-triton
RUN --network=none \\
  ["python3", "/media/install_wheels.py"]

FROM base-runtime
COPY --link --from=component-triton /out/ /
WORKDIR /srv
ENV RUN=1
"""


@pytest.mark.parametrize(
    ("reached", "seconds", "words"),
    [
        (Reached(words=""), 20, ""),
        (Reached(words="3 of 9 steps"), 20, ", 3 of 9 steps"),
        (Reached(words="3 of 9 steps", share=0.25), 20, ", 3 of 9 steps, about 60 s left"),
        (Reached(words="1 of 2 GB", share=0.1), 60, ", 1 of 2 GB, about 9 min left"),
        (Reached(words="1 MB", share=0.01), 20, ", 1 MB"),  # too early to tell
        (Reached(words="all", share=1.0), 20, ", all"),
        (Reached(words="more than before", share=1.5), 20, ", more than before"),
    ],
)
def test_how_far_work_is_and_what_is_left_of_it_in_words(reached: Reached, seconds: float, words: str) -> None:
    assert told(reached, seconds) == words


def test_a_sign_of_life_tells_how_far_the_innermost_step_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_HEARTBEAT_SECONDS", 0.001)
    asked = {name: threading.Event() for name in ("outer", "inner")}

    def far(name: str) -> Callable[[], Reached]:
        def how_far() -> Reached:
            asked[name].set()
            return Reached(words=f"the {name} one\033[2J")

        return how_far

    story = Console()
    with story.step("outer"):
        story.follow(far("outer"))
        assert asked["outer"].wait(10)
        with story.step("inner"):
            story.follow(far("inner"))
            assert asked["inner"].wait(10)
    shown = capsys.readouterr().err
    for name in asked:
        assert f"    still at it after 0 s, the {name} one\\u001b[2J: {name}\n" in shown


def pace(before: dict[str, float]) -> tuple[Pace, list[float]]:
    clock = [100.0]
    return Pace(before, clock=lambda: clock[0]), clock


def test_the_share_that_is_over_follows_from_how_long_each_part_took_before() -> None:
    of, clock = pace({"a": 10, "b": 30, "c": 40})
    assert of.share == 0
    of.begin("a")
    of.begin("b")
    clock[0] += 8
    assert of.share == pytest.approx(16 / 80)
    of.end("a", 20)  # slower than before
    assert of.share == pytest.approx(28 / 90)
    of.skip("c")  # not needed this time
    assert of.share == pytest.approx(28 / 50)
    clock[0] += 60
    assert of.share == pytest.approx(1)  # longer than before: no more than all of it
    of.end("b")
    assert of.took == {"a": 20, "b": 68, "c": 40}


def test_no_share_is_told_of_what_nobody_did_before() -> None:
    fresh, _ = pace({})
    fresh.begin("a")
    assert fresh.share is None
    grown, _ = pace({"a": 1})
    grown.begin("new")
    assert grown.share is None
    grown.end("new", 3)
    assert grown.share == pytest.approx(3 / 4)


def test_a_build_counts_the_steps_of_its_dockerfile_and_keeps_what_each_took() -> None:
    steps = _Steps(Silent(), DOCKERFILE, {"[component-triton] python3 install_wheels.py": 30.0, "gone": 7.0})
    assert steps.how_far() == Reached(words="0 of 4 steps", share=0)
    for line in (
        "#1 [internal] load build definition from Dockerfile",
        "#1 DONE 0.0s",
        '#5 [build 2/2] RUN --network=none ["sh", "/media/install-debs.sh"]',
        "#5 CACHED",
        '#6 [component-triton 1/1] RUN --network=none ["python3", "/media/install_wheels.py"]',
        "#6 DONE 10.0s",
        "#7 [stage-2 2/3] COPY --link --from=component-triton /out/ /",
        "#7 DONE 0.5s",
        "#8 exporting to image",
        "#8 DONE 2.5s",
    ):
        steps.hear(line)
    assert steps.how_far() == Reached(words="3 of 4 steps", share=pytest.approx(13 / 20))
    assert steps.pace.took == {
        "[component-triton] python3 install_wheels.py": 10.0, "[image] COPY /out/ /": 0.5,
        "exporting to image": 2.5,
    }  # fmt: skip


def test_a_push_counts_layers_and_bytes() -> None:
    transfer = Transfer()
    assert transfer.how_far() == Reached(words="")
    assert transfer.hear({"id": "a", "status": "Waiting", "progressDetail": {}}) is None
    transfer.hear({"id": "b", "status": "Pushing", "progressDetail": {"total": 60_000_000}})
    assert transfer.how_far() == Reached(words="0 of 2 layers, 0 of 60 MB")  # nobody knows how large the other is
    transfer.hear({"id": "a", "status": "Pushing", "progressDetail": {"current": 5_000_000, "total": 40_000_000}})
    transfer.hear({"id": "b", "status": "Pushing", "progressDetail": {"current": 20_000_000, "total": 60_000_000}})
    assert transfer.how_far() == Reached(words="0 of 2 layers, 25 of 100 MB", share=0.25)
    assert transfer.hear({"id": "b", "status": "Pushed", "progressDetail": {}}) == "layer b: pushed"
    assert transfer.hear({"id": "c", "status": "Layer already exists"}) == "layer c: layer already exists"
    assert transfer.how_far() == Reached(words="2 of 3 layers, 65 of 100 MB", share=0.65)
