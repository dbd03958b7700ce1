"""What Renovate talks to besides git and a registry: a forge, GitHub's releases, package indexes. On loopback.

The forge speaks as much of Gitea's API as Renovate asks for, over bare repositories. A request that nothing here
answers is kept, so that a test can tell that there was none.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

WHEN = "2026-01-01T00:00:00Z"
BOT = {"id": 1, "login": "bot", "full_name": "bot", "email": "bot@example.com"}
Answer = tuple[int, object]


@dataclass(kw_only=True)
class Release:
    """A release of a GitHub repository: its tag, the commit of that, and its files by name."""

    tag: str
    commit: str = "0" * 40
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(kw_only=True)
class Hosted:
    """A repository of the forge: a bare one on the disk, with its pull requests and issues."""

    bare: Path
    pulls: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(self.bare), *words], capture_output=True, text=True, check=True)
        return done.stdout

    def branches(self) -> dict[str, str]:
        """Return the branches but `main`, each with its commit."""
        listed = self.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
        named = dict(line.split(" ") for line in listed.splitlines())
        return {name: commit for name, commit in named.items() if name != "main"}

    def changes(self, branch: str) -> dict[str, list[str]]:
        """Return what a branch changes: by file, the lines that go and come, with `-` and `+`."""
        found: dict[str, list[str]] = {}
        for line in self.git("diff", "--unified=0", f"main...{branch}").splitlines():
            if line.startswith("+++ "):
                lines = found.setdefault(line.removeprefix("+++ b/"), [])
            elif line[:1] in ("-", "+") and not line.startswith("--- "):
                lines.append(line)
        return found


@dataclass(kw_only=True)
class Forge:
    """Everything it serves, and every request that it had no answer for."""

    hosted: dict[str, Hosted] = field(default_factory=dict)
    releases: dict[str, list[Release]] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    address: str = ""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer | str | bytes:
        """Answer a request: JSON with its status, a page, or the content of a file."""
        if path in self.pages:
            return self.pages[path]
        if path == "/api/graphql":
            return self._graphql(body)
        for pattern, way in _WAYS:
            if match := re.fullmatch(pattern, path):
                found = way(self, method, body, *match.groups())
                if found is not None:
                    return found
        self.unanswered.append(f"{method} {path}")
        return 404, {"message": "not found"}

    def _graphql(self, body: dict[str, Any]) -> Answer:
        variables = body["variables"]
        releases = self.releases.get(f"{variables['owner']}/{variables['name']}")
        if releases is None:
            self.unanswered.append(f"releases of {variables['owner']}/{variables['name']}")
            return 200, {"data": {"repository": None}}
        nodes = [_tag(each) if "refs(" in body["query"] else _release(each) for each in releases]
        page = {"nodes": nodes, "pageInfo": {"hasNextPage": False, "endCursor": None}}
        return 200, {"data": {"repository": {"isRepoPrivate": False, "payload": page}}}

    def user(self, *_: object) -> Answer:
        return 200, BOT

    def version(self, *_: object) -> Answer:
        return 200, {"version": "1.24.0"}

    def no_json(self, *_: object) -> Answer:
        """Answer as an index that has pages alone: of those Renovate asks in a second request."""
        return 404, {"message": "no such page"}

    def no_organization(self, *_: object) -> Answer:
        return 404, {"message": "no such organization"}

    def repository(self, _method: str, _body: object, name: str) -> Answer | None:
        if name not in self.hosted:
            return None
        address = self.hosted[name].bare.as_uri()
        return 200, {
            "id": 1, "full_name": name, "owner": {"id": 2, "login": name.partition("/")[0], "email": ""},
            "default_branch": "main", "clone_url": address, "ssh_url": address,
            "permissions": {"admin": True, "pull": True, "push": True}, "allow_merge_commits": True,
            "has_issues": True, "has_pull_requests": True, "archived": False, "mirror": False, "empty": False,
            "fork": False,
        }  # fmt: skip

    def content(self, _method: str, _body: object, name: str, file: str) -> Answer | None:
        hosted = self.hosted.get(name)
        if hosted is None:
            return None
        path = unquote(file)
        try:
            text = hosted.git("show", f"main:{path}")
        except subprocess.CalledProcessError:
            return 404, {"message": "no such file"}
        encoded = base64.b64encode(text.encode()).decode()
        return 200, {"type": "file", "name": Path(path).name, "path": path, "content": encoded}

    def pulls(self, method: str, body: dict[str, Any], name: str) -> Answer:
        pulls = self.hosted[name].pulls
        if method == "POST":
            self.written.append(f"{name}: {body['title']}")
            sha = self.hosted[name].git("rev-parse", body["head"]).strip()
            pulls.append({
                "number": len(pulls) + 1, "state": "open", "title": body["title"], "body": body["body"],
                "mergeable": True, "merged": False, "created_at": WHEN, "updated_at": WHEN, "user": BOT,
                "labels": [], "base": {"ref": body["base"]},
                "head": {"label": body["head"], "sha": sha, "repo": {"full_name": name}},
            })  # fmt: skip
            return 201, pulls[-1]
        return 200, pulls

    def pull(self, method: str, body: dict[str, Any], name: str, number: str) -> Answer:
        return self._changed(self.hosted[name].pulls, method, body, name, number)

    def issues(self, method: str, body: dict[str, Any], name: str) -> Answer:
        issues = self.hosted[name].issues
        if method == "POST":
            self.written.append(f"{name}: {body['title']}")
            issues.append({
                "number": len(issues) + 1001, "state": "open", "title": body["title"], "body": body["body"],
                "assignees": [], "labels": [],
            })  # fmt: skip
            return 201, issues[-1]
        return 200, issues

    def issue(self, method: str, body: dict[str, Any], name: str, number: str) -> Answer:
        return self._changed(self.hosted[name].issues, method, body, name, number)

    def _changed(
        self, things: list[dict[str, Any]], method: str, body: dict[str, Any], name: str, number: str
    ) -> Answer:
        thing = next(each for each in things if each["number"] == int(number))
        if method == "PATCH":
            given = {key: value for key, value in body.items() if key in ("title", "body", "state")}
            new = {key: value for key, value in given.items() if thing[key] != value}
            if new:
                self.written.append(f"{name}: {thing['title']}: {', '.join(sorted(new))}")
            thing.update(new)
        return 200, thing

    def nothing(self, *_: object) -> Answer:
        return 200, []

    def status(self, method: str, body: dict[str, Any], *_: str) -> Answer:
        return 201, {"id": 1, "status": "success", "context": body.get("context", ""), "created_at": WHEN}

    def github_release(self, _method: str, _body: object, name: str, tag: str) -> Answer | None:
        for release in self.releases.get(name, ()):
            if release.tag == unquote(tag):
                assets = [
                    {
                        "name": file,
                        "size": len(content),
                        "browser_download_url": f"{self.address}/files/{name}/{release.tag}/{file}",
                    }
                    for file, content in release.files.items()
                ]
                return 200, {"tag_name": release.tag, "html_url": f"{self.address}/{tag}", "assets": assets}
        return None

    def github_file(self, _method: str, _body: object, name: str, tag: str, file: str) -> bytes | None:
        found = (each.files.get(unquote(file)) for each in self.releases.get(name, ()) if each.tag == unquote(tag))
        return next(found, None)


def _release(release: Release) -> dict[str, object]:
    return {
        "version": release.tag, "releaseTimestamp": WHEN, "isDraft": False, "isPrerelease": False,
        "url": "http://127.0.0.1/", "id": 1, "name": release.tag, "description": "",
    }  # fmt: skip


def _tag(release: Release) -> dict[str, object]:
    target = {"type": "Commit", "oid": release.commit, "releaseTimestamp": WHEN}
    return {"version": release.tag, "target": target}


_REPOSITORY = "([^/]+/[^/]+)"
_API = "/api/v1"
_WAYS: tuple[tuple[str, Callable[..., Answer | bytes | None]], ...] = (
    (f"{_API}/user", Forge.user),
    (f"{_API}/version", Forge.version),
    (f"{_API}/orgs/[^/]+", Forge.no_organization),
    (f"{_API}/repos/{_REPOSITORY}", Forge.repository),
    (f"{_API}/repos/{_REPOSITORY}/contents/(.+)", Forge.content),
    (f"{_API}/repos/{_REPOSITORY}/pulls", Forge.pulls),
    (f"{_API}/repos/{_REPOSITORY}/pulls/([0-9]+)", Forge.pull),
    (f"{_API}/repos/{_REPOSITORY}/issues", Forge.issues),
    (f"{_API}/repos/{_REPOSITORY}/issues/([0-9]+)", Forge.issue),
    (f"{_API}/repos/{_REPOSITORY}/issues/[0-9]+/comments", Forge.nothing),
    (f"{_API}/repos/{_REPOSITORY}/labels", Forge.nothing),
    (f"{_API}/repos/{_REPOSITORY}/commits/.+/statuses", Forge.nothing),
    (f"{_API}/repos/{_REPOSITORY}/statuses/.+", Forge.status),
    (f"/api/v3/repos/{_REPOSITORY}/releases/tags/(.+)", Forge.github_release),
    (r"/(?:cpu|whl/[^/]+)/[^/]+/json", Forge.no_json),
    (f"/files/{_REPOSITORY}/([^/]+)/([^/]+)", Forge.github_file),
)


@contextlib.contextmanager
def served(forge: Forge) -> Iterator[Forge]:
    """Serve a forge on loopback for as long as the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            with lock:
                answer = forge.answer(self.command, urlsplit(self.path).path, body)
            match answer:
                case str():
                    self._send(200, "text/html", answer.encode())
                case bytes():
                    self._send(200, "application/octet-stream", answer)
                case status, found:
                    self._send(status, "application/json", json.dumps(found).encode())

        do_POST = do_PATCH = do_GET  # noqa: N815 -- names of http.server

        def _send(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    lock = threading.Lock()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        forge.address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield forge
        finally:
            server.shutdown()
