"""Registries that lie about digests, send without end, or want logins that are not theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from unittest import mock

from builder.audit.oci_images import describe, verified_layer
from builder.errors import EngineError, LockError
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.artifacts import Misshapen, described, entries_in, referrer_of
from builder.registries.client import Refused, Repository
from builder.registries.reading import remote_image
from builder.sources.transport import Transport, Unreachable

from .rooms import QUICK, Case, Reply, Room, body, endless, status

AREA = "registries"
MANIFEST = b'{"schemaVersion":2}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
_TYPE = "application/vnd.oci.image.manifest.v1+json"


def _asked(ask: Callable[[Repository], object], reply: Reply, others: dict[str, Reply], room: Room) -> str:
    """Ask a registry something; what its client raises is what commands tell."""
    url = room.serve(anything=reply, **others).removeprefix("http://")
    reference = ImageReference(host=url, path="team/image")
    try:
        with Transport(ca_bundle=None, patience=QUICK) as transport:
            found = ask(Repository(reference, transport, plain=True))
    except (Refused, Unreachable) as error:
        raise EngineError(str(error)) from error
    return f"answers {found!r}"


def _token_from(realm: str, room: Room) -> str:
    """A registry behind TLS, as far as its client knows, that wants the login sent elsewhere."""
    config = room.folder / "docker"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"auths": {"registry.example": {"auth": "dTpnZWhlaW0="}}}))
    sent: list[str] = []

    def catch(handler: object) -> None:
        sent.append(handler.headers.get("Authorization", ""))  # type: ignore[attr-defined]
        body(b'{"token":"t"}')(handler)  # type: ignore[arg-type]

    realm = realm.replace("HERE", room.serve(token=catch))
    reference = ImageReference(host="registry.example", path="team/image")
    with (
        mock.patch.dict("os.environ", {"DOCKER_CONFIG": str(config)}),
        Transport(ca_bundle=None, patience=QUICK) as transport,
    ):
        try:
            Repository(reference, transport, plain=False)._log_in(f'Bearer realm="{realm}",service="s"')
        except Unreachable as error:
            assert sent == []
            raise EngineError(str(error)) from error
    return "the login was sent"


def _image(documents: dict[str, Reply], room: Room) -> str:
    """Read an image without an engine: manifest, configuration, layers."""
    url = room.serve(**documents).removeprefix("http://")
    reference = parse_reference(f"{url}/team/image@{DIGEST}")
    with remote_image(reference, mirrors=room.mirrors(), patience=QUICK) as image:
        said = describe(image, image.digest, name="image")
        for layer in said.layers:
            verified_layer(image, Digest(layer.digest), name="image")
    return "read"


def _document(read: Callable[[bytes], object], data: bytes, _room: Room) -> str:
    try:
        read(data)
    except Misshapen as error:
        raise LockError(str(error)) from error
    return "read"


def _referrers(repository: Repository) -> list[bytes]:
    pages = repository.referrers(Digest(DIGEST))
    return list(pages or ())


def case(given: str, ask: Callable[[Repository], object], reply: Reply, **others: Reply) -> Case:
    return Case(area=AREA, given=given, run=partial(_asked, ask, reply, others))


def _by_tag(repository: Repository) -> object:
    return repository.manifest("latest")


def _by_digest(repository: Repository) -> object:
    return repository.manifest(DIGEST)


_LAYER = Digest(f"sha256:{'1' * 64}")
_TWO = b'{"errors":[{"code":"DENIED","message":"\\u001b[2Jno\\n::error::x"}]}'
CASES = (
    case("a manifest with other bytes than its digest", _by_digest, body(b'{"schemaVersion":3}', _TYPE)),
    case(
        "a digest in the header that is not that of the bytes",
        _by_tag,
        body(MANIFEST, _TYPE, Docker_Content_Digest=f"sha256:{'0' * 64}"),
    ),
    case(
        "a digest in the header that is none",
        lambda it: it.digest_of("latest"),
        body(MANIFEST, _TYPE, Docker_Content_Digest="sha256:../../etc"),
    ),
    case("a manifest without end", _by_tag, endless(_TYPE)),
    case("a blob with other bytes than its digest", lambda it: it.blob(_LAYER, largest=1 << 20), body(b"x")),
    case("a blob without end", lambda it: it.blob(_LAYER, largest=1 << 20), endless()),
    case("a redirect to a file of this machine", _by_tag, status(307, Location="file:///etc/passwd")),
    case("a login by a program of another kind", _by_tag, status(401, WWW_Authenticate="Negotiate x")),
    case(
        "a token that a file of this machine gives",
        _by_tag,
        status(401, WWW_Authenticate='Bearer realm="file:///etc/passwd"'),
    ),
    case(
        "words of a refusal with control sequences",
        _by_tag,
        status(403),
        latest=lambda handler: (
            handler.send_response(403),
            handler.send_header("Content-Length", str(len(_TWO))),
            handler.end_headers(),
            handler.wfile.write(_TWO) if handler.command == "GET" else None,
        )[0],
    ),
    case(
        "a list of referrers whose pages never end",
        _referrers,
        body(b'{"manifests":[]}', Link=f'</v2/team/image/referrers/{DIGEST}?n=1>; rel="next"'),
    ),
    case(
        "a list of referrers that goes on elsewhere",
        _referrers,
        body(b'{"manifests":[]}', Link='<https://evil.example/v2/>; rel="next"'),
    ),
    Case(
        area=AREA, given="a token over plain HTTP, for a registry with TLS", run=partial(_token_from, "HERE/token")
    ),
    Case(
        area=AREA,
        given="an image's manifest with other bytes",
        run=partial(_image, {"anything": body(b"{}", _TYPE, Docker_Content_Digest=DIGEST)}),
    ),
    Case(
        area=AREA,
        given="an image's manifest without end",
        run=partial(
            _image,
            {
                "anything": lambda handler: (
                    body(MANIFEST, _TYPE, Docker_Content_Digest=DIGEST)(handler)
                    if handler.command == "HEAD"
                    else endless(_TYPE)(handler)
                )
            },
        ),
    ),
    Case(
        area=AREA,
        given="an image's manifest of another form",
        run=partial(_image, {"anything": body(MANIFEST, _TYPE, Docker_Content_Digest=DIGEST)}),
    ),
    Case(
        area=AREA,
        given="a list of referrers with brackets in brackets",
        run=partial(_document, entries_in, b'{"manifests":' + b"[" * 100_000),
    ),
    Case(
        area=AREA,
        given="a referrer whose size is infinite",
        run=partial(
            _document,
            lambda data: [referrer_of(each) for each in entries_in(data)],
            f'{{"manifests":[{{"digest":"{DIGEST}","size":1e999}}]}}'.encode(),
        ),
    ),
    Case(area=AREA, given="a document without a layer", run=partial(_document, described, b'{"layers":[]}')),
)
