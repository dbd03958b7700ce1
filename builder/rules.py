"""The kinds of compatibility rule. A rule is data (`data/rules.toml`); a kind says how its values meet the facts.

Kinds are few and general, and know no product: everything particular, with its source, is in the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import tomli
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from builder.facts import Facts, by_name, parsed, same_name, satisfies

Severity = Literal["error", "warning", "note"]


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value


def _specifiers(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            SpecifierSet("" if text == "*" else text)
        except InvalidSpecifier as error:
            raise ValueError(str(error)) from error
    return texts


# One or more alternatives; a version has to be in one of them.
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Specifiers = Annotated[Texts, AfterValidator(_specifiers)]


class _Data(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One demand on the facts and what they say to it; `holds` is None when they say nothing."""

    subject: str
    wanted: str
    found: str
    holds: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """What a rule has to say: its words, with everything filled in, and how much they weigh."""

    message: str
    severity: Severity
    source: str
    hint: str | None


class Condition(_Data):
    """Demands on the facts, all of which have to hold. A missing variable is demanded with `false`."""

    rocm: Specifiers = ()
    python: Specifiers = ()
    base: Texts = ()
    gfx: Texts = ()
    version: Mapping[str, Specifiers] = {}
    kind: Mapping[str, str] = {}
    tag: Mapping[str, str] = {}
    commit: Mapping[str, str] = {}
    env: Mapping[str, str | Literal[False]] = {}

    def parts(self, facts: Facts) -> Iterator[Part]:
        """Yield every demand with what the facts say to it."""
        versions = {"rocm": self.rocm, "python": self.python, **self.version}
        for name, specifiers in versions.items():
            if specifiers:
                found = facts.version(name)
                holds = satisfies(found, specifiers) if found is not None else None
                yield Part(subject=name, wanted=_words(specifiers), found=found or "", holds=holds)
        if self.base:
            holds = facts.base in self.base if facts.base is not None else None
            yield Part(subject="base", wanted=_words(self.base), found=facts.base or "", holds=holds)
        if self.gfx:
            common = [target for target in facts.gfx if target in self.gfx]
            yield Part(subject="gfx", wanted=_words(self.gfx), found=_words(facts.gfx), holds=bool(common))
        for table, demanded in ((facts.kinds, self.kind), (facts.tags, self.tag)):
            for name, text in demanded.items():
                there = by_name(table, name)
                same = there == text if there is not None else None
                yield Part(subject=name, wanted=text, found=there or "", holds=same)
        for name, start in self.commit.items():
            there = by_name(facts.commits, name)
            same = there.startswith(start) if there is not None else None
            yield Part(subject=name, wanted=start, found=there or "", holds=same)
        for name, value in self.env.items():
            given = facts.env.get(name)
            yield Part(
                subject=name,
                wanted="not set" if value is False else repr(value),
                found="not set" if given is None else repr(given),
                holds=given is None if value is False else given == value,
            )

    def holds(self, facts: Facts) -> bool:
        """Return whether all demands surely hold."""
        return all(part.holds is True for part in self.parts(facts))


class _Rule(_Data):
    """What all rules have: a name, whose knowledge it is, and the words for people."""

    id: str
    source: str
    link: str | None = None
    message: str
    hint: str | None = None
    severity: Severity = "error"

    def _says(
        self, facts: Facts, message: str | None = None, severity: Severity | None = None, **more: str
    ) -> Violation:
        words = _Words(facts, more)
        return Violation(
            message=(message or self.message).format_map(words),
            severity=severity or self.severity,
            source=self.source if self.link is None else f"{self.source} ({self.link})",
            hint=self.hint.format_map(words) if self.hint is not None else None,
        )


class Implies(_Rule):
    """Where `when` holds, `need` has to. One violation for each demand that does not."""

    kind: Literal["implies"]
    when: Condition
    need: Condition

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        if self.when.holds(facts):
            yield from _unmet(self, self.need, facts)


class Forbidden(_Rule):
    """`when` must not hold."""

    kind: Literal["forbidden"]
    when: Condition

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        if self.when.holds(facts):
            yield self._says(facts)


class Row(_Data):
    """A line of a table: where `when` holds, `need` has to."""

    when: Condition
    need: Condition


class Table(_Rule):
    """Where `when` holds, the first row whose own `when` holds decides; `unknown` is said when there is none."""

    kind: Literal["table"]
    when: Condition
    rows: Annotated[tuple[Row, ...], BeforeValidator(_listed)]
    unknown: str

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        if not self.when.holds(facts):
            return
        row = next((row for row in self.rows if row.when.holds(facts)), None)
        if row is None:
            yield self._says(facts, self.unknown, "note")
        else:
            yield from _unmet(self, row.need, facts)


class Pair(_Rule):
    """Two components that are released together: `second` has the minor number of `first` plus `minor-plus`."""

    kind: Literal["pair"]
    first: str
    second: str
    majors: Annotated[tuple[int, int], BeforeValidator(_listed)]
    minor_plus: int

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        first, second = parsed(facts.version(self.first)), parsed(facts.version(self.second))
        if first is None or second is None or first.major != self.majors[0]:
            return
        wanted = (self.majors[1], first.minor + self.minor_plus)
        if (second.major, second.minor) != wanted:
            yield self._says(facts, wanted=f"{wanted[0]}.{wanted[1]}", found=str(second))


class SameLocal(_Rule):
    """Components share one local version: `prefix` and a version of the ROCm line. Otherwise `foreign` is said."""

    kind: Literal["same-local"]
    components: Annotated[tuple[str, ...], BeforeValidator(_listed)]
    prefix: str
    foreign: str

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        numbers = {name: parsed(facts.version(name)) for name in self.components}
        locals_ = {name: number.local or "" for name, number in numbers.items() if number is not None}
        if len(set(locals_.values())) > 1:
            found = ", ".join(f"{name} {facts.version(name)}" for name in locals_)
            yield self._says(facts, found=found)
        for name, local in locals_.items():
            if local and not self._fits(local, facts.rocm):
                yield self._says(facts, self.foreign, subject=name, found=local)

    def _fits(self, local: str, rocm: str | None) -> bool:
        if not local.startswith(self.prefix):
            return False
        built_for, there = parsed(local.removeprefix(self.prefix)), parsed(rocm)
        return built_for is None or there is None or built_for.release[:2] == there.release[:2]


class AskedFor(_Rule):
    """A component is what the metadata of another asks for."""

    kind: Literal["asked-for"]
    component: str
    by: str

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        found = facts.version(self.component)
        for asking, requirements in facts.asks.items():
            wanted = by_name(requirements, self.component) if same_name(asking) == self.by else None
            if found is not None and wanted and satisfies(found, (wanted,)) is not True:
                yield self._says(facts, wanted=wanted, found=found)


class MadeFor(_Rule):
    """A patch series is applied to the commit it was made for."""

    kind: Literal["made-for"]

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        for series in facts.series:
            if series.commit != series.made_for:
                yield self._says(
                    facts, subject=series.name, target=series.target, wanted=series.made_for, found=series.commit
                )


class Ceiling(_Rule):
    """No library needs a newer symbol version than the base's own library has."""

    kind: Literal["ceiling"]
    limits: Mapping[str, str]

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        limit = parsed(self.limits.get(facts.base or ""))
        for name, needed in sorted(facts.glibcxx.items()):
            number = parsed(needed)
            if limit is not None and number is not None and number > limit:
                yield self._says(facts, subject=name, wanted=str(limit), found=needed)


class Development(_Rule):
    """Nightly builds are kept in a mirror, because their index drops them."""

    kind: Literal["development"]

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        kept = {same_name(name) for name in facts.mirrored}
        for name, text in sorted(facts.versions.items()):
            number = parsed(text)
            nightly = number.is_devrelease if number is not None else "nightly" in text
            if nightly and facts.kinds.get(name) != "source" and same_name(name) not in kept:
                yield self._says(facts, subject=name, found=text)


class Combination(_Data):
    """A set of pins that somebody has run, and how it went."""

    pins: Condition
    seen: str
    works: bool = True


class Combinations(_Rule):
    """The pins as a whole have been seen to work. Compared with the rows of the same engine only."""

    kind: Literal["combinations"]
    engines: Annotated[tuple[str, ...], BeforeValidator(_listed)]
    failed: str
    rows: Annotated[tuple[Combination, ...], BeforeValidator(_listed)]

    def violations(self, facts: Facts) -> Iterator[Violation]:
        """Yield what the facts break."""
        engine = next((name for name in self.engines if facts.version(name) is not None), None)
        rows = [(row, list(row.pins.parts(facts))) for row in self.rows if engine in row.pins.version]
        if not rows:
            return
        matching = [row for row, parts in rows if all(part.holds for part in parts)]
        if any(row.works for row in matching):
            return
        if matching:
            yield self._says(facts, self.failed, "warning", seen=matching[0].seen)
            return
        row, parts = min(rows, key=lambda item: sum(part.holds is not True for part in item[1]))
        differs = [
            f"{part.subject} {part.wanted}" + (f" instead of {part.found}" if part.found else "")
            for part in parts
            if part.holds is not True
        ]
        yield self._says(facts, seen=row.seen, wanted=", ".join(differs))


Rule = Annotated[
    Implies | Forbidden | Table | Pair | SameLocal | AskedFor | MadeFor | Ceiling | Development | Combinations,
    Field(discriminator="kind"),
]
_RULES: TypeAdapter[tuple[Rule, ...]] = TypeAdapter(tuple[Rule, ...])


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read rules from TOML. Raises `ValueError` that names the place for anything that is not a rule."""
    rules = _RULES.validate_python(tuple(tomli.loads(text).get("rule", ())))
    names = [rule.id for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rules are called {twice[0]!r}")
    return rules


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules this program comes with."""
    return parse_rules((files("builder") / "data" / "rules.toml").read_text(encoding="utf-8"))


class _Words(dict[str, str]):
    """Fills the placeholders of a message from the facts; what is not known is said to be so."""

    def __init__(self, facts: Facts, more: Mapping[str, str]) -> None:
        super().__init__(more)
        self._facts = facts

    def __missing__(self, name: str) -> str:
        match name:
            case "gfx":
                return _words(self._facts.gfx)
            case "base":
                return self._facts.base or "unknown"
            case _:
                return self._facts.version(name) or "unknown"


def _unmet(rule: _Rule, need: Condition, facts: Facts) -> Iterator[Violation]:
    for part in need.parts(facts):
        if part.holds is False:
            yield rule._says(facts, subject=part.subject, wanted=part.wanted, found=part.found)


def _words(texts: tuple[str, ...]) -> str:
    return " or ".join(text.removeprefix("==") for text in texts)
