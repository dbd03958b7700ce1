"""Has uv choose the Python files of one question: roots, pins and indexes in, files with their hashes out.

The interpreter and platform are the image's, not this machine's. Distributions that are there already are offered
to uv at their version and left out of the answer. Where the index of a pin does not answer, a wheel of its version
in a wheelhouse counts. It knows no recipe and no lock.
"""

from __future__ import annotations

import fnmatch
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import tomli
import tomli_w
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder import process
from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.sources.download import NETWORK_HINT, united
from builder.sources.index import LockedFile, list_files, look_up_all
from builder.story import Story

_NEWEST_GLIBC_OF_UV = 40  # the newest `manylinux_2_N` platform uv knows
_OLDEST_GLIBC = 5
_ANSWER = "pylock.toml"
_OTHERS_SHOWN = 5
_OFFLINE = re.compile(
    r"error sending request|dns error|tcp connect error|timed out|connection (reset|refused)", re.I
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A distribution that is there already, or will be, at one version; `requires` is what it asks for."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """A distribution that has to come at one version from one index, None for the default.

    `key` is what messages call it. With `requires`, that counts and not what its metadata asks for. `wheelhouse`
    is a folder that stands in for an index that does not answer.
    """

    key: str
    name: str
    version: str
    extras: tuple[str, ...] = ()
    requires: tuple[str, ...] | None = None
    index: str | None = None
    kind: Literal["simple", "flat"] = "simple"
    protected: bool = False
    wheelhouse: Path | None = None

    @property
    def place(self) -> tuple[str, str] | None:
        """Return where alone it may come from, and of which kind that is."""
        if self.wheelhouse is not None:
            return str(self.wheelhouse), "flat"
        return (self.index, self.kind) if self.index is not None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What to resolve. `where` is what messages start with, `glibc` the minor version, `python` is `3.N`.

    `also` are further requirements. `fixed` versions must not change; `preferred` is an earlier answer whose
    versions are kept where nothing speaks against them. `forbid` are patterns of names.
    """

    where: str
    python: str
    glibc: int
    pins: tuple[Pin, ...] = ()
    offers: tuple[Offer, ...] = ()
    roots: tuple[Offer, ...] = ()
    also: tuple[str, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    preferred: str | None = None
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Solved:
    """A file uv chose; `pin` is the one it is for, None for what was asked for by others."""

    project: str
    version: str
    file: str
    size: int | None
    sha256: str
    pin: Pin | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The files of a question, by project, and uv's own words for later questions."""

    files: tuple[Solved, ...]
    text: str


def solve(question: Question, mirrors: Mirrors, story: Story) -> Answer:
    """Return what uv chose. Raises `LockError` when there is no answer, saying who asks for what."""
    with _asked(question, mirrors) as folder:
        done = _compile(question, folder, mirrors, "--format", _ANSWER, "--output-file", _ANSWER)
        if done.status:
            pins = tuple(_from_wheelhouse(pin, question, mirrors, done.stderr, story) for pin in question.pins)
            if pins == question.pins:
                raise _refusal(question, mirrors, done)
            return solve(replace(question, pins=pins), mirrors, story)
        text = (folder / _ANSWER).read_text()
        chosen = tuple(_chosen(package, question) for package in tomli.loads(text).get("packages", []))
        _refuse_forbidden(question, chosen, folder, mirrors)
    there = {canonicalize_name(offer.name) for offer in (*question.offers, *question.roots)}
    files = tuple(sorted((file for file in chosen if file.project not in there), key=lambda file: file.project))
    return Answer(files=files, text=text)


def refuse_withdrawn(files: Sequence[Solved], mirrors: Mirrors) -> None:
    """Raise `LockError` for files that their authors have yanked; uv takes those where the version is exact.

    Of a file from a wheelhouse nothing is asked: its index has just not answered.
    """
    files = [file for file in files if file.pin is None or file.pin.wheelhouse is None]
    asked = [
        LockedFile(
            project=file.project, filename=file.file, sha256=file.sha256, size=file.size,
            index=file.pin.index if file.pin else None, kind=file.pin.kind if file.pin else "simple",
        )
        for file in files
    ]  # fmt: skip
    failures: list[Failure] = []
    for file, answer in zip(files, look_up_all(asked, mirrors=mirrors), strict=True):
        if isinstance(answer, Failure):
            failures.append(answer)
        elif answer.yanked is not None:
            failures.append(
                LockError(
                    f"{file.file}: yanked by its authors: {answer.yanked or 'no reason given'}",
                    hint="pin another version",
                )
            )
    if failures:
        raise united(failures, of=len(files))


@contextmanager
def _asked(question: Question, mirrors: Mirrors) -> Iterator[Path]:
    """Give a folder with the question, and with stand-ins for what is there already."""
    with tempfile.TemporaryDirectory(prefix="rocm-images-uv.") as place:
        folder = Path(place)
        (folder / "offers").mkdir()
        for offer in (*question.offers, *question.roots):
            _write_stand_in(folder / "offers", offer)
        (folder / "pyproject.toml").write_text(tomli_w.dumps(project_file(question, mirrors, folder / "offers")))
        if question.preferred is not None:
            (folder / _ANSWER).write_text(question.preferred)
        yield folder


def project_file(question: Question, mirrors: Mirrors, offers: Path) -> dict[str, object]:
    """Return the question as a project file, uv's documented way to tie a distribution to an index.

    `offers` is the folder of the stand-ins.
    """
    there = (*question.offers, *question.roots)
    indexes = sorted({pin.place for pin in question.pins if pin.place is not None})
    names = {index: f"index-{number}" for number, index in enumerate(indexes)}
    metadata = [
        {"name": pin.name, "version": pin.version, "requires-dist": list(pin.requires)}
        for pin in question.pins
        if pin.requires is not None
    ] + [{"name": offer.name, "version": offer.version, "requires-dist": list(offer.requires)} for offer in there]
    fixed = [f"{name}=={version}" for name, version in sorted(question.fixed.items())]
    return {
        "project": {
            "name": "rocm-images-resolution", "version": "0", "requires-python": f"=={question.python}.*",
            "dependencies": [_requirement(pin) for pin in question.pins]
            + [f"{root.name}=={root.version}" for root in question.roots] + list(question.also),
        },
        "tool": {"uv": {
            "find-links": [str(offers)],
            "dependency-metadata": metadata,
            "constraint-dependencies": [f"{offer.name}=={offer.version}" for offer in there] + fixed,
            "index": [
                {"name": name, "url": mirrors.index(url) or url, "explicit": True} |
                ({"format": "flat"} if kind == "flat" else {})
                for (url, kind), name in names.items()
            ],
            "sources": {
                pin.name: {"index": names[pin.place]} for pin in question.pins if pin.place is not None
            },
        }},
    }  # fmt: skip


def _requirement(pin: Pin) -> str:
    extras = f"[{','.join(pin.extras)}]" if pin.extras else ""
    return f"{pin.name}{extras}=={pin.version}"


def _write_stand_in(folder: Path, offer: Offer) -> None:
    """Write an empty wheel, so that the resolver sees what is there already as an available version."""
    project = canonicalize_name(offer.name).replace("-", "_")
    info = f"{project}-{offer.version}.dist-info"
    with zipfile.ZipFile(folder / f"{project}-{offer.version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {offer.name}\nVersion: {offer.version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _compile(question: Question, folder: Path, mirrors: Mirrors, *output: str) -> process.Completed:
    from uv import find_uv_bin

    env = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    default, bundle = mirrors.index(None), mirrors.ca_bundle()
    if default is not None:
        env["UV_DEFAULT_INDEX"] = default
    if bundle is not None:
        env["SSL_CERT_FILE"] = str(bundle)
    platform = f"x86_64-manylinux_2_{min(question.glibc, _NEWEST_GLIBC_OF_UV)}"
    return process.run(
        [
            find_uv_bin(), "pip", "compile", "pyproject.toml", "--quiet", "--python-version", question.python,
            "--python-platform", platform, "--only-binary", ":all:", *output,
        ],
        cwd=folder, env=env,
    )  # fmt: skip


def _from_wheelhouse(pin: Pin, question: Question, mirrors: Mirrors, said: str, story: Story) -> Pin:
    """Return a pin at a wheelhouse that has its version, if uv says that its index does not answer."""
    address = (mirrors.index(pin.index) or pin.index) if pin.index is not None else None
    if (
        address is None
        or pin.wheelhouse is not None
        or address.rstrip("/") not in said
        or not _OFFLINE.search(said)
    ):
        return pin
    tags = frozenset(_tags(question.python, question.glibc))
    for folder in mirrors.wheelhouses:
        for path in sorted(folder.glob("*.whl")):
            try:
                name, version, _, fits = parse_wheel_filename(path.name)
            except InvalidWheelFilename:
                continue
            if (name, str(version)) == (canonicalize_name(pin.name), pin.version) and not tags.isdisjoint(fits):
                story.warn(f"{pin.key}: {pin.index} does not answer; {path.name} of {folder} counts")
                return replace(pin, wheelhouse=folder)
    return pin


def _refusal(question: Question, mirrors: Mirrors, done: process.Completed) -> EngineError | LockError:
    """Say why there is no answer: an index does not answer, does not have a pin, or somebody asks for another."""
    if _OFFLINE.search(done.stderr):
        return EngineError("the Python index cannot be reached", details=done.tail, hint=NETWORK_HINT)
    for pin in question.pins:
        absent = _absent(question, pin, mirrors)
        if absent is not None:
            return absent
    said = " ".join(done.stderr.split())
    named = [(p.key, p.name, p.version, p.protected) for p in question.pins]
    named += [(offer.name, offer.name, offer.version, True) for offer in question.offers]
    for key, name, version, protected in named:
        askers = _askers(question, said, name, version)
        if askers:
            what = "protected at" if protected else "pinned at"
            return LockError(
                f"{question.where}: {key}: {name} is {what} {version}, but {'; '.join(askers)}",
                details=done.tail,
                hint="pin versions that go together, or say with 'requires' and 'reason' what the asker needs",
            )
    return LockError(f"{question.where}: the pinned components cannot be installed together", details=done.tail)


def _absent(question: Question, pin: Pin, mirrors: Mirrors) -> LockError | None:
    """Return what to say when the index of a pin does not have its version for any platform."""
    try:
        files = list_files(pin.name, index=pin.index, kind=pin.kind, mirrors=mirrors)
    except LockError as gone:
        return LockError(f"{question.where}: {pin.key}: {gone.message}", hint=gone.hint)
    except EngineError:
        return None
    versions: dict[str, None] = {}
    for file in files:
        try:
            name, version, _, _ = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        if name == canonicalize_name(pin.name):
            versions[str(version)] = None
    if not versions or pin.version in versions:
        return None
    number = pin.version.partition("+")[0]
    near = [v for v in versions if v.partition("+")[0] == number] or list(versions)[-_OTHERS_SHOWN:]
    index = pin.index or "the default Python index"
    return LockError(
        f"{question.where}: {pin.key}: {index} has no wheel of {pin.name} {pin.version}",
        details=tuple(f"there is {pin.name} {version}" for version in near),
        hint="name the index that has it with 'index'; another build is never taken instead",
    )


def _askers(question: Question, said: str, name: str, version: str) -> list[str]:
    """Return who asks for another version of a distribution, as uv's explanation has it."""
    who = r"(?:all versions of )?([A-Za-z0-9._\[\],-]+(?:==\S+)?)"
    asked = re.compile(rf"{who} depends? on ({re.escape(name)}[=<>!~]=?[^\s,]+)")
    pinned = {pin.name: f"{pin.name}=={pin.version}" for pin in question.pins}
    found = (
        f"{pinned.get(asker, asker)} asks for {wanted}"
        for asker, wanted in asked.findall(said)
        if wanted != f"{name}=={version}" and not asker.startswith("rocm-images-resolution")
    )
    return list(dict.fromkeys(found))


def _chosen(package: Mapping[str, object], question: Question) -> Solved:
    """Return the wheel of a resolved distribution that suits the image's interpreter best.

    A pinned one has exactly the version of the pin: `==` alone would take `2.11.0+cpu` for 2.11.0.
    """
    project, version = str(package["name"]), str(package["version"])
    pin = next((pin for pin in question.pins if canonicalize_name(pin.name) == project), None)
    if pin is not None and pin.version != version:
        raise LockError(
            f"{question.where}: {pin.key}.version: the recipe pins {pin.version}, its index has {version}",
            hint=f"set version = {version!r} if that is wanted, or name the index that has the other",
        )
    ranks = {tag: rank for rank, tag in enumerate(_tags(question.python, question.glibc))}
    wheels = package.get("wheels")
    names = [(_wheel_name(wheel), wheel) for wheel in wheels] if isinstance(wheels, list) else []
    fitting: list[tuple[int, tuple[int, str], str, Mapping[str, object]]] = []
    for name, wheel in names:
        try:
            _, _, build, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        rank = min((ranks[tag] for tag in tags if tag in ranks), default=None)
        if rank is not None:
            number, suffix = build or (-1, "")
            fitting.append((rank, (-number, suffix), name, wheel))
    if not fitting:
        raise LockError(
            f"{question.where}: {project} {version} has no wheel for Python {question.python} "
            f"on glibc 2.{question.glibc}",
            details=tuple(sorted(name for name, _ in names)),
        )
    _, _, file, wheel = min(fitting, key=lambda each: each[:3])
    hashes, size = wheel.get("hashes"), wheel.get("size")
    sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
    if not isinstance(sha256, str):
        raise LockError(f"{question.where}: the index gives no sha256 of {file}")
    return Solved(
        project=project, version=version, file=file, size=size if isinstance(size, int) else None,
        sha256=sha256, pin=pin,
    )  # fmt: skip


def _wheel_name(wheel: Mapping[str, object]) -> str:
    address = str(wheel.get("url") or wheel.get("path"))
    return str(wheel.get("name") or unquote(urlsplit(address).path.rpartition("/")[2]))


def _tags(python: str, glibc: int) -> list[Tag]:
    version = tuple(int(part) for part in python.split("."))
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(glibc, _OLDEST_GLIBC - 1, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    interpreter = f"cp{version[0]}{version[1]}"
    return [*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)]


def _refuse_forbidden(question: Question, files: Sequence[Solved], folder: Path, mirrors: Mirrors) -> None:
    found = [f.project for f in files if any(fnmatch.fnmatch(f.project, pattern) for pattern in question.forbid)]
    if not found:
        return
    tree = _compile(question, folder, mirrors, "--annotation-style", "line", "--no-header").stdout
    askers = [line.strip() for line in tree.splitlines() if line.partition("==")[0].strip() in found]
    raise LockError(
        f"{question.where}: forbid: the resolved set would contain {', '.join(found)}",
        details=tuple(askers),
        hint="leave it out with 'requires' and a 'reason' on the component that asks for it",
    )
