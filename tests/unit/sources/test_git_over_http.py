"""Pinned trees over smart HTTP and plain files, from servers that fail."""

from __future__ import annotations

import base64
import logging
import subprocess
from pathlib import Path

import pytest

from builder.errors import EngineError, LockError

from .repositories import ENV, URL, content, fetch, trees


def _serve(handler, root: Path) -> None:
    """Answer a request with git's own smart HTTP server."""
    path, _, query = handler.path.partition("?")
    env = ENV | {
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
        "REQUEST_METHOD": handler.command,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
    }
    if handler.headers.get("Transfer-Encoding") == "chunked":
        body = b""
        while size := int(handler.rfile.readline(), 16):
            body += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
    else:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
    env["CONTENT_LENGTH"] = str(len(body))
    # its exit status tells what the body tells as well
    out = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False).stdout
    head, _, payload = out.partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
    handler.send_response(int(lines.pop("Status", "200").split()[0]))
    for name, value in lines.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(payload)))
    handler.end_headers()
    handler.wfile.write(payload)


@pytest.fixture
def over_http(site, tmp_path, engine, mirrors_of):
    site.default = lambda handler: _serve(handler, tmp_path / "srv")
    return mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')


def test_smart_http_serves_a_tag_a_branch_and_a_plain_commit(site, engine, over_http, cache):
    old = engine.commit("second", a="1")
    engine.git("tag", "-a", "-m", "x", "v1.0")
    engine.push("v1.0")
    tip = engine.commit("third", a="2")
    url = URL + ".git"
    assert content(fetch(old, over_http, cache, url=url, tag="v1.0"))["a"] == b"1"
    assert content(fetch(tip, over_http, cache, url=url, branch="main"))["a"] == b"2"
    assert fetch(old, over_http, cache, url=url, branch="main").commit == old
    assert content(fetch(old, over_http, cache.parent / "other", url=url))["a"] == b"1"
    with pytest.raises(LockError, match="there is no branch 'absent'"):
        fetch(old, over_http, cache, url=url, branch="absent")
    with pytest.raises(LockError, match=f"there is no commit {'1' * 40}"):
        fetch("1" * 40, over_http, cache, url=url)


def test_a_server_that_hands_out_no_single_commits_is_asked_for_more(site, engine, over_http, cache):
    """As old servers do: protocol 0, and only the tips of refs."""
    site.default = _without_v2(site.default)
    old = engine.commit("second", a="1")
    engine.commit("third", a="2")
    assert content(fetch(old, over_http, cache, url=URL + ".git"))["a"] == b"1"


def _without_v2(reply):
    def answer(handler) -> None:
        del handler.headers["Git-Protocol"]
        reply(handler)

    return answer


def test_a_repository_served_as_plain_files_is_enough(site, engine, mirrors_of, cache):
    old = engine.commit("second", a="1")
    engine.git("tag", "v1.0")
    engine.push("v1.0")
    engine.commit("third", a="2")
    subprocess.run(["git", "update-server-info"], cwd=engine.bare, env=ENV, check=True)
    for path in engine.bare.rglob("*"):
        if path.is_file():
            site.on(f"/org/engine.git/{path.relative_to(engine.bare)}", site.body(path.read_bytes(), "text/plain"))
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')
    assert content(fetch(old, mirrors, cache, url=URL + ".git", tag="v1.0"))["a"] == b"1"
    assert fetch(old, mirrors, cache, url=URL + ".git", branch="main").commit == old


def test_a_repository_that_answers_404_is_gone(site, over_http, cache):
    with pytest.raises(LockError) as refused:
        fetch("0" * 40, over_http, cache, url="https://git.example/org/absent.git", branch="main")
    assert refused.value.message == (
        f"https://git.example/org/absent.git: there is no such repository at {site.url}/org/absent.git"
    )
    assert trees(cache) == []


def test_a_login_is_never_asked_for_at_the_keyboard(site, mirrors_of, cache):
    site.default = site.status(401, WWW_Authenticate='Basic realm="x"')
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')
    with pytest.raises(LockError) as refused:
        fetch("0" * 40, mirrors, cache, tag="v1")
    assert refused.value.message == (
        f"{URL}: cannot be read without a login at {site.url}/org/engine: it is private, or it is gone"
    )


def test_a_server_that_fails_once_is_asked_again(site, engine, over_http, cache):
    commit = engine.commit("second", a="1")
    site.on("/org/engine.git/info/refs", site.status(503), site.default)
    assert fetch(commit, over_http, cache, url=URL + ".git", branch="main").commit == commit


def test_a_network_that_is_down_is_no_fault_of_the_pin_and_an_earlier_proof_counts(
    site, engine, over_http, cache, story
):
    commit = engine.commit("second", a="1")
    down = site.status(503)
    working, site.default = site.default, down
    with pytest.raises(EngineError) as refused:
        fetch(commit, over_http, cache, branch="main", url=URL + ".git")
    assert refused.value.message.startswith(f"{URL}.git: cannot be reached at {site.url}/org/engine.git: ")
    assert refused.value.hint == "check the network, or name a mirror: docs/mirrors.md"
    site.default = working
    fetch(commit, over_http, cache, branch="main", url=URL + ".git", story=story)
    assert story.steps == [f"fetch {URL}.git at main"]
    site.default = down
    assert fetch(commit, over_http, cache, branch="main", url=URL + ".git", story=story).commit == commit
    assert len(story.warnings) == 1
    assert story.warnings[0].endswith("; the pin was last proven when it was fetched")
    with pytest.raises(EngineError):
        fetch(commit, over_http, cache, branch="never-proven", url=URL + ".git")


def test_a_password_in_a_mirrors_address_is_in_no_log_message_and_file(
    site, engine, over_http, mirrors_of, cache, caplog
):
    """The server asks for a login, and refuses another than this."""
    secret = "s3cr3t-of-git"
    wanted = f"Basic {base64.b64encode(f'user:{secret}'.encode()).decode()}"
    serve = site.default

    def guarded(handler) -> None:
        if handler.headers.get("Authorization") == wanted:
            return serve(handler)
        return site.status(401, WWW_Authenticate='Basic realm="here"')(handler)

    site.default = guarded
    commit = engine.commit("second", a="1")
    told = []
    with caplog.at_level(logging.DEBUG):
        for password in (secret, "an0ther"):
            host = site.url.replace("://", f"://user:{password}@")
            mirrors = mirrors_of(f'[git]\n"https://git.example" = "{host}"\n')
            try:
                fetch(commit, mirrors, cache / password[:2], url=f"{URL}.git", branch="main")
            except LockError as error:
                told += [error.message, *error.details, error.hint or ""]
    assert "cannot be read without a login" in told[0]
    written = [path.read_text(errors="replace") for path in cache.rglob("*") if path.is_file()]
    for text in (*told, *written, caplog.text):
        assert secret not in text
        assert "an0ther" not in text
    assert "git ls-remote" in caplog.text
