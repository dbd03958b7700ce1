"""A chroot of the test's own, in a mount namespace of its own: nothing of it is left on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.host import own_root

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a chroot"),
]

# The machine's own folders under another root, which alone has the file /marker.
MAKE_CHROOT = """\
mount -t tmpfs tmpfs "$1"
touch "$1/marker"
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$1$entry"
  elif [ -d "$entry" ] && [ "$entry" != /proc ]; then mkdir "$1$entry" && mount --bind "$entry" "$1$entry"
  fi
done
mkdir "$1/proc"
mount -t proc proc "$1/proc"
root=$1
shift
exec chroot "$root" "$@"
"""
# What a container runtime does for `docker exec`: join a mount namespace, here its own.
JOIN = ["nsenter", "--mount=/proc/self/ns/mnt", "test", "-e", "/marker"]


def _in_chroot(folder: Path, *argv: str) -> int:
    unshared = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", MAKE_CHROOT, "sh", str(folder)]
    return subprocess.run([*unshared, *argv], check=False).returncode


def test_a_program_started_in_a_chroot_has_that_as_the_root_of_its_namespace(tmp_path):
    through = [sys.executable, own_root.__file__]
    assert _in_chroot(tmp_path, "test", "-e", "/marker") == 0
    assert _in_chroot(tmp_path, *JOIN) == 1  # what goes wrong without it
    assert _in_chroot(tmp_path, *through, *JOIN) == 0


def test_where_the_root_is_the_namespaces_own_a_program_stays_in_its_namespace():
    # Also a machine that runs these tests may be a chroot; behind the first start it is none.
    through = f"{sys.executable} {own_root.__file__}"
    told = subprocess.run(
        [*through.split(), "sh", "-c", f"readlink /proc/self/ns/mnt; {through} readlink /proc/self/ns/mnt"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    before, after = told.stdout.split()
    assert before == after


def test_the_named_program_keeps_the_process_id_and_gives_the_exit_status():
    with subprocess.Popen(
        [sys.executable, own_root.__file__, "sh", "-c", "echo $$; exit 7"], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.read().strip() == str(child.pid)
    assert child.returncode == 7
