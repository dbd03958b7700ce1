"""Registries asked over their HTTP API: a server on loopback that wants what real ones want."""

from __future__ import annotations

import base64
import http.server
import json
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.reference import Digest, parse_reference
from builder.registries.reading import Served, probe_images
from builder.sources.dockerconfig import login_for
from builder.sources.transport import Patience

QUICK = Patience(attempts=2, first=0.01, longest=0.02)
ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")


@dataclass
class Registry:
    """Serves manifests by name. `access` says who may: 'all', 'token' for anybody with a token, or 'login'."""

    host: str = ""
    access: str = "all"
    manifests: dict[str, str] = field(default_factory=dict)
    failures: int = 0
    refreshed: list[dict[str, list[str]]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def head(self, path: str, authorization: str) -> tuple[int, dict[str, str]]:
        self.asked.append(("HEAD", path, authorization))
        if self.failures:
            self.failures -= 1
            return 503, {}
        if self.access == "basic":
            if authorization != _basic("user", "secret"):
                return 401, {"WWW-Authenticate": 'Basic realm="here"'}
        elif self.access != "all" and authorization != "Bearer good":
            realm = f"http://{self.host}/token"
            return 401, {
                "WWW-Authenticate": f'Bearer realm="{realm}",service="here",scope="repository:team/base:pull"'
            }
        repository, _, name = path.removeprefix("/v2/").partition("/manifests/")
        if repository != "team/base" or name not in self.manifests:
            return 404, {}
        return 200, {"Docker-Content-Digest": self.manifests[name]}

    def token(self, path: str, authorization: str) -> tuple[int, dict[str, str]]:
        self.asked.append(("GET", path, authorization))
        query = parse_qs(urlsplit(path).query)
        assert query == {"service": ["here"], "scope": ["repository:team/base:pull"]}
        if self.access == "login" and authorization != _basic("user", "secret"):
            return 401, {}
        return 200, {"token": "good"}


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def registry() -> Iterator[Registry]:
    serving = Registry(manifests={ONE: ONE, "1.0": ONE})

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            code, headers = serving.head(self.path, self.headers.get("Authorization", ""))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.answer(*serving.token(self.path, self.headers.get("Authorization", "")))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            serving.refreshed.append(form)
            good = form["refresh_token"] == ["identity"] and form["grant_type"] == ["refresh_token"]
            self.answer(200 if good else 401, {"access_token": "good"})

        def answer(self, code: int, table: dict[str, str]) -> None:
            data = json.dumps(table).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Write docker's configuration."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))

    def write(table: object) -> None:
        (tmp_path / "docker").mkdir(exist_ok=True)
        (tmp_path / "docker" / "config.json").write_text(json.dumps(table))

    return write


@pytest.fixture(autouse=True)
def nobody_logged_in(config: Callable[[object], None]) -> None:
    config({})


def probe(registry: Registry, name: str, mirrors: Mirrors | None = None) -> Served | Failure:
    (answer,) = probe_images(
        [parse_reference(f"{registry.host}/{name}")], mirrors=mirrors or Mirrors(), patience=QUICK
    )
    return answer


def test_a_digest_that_is_served_is_in_order(registry: Registry) -> None:
    assert probe(registry, f"team/base:1.0@{ONE}") == Served(tag_now=Digest(ONE))


def test_a_digest_that_is_gone_is_a_broken_pin(registry: Registry) -> None:
    answer = probe(registry, f"team/base@{TWO}")
    assert isinstance(answer, LockError)
    assert answer.message == (
        f"{registry.host}/team/base@{TWO}: can no longer be fetched: the registry does not serve this digest"
    )


def test_a_tag_that_moved_is_told_and_the_digest_still_served(registry: Registry) -> None:
    registry.manifests |= {"1.0": TWO, TWO: TWO}
    assert probe(registry, f"team/base:1.0@{ONE}") == Served(tag_now=Digest(TWO))
    del registry.manifests["1.0"]
    assert probe(registry, f"team/base:1.0@{ONE}") == Served(tag_now=None)


def test_a_registry_that_serves_other_bytes_under_a_digest_is_found_out(registry: Registry) -> None:
    registry.manifests[ONE] = TWO
    answer = probe(registry, f"team/base@{ONE}")
    assert isinstance(answer, LockError)
    assert answer.message == f"{registry.host}/team/base@{ONE}: expected {ONE}, the registry serves {TWO}"


def test_an_anonymous_token_is_fetched_where_one_is_wanted(registry: Registry) -> None:
    registry.access = "token"
    assert probe(registry, f"team/base@{ONE}") == Served(tag_now=None)
    assert [(method, authorization) for method, _, authorization in registry.asked] == [
        ("HEAD", ""), ("GET", ""), ("HEAD", "Bearer good"),
    ]  # fmt: skip


def test_a_private_image_without_a_login_says_how_to_log_in(registry: Registry) -> None:
    registry.access = "login"
    answer = probe(registry, f"team/base@{ONE}")
    assert isinstance(answer, LockError)
    assert "cannot be read without a login: it is private, or it is gone" in answer.message
    assert answer.hint == f"docker login {registry.host}"


def test_the_login_of_dockers_configuration_counts(registry: Registry, config: Callable[[object], None]) -> None:
    auth = base64.b64encode(b"user:secret").decode()
    config({"auths": {f"http://{registry.host}/v2/": {"auth": auth}}})
    for access in ("login", "basic"):
        registry.access = access
        assert probe(registry, f"team/base@{ONE}") == Served(tag_now=None)


def test_an_identity_token_is_exchanged(registry: Registry, config: Callable[[object], None]) -> None:
    registry.access = "token"
    config({"auths": {registry.host: {"auth": base64.b64encode(b"user:").decode(), "identitytoken": "identity"}}})
    assert probe(registry, f"team/base@{ONE}") == Served(tag_now=None)
    assert registry.refreshed[0]["scope"] == ["repository:team/base:pull"]


def test_a_credential_helper_is_asked_for_its_registry_alone(
    registry: Registry, config: Callable[[object], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        '#!/bin/sh\n[ "$1" = get ] || exit 9\nread -r host\n'
        f'[ "$host" = {registry.host} ] || {{ echo "credentials not found in native keychain"; exit 1; }}\n'
        'echo \'{"ServerURL": "x", "Username": "user", "Secret": "secret"}\'\n'
    )
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    registry.access = "login"
    config({"credHelpers": {registry.host: "test"}})
    assert probe(registry, f"team/base@{ONE}") == Served(tag_now=None)
    config({"credsStore": "test"})
    assert login_for("example.org") is None
    config({"credsStore": "not-there"})
    with pytest.raises(EngineError, match="docker-credential-not-there"):
        login_for("example.org")


def test_docker_hub_is_found_under_its_old_name(config: Callable[[object], None]) -> None:
    auth = base64.b64encode(b"user:secret").decode()
    config({"auths": {"https://index.docker.io/v1/": {"auth": auth}}})
    login = login_for("docker.io")
    assert login is not None
    assert login.user == "user"
    assert "secret" not in repr(login)


def test_a_mirror_is_asked_in_place_of_the_registry(
    registry: Registry, mirrors_of: Callable[[str], Mirrors]
) -> None:
    mirrors = mirrors_of(f'[registries]\n"docker.io/rocm" = "{registry.host}/team"\n')
    named = parse_reference(f"docker.io/rocm/base:1.0@{ONE}")
    gone = parse_reference(f"docker.io/rocm/base@{TWO}")
    answers = probe_images([named, gone], mirrors=mirrors, patience=QUICK)
    assert answers[0] == Served(tag_now=Digest(ONE))
    assert isinstance(answers[1], LockError)
    assert answers[1].message.endswith(f"does not serve this digest (asked at {registry.host}/team/base)")


def test_a_registry_that_stumbles_is_asked_again(registry: Registry) -> None:
    registry.failures = 1
    assert probe(registry, f"team/base@{ONE}") == Served(tag_now=None)
    registry.failures = 9
    answer = probe(registry, f"team/base@{ONE}")
    assert isinstance(answer, EngineError)
    assert "answers 503" in answer.message


def test_a_registry_that_is_not_there_cannot_be_asked() -> None:
    (answer,) = probe_images([parse_reference(f"127.0.0.1:9/team/base@{ONE}")], mirrors=Mirrors(), patience=QUICK)
    assert isinstance(answer, EngineError)
    assert answer.exit_code == 8


def test_a_damaged_configuration_names_the_file(tmp_path: Path, config: Callable[[object], None]) -> None:
    config({"auths": {"example.org": {"auth": "%%%"}}})
    with pytest.raises(EngineError, match=r"config\.json: a login in it is damaged"):
        login_for("example.org")
    (tmp_path / "docker" / "config.json").write_text("{")
    with pytest.raises(EngineError, match="not a configuration of docker"):
        login_for("example.org")
