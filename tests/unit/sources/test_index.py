"""Indexes and wheelhouses: where a locked file is found, and what is said when it is not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from builder.errors import EngineError, LockError
from builder.mirrors import Mirrors
from builder.sources.index import LockedFile, fetch_wheels, find_in_wheelhouses, locate, look_up_all
from builder.sources.store import Store
from builder.sources.transport import Patience

QUICK = Patience(attempts=2, first=0.01, longest=0.02)
WHEEL = "torch-2.11.0.dev20261101+rocm7.2-cp312-cp312-linux_x86_64.whl"
LINK = WHEEL.replace("+", "%2B")
DATA = b"the nightly wheel"
SHA = hashlib.sha256(DATA).hexdigest()
FILE = LockedFile(project="Torch", filename=WHEEL, sha256=SHA, size=len(DATA), index="https://whl.example/rocm7.2")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def mirrors(site, mirrors_of) -> Mirrors:
    return mirrors_of(
        f'[indexes]\ndefault = "{site.url}/simple"\n"https://whl.example/rocm7.2" = "{site.url}/rocm"\n'
        f'"https://flat.example" = "{site.url}/flat"\n'
    )


def _page(site, path: str, body: str, kind: str = "text/html") -> None:
    site.on(path, site.body(body.encode(), kind))


def _files(store: Store) -> list[str]:
    return sorted(p.name for p in store.root.rglob("*") if p.is_file() and p.name != ".lock")


def _fetch(file: LockedFile, store: Store, mirrors: Mirrors, story, **options) -> bytes:
    found = fetch_wheels([file], store=store, mirrors=mirrors, story=story, patience=QUICK, **options)
    return found[file.sha256].read_bytes()


def test_a_file_is_found_on_the_page_of_its_normalized_project(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="../files/{LINK}#sha256={SHA}">{WHEEL}</a>')
    site.on(f"/rocm/files/{WHEEL}", site.body(DATA))
    assert _fetch(FILE, store, mirrors, story) == DATA
    assert story.steps == ["look up 1 of 1 files", "fetch 1 file, 0.0 kB"]
    url = locate("torch", WHEEL, index="https://whl.example/rocm7.2", mirrors=mirrors, patience=QUICK)
    assert url == f"{site.url}/rocm/files/{LINK}"


def test_the_default_index_is_asked_in_the_json_form_too(site, store, mirrors, story):
    page = {
        "meta": {"api-version": "1.1"},
        "name": "torch",
        "versions": [],
        "files": [{"filename": WHEEL, "url": f"../../f/{LINK}", "hashes": {"sha256": SHA}, "size": 17}],
    }
    _page(site, "/simple/torch/", json.dumps(page), "application/vnd.pypi.simple.v1+json")
    site.on(f"/f/{WHEEL}", site.body(DATA))
    assert _fetch(LockedFile(project="torch", filename=WHEEL, sha256=SHA), store, mirrors, story) == DATA


def test_a_file_whose_address_is_elsewhere_is_fetched_through_the_mirror_as_well(site, store, mirrors_of, story):
    mirrors = mirrors_of(
        f'[indexes]\ndefault = "{site.url}/simple"\n[archives]\n"https://files.example" = "{site.url}/mirrored"\n'
    )
    _page(site, "/simple/torch/", f'<a href="https://files.example/{LINK}">{WHEEL}</a>')
    site.on(f"/mirrored/{WHEEL}", site.body(DATA))
    assert _fetch(LockedFile(project="torch", filename=WHEEL, sha256=SHA), store, mirrors, story) == DATA


def test_f30_a_flat_index_is_one_page_with_all_files(site, store, mirrors, story):
    _page(
        site, "/flat/links.html", f'<a href="w/other-1-py3-none-any.whl">other</a> <a href="w/{LINK}">{WHEEL}</a>'
    )
    site.on(f"/flat/w/{WHEEL}", site.body(DATA))
    file = LockedFile(
        project="torch", filename=WHEEL, sha256=SHA, index="https://flat.example/links.html", kind="flat"
    )
    assert _fetch(file, store, mirrors, story) == DATA


def test_an_index_may_be_a_folder(tmp_path, store, mirrors_of, story):
    (tmp_path / "simple" / "torch").mkdir(parents=True)
    (tmp_path / "simple" / "torch" / "index.html").write_text(f'<a href="../../w/{LINK}#sha256={SHA}">x</a>')
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / WHEEL).write_bytes(DATA)
    simple, flat = (tmp_path / "simple").as_uri(), (tmp_path / "w").as_uri()
    mirrors = mirrors_of(f'[indexes]\ndefault = "{simple}"\n"https://flat.example" = "{flat}"')
    assert _fetch(LockedFile(project="torch", filename=WHEEL, sha256=SHA), store, mirrors, story) == DATA
    url = locate("torch", WHEEL, index="https://flat.example", mirrors=mirrors, kind="flat")
    assert url == f"{(tmp_path / 'w').as_uri()}/{LINK}"
    with pytest.raises(LockError, match=r"there is no project 'absent' on file:///"):
        locate("absent", "absent-1.whl", index=None, mirrors=mirrors)


def test_further_indexes_of_pip_serve_what_the_default_one_lacks(site, store, story, tmp_path, monkeypatch):
    config = f"[global]\nindex-url = {site.url}/simple\nextra-index-url = {site.url}/more\n"
    (tmp_path / "pip.conf").write_text(config)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    _page(site, "/simple/torch/", f'<a href="/x/{LINK}#sha256={"0" * 64}">{WHEEL}</a>')
    _page(site, "/more/torch/", f'<a href="/y/{LINK}#sha256={SHA}">{WHEEL}</a>')
    site.on(f"/y/{WHEEL}", site.body(DATA))
    assert _fetch(LockedFile(project="torch", filename=WHEEL, sha256=SHA), store, Mirrors(), story) == DATA


def test_f20_a_named_index_never_falls_back_to_another(site, store, mirrors, story):
    _page(site, "/simple/torch/", f'<a href="/x/{LINK}#sha256={SHA}">{WHEEL}</a>')
    site.on(f"/x/{WHEEL}", site.body(DATA))
    with pytest.raises(LockError, match=f"there is no project 'Torch' on {site.url}/rocm"):
        _fetch(FILE, store, mirrors, story)
    assert site.asked("/simple/torch/") == 0
    assert _files(store) == []


def test_f64_a_nightly_that_is_gone_names_what_is_there_instead(site, store, mirrors, story):
    newer = WHEEL.replace("1101", "1108")
    _page(site, "/rocm/torch/", f'<a href="{newer.replace("+", "%2B")}">{newer}</a>')
    with pytest.raises(LockError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert (
        refused.value.message == f"{WHEEL}: can no longer be fetched: {site.url}/rocm has no such file of 'Torch'"
    )
    assert refused.value.details == (f"there is {newer}",)
    assert refused.value.hint == "if the pin should follow: rocm-images lock"
    assert _files(store) == []


def test_an_index_with_only_cpu_builds_does_not_serve_a_rocm_wheel(site, store, mirrors, story):
    cpu = WHEEL.replace("rocm7.2", "cpu")
    _page(site, "/rocm/torch/", f'<a href="{cpu.replace("+", "%2B")}#sha256={SHA}">{cpu}</a>')
    with pytest.raises(LockError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert refused.value.details == (f"there is {cpu}",)
    assert _files(store) == []


def test_a_listed_file_that_cannot_be_downloaded_any_more_is_gone(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}">{WHEEL}</a>')
    with pytest.raises(LockError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert refused.value.message == f"{WHEEL}: can no longer be fetched: 404 at {site.url}/rocm/torch/{LINK}"
    assert _files(store) == []


def test_a_file_replaced_under_its_name_is_refused_before_it_is_downloaded(site, store, mirrors, story):
    other = hashlib.sha256(b"replaced").hexdigest()
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={other}">{WHEEL}</a>')
    site.on(f"/rocm/torch/{WHEEL}", site.body(b"replaced"))
    with pytest.raises(LockError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert refused.value.message == (
        f"{WHEEL}: can no longer be fetched: {site.url}/rocm has it with sha256 {other}, locked is {SHA}"
    )
    assert site.asked(f"/rocm/torch/{WHEEL}") == 0
    assert _files(store) == []


def test_an_index_that_lies_about_the_hash_is_found_out(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}">{WHEEL}</a>')
    site.on(f"/rocm/torch/{WHEEL}", site.body(b"the nightly whale"))
    with pytest.raises(LockError, match=f"expected sha256 {SHA} \\(17 bytes\\), got "):
        _fetch(FILE, store, mirrors, story)
    assert _files(store) == []


def test_a_yanked_file_is_refused_with_its_reason(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}" data-yanked="wrong results on gfx1201">x</a>')
    site.on(f"/rocm/torch/{WHEEL}", site.body(DATA))
    with pytest.raises(LockError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert refused.value.message == f"{WHEEL}: yanked by its authors: wrong results on gfx1201"
    assert refused.value.hint == "rocm-images lock --update Torch"
    assert site.asked(f"/rocm/torch/{WHEEL}") == 0
    assert _files(store) == []


def test_a_yanked_file_is_taken_with_a_warning_where_that_was_allowed(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}" data-yanked="">x</a>')
    site.on(f"/rocm/torch/{WHEEL}", site.body(DATA))
    assert _fetch(FILE, store, mirrors, story, allow_yanked=["torch"]) == DATA
    assert story.warnings == [f"{WHEEL}: yanked by its authors: no reason given"]


def test_an_index_that_fails_once_is_asked_again(site, store, mirrors, story):
    page = f'<a href="{LINK}#sha256={SHA}">{WHEEL}</a>'.encode()
    site.on("/rocm/torch/", site.status(500), site.body(page, "text/html"))
    site.on(f"/rocm/torch/{WHEEL}", site.body(DATA))
    assert _fetch(FILE, store, mirrors, story) == DATA


def test_an_index_that_is_down_is_no_fault_of_the_lock(site, store, mirrors, story):
    site.on("/rocm/torch/", site.status(503))
    with pytest.raises(EngineError) as refused:
        _fetch(FILE, store, mirrors, story)
    assert refused.value.message == (
        f"{WHEEL}: cannot be looked up: {site.url}/rocm/torch/: answers 503 Service Unavailable (2 attempts)"
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [("image/png", "x"), ("application/vnd.pypi.simple.v1+json", "{}"), ("application/json", "[]")],
)
def test_a_server_that_is_no_index_is_told_apart_from_an_empty_one(site, store, mirrors, story, kind, body):
    _page(site, "/rocm/torch/", body, kind)
    with pytest.raises(EngineError, match=f"{site.url}/rocm/torch/: does not answer as a Python index"):
        _fetch(FILE, store, mirrors, story)


def test_a_wheelhouse_serves_first_and_only_with_the_locked_bytes(site, tmp_path, store, mirrors_of, story):
    for name, data in (("stale", b"another build"), ("good", DATA)):
        (tmp_path / name).mkdir()
        (tmp_path / name / WHEEL).write_bytes(data)
    mirrors = mirrors_of(f'wheelhouses = ["stale", "good"]\n[indexes]\n"https://whl.example" = "{site.url}"\n')
    assert find_in_wheelhouses(WHEEL, SHA, mirrors=mirrors) == tmp_path / "good" / WHEEL
    assert _fetch(FILE, store, mirrors, story) == DATA
    assert site.requests == []
    assert _files(store) == [SHA]
    only_stale = mirrors_of(f'wheelhouses = ["stale"]\n[indexes]\n"https://whl.example" = "{site.url}"\n')
    with pytest.raises(LockError, match="can no longer be fetched"):
        _fetch(FILE, Store(tmp_path / "empty"), only_stale, story)


def test_every_file_can_be_looked_up_without_downloading_any(site, mirrors):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}">{WHEEL}</a>')
    gone = LockedFile(project="triton", filename="triton-3.6.0.whl", sha256=SHA)
    found, lost = look_up_all([FILE, gone], mirrors=mirrors, patience=QUICK)
    assert found.url == f"{site.url}/rocm/torch/{LINK}"
    assert isinstance(lost, LockError)
    assert [path for path, _ in site.requests if path.endswith(".whl")] == []


def test_all_problems_are_told_at_once_and_nothing_is_downloaded(site, store, mirrors, story):
    _page(site, "/rocm/torch/", f'<a href="{LINK}#sha256={SHA}">{WHEEL}</a>')
    lost = [
        LockedFile(project=n, filename=f"{n}-1.whl", sha256=hashlib.sha256(n.encode()).hexdigest()) for n in "ab"
    ]
    with pytest.raises(LockError) as refused:
        fetch_wheels([FILE, *lost], store=store, mirrors=mirrors, story=story, patience=QUICK)
    assert refused.value.message == "2 of 3 files could not be fetched as locked"
    assert refused.value.details == tuple(
        f"{n}-1.whl: can no longer be fetched: there is no project '{n}' on {site.url}/simple" for n in "ab"
    )
    assert _files(store) == []
