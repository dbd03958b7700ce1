"""How a Dockerfile and the shell text in it are taken apart, and what single instructions and commands become."""

from __future__ import annotations

import random
import re

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.adopt.adoption import Adoption, adopt
from builder.adopt.dockerfile import Comment, Instruction, read_dockerfile
from builder.adopt.patching import literal
from builder.adopt.shell import split_shell
from builder.adopt.words import is_secret_name, without_secrets
from builder.errors import RecipeError

BASE = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:" + "bd" * 32
CLONE = "RUN git clone -b v1.2.0 https://github.com/a/tool /src/tool\nWORKDIR /src/tool\n"


def draft(body: str, **more: object) -> Adoption:
    return adopt(f"FROM {BASE}\n{body}\n", file="Dockerfile", name="x", **more)  # type: ignore[arg-type]


def table(body: str) -> dict[str, object]:
    return tomli.loads(draft(body).recipe)


def outcomes(body: str) -> dict[str, str]:
    return {each.text: each.outcome for each in draft(body).report.accounts}


def units(text: str) -> list[str]:
    return [unit.text for unit in split_shell(text, [1] * (len(text) + 1))]


def test_an_instruction_goes_over_lines_with_comments_between_them() -> None:
    parts = read_dockerfile("FROM a\nRUN one \\\n# said\n\n  && two\n", file="f")
    run = parts[2]
    assert parts[1] == Comment(line=3, text="# said")
    assert isinstance(run, Instruction)
    assert (run.first, run.last, run.text) == (2, 5, "one   && two")
    assert run.lines[run.text.index("two")] == 5


def test_the_escape_directive_decides_how_a_line_goes_on() -> None:
    parts = read_dockerfile("# escape=`\nFROM a\nRUN one `\n two\\\nRUN three\n", file="f")
    assert [part.text for part in parts if isinstance(part, Instruction)] == ["a", "one  two\\", "three"]


def test_the_text_below_an_instruction_is_no_instruction() -> None:
    parts = read_dockerfile("FROM a\nRUN cat <<A <<-'B'\nENV X=1\nA\n\tENV Y=2\n\tB\nENV Z=3\n", file="f")
    run = parts[1]
    assert isinstance(run, Instruction)
    assert [(each.name, each.body, each.last) for each in run.heredocs] == [
        ("A", "ENV X=1", 4),
        ("B", "ENV Y=2", 6),
    ]
    assert parts[2].text == "Z=3"
    shifted = read_dockerfile("FROM a\nRUN echo $((1 << N))\nRUN cat << E > f\nx\nE\n", file="f")
    assert [len(part.heredocs) for part in shifted if isinstance(part, Instruction)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUN x\n", "f: not a Dockerfile: it has no FROM"),
        ("", "f: not a Dockerfile: it has no FROM"),
        ("FROM a\nRUN <<EOF\nx\n", "f: line 2: the text <<EOF has no end"),
    ],
)
def test_what_is_no_dockerfile_is_refused(text: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        adopt(text, file="f", name="x")
    assert caught.value.message == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a && b; c", ["a", "b", "c"]),
        ("a 'b && c' \"d; e\" && f", ["a 'b && c' \"d; e\"", "f"]),
        ("a || b && c | d", ["a || b", "c | d"]),
        ("a $(b; c) `d && e` && f", ["a $(b; c) `d && e`", "f"]),
        ("if a; then b; fi && c", ["if a; then b; fi", "c"]),
        ("for x in 1; do if a; then b; fi; done; c", ["for x in 1; do if a; then b; fi; done", "c"]),
        ("case $x in a) b;; *) c;; esac; d", ["case $x in a) b;; *) c;; esac", "d"]),
        ("(a && b) && { c; d; }", ["(a && b)", "{ c; d; }"]),
        ("a\nb # c && d\ne", ["a", "b", "e"]),
        ("a \\\n  b", ["a b"]),
        ("a ||\nb", ["a || b"]),
        ("a > f 2>&1 && b", ["a > f 2>&1", "b"]),
        ("echo a\\;b; c", ["echo a\\;b", "c"]),
    ],
)
def test_shell_text_is_split_where_a_shell_does(text: str, expected: list[str]) -> None:
    assert units(text) == expected


def test_a_word_knows_which_of_its_variables_are_filled_in() -> None:
    (unit,) = split_shell("""A=1 run "$X"'$Y'\\$Z""", [1] * 30)
    command = unit.single
    assert command is not None
    assert command.assignments[0][0] == "A"
    assert ("$X", True) in command.words[1].pieces
    assert {("$Y", False), ("$", False)} <= set(command.words[1].pieces)
    assert command.words[1].plain == "$X$Y$Z"


@pytest.mark.parametrize(
    ("script", "extended", "expected"),
    [
        ("s/a b/c d/", False, ("a b", "c d")),
        ("s|/usr/x|/opt/y|g", False, ("/usr/x", "/opt/y")),
        (r"s/1\.5/1\/6/", False, ("1.5", "1/6")),
        ("s/f(x) + 1/g/", False, ("f(x) + 1", "g")),
        ("s/f(x)/g/", True, None),
        (r"s/f\(x\)/g/", True, ("f(x)", "g")),
        ("s/^a/b/", False, None),
        ("s/a.*/b/", False, None),
        ("s/[ab]/c/", False, None),
        (r"s/\(a\)/\1/", False, None),
        ("s/a/&b/", False, None),
        ("s/a/b/2", False, None),
        ("/x/s/a/b/", False, None),
        ("/x/d", False, None),
        ("s/a/a/", False, None),
        ("s/a/b", False, None),
    ],
)
def test_sed_is_an_edit_only_where_it_replaces_one_text_by_another(
    script: str, extended: bool, expected: tuple[str, str] | None
) -> None:
    found = literal(script, extended=extended)
    assert (None if found is None else (found.find, found.replace)) == expected


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("TOKEN", True), ("API_KEY", True), ("AWS_SECRET_ACCESS_KEY", True),
        ("DB_PASSWORD", True), ("TOKENIZERS_PARALLELISM", False), ("MAX_TOKENS", False),
        ("PATH", False), ("KEYBOARD", False),         ("PYTORCH_HIP_ALLOC_CONF", False),
    ],
)  # fmt: skip
def test_a_secret_is_known_by_the_name_of_its_variable(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_addresses_lose_their_passwords_and_keep_the_account_of_ssh() -> None:
    text = "https://me:pw@h/x ssh://git@h/y Bearer abc.def PASSWORD=1234"
    assert without_secrets(text, frozenset()) == "https://…@h/x ssh://git@h/y Bearer … PASSWORD=…"


def test_a_commit_a_tag_and_a_branch_go_to_their_keys() -> None:
    commit = "ab" * 20
    source = table(f"RUN git clone https://github.com/a/tool && cd tool && git checkout {commit}\n")["source"]
    assert isinstance(source, dict)
    assert source["tool"]["commit"] == commit
    assert source["tool"]["branch"].startswith("<adopt ")
    source = table(f"RUN git clone -b main https://github.com/a/tool && cd tool && git reset --hard {commit}\n")[
        "source"
    ]
    assert isinstance(source, dict)
    assert source["tool"] == {"git": "https://github.com/a/tool", "branch": "main", "commit": commit}


def test_a_branch_comes_from_the_renovate_comment_of_its_commit() -> None:
    body = (
        "# renovate: datasource=git-refs depName=a/tool branch=develop\n"
        f"ARG TOOL_COMMIT={'ab' * 20}\n"
        "RUN git clone https://github.com/a/tool && cd tool && git checkout $TOOL_COMMIT\n"
    )
    source = table(body)["source"]
    assert isinstance(source, dict)
    assert source["tool"]["branch"] == "develop"


def test_a_short_commit_is_not_taken_for_a_whole_one() -> None:
    points = draft(
        "RUN git clone -b main https://github.com/a/tool && cd tool && git checkout 1a2b3c4\n"
    ).report.points
    assert "source.tool.commit" in [point.key for point in points]


def test_packages_go_to_the_stage_that_installs_them() -> None:
    text = (
        f"FROM {BASE} AS common\nRUN apt-get install -y git\nFROM common AS build\nRUN apt-get install -y cmake\n"
        "FROM common\nCOPY --from=build /x /x\nRUN apt-get install -y ninja-build\n"
    )
    base = tomli.loads(adopt(text, file="f", name="x").recipe)["base"]
    assert base["build"]["apt"] == ["git", "cmake"]
    assert base["runtime"]["apt"] == ["git", "ninja-build"]


def test_a_stage_can_be_named_and_an_argument_be_given() -> None:
    text = (
        f"ARG FROM_STAGE\nFROM {BASE} AS a\nUSER one\nFROM ${{FROM_STAGE}} AS b\nEXPOSE 1\nFROM b AS c\nEXPOSE 2\n"
    )
    done = adopt(text, file="f", name="x", target="b", arguments={"FROM_STAGE": "a"})
    image = tomli.loads(done.recipe)["image"]
    assert image == {"user": "one", "expose": [1]}
    with pytest.raises(RecipeError, match="no stage is called 'd'; known: a, b, c"):
        adopt(text, file="f", name="x", target="d")


def test_a_later_instruction_replaces_an_earlier_one_and_the_report_says_so() -> None:
    said = outcomes('CMD ["a"]\nENTRYPOINT ["b"]\nENTRYPOINT ["c"]\nCMD ["d"]')
    assert said['CMD ["a"]'] == "left out: line 3: an ENTRYPOINT drops the CMD before it"
    assert said['ENTRYPOINT ["b"]'] == "left out: line 4 replaces it"
    assert (said['ENTRYPOINT ["c"]'], said['CMD ["d"]']) == ("became image.entrypoint", "became image.cmd")


def test_a_local_version_tells_which_of_two_indexes_a_wheel_comes_from() -> None:
    body = "RUN pip install --extra-index-url https://i.example.org/rocm torch==2.11.0+rocm7.2 numpy==2.0.0"
    torch, numpy = tomli.loads(draft(body).recipe)["component"]
    assert torch["index"] == "https://i.example.org/rocm"
    assert numpy["index"].startswith("<adopt ")


def test_a_count_that_is_asserted_is_the_count_of_the_edit() -> None:
    body = CLONE + "RUN test $(grep -c 'a b' x.py) -eq 3 && sed -i 's/a b/c/g' x.py\nRUN pip install .\n"
    (patch,) = tomli.loads(draft(body).recipe)["patch"]
    assert patch["edit"] == {"file": "x.py", "find": "a b", "replace": "c", "count": 3}
    assert patch["target"] == "tool"


@pytest.mark.parametrize(
    "command",
    [
        "some-installer --all", "curl -o f https://example.org/f", "echo x > /etc/profile.d/x.sh",
        "rm -rf /opt/rocm/share", "apt-get install -y ./x.deb", "sed -i s/a/b/ /etc/hosts",
        "python3 tool.py", "dnf install -y git",
        "echo $(pip install x)", "X=`curl https://example.org`", "pip install -r requirements.txt",
        "git apply /x.patch", "while true; do x; done", "a | b", "useradd me | pip install x",
        "f() { pip install x; }",        "eval pip install x",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_marked_and_never_left_out(command: str) -> None:
    accounts = [each for each in draft(f"RUN {command}").report.accounts if each.first == 2]
    assert any(each.points for each in accounts), accounts


def test_what_follows_a_number_sign_in_a_chain_is_told() -> None:
    report = draft("RUN echo a # said \\\n  && pip install x").report
    assert [each.outcome.split()[0] for each in report.accounts if each.first == 3] == ["marked"]
    assert any("what follows a '#'" in point.text for point in report.points)


def test_options_that_kv_pages_depend_on_are_declared() -> None:
    found = table('CMD ["python3", "--page-size", "64", "--kv-cache-dtype=fp8_e4m3", "--port", "1"]')
    assert found["kv-cache"] == {"page-size": 64, "kv-cache-dtype": "fp8_e4m3"}


def test_a_variable_is_in_the_build_stage_only_where_a_command_comes_after_it() -> None:
    found = table("ENV A=1\nRUN true\nENV B=2")
    assert isinstance(found["base"], dict)
    assert isinstance(found["image"], dict)
    assert (found["base"]["build"]["env"], found["image"]["env"]) == ({"A": "1"}, {"A": "1", "B": "2"})


def test_a_home_of_root_and_a_path_of_its_own_are_points() -> None:
    keys = [point.key for point in draft("ENV HOME=/root PATH=/opt/x/bin PWD=/x").report.points]
    assert [key for key in keys if key.startswith("image.env")] == ["image.env.HOME", "image.env.PATH"]


FRAGMENTS = (
    "RUN apt-get install -y git", "RUN a && \\\n  b", "# said", "", "ENV A=1 B=$A", "ARG X=1", "ARG Y", "USER $X",
    "RUN <<E\npip install x\n# c\nE", "COPY a b", "COPY --from=0 a b", "WORKDIR $Y/x", "RUN if a; then b; fi",
    'CMD ["a"]', "ENTRYPOINT a b", f"FROM {BASE} AS two",
    "RUN git clone https://h.example.org/a/b && cd b && pip install .",
    "RUN sed -i 's/a/b/' b/f.py", "VOLUME /v", "RUN echo 'open", "RUN (a", "RUN a )", "RUN ;;", "LABEL a=b",
    "FOO bar",     "RUN for p in *.patch; do git apply $p; done", "RUN $(x", "RUN {", "RUN \\", "ENV", "COPY x",
    "RUN pip install ''",
)  # fmt: skip


@settings(max_examples=150, derandomize=True)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8))
def test_every_line_of_any_input_is_accounted_for_and_every_draft_is_a_toml_file(parts: list[str]) -> None:
    text = "\n".join([f"FROM {BASE} AS one", *parts])
    done = adopt(text, file="f", name="x")
    tomli.loads(done.recipe)
    covered = {line for each in done.report.accounts for line in range(each.first, each.last + 1)}
    missing = [line for n, line in enumerate(text.split("\n"), start=1) if line.strip() and n not in covered]
    assert [line for line in missing if not re.fullmatch(r"\s*(RUN\b)?[\s\\&|;]*", line)] == []
    assert all(each.outcome for each in done.report.accounts)
    assert [point.number for point in done.report.points] == list(range(1, len(done.report.points) + 1))


def test_no_input_is_a_bug() -> None:
    """Lines of real files, cut and put together at random: a draft, or a refusal that says why."""
    dice = random.Random(9)
    pieces = ["FROM a", "RUN ", "ENV ", "\\", "\n", "<<E", "E", "'", '"', "$", "${", "}", "(", ")", "&&", "||",
              ";", "|", " pip install ", "-e", "sed -i ", "s/a/b/", "git ", "clone ", "COPY ", "--from=", "[",
              "]",              "`", "#", "=", "apt-get install ", "x", "/", "@",
              "git+https://h/x", "==", "uv ", "python3 -c "]  # fmt: skip
    for _ in range(1500):
        text = "FROM a\n" + "".join(dice.choice(pieces) for _ in range(dice.randrange(1, 30)))
        try:
            recipe = adopt(text, file="f", name="x").recipe
        except RecipeError as error:
            said = error.message
        else:
            assert tomli.loads(recipe)["name"] == "x"
            continue
        assert said.startswith("f:"), text


def test_a_folder_below_the_root_of_a_tree_is_not_set_to_a_commit_of_the_tree() -> None:
    done = draft(CLONE + "RUN cd third_party/x && git checkout 2d73be3")
    source = tomli.loads(done.recipe)["source"]["tool"]
    assert source["tag"] == "v1.2.0"
    assert "2d73be3" not in str(source)
    assert any("sets third_party/x of tool" in point.text for point in done.report.points)


def test_what_is_removed_or_moved_in_a_tree_before_it_is_built_is_told() -> None:
    body = (
        CLONE + "RUN rm -f pyproject.toml && mv other.toml pyproject.toml && pip install .\nRUN rm -rf /src/tool\n"
    )
    said = outcomes(body)
    assert said["rm -f pyproject.toml"].startswith("marked ")
    assert said["mv other.toml pyproject.toml"].startswith("marked ")
    assert said["pip install ."].startswith("became component.tool;")
    assert said["rm -rf /src/tool"] == "left out: caches, trees and temporary files reach no layer"


def test_a_tree_that_is_begun_empty_is_the_source_of_its_repository() -> None:
    commit = "cd" * 20
    body = (
        "RUN git init /src/tool && cd /src/tool && git remote add origin https://github.com/a/tool"
        f" && git fetch --depth 1 origin {commit} && git checkout FETCH_HEAD && pip install .\n"
    )
    found = tomli.loads(draft(body).recipe)
    assert found["source"]["tool"]["commit"] == commit
    assert found["component"][0]["source"] == "tool"
    body = CLONE + "RUN git remote add fork https://github.com/b/tool && git fetch fork && git checkout fork/main"
    assert outcomes(body)["git remote add fork https://github.com/b/tool"].startswith("marked ")


def test_nothing_is_built_of_a_folder_that_is_not_known() -> None:
    for change in ("cd $WHERE", "cd -", "popd"):
        done = draft(CLONE + f"RUN {change} && pip install . && git apply x.patch")
        assert "component" not in tomli.loads(done.recipe)
        assert len([point for point in done.report.points if point.key == "adopt"]) == 2


def test_a_variable_with_other_gpu_targets_than_the_rest_is_told() -> None:
    points = draft("ENV PYTORCH_ROCM_ARCH=gfx942;gfx1201\nENV AITER_ROCM_ARCH=gfx942").report.points
    assert [point.text for point in points if "alone" in point.text] == [
        "AITER_ROCM_ARCH has gfx942 alone; 'gfx' of a component narrows what it is built for"
    ]


def test_what_people_write_behind_an_argument_is_no_argument() -> None:
    said = outcomes(
        'ARG PIN="8514f051" # of release 2.10\nRUN git clone https://github.com/a/b && cd b && git checkout $PIN'
    )
    assert [text for text in said if text.startswith("ARG")] == ['ARG PIN="8514f051" # of release 2.10']
    assert said['ARG PIN="8514f051" # of release 2.10'] == "became source.b.commit"


def test_a_build_needs_what_its_stage_finds_installed() -> None:
    text = (
        f"FROM {BASE} AS one\nRUN pip install torch==2.11.0+rocm7.2\n"
        "RUN git clone -b v1.0 https://github.com/a/near && pip install ./near\n"
        f"FROM {BASE} AS two\nRUN git clone -b v1.0 https://github.com/a/far && pip install ./far\n"
        f"FROM {BASE}\nCOPY --from=one /x /x\nCOPY --from=two /x /x\n"
    )
    components = tomli.loads(adopt(text, file="f", name="x").recipe)["component"]
    assert {each["name"]: each.get("needs") for each in components} == {
        "torch": None,
        "near": ["torch"],
        "far": None,
    }


def test_a_variable_without_quotes_is_as_many_words_as_its_value_has() -> None:
    done = table("ARG NONE=\nARG TWO='cmake git'\nRUN apt-get $NONE install -y ${TWO}")
    assert done["base"]["runtime"]["apt"] == ["cmake", "git"]  # type: ignore[index]
    assert "adopt" not in done
