"""Mirrors: what mirrors.toml says, what the machine says, and how addresses are translated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.errors import EngineError, RecipeError
from builder.mirrors import DebianMirror, DebianTable, MirrorFile, Mirrors, load_mirrors, parse_mirrors


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, empty_home: Path) -> None:
    """A machine whose pip, uv and user configuration say nothing."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "XDG_", "ROCM_IMAGES_")) or name in (
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(empty_home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def _mirrors(text: str, file: Path = Path("mirrors.toml")) -> Mirrors:
    return Mirrors(table=parse_mirrors(text.encode(), file=file), file=file)


def _put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _program(folder: Path, name: str, script: str) -> None:
    path = _put(folder / name, f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_a_file_every_address_stays():
    mirrors = Mirrors()
    assert mirrors.registry("docker.io/rocm/vllm:1@sha256:ab") == "docker.io/rocm/vllm:1@sha256:ab"
    assert mirrors.git("https://example.org/a/b") == "https://example.org/a/b"
    assert mirrors.index("https://example.org/whl") == "https://example.org/whl"
    assert mirrors.index(None) is None
    assert mirrors.wheelhouses == ()
    assert mirrors.ca_bundle() is None


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("127.0.0.1:5000", True),
        ("[::1]:5000", True),
        ("localhost", True),
        ("registry.lan:5000", True),
        ("registry.lan", False),
        ("registry.lan:5001", False),
        ("docker.io", False),
        ("192.168.1.5:5000", False),
    ],
)
def test_a_registry_is_asked_in_plain_http_on_this_machine_or_where_the_file_says_so(host: str, plain: bool):
    assert _mirrors('plain-http = ["registry.lan:5000"]').is_plain(host) is plain


@pytest.mark.parametrize("host", ["http://registry.lan", "registry.lan/path", "Registry.lan", ""])
def test_a_registry_without_tls_is_named_as_host_and_port(host: str):
    with pytest.raises(RecipeError) as refused:
        _mirrors(f'plain-http = ["{host}"]')
    assert "mirrors.toml: plain-http[0]: expected HOST[:PORT]" in "\n".join(
        (refused.value.message, *refused.value.details)
    )


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("docker.io/rocm/vllm:1", "127.0.0.1:5000/hub/rocm/vllm:1"),
        ("docker.io/rocm/dev:7@sha256:ab", "127.0.0.1:5001/dev:7@sha256:ab"),
        ("docker.io/rocm/dev@sha256:ab", "127.0.0.1:5001/dev@sha256:ab"),
        ("docker.io/rocm/dev-ubuntu:7", "127.0.0.1:5000/hub/rocm/dev-ubuntu:7"),
        ("docker.io.example.org/x:1", "docker.io.example.org/x:1"),
        ("localhost:7000/x:1", "localhost:7000/x:1"),
        ("localhost/x:1", "127.0.0.1:5000/x:1"),
    ],
)
def test_the_longest_registry_prefix_that_ends_at_a_name_wins(reference: str, expected: str):
    mirrors = _mirrors(
        '[registries]\n"docker.io" = "127.0.0.1:5000/hub"\n"docker.io/rocm/dev" = "127.0.0.1:5001/dev"\n'
        'localhost = "127.0.0.1:5000"\n'
    )
    assert mirrors.registry(reference) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/a/b", "file:///srv/git/a/b"),
        ("https://github.com/sgl-project/sglang", "ssh://git@host/sglang"),
        ("https://github.com/sgl-project/sglang.git", "ssh://git@host/sglang.git"),
        ("https://github.com/sgl-project/sglang-fork", "file:///srv/git/sgl-project/sglang-fork"),
        ("https://github.community/a", "https://github.community/a"),
    ],
)
def test_the_longest_git_prefix_that_ends_at_a_name_wins(url: str, expected: str):
    mirrors = _mirrors(
        '[git]\n"https://github.com/" = "file:///srv/git/"\n'
        '"https://github.com/sgl-project/sglang" = "ssh://git@host/sglang"\n'
    )
    assert mirrors.git(url) == expected


def test_indexes_translate_by_prefix_and_the_default_by_its_word():
    mirrors = _mirrors(
        '[indexes]\ndefault = "http://127.0.0.1/simple/"\n"https://w.example/whl" = "http://127.0.0.1/w"\n'
    )
    assert mirrors.index(None) == "http://127.0.0.1/simple"
    assert mirrors.index("https://w.example/whl/rocm7.2") == "http://127.0.0.1/w/rocm7.2"
    assert mirrors.index("https://w.example/whlx") == "https://w.example/whlx"
    assert mirrors.archive("https://w.example/whl/a.whl") == "http://127.0.0.1/w/a.whl"


def test_archives_translate_by_their_own_table():
    mirrors = _mirrors('[archives]\n"https://example.org/dl" = "file:///srv/dl"\n')
    assert mirrors.archive("https://example.org/dl/x.tar.gz") == "file:///srv/dl/x.tar.gz"
    assert mirrors.archive("https://example.org/other/x.tar.gz") == "https://example.org/other/x.tar.gz"


def test_every_problem_of_a_file_is_listed_with_near_misses(tmp_path: Path):
    text = """
registeries = {}
wheelhouses = ["nowhere"]
[registries]
"https://docker.io" = "127.0.0.1"
[git]
"git@github.com:a" = "/srv/git"
[indexes]
defualt = "http://127.0.0.1"
"https://w.example" = "ftp://w"
[debian]
miror = "http://127.0.0.1/debian"
allow-expired = "yes"
"""
    with pytest.raises(RecipeError) as refused:
        parse_mirrors(text.encode(), file=Path("m.toml"))
    address = "expected an address that starts with https://, http://, ssh://, git://"
    web = "expected an address that starts with https://, http://, file://"
    default = "expected 'default' or an address that starts with http:// or https://"
    registry = "expected HOST[:PORT][/PATH] in lower case, without a scheme"
    assert refused.value.message.splitlines() == [
        "m.toml: debian.allow-expired: input should be a valid boolean, got 'yes'",
        "m.toml: debian.miror: unknown key; did you mean 'mirror'?",
        f"m.toml: git.\"git@github.com:a\": {address}, file://, got '/srv/git'",
        f"m.toml: git.\"git@github.com:a\": {address}, got 'git@github.com:a'",
        f"m.toml: indexes.\"https://w.example\": {web}, got 'ftp://w'",
        f"m.toml: indexes.defualt: {default}, got 'defualt'",
        "m.toml: registeries: unknown key; did you mean 'registries'?",
        f"m.toml: registries.\"https://docker.io\": {registry}, got 'https://docker.io'",
        "m.toml: wheelhouses[0]: expected a folder, got 'nowhere'",
    ]
    assert refused.value.hint == "every key is described in docs/mirrors.md"


def test_a_file_that_is_not_toml_says_where():
    with pytest.raises(RecipeError, match=r"m\.toml: not a TOML file: .*line 2"):
        parse_mirrors(b"[git]\n[git\n", file=Path("m.toml"))


def test_the_search_goes_from_the_option_to_the_variable_to_the_workspace_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def seen(explicit: Path | None = None) -> str | None:
        return load_mirrors(tmp_path, explicit).index(None)

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert seen() is None
    _put(tmp_path / "home/.config/rocm-images/mirrors.toml", '[indexes]\ndefault = "http://user"\n')
    assert seen() == "http://user"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert seen() is None
    _put(tmp_path / "xdg/rocm-images/mirrors.toml", '[indexes]\ndefault = "http://xdg"\n')
    assert seen() == "http://xdg"
    _put(tmp_path / "mirrors.toml", '[indexes]\ndefault = "http://workspace"\n')
    assert seen() == "http://workspace"
    monkeypatch.setenv(
        "ROCM_IMAGES_MIRRORS", str(_put(tmp_path / "v.toml", '[indexes]\ndefault = "http://variable"\n'))
    )
    assert seen() == "http://variable"
    assert seen(_put(tmp_path / "o.toml", '[indexes]\ndefault = "http://option"\n')) == "http://option"


def test_a_file_that_was_named_has_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RecipeError, match=r"gone\.toml: no such file, named by --mirrors"):
        load_mirrors(tmp_path, tmp_path / "gone.toml")
    monkeypatch.setenv("ROCM_IMAGES_MIRRORS", str(tmp_path / "lost.toml"))
    with pytest.raises(RecipeError, match=r"lost\.toml: no such file, named by \$ROCM_IMAGES_MIRRORS"):
        load_mirrors(tmp_path)


def test_wheelhouses_come_from_the_file_first_then_from_pip_and_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("beside", "pip one", "uv"):
        (tmp_path / name).mkdir()
    config = f"[global]\nfind-links = {(tmp_path / 'pip one').as_uri()} /does/not/exist https://pages.example/\n"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(_put(tmp_path / "pip.conf", config)))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "uv"))
    file = _put(tmp_path / "mirrors.toml", 'wheelhouses = ["beside"]\n')
    assert load_mirrors(tmp_path).wheelhouses == (tmp_path / "beside", tmp_path / "pip one", tmp_path / "uv")
    assert load_mirrors(tmp_path).file == file


def test_the_default_index_is_what_pip_or_uv_are_configured_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = (
        "[global]\nindex-url = http://pip.example/simple\nextra-index-url = file:///a/simple file:///b/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(_put(tmp_path / "pip.conf", config)))
    assert Mirrors().index(None) == "http://pip.example/simple"
    assert Mirrors().extra_indexes() == ("file:///a/simple", "file:///b/simple")
    monkeypatch.setenv("PIP_INDEX_URL", "http://environment.example/simple")
    assert Mirrors().index(None) == "http://environment.example/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "corp=http://uv.example/simple?a=b")
    assert Mirrors().index(None) == "http://uv.example/simple?a=b"
    named = _mirrors('[indexes]\ndefault = "http://file.example/simple"\n')
    assert named.index(None) == "http://file.example/simple"
    assert named.extra_indexes() == ()


def test_the_certificates_are_those_the_machine_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bundle = _put(tmp_path / "ca.pem", "-")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(_put(tmp_path / "pip.conf", f"[global]\ncert = {bundle}\n")))
    assert Mirrors().ca_bundle() == bundle
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with pytest.raises(EngineError, match=r"SSL_CERT_FILE names .*gone\.pem, which is not a file of certificates"):
        Mirrors().ca_bundle()


def test_the_debian_mirror_of_the_file_wins_with_its_own_policy():
    mirrors = _mirrors('[debian]\nmirror = "http://127.0.0.1/debian/"\nallow-expired = true\n')
    assert mirrors.debian_mirror() == DebianMirror(
        url="http://127.0.0.1/debian", allow_expired=True, origin="set in mirrors.toml"
    )


def _apt(folder: Path, monkeypatch: pytest.MonkeyPatch, *, targets: str, expiry: str = "") -> None:
    """Put an apt in front of PATH that answers from `targets`, as apt does on a machine with these archives."""
    _put(folder / "targets", targets)
    _program(folder, "apt-get", f'case "$*" in *--no-release-info*) exit 0;; *) cat {folder}/targets;; esac')
    _program(folder, "apt-config", f"echo 'Acquire::Check-Valid-Until \"{expiry}\";'" if expiry else "exit 0")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_debian_mirror_is_the_archive_of_this_machines_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    targets = (
        "Node Source|nodistro|nodistro|https://node.example/\n"
        "Debian|bookworm-security|oldstable-security|http://mirror.example/debian-security/\n"
        "Debian|bookworm|oldstable|http://mirror.example/debian/\n"
        "Debian|trixie|stable|http://frozen.example/debian/\n"
    )
    _apt(tmp_path / "bin", monkeypatch, targets=targets)
    found = Mirrors().debian_mirror()
    assert (found.url, found.allow_expired) == ("http://mirror.example/debian", False)
    assert found.origin == "as apt on this machine is configured"
    assert Mirrors().debian_mirror("trixie").url == "http://frozen.example/debian"
    assert Mirrors().debian_mirror("stable").url == "http://frozen.example/debian"


def test_expired_release_files_are_accepted_where_the_owner_told_apt_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _apt(tmp_path / "bin", monkeypatch, targets="Debian|trixie|stable|http://m.example/debian\n", expiry="false")
    found = Mirrors().debian_mirror()
    assert found.allow_expired
    assert found.origin == "as apt on this machine is configured, expired Release files accepted"


def test_no_debian_mirror_names_the_key_that_would_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _apt(tmp_path / "bin", monkeypatch, targets="Ubuntu|noble|noble|http://ubuntu.example/\n")
    with pytest.raises(EngineError) as refused:
        Mirrors().debian_mirror()
    assert refused.value.message == "no Debian mirror is known: the apt of this machine names none"
    assert refused.value.hint == 'set debian.mirror = "http://…" in mirrors.toml'


def test_the_file_in_the_documentation_is_accepted_and_does_what_its_text_says(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "mirrors.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0].replace("/srv/wheels", str(tmp_path))
    (tmp_path / "wheels").mkdir()
    mirrors = _mirrors(example, tmp_path / "mirrors.toml")
    assert mirrors.wheelhouses == (tmp_path / "wheels", tmp_path)
    assert mirrors.registry("docker.io/rocm/vllm:1") == "registry.corp.example:5000/rocm/vllm:1"
    assert mirrors.registry("docker.io/rocm-tools/x:1") == "registry.corp.example:5000/hub/rocm-tools/x:1"
    assert mirrors.git("https://github.com/sgl-project/sglang") == "file:///srv/git/sglang.git"
    assert (
        mirrors.index("https://download.pytorch.org/whl/rocm7.2") == "https://index.corp.example/pytorch/rocm7.2"
    )
    known = {key for table in (MirrorFile, DebianTable) for key in (f.alias for f in table.model_fields.values())}
    assert [
        key for key in known if f"{key}`" not in page and f"{key}]" not in page and f"{key} =" not in page
    ] == []
