"""What metadata says of a licence becomes an SPDX expression where it is one, and is never guessed."""

from __future__ import annotations

import pytest

from builder.supply.licences import Licence, licences


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"expression": "mit or apache-2.0"}, Licence(expression="MIT OR Apache-2.0", words=None)),
        ({"expression": "BSD-3-Clause", "license": "other"}, Licence(expression="BSD-3-Clause", words=None)),
        ({"license": "Apache-2.0"}, Licence(expression="Apache-2.0", words=None)),
        ({"license": "Apache 2.0"}, Licence(expression=None, words="Apache 2.0")),
        (
            {"classifiers": ["License :: OSI Approved :: MIT License"]},
            Licence(expression="MIT", words=None),
        ),
        (
            {"classifiers": ["License :: OSI Approved :: BSD License"]},
            Licence(expression=None, words="BSD License"),
        ),
        (
            {"classifiers": ["License :: OSI Approved :: MIT License", "License :: Other/Proprietary License"]},
            Licence(expression=None, words="MIT License; Other/Proprietary License"),
        ),
        ({"expression": "LicenseRef-Mine"}, None),
        ({"license": "Copyright (c) the authors\nAll rights reserved."}, None),
        ({"license": "UNKNOWN "}, Licence(expression=None, words="UNKNOWN")),
        ({"license": None, "expression": None, "classifiers": None}, None),
        ("no table", None),
    ],
)
def test_a_licence(metadata: object, expected: Licence | None) -> None:
    assert licences({"Some_Thing": metadata}) == ({"some-thing": expected} if expected else {})
