"""Tells a pull request a report: in one comment that is written once and changed from then on.

Speaks GitHub's REST API and knows nothing of what the report says. The token is in no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from builder.errors import EngineError

_SECONDS = 30
_PAGE = 100
_LONGEST = 65_536  # characters of a comment, as the API has it


@dataclass(frozen=True, kw_only=True, slots=True)
class Forge:
    """A repository on GitHub, or on a server of one's own: `api` is where its API is, `repository` OWNER/NAME."""

    api: str
    repository: str
    token: str = field(repr=False)


def pull_request_of(forge: Forge, branch: str) -> int | None:
    """Return the number of the open pull request from a branch of the repository itself, None without one."""
    owner = forge.repository.partition("/")[0]
    found = _asked(forge, "GET", "pulls", params={"state": "open", "head": f"{owner}:{branch}", "per_page": "1"})
    return int(found[0]["number"]) if found else None


def tell(forge: Forge, number: int, report: str, *, name: str) -> str:
    """Write `report` into the comment called `name` of a pull request, and return the comment's address.

    It is a new one the first time, and changed from then on. Raises `EngineError` when the API does not answer or
    refuses.
    """
    mark = f"<!-- rocm-images: {name} -->"
    body = _fitting(f"{mark}\n{report}")
    earlier = _earlier(forge, number, mark)
    if earlier is None:
        told = _asked(forge, "POST", f"issues/{number}/comments", json={"body": body})
    else:
        told = _asked(forge, "PATCH", f"issues/comments/{earlier}", json={"body": body})
    return str(told.get("html_url", ""))


def _earlier(forge: Forge, number: int, mark: str) -> int | None:
    page = 1
    while True:
        found = _asked(
            forge, "GET", f"issues/{number}/comments", params={"per_page": str(_PAGE), "page": str(page)}
        )
        for comment in found:
            if str(comment["body"]).startswith(mark):
                return int(comment["id"])
        if len(found) < _PAGE:
            return None
        page += 1


def _fitting(body: str) -> str:
    cut = "\n\n… the rest of this report is in the job's summary"
    return body if len(body) <= _LONGEST else body[: _LONGEST - len(cut)] + cut


def _asked(
    forge: Forge,
    method: str,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    json: Mapping[str, str] | None = None,
) -> Any:  # noqa: ANN401 -- as JSON is
    address = f"{forge.api}/repos/{forge.repository}/{path}"
    headers = {
        "Authorization": f"Bearer {forge.token}", "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }  # fmt: skip
    try:
        answer = requests.request(method, address, params=params, json=json, headers=headers, timeout=_SECONDS)
    except requests.RequestException as error:
        raise EngineError(f"{address}: no answer", details=(type(error).__name__,)) from error
    if not answer.ok:
        raise EngineError(
            f"{address}: {method} was answered with {answer.status_code}",
            details=tuple(answer.text.splitlines()[:3]), hint="the job needs the permission pull-requests: write",
        )  # fmt: skip
    return answer.json()
