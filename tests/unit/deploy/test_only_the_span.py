"""Whatever stands around an image: nothing but its tag and digest changes, and a second time nothing at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builder.deploy.pinning import pinned
from builder.errors import RecipeError

from .conftest import DIGEST, NAME, OLD, OLD_DIGEST, TAG, target

ENDS = st.sampled_from(["\n", "\r\n"])
BLANKS = st.text(" \t", max_size=3)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
COMMENTS = WORDS.map(lambda word: f"# {word}")
QUOTES = st.sampled_from(["", "'", '"'])
OLDS = st.sampled_from(
    [
        (f":{OLD}", f":{TAG}@{DIGEST}"), (":latest", f":{TAG}@{DIGEST}"), (":1.10", f":{TAG}@{DIGEST}"),
        (f"@{OLD_DIGEST}", f"@{DIGEST}"),
    ]
)  # fmt: skip


def proven(before: str, after: str, *, file: str) -> None:
    assert pinned(before, file=file, target=target()).after == after
    assert pinned(after, file=file, target=target()).after == after


def json_word(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(
    end=ENDS, mark=st.sampled_from(["", "\ufeff"]), indent=st.integers(1, 6), quote=QUOTES, blanks=BLANKS,
    comment=COMMENTS, word=WORDS, version=OLDS, last=st.booleans(),
    anchor=st.sampled_from(["", "&img ", "!!str "]),
)  # fmt: skip
def test_yaml(
    end: str, mark: str, indent: int, quote: str, blanks: str, comment: str, word: str, version: tuple[str, str],
    last: bool, anchor: str,
) -> None:  # fmt: skip
    def text(version: str) -> str:
        pad = " " * indent
        lines = [
            comment, "---", "services:", f"{pad}engine:{blanks}", f"{pad}{pad}{comment}",
            f"{pad}{pad}note: {json_word(word)}{blanks}",
            f"{pad}{pad}image: {anchor}{quote}{NAME}{version}{quote}{blanks} {comment}", f"{blanks}",
            f"{pad}{pad}labels: {{a: {json_word(word)},   b: 'it''s'}}",
        ]  # fmt: skip
        return mark + end.join(lines) + (end if last else "")

    proven(text(version[0]), text(version[1]), file="compose.yaml")


@given(
    end=ENDS, mark=st.sampled_from(["", "\ufeff"]), quote=st.sampled_from(["'", '"', "'''", '"""']),
    blanks=BLANKS, comment=COMMENTS, word=WORDS, version=OLDS, last=st.booleans(),
)  # fmt: skip
def test_toml(
    end: str, mark: str, quote: str, blanks: str, comment: str, word: str, version: tuple[str, str], last: bool
) -> None:
    def text(version: str) -> str:
        lines = [
            comment, f"{blanks}[engine.{json_word(word)}]{blanks}{comment}",
            f"note{blanks}={blanks}{json_word(word)}", f"when = 2026-03-01 10:00:00Z {comment}",
            f"{blanks}image{blanks} = {quote}{NAME}{version}{quote}{blanks}{comment}",
            f"list = [ 1, {comment}", f" {json_word(word)}, {{ a.b = 1.5 }},{blanks}", "]",
        ]  # fmt: skip
        return mark + end.join(lines) + (end if last else "")

    proven(text(version[0]), text(version[1]), file="deploy.toml")


@given(
    end=ENDS, blanks=BLANKS, comment=COMMENTS, version=OLDS, last=st.booleans(),
    word=WORDS.filter(lambda word: "${" not in word and "%{" not in word),
)  # fmt: skip
def test_hcl(end: str, blanks: str, comment: str, word: str, version: tuple[str, str], last: bool) -> None:
    def text(version: str) -> str:
        lines = [
            comment, f'{blanks}resource "x" {json_word(word)} {{{blanks}{comment}',
            f"  note{blanks}={blanks}{json_word(word)} // {word}",
            f'  image{blanks} ={blanks} "{NAME}{version}"{blanks}{comment}',
            f'  args = ["${{var.a["{version}"]}}", f(1, -2.5e3), {{ (a) = b, "c" : [] }}]',
            "  text = <<-END", f"    {word}", "  END", "}",
        ]  # fmt: skip
        return end.join(lines) + (end if last else "")

    after = text(version[1]).replace(f'var.a["{version[1]}"]', f'var.a["{version[0]}"]')
    proven(text(version[0]), after, file="main.tf")


@given(
    end=ENDS, mark=st.sampled_from(["", "\ufeff"]), blanks=BLANKS, comment=COMMENTS,
    word=WORDS.filter(lambda word: not word.endswith("\\") and "<<" not in word), version=OLDS, last=st.booleans(),
    quote=QUOTES, argument=st.booleans(),
)  # fmt: skip
def test_dockerfile(
    end: str, mark: str, blanks: str, comment: str, word: str, version: tuple[str, str], last: bool, quote: str,
    argument: bool,
) -> None:  # fmt: skip
    def text(version: str) -> str:
        reference = f"{NAME}{version}"
        lines = [
            comment, f"{blanks}ARG ENGINE={quote}{reference}{quote}{blanks}" if argument else "ARG OTHER=1",
            f"FROM{blanks} --platform=linux/amd64 \\{blanks}", f"{comment}",
            f"  {'${ENGINE}' if argument else reference}{blanks} AS engine", f"RUN echo {word} \\", f"  {comment}",
            f"  && echo FROM {NAME}:untouched{blanks}",
        ]  # fmt: skip
        return mark + end.join(lines) + (end if last else "")

    proven(text(version[0]), text(version[1]), file="Dockerfile")


PIECES = st.sampled_from(
    [*"@ =\"'{}[]#,|\n\t", "\r\n", "\\\n", ": ", "- ", "&a ", "*a", "<<: ", "<<E", "FROM ", "ARG A=", "$A", "${A}",
     "image", "repository", "tag", "digest", NAME, ":1", f"sha256:{'0' * 64}"]
)  # fmt: skip


@given(
    text=st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)),
    file=st.sampled_from(["x.yaml", "x.json", "x.toml", "x.tf", "Dockerfile"]),
)
def test_any_text_is_refused_in_words_or_pinned_so_that_a_second_time_changes_nothing(
    text: str, file: str
) -> None:
    message = None
    try:
        done = pinned(text, file=file, target=target(), every=True)
    except RecipeError as refused:
        message = refused.message
    if message is not None:
        assert message.startswith(file)
    else:
        assert pinned(done.after, file=file, target=target(), every=True).after == done.after
        assert DIGEST in done.after


def test_a_place_among_many_others_is_the_only_one_that_changes() -> None:
    others = "".join(f"- image: registry.example.org/llm/other:{number}\n" for number in range(500))
    done = pinned(f"{others}- image: {NAME}:1\n", file="list.yaml", target=target())
    assert done.after == f"{others}- image: {NAME}:{TAG}@{DIGEST}\n"
