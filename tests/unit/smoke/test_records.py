"""The RECORD of a wheel and that of its installation are told to be one, or two."""

from __future__ import annotations

import pytest

from builder.smoke.inside.records import identity, rows

WHEEL = """\
pkg/__init__.py,sha256=AAA,10
pkg/_x.so,sha256=BBB,20
pkg-1.0.data/scripts/tool,sha256=CCC,30
pkg-1.0.data/purelib/other.py,sha256=DDD,40
pkg-1.0.data/data/share/x,sha256=EEE,50
pkg-1.0.dist-info/METADATA,sha256=FFF,60
pkg-1.0.dist-info/RECORD,,
"""
INSTALLED = """\
../../../bin/tool,sha256=ZZZ,31
../../../share/x,sha256=EEE,50
other.py,sha256=DDD,40
pkg-1.0.dist-info/INSTALLER,sha256=GGG,2
pkg-1.0.dist-info/METADATA,sha256=FFF,60
pkg-1.0.dist-info/RECORD,,
pkg-1.0.dist-info/REQUESTED,sha256=HHH,0
pkg/__init__.py,sha256=AAA,10
pkg/__pycache__/__init__.cpython-313.pyc,,
pkg/_x.so,sha256=BBB,20
"""


def test_what_installing_changes_does_not_make_it_another_wheel() -> None:
    assert identity(WHEEL) == identity(INSTALLED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pkg/_x.so,sha256=BBB,20", "pkg/_x.so,sha256=XXX,20"),
        ("pkg/_x.so,sha256=BBB,20\n", ""),
        ("other.py,sha256=DDD,40", "another.py,sha256=DDD,40"),
        ("METADATA,sha256=FFF,60", "METADATA,sha256=YYY,60"),
    ],
)
def test_another_file_or_content_makes_it_another_wheel(old: str, new: str) -> None:
    assert old in INSTALLED
    assert identity(INSTALLED.replace(old, new)) != identity(WHEEL)


def test_names_with_commas_and_quotes_are_read() -> None:
    assert list(rows('"a,b.py",sha256=A,1\n"c""d.py",,\n\n')) == [("a,b.py", "sha256=A"), ('c"d.py', "")]
