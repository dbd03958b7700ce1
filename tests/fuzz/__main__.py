"""Fuzzes one parser for as long as one wants: `python -m tests.fuzz TARGET --seconds 1800`.

atheris chooses the bytes, by which lines of the parser they reach. It is not among what the check installs:
`pip install atheris`. What breaks the parser is kept in a file, whose name is told; the exit status then is not 0.
`--try FILE` runs the parser once, on that file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n\n")[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    parser.add_argument("--try", dest="file", type=Path, help="a file to run once instead")
    parser.add_argument("--keep", type=Path, default=Path(), help="the folder for what breaks it (default: here)")
    given = parser.parse_args()
    if given.file is not None:
        from .targets import TARGETS

        TARGETS[given.target].run(given.file.read_bytes())
        return
    try:
        import atheris
    except ImportError:
        parser.exit(2, "error: atheris is not installed, and only it can do this\nhint: pip install atheris\n")
    with atheris.instrument_imports(include=["builder"]):
        from .targets import TARGETS
    if given.target not in TARGETS:
        parser.error(f"there is no target {given.target!r}; known: {', '.join(sorted(TARGETS))}")
    target = TARGETS[given.target]
    with tempfile.TemporaryDirectory(prefix="rocm-images-fuzz-") as name:
        corpus = Path(name) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        words = Path(name) / "words"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words if word))
        atheris.Setup(
            [
                sys.argv[0], f"-max_total_time={given.seconds}", f"-max_len={target.longest}", "-timeout=20",
                "-rss_limit_mb=2048", f"-dict={words}", f"-artifact_prefix={given.keep}/{given.target}-",
                "-print_final_stats=1", "-verbosity=1", str(corpus),
            ],
            target.run,
        )  # fmt: skip
        atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(chr(byte) if byte < 128 and chr(byte).isalnum() else f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
