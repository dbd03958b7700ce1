"""Addresses where people look at what lies between two commits, for hosts whose form of it is known.

Knows the forms alone; nothing is asked.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

# Forgejo runs Codeberg; a host of one's own is known by the first word of its name, as such hosts are called.
_FORMS = {
    "github": "compare/{old}...{new}",
    "gitlab": "-/compare/{old}...{new}",
    "gitea": "compare/{old}...{new}",
    "forgejo": "compare/{old}...{new}",
    "codeberg": "compare/{old}...{new}",
}


def compare_link(url: str, old: str, new: str) -> str | None:
    """Return the page with what lies between two commits of a repository; None where nobody knows its form."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    form = _FORMS.get(host.split(".")[0]) if host.count(".") else None
    path = parts.path.strip("/").removesuffix(".git")
    if form is None or path.count("/") < 1:
        return None
    port = f":{parts.port}" if parts.port and parts.scheme in ("http", "https") else ""
    scheme = "http" if parts.scheme == "http" else "https"
    return f"{scheme}://{host}{port}/{quote(path)}/{form.format(old=quote(old), new=quote(new))}"
