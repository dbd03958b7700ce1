"""What a recipe says about its smoke tests, as it is written. Knows nothing of how they are run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from builder import grammar
from builder.grammar import Name, type_tuple
from builder.tables import Table


class SmokeEnv(Table):
    """Variables of the finished image beside those of [image.env]."""

    required: Annotated[
        grammar.EnvNames, Field(description="Variables that the base sets and must go on to.")
    ] = ()
    allowed: Annotated[grammar.EnvNames, Field(description="Variables that the base may set.")] = ()
    forbidden: Annotated[grammar.EnvNames, Field(description="Variables that must not be set.")] = ()


class Accept(Table):
    """A finding of a smoke test that this image is published with, for a reason and for a time."""

    finding: Annotated[
        Literal[
            "requirement", "record", "module", "stamp", "claim", "remnant", "library", "symbol-version",
            "duplicate", "text-relocation", "search-path",
        ],
        Field(description="What kind of finding, as docs/smoke-tests.md names them."),
    ]  # fmt: skip
    subject: Annotated[grammar.Sentence, Field(description="What it is about; '*' for any text.")]
    reason: Annotated[grammar.Sentence, Field(description="Why it does no harm here.")]
    until: Annotated[
        grammar.Ending, Field(description="Requirement the exception ends with, such as 'torch==2.11.0'.")
    ]


class Smoke(Table):
    """What the smoke tests try in the finished image."""

    imports: Annotated[grammar.Modules, Field(description="Python modules that must import.")] = ()
    absent: Annotated[grammar.Distributions, Field(description="Distributions that must not be there.")] = ()
    jit: Annotated[
        tuple[Literal["sglang-hash", "torch-inline", "hip-module", "hipcc", "triton"], ...],
        type_tuple,
        grammar.Distinct(),
        Field(description="What compiles at run time and must do so from a cold cache."),
    ] = ()
    triton_gfx: Annotated[
        grammar.Targets, Field(description="Targets of the Triton probe; default: the recipe's gfx.")
    ] = ()
    hip_gfx: Annotated[
        grammar.Targets, Field(description="Targets of the hipcc probe; default: the recipe's gfx.")
    ] = ()
    contracts: Annotated[
        tuple[grammar.Contract, ...] | None,
        type_tuple,
        Field(description="Which component imports from which; default: the engine from an AITER beside it."),
    ] = None
    argv: Annotated[
        grammar.Lines,
        Field(description="A command that must end well without a GPU, such as the server's --help."),
    ] = ()
    serve: Annotated[
        grammar.Lines,
        Field(description="How the gpu tier starts the engine; {model} and {port} are filled in."),
    ] = ()
    loaders: Annotated[
        grammar.Loaders, Field(description="'module:expression' that must end with an extension loaded.")
    ] = ()
    paths: Annotated[grammar.AbsolutePaths, Field(description="Files and folders that must exist.")] = ()
    dlopen: Annotated[
        grammar.Libraries, Field(description="Libraries that are opened by name, such as 'libnuma.so.1'.")
    ] = ()
    accept: Annotated[
        tuple[Accept, ...], type_tuple, Field(description="Findings that the image is published with.")
    ] = ()
    env: Annotated[SmokeEnv, Field(description="Variables beside those of [image.env].")] = SmokeEnv()
    ships: Annotated[
        dict[grammar.AbsolutePath, grammar.Sentence],
        Field(description="What looks as if it must not ship, with everything below it, and why it does."),
    ] = {}  # noqa: RUF012 -- pydantic copies it
    sizes: Annotated[
        dict[Name, grammar.Size],
        Field(description="The most that a component's layer may hold unpacked; 'image' is the whole."),
    ] = {}  # noqa: RUF012 -- pydantic copies it
