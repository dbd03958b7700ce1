"""What a recipe says about a base that is bootstrapped from Debian packages, as it is written. Asks no archive."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from builder import grammar
from builder.grammar import type_tuple
from builder.tables import Table


class AddedSuite(Table):
    """A suite that some packages are taken from, in place of those of the base's own suite."""

    suite: Annotated[
        grammar.AddedSuite, Field(description="Its name, for example 'experimental' or 'trixie-backports'.")
    ]
    packages: Annotated[
        grammar.SuitePackages,
        Field(description="What is taken from it: binary packages, or 'src:NAME' for all of a source package."),
    ]


class DebianBase(Table):
    """A base bootstrapped from Debian packages, without any registry."""

    suite: Annotated[grammar.Suite, Field(description="Code name of the Debian suite, for example 'trixie'.")]
    components: Annotated[grammar.Names, Field(description="Archive areas to take packages from.")] = ("main",)
    also: Annotated[
        tuple[AddedSuite, ...], type_tuple, Field(description="Suites that single packages are taken from.")
    ] = ()

    @property
    def words(self) -> str:
        """Its suites in words."""
        return " with ".join([self.suite, *([", ".join(each.suite for each in self.also)] if self.also else [])])

    @property
    def content(self) -> dict[str, object]:
        """What it is made of, as a value for JSON. A base of one suite is told as before there could be more."""
        made: dict[str, object] = {"suite": self.suite, "components": list(self.components)}
        return made | ({"also": self.added} if self.also else {})

    @property
    def added(self) -> dict[str, list[str]]:
        """What is taken from other suites, by suite, in no order."""
        return {each.suite: sorted(each.packages) for each in self.also}
