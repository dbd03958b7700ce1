from __future__ import annotations

import pytest

from builder.errors import EngineError
from builder.host import packages
from builder.host.apt import changes
from builder.host.packages import Distribution, IndexTarget, Installation

DEBIAN_12 = """\
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
HOME_URL="https://www.debian.org/"
"""
DEBIAN_13 = """\
PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
VERSION_ID="13"
VERSION_CODENAME=trixie
DEBIAN_VERSION_FULL=13.8
ID=debian
"""
TESTING = 'PRETTY_NAME="Debian GNU/Linux forky/sid"\nVERSION_CODENAME=forky\nID=debian\n'
DEBIAN_11 = 'PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nVERSION_ID="11"\nVERSION_CODENAME=bullseye\nID=debian\n'
UBUNTU = (
    "PRETTY_NAME='Ubuntu 24.04.3 LTS'\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\n"
)

NOT_FETCHED = """\
MetaKey: main/binary-amd64/Packages
ShortDesc: Packages
Description: http://mirror.example/debian bookworm/main amd64 Packages
URI: http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages
Component: main
Created-By: Packages
Release: bookworm
Repo-URI: http://mirror.example/debian/
Site: http://mirror.example/debian

MetaKey: main/i18n/Translation-en
Component: main
Created-By: Translations
Release: bookworm
Repo-URI: http://mirror.example/translations/

MetaKey: main/binary-amd64/Packages
Component: main
Created-By: Packages
Release: bookworm-security
Repo-URI: http://mirror.example/debian-security/
"""
FETCHED = """\
Codename: bookworm
Origin: Example Vendor
Component: main
Created-By: Packages
Release: bookworm
Repo-URI: http://vendor.example/

Codename: bookworm
Label: Debian
Origin: Debian
Suite: oldstable
Component: main
Created-By: Packages
Release: oldstable
Repo-URI: http://near.example/debian/
"""

ENGINE = (packages.DOCKERD, packages.DOCKER, packages.BUILDX)


def _plan(os_release: str, targets: str, *needs: packages.Need) -> Installation:
    return packages.plan_installation(
        packages.parse_os_release(os_release), packages.parse_indextargets(targets), needs
    )


def test_os_release_is_read_with_and_without_quotes():
    assert packages.parse_os_release(DEBIAN_12) == Distribution(
        id="debian", version=12, codename="bookworm", title="Debian GNU/Linux 12 (bookworm)"
    )
    assert packages.parse_os_release(UBUNTU) == Distribution(
        id="ubuntu", version=24, codename="noble", title="Ubuntu 24.04.3 LTS"
    )
    assert packages.parse_os_release(TESTING).version is None


def test_only_package_indexes_are_read_from_apt_and_unfetched_ones_have_no_origin():
    assert packages.parse_indextargets(NOT_FETCHED) == (
        IndexTarget(
            release="bookworm", component="main", uri="http://mirror.example/debian/", codename=None, origin=None
        ),
        IndexTarget(
            release="bookworm-security",
            component="main",
            uri="http://mirror.example/debian-security/",
            codename=None,
            origin=None,
        ),
    )
    assert packages.parse_indextargets("") == ()


def test_debian_12_takes_the_engine_from_the_mirror_apt_uses_and_the_rest_from_itself():
    plan = _plan(DEBIAN_12, NOT_FETCHED, *ENGINE, packages.REGISTRY, packages.MMDEBSTRAP)

    assert plan.packages == (
        "containerd", "runc", "docker.io/trixie", "docker-cli/trixie", "docker-buildx/trixie", "docker-registry",
        "mmdebstrap",
    )  # fmt: skip
    sources, pins = plan.files
    assert str(sources.path) == "/etc/apt/sources.list.d/rocm-images-trixie.sources"
    assert [line for line in sources.content.splitlines() if not line.startswith("#")] == [
        "Types: deb",
        "URIs: http://mirror.example/debian/",
        "Suites: trixie",
        "Components: main",
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
    ]
    assert str(pins.path) == "/etc/apt/preferences.d/rocm-images-trixie"
    assert [line for line in pins.content.splitlines() if not line.startswith("#")] == [
        "Package: *",
        "Pin: release n=trixie",
        "Pin-Priority: 100",
    ]
    assert "http://mirror.example/debian/" in sources.reason


def test_a_mirror_apt_knows_to_be_debians_goes_before_a_vendors_that_uses_the_same_release_name():
    plan = _plan(DEBIAN_12, FETCHED, packages.DOCKERD)
    assert "URIs: http://near.example/debian/\n" in plan.files[0].content


def test_debian_12_takes_cosign_from_the_newer_release_and_debian_13_has_it_itself():
    old = _plan(DEBIAN_12, NOT_FETCHED, packages.COSIGN)
    assert (old.packages, len(old.files)) == (("cosign/trixie",), 2)
    assert _plan(DEBIAN_13, NOT_FETCHED, packages.COSIGN) == Installation(packages=("cosign",), files=())
    with pytest.raises(EngineError, match="none to take cosign of Debian 13"):
        _plan(DEBIAN_12, "", packages.COSIGN)


def test_debian_12_with_a_source_for_the_newer_release_gets_no_file():
    with_newer = (
        f"{NOT_FETCHED}\nComponent: main\nCreated-By: Packages\nRelease: trixie\nRepo-URI: http://x.example/\n"
    )
    plan = _plan(DEBIAN_12, with_newer, packages.BUILDX)
    assert plan == Installation(packages=("docker-buildx/trixie",), files=())


def test_debian_12_needs_no_other_release_for_what_it_has_itself():
    plan = _plan(DEBIAN_12, "", packages.REGISTRY, packages.MMDEBSTRAP, packages.GIT)
    assert plan == Installation(packages=("docker-registry", "mmdebstrap", "git"), files=())


def test_debian_12_without_a_mirror_says_so():
    with pytest.raises(EngineError) as caught:
        _plan(DEBIAN_12, "", *ENGINE)
    assert caught.value.message == (
        "apt's sources name no Debian mirror for bookworm, so there is none to take the engine of Debian 13"
        " (trixie) from"
    )


@pytest.mark.parametrize("os_release", [DEBIAN_13, TESTING])
def test_newer_releases_install_plainly(os_release):
    plan = _plan(os_release, NOT_FETCHED, *ENGINE, packages.REGISTRY)
    assert plan == Installation(
        packages=("containerd", "runc", "docker.io", "docker-cli", "docker-buildx", "docker-registry"), files=()
    )


@pytest.mark.parametrize(
    ("os_release", "title"), [(UBUNTU, "Ubuntu 24.04.3 LTS"), (DEBIAN_11, "Debian GNU/Linux 11 (bullseye)")]
)
def test_other_distributions_are_told_what_to_install_by_hand(os_release, title):
    with pytest.raises(EngineError) as caught:
        _plan(os_release, NOT_FETCHED, *ENGINE, packages.REGISTRY, packages.MMDEBSTRAP)
    assert caught.value.message == (
        f"installing packages is known for Debian 12 and newer, this machine runs {title}"
    )
    assert caught.value.hint == (
        "install by hand: a Docker Engine 23 or newer, its command line, its buildx plugin 0.13 or newer,"
        " a registry (or name one with --registry), mmdebstrap; then run: rocm-images doctor"
    )


def test_ubuntu_installs_what_its_hosted_runners_lack_and_is_not_asked_for_an_engine():
    plan = _plan(UBUNTU, NOT_FETCHED, packages.MMDEBSTRAP, packages.KEYRING, packages.GIT)
    assert plan == Installation(packages=("mmdebstrap", "debian-archive-keyring", "git"), files=())
    with pytest.raises(EngineError):
        _plan(UBUNTU, NOT_FETCHED, packages.MMDEBSTRAP, packages.BUILDX)


def test_what_apt_would_change_is_read_from_its_simulation():
    told = """\
Reading package lists...
Remv docker-ce [5:28.0]
Inst runc (1.1.5+ds1-1+deb12u1 Debian:12.15/oldstable [amd64])
Inst docker.io [20.10.24+dfsg1-1] (26.1.5+dfsg1-9+deb13u1+b1 Debian:13.8/stable [amd64])
Conf runc (1.1.5+ds1-1+deb12u1 Debian:12.15/oldstable [amd64])
"""
    assert changes(told) == (
        ("runc 1.1.5+ds1-1+deb12u1",),
        ("docker.io 26.1.5+dfsg1-9+deb13u1+b1",),
        ("docker-ce",),
    )
