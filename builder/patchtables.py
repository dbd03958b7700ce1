"""The `[[patch]]` tables of a recipe: what is changed in a component, why, until when, and how its effect shows.

Models of what is written, and nothing else: which values go together is `patchagreement`'s, what a patch does to a
tree is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from builder import grammar
from builder.grammar import Drawn, Form, Name, Sha256, described, shown
from builder.tables import Table, exactly_one

Kind = Literal["series", "edit", "overlay", "hook"]
KINDS: tuple[Kind, ...] = ("series", "edit", "overlay", "hook")
# Text of a file may be of many lines; characters that hide what it does are refused here as well.
_HIDDEN = (
    "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f\\u061c\\u200b-\\u200f"
    "\\u202a-\\u202e\\u2066-\\u2069\\ufeff"
)
_PART = "[A-Za-z_][A-Za-z0-9_]*"
_FILE = r"(?!/)(?:(?:^|/)(?!\.{1,2}(?:/|$))[A-Za-z0-9._+@-]+)+"
_IN_TREE = r"(?!/)(?:(?:^|/)(?!\.{1,2}(?:/|$))[^/]+)+"


def _value(value: object) -> object:
    """Take what TOML and JSON both have: no date, no infinity, at any depth."""
    match value:
        case float() if math.isfinite(value):
            return float(value)
        case bool() | int() | str():
            return value
        case list():
            return [_value(item) for item in value]
        case dict():
            return {key: _value(item) for key, item in value.items()}
        case float():
            raise ValueError(f"expected a finite number, got {value}")
        case _:
            raise ValueError(f"expected a boolean, number, string, list or table, got {described(value)}")


TomlValue = Annotated[
    Any,
    BeforeValidator(_value),
    WithJsonSchema({"type": ["boolean", "number", "string", "array", "object"]}),
]
Text = Annotated[
    str,
    Form(f"[^{_HIDDEN}]*", "text without control, invisible or direction characters, tabs and line ends aside"),
]
SomeText = Annotated[Text, Form(r"[\s\S]+", "at least one character")]
Attribute = Annotated[
    str, Form(rf"{_PART}(?:\.{_PART})*", "the name of an attribute, such as 'LIMIT' or 'Backend.supports'")
]
# A path that leaves the tree is a patch that cannot be applied, not a recipe that cannot be read: see `leaving`.
TreeFile = Annotated[grammar.Line, Form(r"[\s\S]+", "at least one character"), Drawn(_IN_TREE)]
BesideFile = Annotated[
    str, Form(_FILE, "the normal, relative path of a file beside the recipe, such as 'overlays/kernels.py'")
]
Call = Annotated[
    str,
    Form(
        rf"{_FILE}\.py:{_PART}",
        "a Python file beside the recipe and a function in it, such as 'hooks/backend.py:supports'",
    ),
]
Folder = Annotated[
    str, Form(_FILE, "a normal, relative path of letters, digits and '._+@-', such as 'patches/sglang'")
]
FilePattern = Annotated[
    grammar.Line, Form(r"[^/]*[^/\s][^/]*", "a pattern of file names without '/', such as '[0-9]*.patch'")
]
MadeFor = Annotated[
    str,
    Form(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*", "a commit, a version or a sha256, as the source of the target has it"),
]
Link = Annotated[grammar.OpenAddress, Form(r"https?://[^\s/]+(?:/\S*)?", "an address that begins with 'https://'")]


class Probe(Table):
    """An expression whose value shows whether a patch has an effect."""

    module: Annotated[grammar.Module, Field(description="The module whose names the expression sees.")]
    expression: Annotated[
        grammar.Sentence, Field(description="A Python expression, such as 'Backend.supports()'.")
    ]
    before: Annotated[TomlValue, Field(description="Its value without the patch.")]
    after: Annotated[TomlValue, Field(description="Its value with the patch.")]


class Series(Table):
    """Patch files in order, from this project or from a pinned source."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["source"]}, {"required": ["directory"]}]})

    source: Annotated[
        Name | None, Field(description="The [source] that has the files; default: this project.")
    ] = None
    directory: Annotated[
        Folder | None, Field(description="Their folder: of the source, or of this project below 'patches/'.")
    ] = None
    pattern: Annotated[FilePattern, Field(description="Which files of the folder belong to it.")] = "[0-9]*.patch"
    order: Annotated[
        Literal["name", "number"],
        Field(description="'name': as their names sort; 'number': by the number their names start with."),
    ] = "name"
    made_for: Annotated[MadeFor, Field(description="The commit, version or sha256 of the target that it fits.")]


class Edit(Table):
    """A text that is replaced where it stands exactly so many times."""

    file: Annotated[TreeFile, Field(description="The file, relative to the tree.")]
    find: Annotated[SomeText, Field(description="The exact text that is there.")]
    replace: Annotated[Text, Field(description="The text that takes its place.")]
    count: Annotated[int, grammar.Between(1, 999), Field(description="How often it is there, all replaced.")] = 1


class Overlay(Table):
    """A whole file that replaces one of the tree, or is new in it."""

    file: Annotated[TreeFile, Field(description="The file, relative to the tree.")]
    from_: Annotated[BesideFile, Field(description="The file beside the recipe that takes its place.")]
    replaces: Annotated[
        Sha256 | None, Field(description="Hash of the file that is replaced; without it there must be none.")
    ] = None


class Hook(Table):
    """An attribute that is overridden when its module is imported."""

    model_config = ConfigDict(
        json_schema_extra={
            **exactly_one("value", "call"),
            "dependencies": {
                "value": ["expect"], "expect": ["value"], "call": ["expect-source"], "expect-source": ["call"],
            },
        }
    )  # fmt: skip

    module: Annotated[grammar.Module, Field(description="The module that has it.")]
    attribute: Annotated[Attribute, Field(description="Its name in the module, with dots inside a class.")]
    expect: Annotated[TomlValue, Field(description="The value that must be there before.")] = None
    value: Annotated[TomlValue, Field(description="The value that takes its place.")] = None
    expect_source: Annotated[
        Sha256 | None, Field(description="Hash of the source text of the callable that must be there before.")
    ] = None
    call: Annotated[Call | None, Field(description="The function that takes the callable's place.")] = None
    optional: Annotated[bool, Field(description="Whether the interpreter goes on where this is not there.")] = (
        False
    )


class Patch(Table):
    """One change to a component: a series, an edit, an overlay or a hook."""

    model_config = ConfigDict(json_schema_extra=exactly_one(*KINDS))

    name: Annotated[Name, Field(description="Its name in messages, stages and the ledger.")]
    target: Annotated[Name, Field(description="The component it changes.")]
    series: Annotated[Series | None, Field(description="Patch files in order.")] = None
    edit: Annotated[Edit | None, Field(description="A text that is replaced.")] = None
    overlay: Annotated[Overlay | None, Field(description="A whole file.")] = None
    hook: Annotated[Hook | None, Field(description="An attribute that is overridden at run time.")] = None
    probe: Annotated[Probe | None, Field(description="An expression that shows its effect.")] = None
    reason: Annotated[grammar.Sentence, Field(description="Why it is needed.")]
    upstream: Annotated[Link, Field(description="Where it is, or is discussed, upstream.")]
    drop_when: Annotated[grammar.Sentence, Field(description="The condition under which it goes.")]
    acknowledge_redundant: Annotated[
        grammar.Sentence | None, Field(description="Why it stays although the tree has its change already.")
    ] = None

    @property
    def kind(self) -> Kind:
        """Which of the four it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def shown_by(self) -> Probe | None:
        """Its probe; of a hook that sets a value, by default the attribute itself."""
        hook = self.hook
        if self.probe is not None or hook is None or hook.call is not None:
            return self.probe
        return Probe.model_validate(
            {"module": hook.module, "expression": hook.attribute, "before": hook.expect, "after": hook.value}
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files beside the recipe that it consists of."""
        named = (self.overlay.from_ if self.overlay else None, self.hook.call if self.hook else None)
        return tuple(name.rpartition(":")[0] or name for name in named if name is not None)


def leaving(patches: Sequence[Patch]) -> tuple[str, ...]:
    """Return, in words, which patches name a file outside of their tree."""
    inside = Form(_IN_TREE, "")
    found = []
    for patch in patches:
        change = patch.edit or patch.overlay
        if change is None:
            continue
        try:
            inside.check(change.file)
        except ValueError:
            found.append(f"patch.{patch.name}.{patch.kind}.file: {shown(change.file)} leaves the tree")
    return tuple(found)
