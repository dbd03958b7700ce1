"""A registry that this program reaches and the engine does not is told as that, and not as one that is unwell."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from builder.destinations import images, opened
from builder.engine.build import BuiltImage
from builder.errors import PublishError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.sources.transport import Patience
from builder.story import Silent

from .server import Fault, Registry, status

QUICK = Patience(attempts=3, first=0.01, longest=0.02)
IMAGE = BuiltImage(id=f"sha256:{'1' * 64}", digest=Digest(f"sha256:{'1' * 64}"))
REFUSED = 'failed to do request: Head "https://127.0.0.1:5000/v2/": dial tcp 127.0.0.1:5000: connection refused'
Engine = Callable[[str], list[str]]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return what makes the engine say these words at every push, and the pushes."""
    pushes: list[str] = []

    def says(words: str) -> list[str]:
        def push(reference: ImageReference, _story: object) -> NoReturn:
            pushes.append(str(reference))
            raise PublishError(f"{reference.name}: the registry did not take the image", details=(words,))

        monkeypatch.setattr(images, "push", push)
        return pushes

    monkeypatch.setattr(images, "tag", lambda _image, _reference: None)
    monkeypatch.setattr(images, "local_id", lambda _name: None)
    return says


def put(registry: Registry) -> None:
    place = parse_reference(f"{registry.host}/team/image")
    with opened(place, mirrors=Mirrors(), patience=QUICK) as destination:
        destination.put(IMAGE, Silent())


def test_an_engine_with_a_loopback_of_its_own_is_the_cause_where_the_registry_answers_here(
    registry: Registry, engine: Engine
) -> None:
    pushes = engine(REFUSED)
    with pytest.raises(PublishError) as raised:
        put(registry)
    assert len(pushes) == QUICK.attempts  # it may have been on its way up
    assert raised.value.message == (
        f"{registry.host}/team/image: the registry answers this program, and not the engine"
    )
    assert raised.value.details == (REFUSED,)
    assert "publish to oci:FOLDER" in str(raised.value.hint)
    assert raised.value.exit_code == 7


@pytest.mark.parametrize(
    "words", ["received unexpected HTTP status: 503", "unauthorized: authentication required"]
)
def test_what_else_an_engine_is_told_by_a_registry_stays_its_words(
    registry: Registry, engine: Engine, words: str
) -> None:
    engine(words)
    with pytest.raises(PublishError, match="the registry did not take the image") as raised:
        put(registry)
    assert raised.value.details == (words,)


def test_a_registry_that_neither_reaches_is_not_said_to_answer(registry: Registry, engine: Engine) -> None:
    pushes = engine(REFUSED)
    registry.faults.append(Fault(r" .*/manifests/candidate", status(503), times=100))
    with pytest.raises(PublishError, match="the registry did not take the image"):
        put(registry)
    assert len(pushes) == 1
