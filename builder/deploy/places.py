"""Where a tree names an image: in one text, or in a name with a tag and a digest beside it.

A place is found by what it says, not by the kind of manifest, so that fields of custom resources count as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from builder.deploy.names import DIGEST, TAG, Target, named_in
from builder.deploy.tree import Edit, Items, Node, Other, Table, Text, plain_key
from builder.problems import quoted_key

OTHER_NAME = "registry and path have to be those of the record; --as HOST/PATH names those of a mirror"
_NAMES = ("repository", "repo", "name", "image")  # how keys end that hold a name beside its tag
_DIGEST = re.compile(r"(?P<mark>@?sha256:|)(?P<hex>[0-9a-f]{64})|")
_TAG = re.compile(rf"{TAG}(?:@{DIGEST})?|")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One place that names the image: where, how it is written, and the edits that make it name the target.

    Without edits it names the target already. `blocked` says why it cannot be changed.
    """

    key: str
    start: int
    way: str
    edits: tuple[Edit, ...] = ()
    blocked: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """A place that nearly names the image: where, what it lacks, and what to do."""

    start: int
    why: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """All places of a file that name the image, and those that nearly do."""

    places: tuple[Place, ...]
    near: tuple[Near, ...] = ()


def find(documents: Sequence[Node], target: Target) -> Found:
    """Return where documents name the image of `target`."""
    finder = _Finder(target=target)
    for document in documents:
        finder.walk(document, "", _Context(bare=_is_deployment(document)))
    return Found(places=unique(finder.places), near=tuple(finder.near))


def unique(places: Iterable[Place]) -> tuple[Place, ...]:
    """Return places in the order of the file, each once although an alias leads to it twice."""
    seen: dict[object, Place] = {}
    for place in places:
        seen.setdefault((place.start, place.way, place.edits, place.blocked), place)
    return tuple(sorted(seen.values(), key=lambda place: place.start))


def _is_deployment(document: Node) -> bool:
    """Whether an image without a tag is the whole reference here, as in what a cluster or an engine reads."""
    if not isinstance(document, Table):
        return False
    if document.text("kind") in ("ImageRepository", "ImagePolicy", "ImageUpdateAutomation"):
        return False  # Flux scans the repository that these name, nothing runs from it
    return bool(document.get("services") or (document.get("apiversion") and document.get("kind")))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Context:
    """What holds below a place: whether a bare name is a reference, and the registry of all images, if any."""

    bare: bool
    registry: str | None = None


@dataclass
class _Finder:
    target: Target
    places: list[Place] = field(default_factory=list)
    near: list[Near] = field(default_factory=list)
    walked: set[tuple[int, _Context]] = field(default_factory=set)

    def walk(self, node: Node, path: str, context: _Context) -> None:
        match node:
            case Text():
                self.text(node, path, context)
            case Items():
                self.pairs(node, path, context)
                for number, item in enumerate(node.items):
                    where = f"{path}[{number}]"
                    if isinstance(item, Text) and plain_key(path).endswith("tags"):
                        self.output(item, where)
                    else:
                        self.inside(item, where, context)
            case Table():
                context = _with_registry(node, context)
                for index, (key, value) in enumerate(node.entries):
                    where = f"{path}.{quoted_key(key)}" if path else quoted_key(key)
                    if isinstance(value, Text):
                        self.entry(node, index, value, where, context)
                    else:
                        below = _Context(bare=context.bare and key != "values", registry=context.registry)
                        self.inside(value, where, below)
            case Other():
                pass

    def inside(self, node: Node, path: str, context: _Context) -> None:
        if isinstance(node, Table | Items):  # however many aliases lead here
            if (id(node), context) in self.walked:
                return
            self.walked.add((id(node), context))
        self.walk(node, path, context)

    def pairs(self, node: Items, path: str, context: _Context) -> None:
        """Read a list of names and values, such as the parameters of a chart, as the table that it stands for."""
        tables = [item for item in node.items if isinstance(item, Table)]
        entries = tuple(
            (name, value)
            for table in tables
            if (name := table.text("name")) is not None
            for key, value in table.entries
            if key == "value" and isinstance(value, Text)
        )
        whole = Table(entries=entries, start=node.start)
        for index, (key, value) in enumerate(entries):
            if isinstance(value, Text):
                self.split(whole, index, value, f"{path}.{quoted_key(key)}", context)

    def entry(self, table: Table, index: int, value: Text, path: str, context: _Context) -> None:
        if self.split(table, index, value, path, context):
            return
        key = plain_key(table.entries[index][0])
        if key == "name" and table.get("newname"):
            if named_in(value.value, self.target.spellings) is not None:
                self.nearly(
                    value.start, f"{path} is replaced by the newName beside it", "pin what it is replaced by"
                )
            return
        if key == "image" and table.get("build"):
            self.output(value, path)
        else:
            self.text(value, path, context, image=key.endswith("image"))

    def text(self, node: Text, path: str, context: _Context, *, image: bool = False) -> None:
        """Take a text that is the whole reference."""
        named = named_in(node.value, self.target.spellings)
        if named is None:
            return
        if isinstance(named, str):
            self.blocked(path, node.start, named)
        elif named.bare and not (image and context.bare):
            why = f"{path} has the name alone, with neither tag nor digest beside it"
            self.nearly(
                node.start, why, "write a tag or a digest beside it, whichever its reader takes; it may be empty"
            )
        elif node.inner is None and node.write is None:
            self.blocked(path, node.start, "written with escapes or over several lines")
        else:
            edits = node.edits(named.parts(self.target))
            self.places.append(Place(key=path, start=node.start, way=f"one text, {named.version}", edits=edits))

    def output(self, node: Text, path: str) -> None:
        """Leave alone what names the image that is made there."""
        if named_in(node.value, self.target.spellings) is not None:
            why = f"{path} is the name of what is built there"
            self.nearly(node.start, why, "pin what is run, or what the build starts from")

    def nearly(self, start: int, why: str, hint: str) -> None:
        self.near.append(Near(start=start, why=why, hint=hint))

    def blocked(self, path: str, start: int, why: str) -> None:
        self.places.append(Place(key=path, start=start, way="", blocked=why))

    def split(self, table: Table, index: int, value: Text, path: str, context: _Context) -> bool:
        """Take a name whose tag or digest stands beside it; tell whether that is what this is."""
        key, _ = table.entries[index]
        bases = _bases(plain_key(key))
        if not bases or (plain_key(key) == "name" and table.get("newname")):
            return False
        tags = table.get(*(f"{base}tag" for base in bases))
        if not tags and plain_key(key).endswith("repository"):
            tags = table.get(f"{bases[0]}version")
        digests = table.get(*(f"{base}{kind}" for base in bases for kind in ("digest", "sha", "sha256")))
        if not tags and not digests:
            return False
        named = named_in(self.whole(table, bases, value, path, context), self.target.spellings)
        if named is None or isinstance(named, str):
            return False
        if not named.bare:
            texts = [node.value for _, node in (*tags, *digests) if isinstance(node, Text)]
            if not any(texts):
                return False
            self.blocked(path, value.start, "it has a version itself and another one beside it")
        elif len(tags) > 1 or len(digests) > 1:
            twice = " and ".join(each for each, _ in (tags if len(tags) > 1 else digests))
            self.blocked(path, value.start, f"its version stands beside it twice, in {twice}")
        else:
            self.beside(path, value, tags[0] if tags else None, digests[0] if digests else None)
        return True

    def whole(self, table: Table, bases: tuple[str, ...], value: Text, path: str, context: _Context) -> str:
        """Return a name with the registry that is written apart from it."""
        own = table.get(*(f"{base}registry" for base in bases))
        text = next((node.value for _, node in own if isinstance(node, Text)), "")
        registry = context.registry or text
        name = self.target.name
        if not registry or value.value.partition("@")[0].partition(":")[0] != name.path:
            return value.value
        if registry.rstrip("/") in (name.host, f"index.{name.host}"):
            return f"{name.host}/{value.value}"
        self.nearly(value.start, f"{path} is of the registry {registry}", OTHER_NAME)
        return ""

    def beside(self, path: str, name: Text, tag: tuple[str, Node] | None, digest: tuple[str, Node] | None) -> None:
        """Take a name with its tag, its digest or both beside it."""
        edits: list[Edit] = []
        values: dict[str, str] = {}
        for entry, form in ((tag, _TAG), (digest, _DIGEST)):
            if entry is None:
                continue
            key, node = entry
            if not isinstance(node, Text) or not form.fullmatch(node.value):
                shown = repr(node.value) if isinstance(node, Text) else "no text"
                self.blocked(path, name.start, f"its {key} is {shown}, which cannot be changed here")
                return
            if node.inner is None and node.write is None:
                self.blocked(path, name.start, f"its {key} is written with escapes or over several lines")
                return
            values[key] = node.value
        old_tag = tag[1].value if tag and isinstance(tag[1], Text) else ""
        old_digest = digest[1].value if digest and isinstance(digest[1], Text) else ""
        if "@" in old_tag and old_digest:
            self.blocked(path, name.start, "its tag has a digest, and another one stands beside it")
            return
        plain = self.target.written_tag(old_tag.partition("@")[0])
        inline = digest is None or "@" in old_tag
        if tag is not None and isinstance(tag[1], Text):
            new = f"{plain}@{self.target.digest}" if inline else plain
            edits += tag[1].edits([(0, len(old_tag), new)])
        if digest is not None and isinstance(digest[1], Text) and not (tag is not None and inline):
            edits += digest[1].edits([(0, len(old_digest), self.new_digest(digest[0], old_digest))])
        way = ", ".join(f"{key} {value or 'empty'}" for key, value in values.items())
        self.places.append(Place(key=path, start=name.start, way=f"in parts, {way}", edits=tuple(edits)))

    def new_digest(self, key: str, old: str) -> str:
        """Return the digest in the form that stands there: with or without what marks it as a sha256."""
        mark = _DIGEST.fullmatch(old)
        if old and mark is not None:
            return f"{mark['mark']}{self.target.digest.hex}"
        return self.target.digest.hex if plain_key(key).endswith(("sha", "sha256")) else str(self.target.digest)


def _bases(key: str) -> tuple[str, ...]:
    """Return what the keys of tag, digest and registry may begin with, beside a name under this key."""
    for word in _NAMES:
        if key.endswith(word):
            before = key.removesuffix(word)
            return tuple(dict.fromkeys([before, key, *(["image", "new"] if not before else []), *_short(before)]))
    return ()


def _short(before: str) -> Iterator[str]:
    if before == "new":  # kustomize: newName, newTag, digest
        yield ""


def _with_registry(table: Table, context: _Context) -> _Context:
    """Return the context with the registry that `global.imageRegistry` gives all images of a chart."""
    for _, node in table.get("global"):
        if isinstance(node, Table):
            for _, value in node.get("imageregistry"):
                if isinstance(value, Text) and value.value:
                    return _Context(bare=context.bare, registry=value.value)
    return context
