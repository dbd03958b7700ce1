"""The store: objects by content, verified whenever they are read."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from builder.errors import LockError
from builder.sources.store import Store, sha256_of


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name != ".lock")


def test_an_object_comes_back_under_its_hash_and_is_readable_by_everyone(tmp_path: Path):
    store = Store(tmp_path)
    data = b"wheel" * 1000
    placed = store.add(io.BytesIO(data), _sha(data))
    assert store.get(_sha(data)) == placed == tmp_path / "sha256" / _sha(data)[:2] / _sha(data)
    assert placed.read_bytes() == data
    assert stat.S_IMODE(placed.stat().st_mode) == 0o644
    assert _files(tmp_path) == [str(placed.relative_to(tmp_path))]


def test_a_file_is_copied_not_moved(tmp_path: Path):
    source = tmp_path / "a.whl"
    source.write_bytes(b"bytes")
    placed = Store(tmp_path / "store").add(source, _sha(b"bytes"))
    assert source.read_bytes() == placed.read_bytes() == b"bytes"
    assert sha256_of(placed) == placed.name


def test_an_object_that_was_never_added_is_absent(tmp_path: Path):
    assert Store(tmp_path).get("0" * 64) is None


def test_other_bytes_than_announced_are_refused_and_nothing_is_kept(tmp_path: Path):
    source = tmp_path / "triton.whl"
    source.write_bytes(b"evil")
    store = Store(tmp_path / "store")
    with pytest.raises(LockError) as refused:
        store.add(source, _sha(b"good"))
    assert refused.value.message == f"triton.whl: expected sha256 {_sha(b'good')}, got {_sha(b'evil')}"
    assert _files(store.root) == []


@pytest.mark.parametrize("wrong", ["", "abc", "A" * 64, "0" * 64 + "\n", "../" + "0" * 61])
def test_a_name_that_is_no_hash_never_becomes_a_path(tmp_path: Path, wrong: str):
    with pytest.raises(LockError, match="expected 64 lower-case hex digits"):
        Store(tmp_path).get(wrong)


def test_a_corrupted_object_is_removed_and_counts_as_absent(tmp_path: Path):
    store = Store(tmp_path)
    placed = store.add(io.BytesIO(b"good"), _sha(b"good"))
    assert store.get(_sha(b"good")) == placed
    placed.write_bytes(b"evil")  # same size, same inode: only the modification time tells
    os.utime(placed, ns=(1, 1))
    assert store.get(_sha(b"good")) is None
    assert not placed.exists()
    assert store.add(io.BytesIO(b"good"), _sha(b"good")).read_bytes() == b"good"


def test_a_file_put_there_by_someone_else_is_compared_before_it_is_handed_out(tmp_path: Path):
    store = Store(tmp_path)
    path = store.path(_sha(b"good"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"goo")
    assert store.get(_sha(b"good")) is None


def test_an_interrupt_while_receiving_leaves_nothing(tmp_path: Path):
    def interrupted() -> None:
        with Store(tmp_path).receive() as incoming:
            incoming.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert _files(tmp_path) == []


def test_restarting_forgets_what_was_written(tmp_path: Path):
    store = Store(tmp_path)
    with store.receive() as incoming:
        incoming.write(b"a long wrong start")
        incoming.restart()
        incoming.write(b"good")
        placed = store.keep(incoming)
    assert placed.name == _sha(b"good")
    assert placed.read_bytes() == b"good"


def test_what_a_crash_left_behind_is_swept_up_a_day_later(tmp_path: Path):
    store = Store(tmp_path)
    (tmp_path / "incoming").mkdir()
    for name, age in (("old", 2 * 24 * 3600), ("being-written", 5)):
        leftover = tmp_path / "incoming" / name
        leftover.write_bytes(b"x")
        os.utime(leftover, (time.time() - age,) * 2)
    store.add(io.BytesIO(b"good"), _sha(b"good"))
    assert [p.name for p in (tmp_path / "incoming").iterdir()] == ["being-written"]


def _plain_adds(root: str) -> None:
    store = Store(Path(root))
    for number in range(200):
        data = f"object {number % 5}".encode()
        if store.add(io.BytesIO(data), _sha(data)).read_bytes() != data:
            raise AssertionError(number)


def test_two_processes_share_a_store(tmp_path: Path):
    def check(process: multiprocessing.Process) -> int | None:
        process.join()
        return process.exitcode

    adders = [
        multiprocessing.get_context("spawn").Process(target=_plain_adds, args=(str(tmp_path),)) for _ in "ab"
    ]
    for adder in adders:
        adder.start()
    assert [check(adder) for adder in adders] == [0, 0]
    assert len(_files(tmp_path)) == 5
    for name in _files(tmp_path):
        assert sha256_of(tmp_path / name) == Path(name).name
