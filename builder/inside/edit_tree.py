"""edit_tree.py EPOCH ROOT [FROM TO]: edits installed Python trees below ROOT, all that is asked for or nothing.

Runs in a build stage, with nothing but the standard library and the files beside it. FROM (/mnt) has `spec.json`
and the files of overlays. Changed files, and no others, are written below TO (/out) at their absolute paths, with
their bytecode and the RECORD of their distribution; the report is `edits.json` beside TO. Exit status 4 where a
patch does not apply.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import site
import sys
import sysconfig
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from builder.inside import distributions, editing
    from builder.inside.bytecode import compile_files, fix_hash_seed
else:
    import distributions
    import editing
    from bytecode import compile_files, fix_hash_seed

NOT_APPLIED = 4


def main() -> None:
    """Plan, and write if nothing is refused."""
    epoch, root, *folders = sys.argv[1:]
    source, out = (Path(folder) for folder in folders or ("/mnt", "/out"))
    patches = read_spec(source)
    tree = Tree(root=Path(root).resolve())
    planned = editing.plan(patches, tree.read)
    for patch, outcome in planned.outcomes:
        if outcome.state == "redundant":
            print(f"patch {patch.name}: {patch.file}: {outcome.reason}", file=sys.stderr)  # noqa: T201
    if planned.refused:
        print("\n".join(planned.told()), file=sys.stderr)  # noqa: T201
        sys.exit(NOT_APPLIED)
    changes = Writer(tree=tree, out=out, epoch=int(epoch))
    out.mkdir(parents=True, exist_ok=True)
    for place in dict.fromkeys(tree.places.values()):
        files = {file: data for file, data in planned.files.items() if tree.places[file] == place}
        if files:
            changes.write(place, files)
    changes.settle()
    report = json.dumps(told(planned, tree, changes), indent=2, sort_keys=True) + "\n"
    (out.parent / "edits.json").write_text(report, encoding="utf-8")
    print(report, end="")  # noqa: T201


def read_spec(source: Path) -> list[editing.Edit | editing.Overlay]:
    """Read what to do."""
    table: dict[str, Any] = json.loads((source / "spec.json").read_bytes())
    if table["schema"] != 1:
        sys.exit(f"spec.json: expected schema 1, got {table['schema']!r}")
    patches: list[editing.Edit | editing.Overlay] = []
    for entry in table["patches"]:
        if "edit" in entry:
            patches.append(editing.Edit(name=entry["name"], **entry["edit"]))
            continue
        overlay = entry["overlay"]
        content = (source / overlay["from"]).read_bytes()
        if hashlib.sha256(content).hexdigest() != overlay["sha256"]:
            sys.exit(f"{overlay['from']}: expected sha256 {overlay['sha256']}")
        patches.append(
            editing.Overlay(
                name=entry["name"], file=overlay["file"], content=content, replaces=overlay["replaces"]
            )
        )
    return patches


@dataclass(kw_only=True)
class Tree:
    """What an interpreter imports from below `root`. `places` is where each file that was asked for belongs."""

    root: Path
    places: dict[str, Path] = field(default_factory=dict)

    def read(self, file: str) -> bytes | None:
        """Return a file's content, None where no folder that is imported from has it."""
        for place in self._folders(file):
            if not os.path.lexists(place / file):
                continue
            real = editing.real_file(place, file)
            self.places[file] = place
            if real is not None:
                require_imported(real, file)
                return real.read_bytes()
        self.places[file] = self._home(file)
        editing.real_file(self.places[file], file)  # a folder above it may be a link
        return None

    def _folders(self, file: str) -> list[Path]:
        """Return the folders that modules are found in, in order; those of the standard library are none."""
        own = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib")}
        paths = [
            *sys.path[1:],
            sysconfig.get_path("purelib"),
            sysconfig.get_path("platlib"),
            *site.getsitepackages(),
        ]
        folders = [
            self.root / path[1:]
            for path in dict.fromkeys(paths)
            if path.startswith("/") and path not in own and not path.endswith((".zip", "/lib-dynload"))
        ]
        if self.root == Path("/"):  # an editable installation may be found by a program alone
            folders += [Path(origin).parent for origin in package_folders(file.partition("/")[0])]
        return [folder for folder in folders if folder.is_dir()]

    def _home(self, file: str) -> Path:
        """Return the folder for a file that is not there: where its package is, else where packages go."""
        top = file.partition("/")[0]
        there = (folder for folder in self._folders(file) if "/" in file and (folder / top).is_dir())
        return next(there, self.root / sysconfig.get_path("purelib")[1:])


def package_folders(name: str) -> list[str]:
    """Return the folders of a package, as finders find it that know no folder of modules."""
    try:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        found = None
    return list(found.submodule_search_locations or ()) if found is not None else []


def require_imported(real: Path, file: str) -> None:
    """Raise `Refused` for a Python file in whose place something else beside it is imported."""
    if real.suffix != ".py":
        return
    others = [real.with_name(real.stem + suffix) for suffix in EXTENSION_SUFFIXES]
    if real.stem != "__init__":
        others.append(real.with_suffix("") / "__init__.py")
    for other in others:
        if other.exists():
            raise editing.Refused(f"{file}: it is not what is imported, {other.relative_to(real.parent)} is")


@dataclass(kw_only=True)
class Writer:
    """Writes changed files below `out` as they were: with the mode and owner of what was there."""

    tree: Tree
    out: Path
    epoch: int
    written: dict[Path, Path] = field(default_factory=dict)  # what it replaces -> what it is written to
    records: list[str] = field(default_factory=list)

    def write(self, place: Path, files: dict[str, bytes]) -> None:
        """Write the changed files of one folder that modules are found in."""
        real = {file: editing.real_file(place, file) or place.resolve() / file for file in files}
        for file, data in files.items():
            self._write(real[file], data)
        bytecode = self._compile([path for file, path in real.items() if file.endswith(".py")])
        top = place.resolve()
        changed = {path.relative_to(top).as_posix(): files[file] for file, path in real.items()}
        compiled = {path.relative_to(top).as_posix(): path for path in bytecode}
        lines = distributions.records(place)
        data_of = {file: self.written[path].read_bytes() for file, path in compiled.items()}
        for record, data in distributions.rewritten(lines, changed, data_of).items():
            self._write(top / record, data)
            self.records.append(str(self._inside(top / record)))

    def settle(self) -> None:
        """Give everything that was written, and the folders above it, one time."""
        for path in self.written.values():
            for each in (path, *path.parents):
                os.utime(each, (self.epoch, self.epoch))
                if each == self.out:
                    break

    def _compile(self, sources: list[Path]) -> list[Path]:
        """Compile at every level at which there is bytecode already, and at the usual one."""
        made = []
        for source in sources:
            for level in ("", "1", "2"):
                cached = Path(importlib.util.cache_from_source(str(source), optimization=level))
                if level and not cached.exists():
                    continue
                self._folder(cached.parent)
                target = self.out / self._inside(cached).relative_to("/")
                target.unlink(missing_ok=True)
                compile_files([self.written[source]], root=self.out, optimize=int(level or 0))
                self.written[cached] = target
                made.append(cached)
        return made

    def _write(self, path: Path, data: bytes) -> None:
        self._folder(path.parent)
        target = self.out / self._inside(path).relative_to("/")
        like = path.stat() if path.exists() else None
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        target.chmod(like.st_mode & 0o7777 if like is not None else 0o644)
        owner = like or path_above(path).stat()
        os.chown(target, owner.st_uid, owner.st_gid)
        self.written[path] = target

    def _folder(self, folder: Path) -> None:
        """Make a folder below `out`, and those above it, as they are in the tree."""
        target = self.out / self._inside(folder).relative_to("/")
        if target.is_dir():
            return
        if folder != self.tree.root:
            self._folder(folder.parent)
        target.mkdir(exist_ok=True)
        like = path_above(folder).stat()
        os.chown(target, like.st_uid, like.st_gid)
        target.chmod(like.st_mode & 0o7777)

    def _inside(self, path: Path) -> Path:
        """Return the absolute path that a file has in the image."""
        return Path("/") / path.relative_to(self.tree.root)


def path_above(path: Path) -> Path:
    """Return a path, or the nearest one above it that is there."""
    return next(each for each in (path, *path.parents) if each.exists())


def told(planned: editing.Plan, tree: Tree, changes: Writer) -> dict[str, Any]:
    """Return the report: what became of every patch, which files were written, and which RECORD names them."""
    entries = []
    for patch, outcome in planned.outcomes:
        place = tree.places[patch.file]
        real = editing.real_file(place, patch.file) or place / patch.file
        before = real.read_bytes() if real.exists() else None
        after = planned.files.get(patch.file, before)
        entries.append(
            {
                "name": patch.name, "state": outcome.state, "file": patch.file, "lines": list(outcome.lines),
                "path": str(Path("/") / real.relative_to(tree.root)),
                "before": _sha256(before), "after": _sha256(after),
            }
        )  # fmt: skip
    changed = sorted(str(Path("/") / path.relative_to(tree.root)) for path in changes.written)
    return {"schema": 1, "patches": entries, "changed": changed, "records": sorted(changes.records)}


def _sha256(data: bytes | None) -> str | None:
    return hashlib.sha256(data).hexdigest() if data is not None else None


if __name__ == "__main__":
    fix_hash_seed()
    main()
