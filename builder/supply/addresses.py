"""Names things for the world: package URLs, and addresses without anything that lets somebody in. Pure.

Package URLs follow ECMA-427 and the definitions of its types; `packageurl` escapes what they hold.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from packageurl import PackageURL

from builder.reference import ImageReference

_DEB = re.compile(r".*_(?P<architecture>[a-z0-9-]+)\.deb")
_POOL = re.compile(r"pool/[^/]+/[^/]+/(?P<source>[^/]+)/[^/]+")
_AS_SCP = re.compile(r"[^/@:]+@(?P<host>[^/:]+):(?P<path>[^/].*)")  # how git writes ssh in short
_GITHUB = re.compile(r"/(?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/?")


def public(address: str) -> str:
    """Return an address without user, password, query and fragment: what identifies it, not who may read it."""
    if found := _AS_SCP.fullmatch(address):
        address = f"ssh://{found['host']}/{found['path']}"
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def git_location(address: str, commit: str) -> str:
    """Return a commit as SPDX and package URLs write where it is (SPDX 2.3, 7.7)."""
    return f"git+{public(address)}@{commit}"


def python_purl(project: str, version: str, *, index: str | None = None, file: str | None = None) -> str:
    """Return the name of a Python distribution; `index` is one that is not the client's own, `file` its file."""
    told = {"repository_url": public(index) if index else "", "file_name": file or ""}
    return PackageURL("pypi", None, project, version, {key: told[key] for key in told if told[key]}).to_string()


def debian_purl(name: str, version: str, *, suite: str | None, file: str) -> str:
    """Return the name of a Debian package, with its source package where that is called otherwise.

    `file` is its path in the archive: `pool/main/u/util-linux/bsdutils_2.41_amd64.deb`.
    """
    told: dict[str, str] = {}
    if found := _DEB.fullmatch(file):
        told["arch"] = found["architecture"]
    if suite:
        told["distro"] = suite
    if (found := _POOL.fullmatch(file)) and found["source"] != name:
        told["upstream"] = found["source"]  # what advisories of Debian are about
    return PackageURL("deb", "debian", name, version, told).to_string()


def git_purl(name: str, address: str, commit: str) -> str:
    """Return the name of a commit: as GitHub's where it is there, else a generic one that says where it is."""
    parts = urlsplit(public(address))
    if parts.netloc == "github.com" and (found := _GITHUB.fullmatch(parts.path)):
        return PackageURL("github", found["owner"].lower(), found["name"].lower(), commit).to_string()
    return PackageURL("generic", None, name, commit, {"vcs_url": git_location(address, commit)}).to_string()


def generic_purl(name: str, version: str, *, download: str | None = None, sha256: str | None = None) -> str:
    """Return the name of something that belongs to no ecosystem; `download` is where its file is."""
    told = {
        "download_url": public(download) if download else "",
        "checksum": f"sha256:{sha256}" if download and sha256 else "",
    }
    return PackageURL("generic", None, name, version, {key: told[key] for key in told if told[key]}).to_string()


def image_purl(name: str, digest: str) -> str:
    """Return the name of an image wherever it lies; `name` is the last part of its path."""
    return PackageURL("oci", None, name, digest).to_string()


def base_image_purl(reference: ImageReference) -> str:
    """Return the name of an image in its registry."""
    told = {"repository_url": reference.name} | ({"tag": reference.tag} if reference.tag else {})
    return PackageURL("oci", None, reference.path.rpartition("/")[2], str(reference.digest), told).to_string()
