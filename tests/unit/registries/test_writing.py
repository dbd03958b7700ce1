"""What is written to a registry is there to the byte, or the failure says why; no login leaves its registry."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from typing import Any

import pytest

from builder.errors import EngineError, PublishError
from builder.mirrors import MirrorFile, Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.client import MANIFEST, Document, Refused, repository
from builder.registries.referrers import Attachment, attach
from builder.sources.transport import Patience, Unreachable

from .server import Fault, Registry, cut, digest_of, status

QUICK = Patience(attempts=3, first=0.01, longest=0.02)
CONTENT = bytes(range(256)) * 4096
IMAGE = Document(media_type=MANIFEST, content=b'{"schemaVersion": 2,  "config": {}, "layers": []}')
ATTACHMENT = Attachment(artifact_type="a/b", media_type="a/b+json", title="a.json", content=b"{}\n")
Config = Callable[[object], None]


def named(registry: Registry, rest: str = "") -> ImageReference:
    return parse_reference(f"{registry.host}/team/image{rest}")


def written(registry: Registry, content: bytes = CONTENT) -> None:
    with repository(named(registry), mirrors=Mirrors(), patience=QUICK, writing=True) as opened:
        assert str(opened.put_blob(content)) == digest_of(content)


def log_in(registry: Registry, config: Config) -> None:
    registry.login = ("user", "secret")
    config({"auths": {registry.host: {"auth": base64.b64encode(b"user:secret").decode()}}})


def test_a_blob_that_is_there_is_not_sent_again(registry: Registry) -> None:
    for _ in range(2):
        written(registry)
    assert registry.blobs == {digest_of(CONTENT): CONTENT}
    assert (registry.count("^POST "), registry.count("^PUT ")) == (1, 1)


def test_a_registry_at_home_is_written_to_in_plain_http_where_the_user_says_so(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, port = socket.getaddrinfo, registry.host.rpartition(":")[2]

    def at_home(host: str, *more: Any, **how: Any) -> Any:  # the name service of a home
        return resolve("127.0.0.1" if host == "registry.lan" else host, *more, **how)

    monkeypatch.setattr(socket, "getaddrinfo", at_home)
    place = parse_reference(f"registry.lan:{port}/team/image")
    table = MirrorFile.model_validate({"plain-http": [f"registry.lan:{port}"]})
    with repository(place, mirrors=Mirrors(table=table), patience=QUICK, writing=True) as opened:
        assert str(opened.put_blob(CONTENT)) == digest_of(CONTENT)
    assert registry.blobs == {digest_of(CONTENT): CONTENT}
    with repository(place, mirrors=Mirrors(), patience=QUICK, writing=True) as opened, pytest.raises(Unreachable):
        opened.put_blob(CONTENT)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PUT .*/uploads/", cut, times=2),
        Fault("PUT .*/uploads/", status(500)),
        Fault("PUT .*/uploads/", status(404)),
        Fault("POST .*/uploads/", status(503), times=2),
        Fault("POST .*/uploads/", status(429, Retry_After="0")),
        Fault("HEAD .*/blobs/", status(502)),
    ],
    ids=["cut", "500", "upload-forgotten", "503", "429", "502"],
)
def test_an_upload_that_breaks_off_begins_anew(registry: Registry, fault: Fault) -> None:
    registry.faults.append(fault)
    written(registry)
    assert registry.blobs == {digest_of(CONTENT): CONTENT}
    assert fault.times == 0


def test_an_upload_whose_answer_was_lost_is_found_to_be_done(registry: Registry) -> None:
    def taken_in_silence(handler: object) -> None:
        registry.blobs[digest_of(CONTENT)] = CONTENT
        cut(handler)  # type: ignore[arg-type]

    registry.faults.append(Fault("PUT .*/uploads/", taken_in_silence))
    written(registry)
    assert registry.count("^POST ") == 1


def test_a_registry_that_keeps_hanging_up_is_an_error_that_says_so(registry: Registry) -> None:
    registry.faults.append(Fault("PUT ", cut, times=99))
    with pytest.raises(Unreachable, match=r"team/image/blobs/sha256:.* \(3 attempts\)"):
        written(registry)
    assert registry.blobs == {}


def test_a_registry_that_takes_a_blob_for_another_is_refused(registry: Registry) -> None:
    other = f"sha256:{'0' * 64}"
    registry.faults.append(Fault("PUT ", status(201, Docker_Content_Digest=other)))
    with pytest.raises(Refused, match=rf"was given the bytes of {digest_of(CONTENT)}, and took them as {other}"):
        written(registry)


def test_what_a_registry_says_of_a_refusal_is_told(registry: Registry) -> None:
    def over_quota(handler: object) -> None:
        body = b'{"errors": [{"code": "DENIED", "message": "the quota of team is used up"}]}'
        handler.rfile.read(int(handler.headers["Content-Length"]))  # type: ignore[attr-defined]
        handler.say(413, {}, body)  # type: ignore[attr-defined]

    registry.faults.append(Fault("PUT ", over_quota))
    with pytest.raises(Refused, match=r"answers 413 .*: the quota of team is used up"):
        written(registry)


def test_a_login_is_for_writing_and_renewed_when_it_ends_half_way(registry: Registry, config: Config) -> None:
    log_in(registry, config)

    def ended(handler: object) -> None:
        registry.tokens.clear()
        realm = f'Bearer realm="http://{registry.host}/token",service="here"'
        status(401, WWW_Authenticate=realm)(handler)  # type: ignore[arg-type]

    registry.faults.append(Fault("PUT ", ended))
    written(registry)
    assert registry.blobs == {digest_of(CONTENT): CONTENT}
    assert registry.scopes == ["repository:team/image:pull,push"] * 2


def test_a_wrong_login_is_told_with_a_remedy_and_without_the_secret(registry: Registry, config: Config) -> None:
    log_in(registry, config)
    registry.login = ("user", "another")
    with pytest.raises(PublishError) as failure:
        attach(named(registry, ":1"), ATTACHMENT, mirrors=Mirrors(), patience=QUICK)
    assert failure.value.hint == f"docker login {registry.host}"
    told = " ".join((str(failure.value), *failure.value.details))
    assert "401" in told
    assert all(word not in told for word in ("secret", "another", base64.b64encode(b"user:secret").decode()))


def test_a_login_does_not_leave_its_registry_for_the_place_of_an_upload(
    registry: Registry, second: Registry, config: Config
) -> None:
    log_in(registry, config)
    registry.uploads_at = f"http://{second.host}/v2/team/image/blobs/uploads/1"
    written(registry)
    assert second.blobs == {digest_of(CONTENT): CONTENT}
    assert [authorization for _, _, authorization in second.asked] == [""]


def test_a_manifest_is_written_and_read_to_the_byte(registry: Registry) -> None:
    with repository(named(registry), mirrors=Mirrors(), patience=QUICK, writing=True) as opened:
        opened.put_manifest("1.0", IMAGE)
        for name in ("1.0", str(IMAGE.digest)):
            assert opened.manifest(name) == IMAGE
            assert opened.digest_of(name) == IMAGE.digest
        assert opened.manifest("2.0") is None


def test_a_manifest_with_other_bytes_than_its_digest_says_is_refused(registry: Registry) -> None:
    with repository(named(registry), mirrors=Mirrors(), patience=QUICK, writing=True) as opened:
        opened.put_manifest("1.0", IMAGE)
        registry.manifests[str(IMAGE.digest)] = (MANIFEST, IMAGE.content + b" ")
        for name in ("1.0", str(IMAGE.digest)):
            with pytest.raises(Refused, match=rf"answers with the bytes of sha256:.*, as {IMAGE.digest}"):
                opened.manifest(name)


@pytest.mark.parametrize("removes", ["tags", "manifests", ""])
def test_a_tag_is_removed_where_that_is_possible_and_what_it_names_stays(registry: Registry, removes: str) -> None:
    registry.removes = removes
    with repository(named(registry), mirrors=Mirrors(), patience=QUICK, writing=True) as opened:
        for tag in ("candidate", "1.0"):
            opened.put_manifest(tag, IMAGE)
        assert opened.remove_tag("candidate") is bool(removes)
        assert opened.digest_of("candidate") == (None if removes else IMAGE.digest)
        assert opened.manifest("1.0") == IMAGE


def test_nobody_there_is_an_engine_error_with_a_remedy() -> None:
    with pytest.raises(EngineError, match=r"the registry 127\.0\.0\.1:9 cannot be used for") as failure:
        attach(parse_reference("127.0.0.1:9/team/image:1"), ATTACHMENT, mirrors=Mirrors(), patience=QUICK)
    assert failure.value.hint is not None


def test_a_page_of_another_place_is_not_followed(registry: Registry) -> None:
    registry.faults.append(Fault("GET .*/referrers/", status(200, Link='<http://example.org/x>; rel="next"')))
    with repository(named(registry), mirrors=Mirrors(), patience=QUICK) as opened:
        pages = opened.referrers(Digest(digest_of(b"")))
        assert pages is not None
        with pytest.raises(Refused, match="goes on elsewhere"):
            list(pages)


def test_an_answer_that_is_not_of_the_specified_form_is_told_by_its_status(registry: Registry) -> None:
    registry.faults.append(Fault("POST ", status(418)))
    with pytest.raises(Refused, match=r"answers 418 I'm a Teapot$"):
        written(registry)
