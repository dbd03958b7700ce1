"""install_wheels.py EPOCH: unpacks the wheels mounted at /mnt, alone, into /out, as the image's Python expects.

Runs in a build stage, with nothing but the standard library and the uv beside it. No dependency is looked at: the
lock did that. What is written is the same in every run: no time, no order of a hash, no trace of an origin.
"""

import csv
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from builder.inside.bytecode import compile_all, fix_hash_seed
else:
    from bytecode import compile_all, fix_hash_seed

OUT = Path("/out")
UNPACKED = Path("/unpacked")


def main() -> None:
    """Install, drop what differs between runs, compile, and set the times."""
    epoch = int(sys.argv[1])
    wheels = sorted(str(path) for path in Path("/mnt").glob("*.whl"))
    uv = Path(__file__).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--offline", "--no-cache", "--no-index", "--no-deps"]
    command += ["--python", sys.executable, "--prefix", str(UNPACKED), "--link-mode", "copy", *wheels]
    subprocess.run(command, check=True)
    (UNPACKED / ".lock").unlink(missing_ok=True)  # uv's own, for runs side by side
    move_to_scheme()
    for info in OUT.rglob("*.dist-info"):
        forget_installer_cache(info)
    libraries = OUT / sysconfig.get_path("purelib")[1:]
    if libraries.exists():
        compile_all(libraries, root=OUT)
    for path in [OUT, *OUT.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def move_to_scheme() -> None:
    """Lay what uv put under its own prefix where this interpreter looks, which Debian names dist-packages."""
    names = {"base": str(UNPACKED), "platbase": str(UNPACKED)}
    for kind in ("purelib", "platlib", "scripts", "data"):
        source = Path(sysconfig.get_path(kind, "posix_prefix", vars=names))
        target = OUT / sysconfig.get_path(kind)[1:]
        if source.is_dir():
            move(source, target)


def move(source: Path, target: Path) -> None:
    """Move a file or folder; a folder that is there already takes what the other one has."""
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        for path in sorted(source.iterdir()):
            move(path, target / path.name)
        source.rmdir()
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def forget_installer_cache(info: Path) -> None:
    """Remove uv's note of where a wheel came from, and the line that records it."""
    note, record = info / "uv_cache.json", info / "RECORD"
    if not note.exists():
        return
    note.unlink()
    with record.open(newline="") as source:
        rows = [row for row in csv.reader(source) if not row[0].endswith("/uv_cache.json")]
    with record.open("w", newline="") as sink:
        csv.writer(sink, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    fix_hash_seed()
    main()
