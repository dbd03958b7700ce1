"""Where the Python files of an engine compile something while they run.

A *call site* is the place that decides what is compiled: a call of a compiling function with its sources, or a
function given to a compiling decorator. A function of the tree that only hands its own parameters on to a
compiling function is a *loader*: not its body but each call of it is a site. Everything is read from syntax
trees; `docs/static-checks.md` has the definition in full.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from builder.compiling import COMPILERS, DECORATORS, FUNCTIONS, NATIVE_KINDS, RUNNERS, Compiling
from builder.namespaces import Namespaces
from builder.pynames import Function, Place, PythonFile, statements
from builder.sourcetree import NATIVE, PYTHON, SourceTree

_SOURCE_FILE = re.compile(r"[^\s\"'<>]*(" + "|".join(map(re.escape, NATIVE)) + ")")
_INLINE_SOURCE = re.compile(r"#\s*include\s*[<\"]\S+[>\"]|[;{}]\s*\n")
_LINKED = re.compile(r"-l([A-Za-z0-9_+.-]+)")
_INCLUDING = re.compile(r"^\s*#\s*include\s*[<\"][^>\"]+[>\"]", re.MULTILINE)

_STAR = re.compile(rb"\bimport\s*\*")
_STARTS_COMPILER = re.compile(
    rb"[\"'/](?:%b)(?![\w+])" % b"|".join(re.escape(name.encode()) for name in COMPILERS)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """One place that compiles at run time.

    `kind` is the compiling system, `name` what is compiled as far as the file says it (source file, module
    name, decorated or enclosing function), `via` the function or decorator it goes through.
    """

    file: str
    line: int
    kind: str
    name: str
    via: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the Python files of a tree say: sites, loaders, linked libraries, inline sources, broken files."""

    sites: tuple[CallSite, ...]
    loaders: tuple[str, ...]
    libraries: Mapping[str, tuple[str, ...]]
    inline: Mapping[str, bytes]
    unparsed: Mapping[str, str]


def find_call_sites(tree: SourceTree) -> Found:
    """Find every call site of a tree. Files that do not parse are reported, not fatal."""
    search = _Search(names=Namespaces(tree))
    files = list(tree.files(PYTHON))
    words = _Words.of([*FUNCTIONS, *DECORATORS], files)
    for path, data in files:
        if words.hit(data) or _STARTS_COMPILER.search(data):
            search.read(
                path, words.last | {name.rpartition(".")[2] for name in RUNNERS}, functions=FUNCTIONS, first=True
            )
        else:
            search.names.syntax(path)
    while search.fresh:
        loaders, search.fresh = search.fresh, {}
        search.loaders |= loaders
        last = _Words.of(loaders, files).last
        for path, data in files:
            if any(word.encode() in data for word in last):
                search.read(path, last, functions=loaders, first=False)
    return Found(
        sites=tuple(sorted(search.sites.values(), key=lambda site: (site.file, site.line, site.kind, site.name))),
        loaders=tuple(sorted(search.loaders)),
        libraries={name: tuple(sorted(paths)) for name, paths in sorted(search.libraries.items())},
        inline=dict(sorted(search.inline.items())),
        unparsed=dict(sorted(search.names.unparsed.items())),
    )


@dataclass(kw_only=True, slots=True)
class _Search:
    """What has been found so far. `fresh` are loaders whose callers have not been looked for yet."""

    names: Namespaces
    sites: dict[tuple[str, int, int], CallSite] = field(default_factory=dict)
    loaders: dict[str, Compiling] = field(default_factory=dict)
    fresh: dict[str, Compiling] = field(default_factory=dict)
    libraries: dict[str, set[str]] = field(default_factory=dict)
    inline: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str, words: frozenset[str], *, functions: Mapping[str, Compiling], first: bool) -> None:
        """Look through one file for calls of `functions`, the first time for decorators and programs too."""
        parsed = self.names.parse_path(path)
        if parsed is not None:
            reader = _Reader(search=self, parsed=parsed, path=path, words=words, functions=functions, first=first)
            reader.run()

    def add_loader(self, name: str, kind: str, parameters: Mapping[str, int | None]) -> None:
        """Remember a function whose callers decide what is compiled."""
        if name not in self.loaders:
            known = self.fresh.get(name)
            sources = {**(known.sources if known is not None else {}), **parameters}
            self.fresh[name] = Compiling(kind=kind, sources=sources)


@dataclass(kw_only=True, slots=True)
class _Reader:
    """Reads one file for a search. `words` are the last parts of the names that matter."""

    search: _Search
    parsed: PythonFile
    path: str
    words: frozenset[str]
    functions: Mapping[str, Compiling]
    first: bool
    decorators: dict[int, str] = field(default_factory=dict)
    native: bool = False

    def run(self) -> None:
        """Walk the file once."""
        for node, place in self.parsed.walk():
            match node:
                case ast.Call():
                    self._call(node, place)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    name = ".".join([*place.path, node.name])
                    self.decorators.update((id(decorator), name) for decorator in node.decorator_list)
                    if self.first:
                        self._decorated(node, place)
                case _:
                    pass
        if self.native:
            texts = [text for node in ast.walk(self.parsed.syntax) if (text := _text(node)) is not None]
            if including := [text for text in texts if _INCLUDING.search(text)]:
                self.search.inline[self.path] = "\n".join(including).encode()

    def _finals(self, node: ast.expr, place: Place) -> Iterator[str]:
        for dotted in self.parsed.meanings(node, place.scopes):
            if dotted.rpartition(".")[2] in self.words:
                yield from self.search.names.finals(dotted)

    def _call(self, call: ast.Call, place: Place) -> None:
        for final in self._finals(call.func, place):
            if (known := self.functions.get(final)) is not None:
                self._compiling(call, place, known, final)
                return
            if self.first and final in DECORATORS and id(call) not in self.decorators:
                given = ast.unparse(call.args[0]) if call.args else place.name
                self._site(call, DECORATORS[final], given.partition("\n")[0], final)
                return
            if self.first and final in RUNNERS and (program := _program(call)) is not None:
                self._site(call, "program", program, final)
                return

    def _compiling(self, call: ast.Call, place: Place, known: Compiling, via: str) -> None:
        owners = (self.parsed.syntax, *place.functions)
        everything = _reach([*call.args, *(keyword.value for keyword in call.keywords)], owners)
        for text in everything.texts:
            if linked := _LINKED.fullmatch(text):
                self.search.libraries.setdefault(linked[1], set()).add(self.path)
        self.native |= known.kind in NATIVE_KINDS
        reach = _reach(_source_arguments(call, known), owners)
        sources = [text.rpartition("/")[2] for text in reach.texts if _SOURCE_FILE.fullmatch(text)]
        decided_here = bool(sources) or any(map(_INLINE_SOURCE.search, reach.texts))
        outer = place.functions[0] if place.functions else None
        if outer is not None and place.path[0] == outer.name and not decided_here:
            handed_on = {name: at for name, at in _parameters(outer).items() if name in reach.names}
            if handed_on:
                self.search.add_loader(f"{self.parsed.module}.{outer.name}", known.kind, handed_on)
                return
        decorated = self.decorators.get(id(call))
        name = next(iter(sources), None) or _literal_name(call) or decorated or place.name or self.parsed.module
        self._site(call, known.kind, name, via)

    def _decorated(self, function: Function, place: Place) -> None:
        for decorator in function.decorator_list:
            called = isinstance(decorator, ast.Call)
            for final in self._finals(decorator.func if isinstance(decorator, ast.Call) else decorator, place):
                kind = DECORATORS.get(final)
                if kind is None and not called and final in self.functions:
                    kind = self.functions[final].kind
                if kind is not None:
                    self._site(function, kind, ".".join([*place.path, function.name]), final)
                    return

    def _site(self, node: ast.Call | Function, kind: str, name: str, via: str) -> None:
        site = CallSite(file=self.path, line=node.lineno, kind=kind, name=name, via=via)
        self.search.sites.setdefault((self.path, node.lineno, node.col_offset), site)


@dataclass(frozen=True, slots=True)
class _Reach:
    """The names and string constants an expression goes back to through assignments."""

    names: frozenset[str]
    texts: tuple[str, ...]


def _reach(values: Iterable[ast.expr], owners: tuple[ast.Module | Function, ...]) -> _Reach:
    names: set[str] = set()
    texts: list[str] = []
    pending = list(values)
    while pending:
        for node in ast.walk(pending.pop()):
            if (text := _text(node)) is not None:
                texts.append(text)
            if isinstance(node, ast.Name) and node.id not in names:
                names.add(node.id)
                pending.extend(_assigned(node.id, owners))
    return _Reach(frozenset(names), tuple(texts))


def _assigned(name: str, owners: tuple[ast.Module | Function, ...]) -> Iterator[ast.expr]:
    """Yield what a name is made of: assigned, added or appended to it, in the innermost owner that does so."""
    for owner in reversed(owners):
        found = [value for statement in statements(owner) if (value := _given_to(name, statement)) is not None]
        if found or (isinstance(owner, Function) and name in _parameters(owner)):
            yield from found
            return


def _given_to(name: str, statement: ast.AST) -> ast.expr | None:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.AugAssign(target=ast.Name(id=target), value=value)
            | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
            | ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=target), attr="append" | "extend"),
                    args=[ast.expr() as value],
                )
            )
        ):
            return value if target == name else None
        case _:
            return None


def _source_arguments(call: ast.Call, known: Compiling) -> Iterator[ast.expr]:
    for keyword in call.keywords:
        if keyword.arg in known.sources or (keyword.arg is None and known.sources):
            yield keyword.value
    for at in known.sources.values():
        if at is not None and at < len(call.args):
            yield call.args[at]


def _parameters(function: Function) -> dict[str, int | None]:
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    named = {argument.arg: None for argument in arguments.kwonlyargs}
    extra = {argument.arg: None for argument in (arguments.vararg, arguments.kwarg) if argument is not None}
    return {name: at for at, name in enumerate(positional)} | named | extra


def _literal_name(call: ast.Call) -> str | None:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "name"] + call.args[:1]
    return next((text for value in given if (text := _text(value))), None)


def _text(node: ast.AST) -> str | None:
    """Return the text of a string constant or the constant parts of an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                part.value for part in values if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
        case _:
            return None


def _program(call: ast.Call) -> str | None:
    """Return the compiler or build program a call starts, when its name is written there."""
    match call.args[:1]:
        case [ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_])]:
            text = _text(first)
        case [ast.Call(func=ast.Attribute(value=first, attr="split"))]:
            text = _text(first)
        case [first]:
            text = _text(first)
        case _:
            return None
    word = (text or "").strip().partition(" ")[0].rpartition("/")[2]
    return word if word in COMPILERS else None


@dataclass(frozen=True, slots=True)
class _Words:
    """What a file has to mention to use one of some functions: its last name, and the module or an import of it.

    Reading every file of an engine node by node takes several times as long as parsing it.
    """

    last: frozenset[str]
    parents: Mapping[str, frozenset[str]]
    mentioned: re.Pattern[bytes]
    imported: re.Pattern[bytes]

    @classmethod
    def of(cls, functions: Iterable[str], files: Iterable[tuple[str, bytes]]) -> _Words:
        """Collect them for dotted names, with what files rename them to by `as` or an assignment."""
        parents: dict[str, set[str]] = {}
        for module, _, word in (name.rpartition(".") for name in functions):
            parents.setdefault(word, set()).add(module.rpartition(".")[2])
        known = {*parents, *(parent for group in parents.values() for parent in group)}
        renamed: dict[str, set[str]] = {}
        one_of = b"|".join(re.escape(word.encode()) for word in sorted(known))
        renaming = re.compile(
            rb"\b(%b)\s+as\s+(\w+)|^(\w+)\s*=\s*(?:\w+\.)*(%b)[ \t]*$" % (one_of, one_of), re.MULTILINE
        )
        for _, data in files:
            for found in renaming.finditer(data):
                renamed.setdefault((found[1] or found[4]).decode(), set()).add((found[2] or found[3]).decode())
        wide = {
            word: frozenset(group.union(*(renamed.get(parent, set()) for parent in group)))
            for word, group in parents.items()
        }
        wide |= {new: wide[word] for word in parents for new in renamed.get(word, ())}
        last = b"|".join(re.escape(word.encode()) for word in sorted(wide))
        return cls(
            frozenset(wide),
            wide,
            mentioned=re.compile(rb"\b(?:%b)\b" % last),
            imported=re.compile(
                rb"\bimport\b[^\n]*\b(?:%b)\b|^\s*(?:%b)\s*(?:,|as\b|$)" % (last, last), re.MULTILINE
            ),
        )

    def hit(self, data: bytes) -> bool:
        """Return whether a file may use one of the functions."""
        mentioned = {word.decode() for word in self.mentioned.findall(data)}
        return bool(mentioned) and (
            any(parent.encode() in data for word in mentioned for parent in self.parents[word])
            or _STAR.search(data) is not None
            or self.imported.search(data) is not None
        )
