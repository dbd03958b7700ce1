"""build_wheel.py EPOCH NAME VERSION FOLDER: builds the wheel of the tree mounted at /mnt, offline, into /out.

Runs in a build stage, with nothing but the standard library and the uv mounted at /media. What the build needs are
the wheels mounted at /srv and what the stage has; they are seen by the build alone. The wheel has to be the
distribution and version that the recipe says: a tree without its history is easily stamped 0.0.0 or UNKNOWN.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

TREE = Path("/build")
ENVIRONMENT = Path("/build-environment")
OUT = Path("/out")
JOBS = ("sh", "/media/jobs.sh")
UV = ("/media/uv", "--quiet", "--offline", "--no-cache", "--no-config", "--no-python-downloads")


def main() -> None:
    """Make the environment, build, and compare what came out with what was asked for."""
    epoch, name, version, folder = sys.argv[1:]
    OUT.mkdir()
    copy_tree(int(epoch))
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run(
        [*UV, "venv", "--system-site-packages", "--python", sys.executable, str(ENVIRONMENT)], check=True
    )
    wheels = sorted(str(path) for path in Path("/srv").glob("*.whl"))
    if wheels:
        install = [
            *UV,
            "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--link-mode",
            "copy",
            "--python",
            str(python),
        ]
        subprocess.run([*install, *wheels], check=True)
    env = {
        "SETUPTOOLS_SCM_PRETEND_VERSION": version,
        "SOURCE_DATE_EPOCH": epoch,
        "PYTHONHASHSEED": "0",
        "VIRTUAL_ENV": str(ENVIRONMENT),
        **os.environ,
        "PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}",
    }
    command = [UV[0], *UV[2:], "build", "--wheel", "--no-index", "--no-build-isolation", "--python", str(python)]
    done = subprocess.run([*JOBS, *command, "--out-dir", str(OUT), str(TREE / folder)], env=env, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    (OUT / ".gitignore").unlink(missing_ok=True)  # uv's own
    require(name, version)


def copy_tree(epoch: int) -> None:
    """Copy the tree, which the build writes to, with one time on every file."""
    shutil.copytree("/mnt", TREE, symlinks=True, copy_function=shutil.copy)
    for path in [TREE, *TREE.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def require(name: str, version: str) -> None:
    """End with a message unless there is one wheel, of this distribution and version."""
    wheels = sorted(OUT.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"component {name}: expected one wheel, the build made {[wheel.name for wheel in wheels]}")
    with zipfile.ZipFile(wheels[0]) as opened:
        inside = next(entry for entry in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry))
        built = message_from_bytes(opened.read(inside))
    if (normal(built["Name"]), built["Version"]) != (normal(name), version):
        sys.exit(
            f"component {name}: the build made {built['Name']} {built['Version']}, the recipe says {name} "
            f"{version}; set the version the build stamps with build-env, or correct the recipe"
        )


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
