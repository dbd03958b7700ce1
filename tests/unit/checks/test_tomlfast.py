"""The fast reader gives what the general one gives, of any text."""

from __future__ import annotations

from typing import Any

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from builder import tomlfast

LISTS = ("deb", "python")
PLAIN = st.text(st.characters(codec="utf-8"), max_size=12)
TABLES = st.lists(
    st.dictionaries(
        st.from_regex(r"[a-z0-9_-]{1,5}", fullmatch=True),
        PLAIN | st.integers(0, 2**40) | st.booleans() | st.lists(PLAIN, max_size=2) | st.floats(allow_nan=False),
        max_size=4,
    ),
    max_size=4,
)


def outcome(text: str, read: Any) -> object:
    try:
        return read(text)
    except tomli.TOMLDecodeError as error:
        return str(error)


def same(text: str) -> object:
    expected = outcome(text, tomli.loads)
    assert outcome(text, lambda text: tomlfast.loads(text, LISTS)) == expected
    return expected


@given(head=st.dictionaries(st.sampled_from(["a", "b", "c"]), PLAIN), deb=TABLES, python=TABLES)
def test_what_is_written_is_read_back(head: dict[str, str], deb: list[Any], python: list[Any]) -> None:
    table = head | {"deb": deb, "python": python}
    assert same(tomli_w.dumps(table)) == table


@given(data=st.data(), deb=TABLES)
def test_a_text_that_somebody_changed_is_read_as_ever(data: st.DataObject, deb: list[Any]) -> None:
    text = tomli_w.dumps({"schema": 1, "deb": deb, "python": [{"a": "x", "b": 3}]})
    place = data.draw(st.integers(0, len(text)))
    taken = data.draw(st.integers(0, 6))
    put = data.draw(
        st.sampled_from(["", "\n", '"', "\\", "[", "]]", "= ", "0", "# x\n", "\n[[deb]]\n", "'", "\t", "a"])
    )
    same(text[:place] + put + text[place + taken :])


@pytest.mark.parametrize(
    "text",
    [
        '\n[[deb]]\na = "x"\na = "y"\n',
        'deb = 1\n\n[[deb]]\na = "x"\n',
        'x = """\n[[deb]]\na = "x"\n"""\n',
        "\n[[deb]]\na = 01\n",
        '\n[[deb]]\na.b = "x"\n',
        "\n[[deb]]\n\n[[deb]]\n",
        '\n[[deb]]\na = "x"\n[deb.b]\n',
        '\n[[deb]]\na = "x" # comment\n',
        '\n[[deb]]\n"a" = "x"\n',
        "\n[[deb]]\na = \u0661\n",
        '\n[[deb]]\r\na = "x"\r\n',
        '\n[[deb]]\na = "x"',
        '\n[[deb]]\na = "x"\n\n\n',
        '\n[[deb]]\na = "x"\n\n[[python]]\nb = 1\n\n[[deb]]\nc = 2\n',
        "[deb]\nx = 1\n\n[[deb]]\na = 1\n",
        "broken\n\n[[deb]]\na = 1\n",
    ],
)
def test_what_is_not_plain_is_read_as_ever(text: str) -> None:
    same(text)
