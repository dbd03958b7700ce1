"""A report on a pull request: one comment that is changed, by GitHub's API, and never a failed job."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from builder.cli.app import app

TOKEN = "ghs_the-token-of-this-test"


class Api:
    """As much of GitHub's API as a comment needs: pull requests by branch, comments in pages, changes."""

    def __init__(self) -> None:
        self.pulls = {"octo:renovate/image-tiny": 7}
        self.comments: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.refuses = False
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.requests.append(f"GET {self.path}")
                where, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
                if where == "/repos/octo/recipes/pulls":
                    number = api.pulls.get(query["head"][0])
                    self._answer(200, [] if number is None else [{"number": number}])
                elif where == "/repos/octo/recipes/issues/7/comments":
                    size, page = int(query["per_page"][0]), int(query["page"][0])
                    self._answer(200, api.comments[(page - 1) * size : page * size])
                else:
                    self._answer(404, {"message": "Not Found"})

            def do_POST(self) -> None:
                self._write("/repos/octo/recipes/issues/7/comments", {"id": len(api.comments) + 1})

            def do_PATCH(self) -> None:
                prefix, _, number = self.path.rpartition("/")
                assert prefix == "/repos/octo/recipes/issues/comments"
                self._write(self.path, api.comments[int(number) - 1])

            def _write(self, where: str, comment: dict[str, Any]) -> None:
                api.requests.append(f"{self.command} {self.path}")
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if api.refuses:
                    self._answer(403, {"message": "Resource not accessible by integration"})
                    return
                assert self.path == where
                comment |= {"body": body["body"], "html_url": f"https://forge.example/7#{comment['id']}"}
                if comment not in api.comments:
                    api.comments.append(comment)
                self._answer(200, comment)

            def _answer(self, status: int, table: object) -> None:
                status = status if self.headers["Authorization"] == f"Bearer {TOKEN}" else 401
                data = json.dumps(table).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    api = Api()
    monkeypatch.setenv("GITHUB_API_URL", api.address)
    monkeypatch.setenv("GITHUB_REPOSITORY", "octo/recipes")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    yield api
    api.server.shutdown()
    api.server.server_close()


def tell(folder: Path, text: str, *more: str, branch: str = "renovate/image-tiny") -> Any:
    file = folder / "report.md"
    file.write_text(text)
    return CliRunner().invoke(app, ["ci", "report", str(file), "--branch", branch, *more])


def test_a_report_is_one_comment_that_is_changed_and_stands_in_every_summary(api: Api, tmp_path: Path) -> None:
    first = tell(tmp_path, "# Bump\nbuilds tiny\n")
    assert (first.exit_code, first.stdout) == (0, "https://forge.example/7#1\n")
    again = tell(tmp_path, "# Bump\nbuilds nothing\n")
    assert (again.exit_code, again.stdout) == (0, "https://forge.example/7#1\n")
    assert [comment["body"] for comment in api.comments] == [
        "<!-- rocm-images: bump -->\n# Bump\nbuilds nothing\n"
    ]
    other = tell(tmp_path, "other\n", "--name", "other")
    assert other.stdout == "https://forge.example/7#2\n"
    assert (tmp_path / "summary.md").read_text() == ("# Bump\nbuilds tiny\n\n# Bump\nbuilds nothing\n\nother\n\n")


def test_the_own_comment_is_found_behind_a_hundred_others(api: Api, tmp_path: Path) -> None:
    api.comments += [{"id": number, "body": "nice"} for number in range(1, 151)]
    assert tell(tmp_path, "one").exit_code == 0
    assert tell(tmp_path, "two").exit_code == 0
    assert len(api.comments) == 151
    assert api.comments[-1]["body"].endswith("\ntwo")


def test_a_report_that_no_comment_holds_is_cut_and_says_so(api: Api, tmp_path: Path) -> None:
    assert tell(tmp_path, "x" * 70_000).exit_code == 0
    body = api.comments[0]["body"]
    assert len(body) == 65_536
    assert body.endswith("the rest of this report is in the job's summary")
    assert len((tmp_path / "summary.md").read_text()) == 70_002


def test_a_refused_comment_is_a_warning_without_the_token(api: Api, tmp_path: Path) -> None:
    api.refuses = True
    told = tell(tmp_path, "one")
    assert told.exit_code == 0
    assert "the pull request was not told: " in told.stderr
    assert "POST was answered with 403" in told.stderr
    assert TOKEN not in told.output
    assert (tmp_path / "summary.md").read_text() == "one\n\n"


@pytest.mark.parametrize("lacks", ["pull request", "token"])
def test_without_a_pull_request_or_a_token_the_summary_alone_has_it(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "token":
        monkeypatch.delenv("GITHUB_TOKEN")
    told = tell(tmp_path, "one", branch="renovate/other" if lacks == "pull request" else "renovate/image-tiny")
    assert told.exit_code == 0
    assert api.comments == []
    assert len(api.requests) == (1 if lacks == "pull request" else 0)
    assert (tmp_path / "summary.md").read_text() == "one\n\n"


def test_a_report_that_is_not_there_is_refused_and_an_empty_one_is_none(tmp_path: Path) -> None:
    gone = CliRunner().invoke(app, ["ci", "report", str(tmp_path / "none.md")])
    assert type(gone.exception).__name__ == "RecipeError"
    assert "none.md: cannot be read" in str(gone.exception)
    assert tell(tmp_path, "\n").exit_code == 0
