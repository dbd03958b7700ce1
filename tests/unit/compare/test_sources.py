"""Sources on two sides: what is built of them differs, not which commit has it."""

from __future__ import annotations

from typing import Any

from builder import compare, render

from .conftest import pair


def test_an_image_and_the_lock_of_another_commit_with_the_same_files_do_not_differ() -> None:
    def pinned(table: dict[str, Any]) -> None:
        address, commit = "https://git.example.org/kernels", "c" * 40
        table["source"]["kernels"] = {"git": address, "branch": "main", "commit": commit, "ignore": ["docs"]}

    recipe, lock = pair(pinned)
    said = render.manifest(recipe, lock, content_key="", fingerprint="")
    image = compare.of_manifest(said, label="image")
    source = lock.source["kernels"].model_copy(update={"commit": "d" * 40, "tree": "e" * 40})
    documents = lock.model_copy(update={"source": {"kernels": source}})
    code = lock.model_copy(update={"source": {"kernels": source.model_copy(update={"built": "f" * 40})}})
    same, other, locks = (
        compare.compare(image, compare.of_lock(recipe, documents, label="lock")),
        compare.compare(image, compare.of_lock(recipe, code, label="lock")),
        compare.locks(recipe, lock, recipe, documents),
    )
    assert same.changed == ()
    assert [(each.name, [change.key for change in each.changes]) for each in other.changed] == [
        ("kernels", ["built"])
    ]
    assert [change.key for change in locks.changed[0].changes] == ["commit", "tree"]
