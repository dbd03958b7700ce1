"""The drafts and reports that tests compare with, made anew: `python tests/unit/adopt/goldens.py`."""

from __future__ import annotations

from pathlib import Path

from builder.adopt.adoption import Adoption, adopt

CASES = Path(__file__).resolve().parents[2] / "data" / "adopt"
NAMES = tuple(sorted(folder.parent.name for folder in CASES.glob("*/Dockerfile")))


def drafted(name: str) -> Adoption:
    """Return the draft of a case."""
    text = (CASES / name / "Dockerfile").read_text(encoding="utf-8")
    return adopt(text, file="Dockerfile", name=name)


if __name__ == "__main__":
    for case in NAMES:
        done = drafted(case)
        (CASES / case / "draft.toml").write_text(done.recipe, encoding="utf-8")
        (CASES / case / "report.txt").write_text("\n".join(done.report.lines()) + "\n", encoding="utf-8")
