"""Downloads against a site on loopback: what is fetched, what is refused, and that nothing wrong is stored."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builder.errors import EngineError, LockError
from builder.mirrors import Mirrors
from builder.sources.download import Wanted, fetch_all, probe_all
from builder.sources.store import Store
from builder.sources.transport import CONNECTIONS, Patience, Stopped, Transport
from builder.story import Reached

QUICK = Patience(attempts=3, first=0.01, longest=0.02)
DATA = bytes(range(256)) * 40


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _wanted(*urls: str, data: bytes = DATA, name: str = "a.whl", sized: bool = True) -> Wanted:
    return Wanted(name=name, sha256=_sha(data), size=len(data) if sized else None, urls=urls)


def _files(store: Store) -> list[str]:
    return sorted(p.name for p in store.root.rglob("*") if p.is_file() and p.name != ".lock")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _fetch(item: Wanted, store: Store, story, mirrors: Mirrors | None = None) -> bytes:
    found = fetch_all([item], store=store, mirrors=mirrors or Mirrors(), story=story, patience=QUICK)
    return found[item.sha256].read_bytes()


def test_a_file_is_fetched_once_and_then_comes_from_the_store(site, store, story):
    item = _wanted(site.on("/a.whl", site.body(DATA)))
    assert _fetch(item, store, story) == DATA
    assert _fetch(item, store, story) == DATA
    assert site.asked("/a.whl") == 1
    assert story.steps == ["fetch 1 file, 10.2 kB"]
    assert story.notes == ["1 of 1 files, 10.2 kB: a.whl"]


def test_many_files_come_back_by_hash(site, store, story):
    items = [
        _wanted(site.on(f"/{n}.whl", site.body(DATA + b"%d" % n)), data=DATA + b"%d" % n, name=f"{n}.whl")
        for n in range(30)
    ]
    found = fetch_all([*items, items[0]], store=store, mirrors=Mirrors(), story=story, patience=QUICK)
    assert sorted(found) == sorted(item.sha256 for item in items)
    assert all(_sha(path.read_bytes()) == sha256 for sha256, path in found.items())
    assert len(site.requests) == 30


def test_a_download_tells_files_and_bytes_also_of_one_that_is_under_way(site, store, story):
    data, seen = DATA * 60, threading.Event()

    def slowly(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:400_000])  # one piece, as they are read, and some of the next
        seen.wait(10)
        handler.wfile.write(data[400_000:])

    item = _wanted(site.on("/a.whl", slowly), data=data)
    with ThreadPoolExecutor(1) as beside:
        fetching = beside.submit(_fetch, item, store, story)
        while not fetching.done() and not (story.how_far is not None and story.how_far().share):
            time.sleep(0.001)
        reached = story.how_far()
        seen.set()
        assert fetching.result() == data
    assert reached == Reached(words="0 of 1 files, 262.1 kB of 614.4 kB", share=262_144 / 614_400)
    assert story.how_far() == Reached(words="1 of 1 files, 614.4 kB of 614.4 kB", share=1.0)


def test_a_corrupted_store_entry_is_fetched_again(site, store, story):
    item = _wanted(site.on("/a.whl", site.body(DATA)))
    _fetch(item, store, story)
    entry = store.path(item.sha256)
    entry.write_bytes(b"rotten")
    assert _fetch(item, store, story) == DATA
    assert site.asked("/a.whl") == 2


@pytest.mark.parametrize("code", [429, 500, 503])
def test_an_error_that_may_pass_is_tried_again(site, store, story, code):
    item = _wanted(site.on("/a.whl", site.status(code), site.status(code, Retry_After="0"), site.body(DATA)))
    assert _fetch(item, store, story) == DATA
    assert site.asked("/a.whl") == 3


def test_a_servers_wish_for_a_pause_counts_within_the_bound():
    patience = Patience(attempts=5, first=0.5, longest=30.0)
    assert [patience.pause(failed, None) for failed in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
    assert patience.pause(1, 7.0) == 7.0
    assert patience.pause(1, 86400.0) == 30.0
    assert patience.pause(4, 1.0) == 4.0


def test_a_body_cut_off_is_fetched_again_from_its_start_when_the_server_cannot_resume(site, store, story):
    item = _wanted(site.on("/a.whl", site.cut(DATA, 1000), site.body(DATA)))
    assert _fetch(item, store, story) == DATA
    assert "range" not in site.requests[1][1]


def test_a_body_cut_off_goes_on_where_it_stopped_when_the_server_can_resume(site, store, story):
    item = _wanted(site.on("/a.whl", site.cut(DATA, 1000, etag='"one"'), site.rest(DATA)))
    assert _fetch(item, store, story) == DATA
    assert site.requests[1][1]["range"] == "bytes=1000-"
    assert site.requests[1][1]["if-range"] == '"one"'


def test_halves_of_two_versions_are_not_blamed_on_the_file(site, store, story):
    other = bytes(reversed(DATA))
    item = _wanted(site.on("/a.whl", site.cut(other, 1000, etag='"one"'), site.rest(DATA), site.body(DATA)))
    assert _fetch(item, store, story) == DATA


def test_a_body_without_a_length_is_measured_against_the_lock(site, store, story):
    item = _wanted(site.on("/a.whl", site.body(DATA[:77], length=False), site.body(DATA, length=False)))
    assert _fetch(item, store, story) == DATA
    assert site.asked("/a.whl") == 2


def test_a_body_that_is_always_cut_off_is_a_fault_of_the_network_and_nothing_is_stored(site, store, story):
    item = _wanted(site.on("/a.whl", site.cut(DATA, 1000)))
    with pytest.raises(EngineError) as refused:
        _fetch(item, store, story)
    assert refused.value.message == (
        f"a.whl: cannot be fetched: {site.url}/a.whl: cut off after 1000 of 10240 bytes (3 attempts)"
    )
    assert refused.value.hint == "check the network, or name a mirror: docs/mirrors.md"
    assert _files(store) == []


def test_a_truncated_archive_is_refused_with_both_sizes_and_nothing_is_stored(site, store, story):
    item = _wanted(site.on("/src.tar.gz", site.body(DATA[:5000])), name="src.tar.gz")
    with pytest.raises(LockError) as refused:
        _fetch(item, store, story)
    assert refused.value.message == (
        f"src.tar.gz: expected sha256 {_sha(DATA)} (10240 bytes), got {_sha(DATA[:5000])} (5000 bytes) "
        f"from {site.url}/src.tar.gz"
    )
    assert _files(store) == []


def test_other_bytes_are_refused_with_both_hashes_and_nothing_is_stored(site, store, story):
    other = bytes(reversed(DATA))
    item = _wanted(site.on("/a.whl", site.body(other)))
    with pytest.raises(LockError) as refused:
        _fetch(item, store, story)
    assert refused.value.message == (
        f"a.whl: expected sha256 {_sha(DATA)} (10240 bytes), got {_sha(other)} (10240 bytes) from {site.url}/a.whl"
    )
    assert refused.value.hint == "if the pin should follow: rocm-images lock"
    assert _files(store) == []


def test_a_file_that_grows_past_its_size_is_not_read_to_its_end(site, store, story):
    endless = DATA * 1000
    item = _wanted(site.on("/a.whl", site.body(endless)))
    with pytest.raises(LockError, match=r"\(more than \d{5,6} bytes\)"):
        _fetch(item, store, story)
    assert _files(store) == []


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_file_that_is_gone_says_where_it_was_looked_for(site, store, story, code):
    item = _wanted(
        site.on("/a.whl", site.status(code)), site.on("/b.whl", site.status(404)), name="torch-2.11.0.dev1.whl"
    )
    with pytest.raises(LockError) as refused:
        _fetch(item, store, story)
    assert refused.value.message == f"torch-2.11.0.dev1.whl: can no longer be fetched: {code} at {site.url}/a.whl"
    assert refused.value.details == (f"404 at {site.url}/b.whl",)
    assert site.asked("/a.whl") == 1
    assert _files(store) == []


def test_the_next_address_serves_where_the_first_is_gone(site, store, story):
    item = _wanted(site.on("/gone", site.status(404)), site.on("/a.whl", site.body(DATA)))
    assert _fetch(item, store, story) == DATA


def test_right_bytes_after_wrong_ones_are_taken_with_a_warning(site, store, story):
    item = _wanted(site.on("/wrong", site.body(b"wrong")), site.on("/a.whl", site.body(DATA)))
    assert _fetch(item, store, story) == DATA
    assert len(story.warnings) == 1
    assert story.warnings[0].startswith(f"a.whl: expected sha256 {_sha(DATA)}")
    assert story.warnings[0].endswith(f"from {site.url}/wrong; taken from {site.url}/a.whl instead")


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_network_that_is_down_is_no_fault_of_the_lock(store, story):
    port = _closed_port()
    with pytest.raises(EngineError) as refused:
        _fetch(_wanted(f"http://127.0.0.1:{port}/a.whl"), store, story)
    assert refused.value.message == (
        f"a.whl: cannot be fetched: http://127.0.0.1:{port}/a.whl: Connection refused (3 attempts)"
    )
    assert _files(store) == []


def test_a_name_that_does_not_resolve_says_so(store, story):
    with pytest.raises(EngineError, match=r"a\.whl: cannot be fetched: http://nowhere\.invalid/a\.whl: .*[Nn]ame"):
        _fetch(_wanted("http://nowhere.invalid/a.whl"), store, story)


def test_a_host_that_does_not_answer_is_waited_for_once(store, story, site):
    port = _closed_port()
    items = [
        _wanted(f"http://127.0.0.1:{port}/{n}.whl", data=DATA + b"%d" % n, name=f"{n}.whl") for n in range(40)
    ]
    good = _wanted(site.on("/a.whl", site.body(DATA)))
    with pytest.raises(EngineError) as refused:
        fetch_all([*items, good], store=store, mirrors=Mirrors(), story=story, patience=QUICK)
    assert refused.value.message == "40 of 41 files could not be fetched as locked"
    assert len(refused.value.details) == 40
    assert _files(store) == [good.sha256]


def test_a_server_that_is_down_is_not_asked_for_every_file_whether_it_is_there(site):
    items = [_wanted(site.on(f"/{n}.whl", site.status(503)), name=f"{n}.whl") for n in range(100)]
    answers = probe_all(items, mirrors=Mirrors(), patience=QUICK)
    assert all(isinstance(answer, EngineError) for answer in answers)
    assert len(site.requests) <= CONNECTIONS * QUICK.attempts


def test_every_broken_pin_is_named_and_outranks_the_network(site, store, story):
    items = [
        _wanted(f"http://127.0.0.1:{_closed_port()}/c.whl", data=b"c", name="c.whl"),
        _wanted(site.url + "/a.whl", data=b"a", name="a.whl"),
        _wanted(site.on("/b.whl", site.body(b"x")), data=b"b", name="b.whl"),
    ]
    with pytest.raises(LockError) as refused:
        fetch_all(items, store=store, mirrors=Mirrors(), story=story, patience=QUICK)
    assert refused.value.message == "3 of 3 files could not be fetched as locked"
    assert [line.split(":")[0] for line in refused.value.details] == ["c.whl", "a.whl", "b.whl"]


def test_a_login_that_is_asked_for_never_shows_the_password(site, store, story):
    url = site.on("/a.whl", site.status(401)).replace("http://", "http://user:hunter2@")
    with pytest.raises(EngineError) as refused:
        _fetch(_wanted(url + "?token=hunter3"), store, story)
    assert refused.value.message == f"a.whl: cannot be fetched: {site.url}/a.whl: asks for a login (401)"


def test_a_mirrored_file_must_match_like_any_other(site, store, story, mirrors_of):
    mirrors = mirrors_of(f'[archives]\n"https://example.org/dl" = "{site.url}/mirror"\n')
    site.on("/mirror/good.tar.gz", site.body(DATA))
    site.on("/mirror/bad.tar.gz", site.body(b"other"))
    assert _fetch(_wanted("https://example.org/dl/good.tar.gz"), store, story, mirrors) == DATA
    with pytest.raises(LockError, match=f"got {_sha(b'other')} \\(5 bytes\\) from {site.url}/mirror/bad"):
        _fetch(_wanted("https://example.org/dl/bad.tar.gz", data=b"locked"), store, story, mirrors)


def test_a_mirror_may_be_a_folder(tmp_path, store, story, mirrors_of):
    (tmp_path / "dl dir").mkdir()
    (tmp_path / "dl dir" / "a+b.tar.gz").write_bytes(DATA)
    mirrors = mirrors_of(f'[archives]\n"https://example.org/dl" = "{(tmp_path / "dl dir").as_uri()}"\n')
    assert _fetch(_wanted("https://example.org/dl/a%2Bb.tar.gz"), store, story, mirrors) == DATA
    with pytest.raises(LockError, match="can no longer be fetched: 404 at file:///"):
        _fetch(_wanted("https://example.org/dl/gone.tar.gz", data=b"?"), store, story, mirrors)


def test_an_interrupt_ends_every_download_and_leaves_no_file(site, store, story):
    arrived = threading.Semaphore(0)
    over = threading.Event()

    def stall(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.wfile.write(b"x" * 1000)
        handler.wfile.flush()
        arrived.release()
        over.wait(60)

    def press_ctrl_c() -> None:
        for _ in range(3):
            arrived.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    items = [_wanted(site.on(f"/{n}", stall), data=b"%d" % n, sized=False) for n in range(3)]
    presser = threading.Thread(target=press_ctrl_c)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch_all(items, store=store, mirrors=Mirrors(), story=story, patience=QUICK)
    finally:
        over.set()
        presser.join()
    assert _files(store) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("fetch")]


def test_a_stop_does_not_stumble_over_a_body_that_was_just_read_to_its_end(site):
    address = site.on("/a.whl", site.body(DATA))
    with Transport(ca_bundle=None, patience=QUICK) as transport, transport.answer(address, {}) as response:
        assert response.content == DATA  # its connection is in the pool again, it is still open
        transport.stop()
        with pytest.raises(Stopped):
            transport.stopping()


def test_whether_files_are_still_there_is_asked_without_reading_them(site, tmp_path):
    (tmp_path / "local").write_bytes(b"x")
    items = [
        _wanted(site.on("/a.whl", site.status(503), site.body(DATA)), name="a.whl"),
        _wanted(site.on("/b.whl", site.status(404)), name="b.whl"),
        _wanted(f"http://127.0.0.1:{_closed_port()}/c.whl", name="c.whl"),
        _wanted((tmp_path / "local").as_uri(), name="d.whl"),
        _wanted((tmp_path / "absent").as_uri(), name="e.whl"),
        _wanted(name="f.whl"),
    ]
    found = probe_all(items, mirrors=Mirrors(), patience=QUICK)
    assert [None if failure is None else type(failure) for failure in found] == [
        None, LockError, EngineError, None, LockError, LockError,
    ]  # fmt: skip
    assert found[1].message == f"b.whl: can no longer be fetched: 404 at {site.url}/b.whl"
    assert found[5].message == "f.whl: can no longer be fetched: no address is known"
