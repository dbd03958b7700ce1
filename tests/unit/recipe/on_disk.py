"""A project of one image on disk, whose recipe, lock and source a test changes and the program reads."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli
import tomli_w

from builder import project
from builder.lockfile import Lock, LockedSource, asked, dump_lock
from builder.project import Prepared, prepare, tree_hash
from builder.workspace import Workspace

from . import samples


@dataclass
class OnDisk:
    """A project of one image: its recipe and lock as tables, written where the program reads them."""

    root: Path
    recipe: dict[str, Any]
    lock: dict[str, Any]
    text: str | None = None  # the recipe's text where the table alone would not do
    files: dict[str, str] = field(default_factory=dict)  # of patches, by the names that the lock has

    @property
    def name(self) -> str:
        return str(self.recipe["name"])

    @property
    def source(self) -> Path:
        return self.root / "images" / "probe" / "kernels"

    def relock(self) -> None:
        """Lock the source as it is now."""
        self.lock["source"]["kernels"]["tree"] = tree_hash(self.source)

    def prepared(self) -> Prepared:
        workspace = Workspace(root=self.root)
        text = self.text or tomli_w.dumps(self.recipe)
        path = workspace.recipe(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self._write_files()
        of = project.load_recipe(workspace, self.name)
        lock = Lock.model_validate(self.lock | {"asked": asked(of), "image": self.name})
        workspace.lock(self.name).write_text(dump_lock(lock), encoding="utf-8")
        return prepare(workspace, self.name)

    def _write_files(self) -> None:
        """Write the files of patches, and no others."""
        shutil.rmtree(self.root / "patches", ignore_errors=True)
        for name, text in self.files.items():
            path = (self.root if name.startswith("patches/") else self.source.parent) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def on_disk(root: Path, text: str = samples.FULL) -> OnDisk:
    source = root / "images" / "probe" / "kernels"
    source.mkdir(parents=True, exist_ok=True)
    (source / "Makefile").write_text("all:\n")
    (source / "kernel.hip").write_text("// a kernel\n")
    (source / "configure").write_text("#!/bin/sh\n")
    for file in source.iterdir():
        file.chmod(0o644)
    of = samples.recipe(text)
    lock = samples.lock(of)
    if lock.source:
        kernels = LockedSource(tree=tree_hash(source), patched=lock.source["kernels"].patched)
        lock = lock.model_copy(update={"source": lock.source | {"kernels": kernels}})
    files = {file.file: file.file for patch in lock.patch for file in patch.file}  # as `samples` hashes them
    return OnDisk(root=root, recipe=tomli.loads(text), lock=tomli.loads(dump_lock(lock)), files=files)


def deb(state: OnDisk, name: str) -> dict[str, Any]:
    return next(item for item in state.lock["deb"] if item["name"] == name)


def wheel(state: OnDisk, project: str) -> dict[str, Any]:
    return next(item for item in state.lock["python"] if item["project"] == project)


def component(state: OnDisk, name: str) -> dict[str, Any]:
    return next(item for item in state.recipe["component"] if item["name"] == name)
