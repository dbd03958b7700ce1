"""install_hooks.py EPOCH [FROM TO]: lays out the package of the hooks for the interpreter that runs this.

Runs in a build stage, with nothing but the standard library and the files of the package beside it. FROM (/mnt)
has `registry.json` and the files of the project in `calls/`; the result is below TO (/out), at its absolute path.
It belongs into the interpreter's own site directory: nowhere else does Python look for the `.pth` file.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from builder.inside.bytecode import compile_all, fix_hash_seed
else:
    from bytecode import compile_all, fix_hash_seed

PACKAGE = "rocm_images_hooks"
# It ends an interpreter whose hooks cannot be put in, for whatever reason: `site` prints an exception and goes on.
# The number is that of events.REFUSED.
_ACTIVATION = f"""\
try:
    from {PACKAGE} import activate
    activate()
except BaseException as error:
    import os
    try:
        said = f"rocm-images: the hooks cannot be activated: {{error!r}}; the interpreter stops with status 97\\n"
        os.write(2, said.encode(errors="backslashreplace"))
    finally:
        os._exit(97)
"""
PTH = f"import sys; exec({_ACTIVATION!r})\n"  # `site` executes lines that begin so, each by itself


def main() -> None:
    """Copy, compile, and set the times."""
    epoch, *folders = sys.argv[1:]
    source, out = (Path(folder) for folder in folders or ("/mnt", "/out"))
    directory = site_directory()
    package = out / directory[1:] / PACKAGE
    calls = package / "calls"
    calls.mkdir(parents=True)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.name not in ("install_hooks.py", "bytecode.py"):
            shutil.copyfile(file, package / file.name)
    json.loads((source / "registry.json").read_bytes())
    shutil.copyfile(source / "registry.json", package / "registry.json")
    (calls / "__init__.py").write_text('"""What this project calls in place of what it overrides."""\n')
    for file in sorted((source / "calls").glob("*.py")):
        compile(file.read_bytes(), file.name, "exec", dont_inherit=True)  # compileall only says that it failed
        shutil.copyfile(file, calls / file.name)
    (package.parent / f"{PACKAGE}.pth").write_text(PTH)
    compile_all(package, root=out)
    for path in [out, *out.rglob("*")]:
        os.utime(path, (int(epoch), int(epoch)), follow_symlinks=False)


def site_directory() -> str:
    """Return where this interpreter looks for `.pth` files and distributions are installed."""
    wanted, read = sysconfig.get_path("purelib"), site.getsitepackages()
    if wanted not in read:
        sys.exit(f"{sys.executable} installs into {wanted}, but reads .pth files in {', '.join(read)} only")
    return wanted


if __name__ == "__main__":
    fix_hash_seed()
    main()
