"""A registry on loopback: the writing half of the protocol as well, and faults where a test asks for them."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class Fault:
    """What happens to the next `times` requests whose method and path match, in place of an answer."""

    at: str
    do: Callable[[http.server.BaseHTTPRequestHandler], None]
    times: int = 1


@dataclass
class Registry:
    """One repository, `team/image`. `removes` is what may be deleted: 'tags', 'manifests' or nothing."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    has_referrers: bool = False
    page: int = 100
    removes: str = ""
    login: tuple[str, str] | None = None
    tokens: set[str] = field(default_factory=set)
    scopes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    uploads_at: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    after_put: Callable[[str], None] = lambda _: None

    def count(self, at: str) -> int:
        return sum(1 for method, path, _ in self.asked if re.search(at, f"{method} {path}"))


def status(code: int, **headers: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """Answer with this status alone."""

    def do(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return do


def cut(handler: http.server.BaseHTTPRequestHandler) -> None:
    """Take half of what is sent and hang up."""
    handler.rfile.read(int(handler.headers.get("Content-Length") or 0) // 2)
    handler.close_connection = True
    handler.connection.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.handle_any()

    def do_HEAD(self) -> None:
        self.handle_any()

    def do_PUT(self) -> None:
        self.handle_any()

    def do_POST(self) -> None:
        self.handle_any()

    def do_DELETE(self) -> None:
        self.handle_any()

    def handle_any(self) -> None:
        path = urlsplit(self.path).path
        authorization = self.headers.get("Authorization", "")
        self.registry.asked.append((self.command, self.path, authorization))
        for fault in self.registry.faults:
            if fault.times and re.search(fault.at, f"{self.command} {self.path}"):
                fault.times -= 1
                return fault.do(self)
        if path == "/token":
            return self.token(authorization)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.registry.login and authorization.removeprefix("Bearer ") not in self.registry.tokens:
            realm = f'Bearer realm="http://{self.registry.host}/token",service="here",scope="x"'
            return self.say(401, {"WWW-Authenticate": realm})
        kind, _, name = path.removeprefix("/v2/team/image/").partition("/")
        return getattr(self, kind, self.unknown)(name, body)

    def unknown(self, *_: object) -> None:
        self.say(404, {})

    def token(self, authorization: str) -> None:
        self.registry.scopes += parse_qs(urlsplit(self.path).query)["scope"]
        if self.registry.login and authorization != basic(*self.registry.login):
            return self.say(401, {})
        token = f"token-{len(self.registry.scopes)}"
        self.registry.tokens.add(token)
        return self.say(200, {}, json.dumps({"token": token}).encode())

    def blobs(self, name: str, body: bytes) -> None:
        if self.command in ("HEAD", "GET"):
            data = self.registry.blobs.get(name)
            return self.say(404 if data is None else 200, {}, data or b"")
        if self.command == "POST":
            where = self.registry.uploads_at or f"http://{self.registry.host}/v2/team/image/blobs/uploads/1"
            return self.say(202, {"Location": f"{where}?state=a"})
        wanted = parse_qs(urlsplit(self.path).query)["digest"][0]
        if digest_of(body) != wanted:
            return self.say(400, {}, b'{"errors": [{"code": "DIGEST_INVALID", "message": "digest differs"}]}')
        self.registry.blobs[wanted] = body
        return self.say(201, {"Docker-Content-Digest": wanted})

    def manifests(self, name: str, body: bytes) -> None:
        digest = self.registry.tags.get(name, name)
        match self.command:
            case "PUT":
                own = digest_of(body)
                self.registry.manifests[own] = (self.headers["Content-Type"], body)
                if name != own:
                    self.registry.tags[name] = own
                self.registry.after_put(name)
                subject = json.loads(body).get("subject")
                known = {"OCI-Subject": subject["digest"]} if subject and self.registry.has_referrers else {}
                self.say(201, {"Docker-Content-Digest": own} | known)
            case "DELETE" if self.registry.removes == "tags" and name in self.registry.tags:
                del self.registry.tags[name]
                self.say(202, {})
            case "DELETE" if self.registry.removes == "manifests" and name in self.registry.manifests:
                del self.registry.manifests[name]
                self.registry.tags = {tag: of for tag, of in self.registry.tags.items() if of != name}
                self.say(202, {})
            case "DELETE":
                self.say(405, {})
            case _ if digest in self.registry.manifests:
                kind, data = self.registry.manifests[digest]
                self.say(200, {"Content-Type": kind, "Docker-Content-Digest": digest}, data)
            case _:
                self.say(404, {})

    def referrers(self, name: str, _: bytes) -> None:
        if not self.registry.has_referrers:
            return self.say(404, {})
        entries: list[dict[str, Any]] = []
        for digest, (kind, data) in self.registry.manifests.items():
            table = json.loads(data)
            if table.get("subject", {}).get("digest") == name:
                entry = {"mediaType": kind, "digest": digest, "size": len(data)}
                entries.append(entry | {"artifactType": table["artifactType"]})
        start = int(parse_qs(urlsplit(self.path).query).get("from", ["0"])[0])
        shown, rest = entries[start : start + self.registry.page], entries[start + self.registry.page :]
        here = urlsplit(self.path).path
        more = {"Link": f'<{here}?from={start + self.registry.page}>; rel="next"'} if rest else {}
        return self.say(200, {"Content-Type": INDEX} | more, json.dumps({"manifests": shown}).encode())

    def say(self, code: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Registry]:
    registry = Registry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
