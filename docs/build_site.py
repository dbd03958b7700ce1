#!/usr/bin/env python3
"""Makes a small site of README.md and the pages beside this file: `docs/build_site.py FOLDER`.

Strict: a link, an anchor or a picture that leads nowhere ends it with every one of them and without a site. The
pages have no script and fetch nothing.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GROUPS = (
    ("Beginning", ("README", "docs/command-line", "docs/adopt", "docs/recipe", "docs/exit-codes")),
    (
        "Building",
        ("docs/plan", "docs/smoke-tests", "docs/publishing", "docs/record", "docs/fingerprint", "docs/pin"),
    ),
    ("Patches", ("docs/patches", "docs/edits", "docs/hooks")),
    ("Checking", ("docs/check", "docs/rules", "docs/static-checks", "docs/gfx-audit", "docs/compare")),
    ("Keeping up", ("docs/renovate", "docs/bump-check", "docs/ci", "docs/mirrors", "docs/supply-chain")),
    ("This project", ("docs/failure-catalog", "docs/contributing", "CHANGELOG")),  # and what is in no group
)
SHEET = """\
:root{color-scheme:light dark;--paper:#fbfbf9;--ink:#1d2126;--quiet:#5a626c;--line:#d8dbdf;--card:#fff;
--link:#2a5b9c}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e7eaee;--quiet:#9fa8b3;--line:#343a42;
--card:#1d2127;--link:#9cc4f7}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif;display:grid;
grid-template-columns:230px minmax(0,900px);gap:40px;padding:24px}
nav{font-size:14px}nav b{display:block;margin:14px 0 4px;color:var(--quiet)}nav a{display:block;padding:1px 0}
nav a[aria-current]{font-weight:700}
a{color:var(--link)}a:not([href]){color:inherit}h1{font-size:30px;line-height:1.2;margin-top:0}h2{margin-top:36px}
code,pre{font:13.5px/1.5 ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:12px;overflow-x:auto}
pre code{overflow-wrap:normal}
table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{text-align:left;vertical-align:top;padding:6px 14px 6px 0;border-top:1px solid var(--line)}
img{max-width:100%;background:#fff;border-radius:6px}
@media (max-width:800px){body{display:block;padding:16px}}
"""


def main(words: list[str]) -> int:
    """Write the site into the named folder, or say what is wrong with it."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("docs/build_site.py FOLDER\n")
        return 2
    wrong = build(Path(words[0]))
    for line in wrong:
        sys.stderr.write(f"error: {line}\n")
    return 2 if wrong else 0


def build(out: Path, root: Path = ROOT) -> list[str]:
    """Write the site of the repository `root` into `out`, unless something is wrong; return what is, in lines."""
    pages = {name: (root / f"{name}.md").read_text(encoding="utf-8") for name in _names(root)}
    wrong = [f"{name}.md: is not there" for _, names in GROUPS for name in names if name not in pages]
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    read = {name: reader.parse(text) for name, text in pages.items()}
    anchors = {name: dict(_anchors(tokens)) for name, tokens in read.items()}
    titles = {name: next(iter(anchors[name].values()), name) for name in pages}
    copied: set[str] = set()
    written: dict[str, str] = {}
    for name, tokens in read.items():
        for line, token in _linked(tokens):
            problem = _lead(token, name, anchors, copied, root)
            if problem is not None:
                wrong.append(f"{name}.md:{line}: {problem}")
        body = reader.renderer.render(tokens, reader.options, {})
        written[_file(name)] = _page(name, titles, body)
    if wrong:
        return wrong
    with tempfile.TemporaryDirectory(dir=out.parent if out.parent.is_dir() else None) as made:
        for file, text in written.items():
            (Path(made) / file).write_text(text, encoding="utf-8")
        (Path(made) / "site.css").write_text(SHEET, encoding="utf-8")
        for file in sorted(copied):
            shutil.copyfile(root / file, Path(made) / PurePosixPath(file).name)
        shutil.copytree(made, out, dirs_exist_ok=True)
    return []


def _names(root: Path) -> Iterator[str]:
    yield from ("README", "CHANGELOG")
    yield from (f"docs/{path.stem}" for path in sorted((root / "docs").glob("*.md")))


def _file(name: str) -> str:
    return "index.html" if name == "README" else f"{PurePosixPath(name).name.lower()}.html"


def _anchors(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """Yield the anchor and the text of every heading, and set it there, as GitHub makes them."""
    used: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        text = "".join(
            each.content for each in tokens[place + 1].children or () if each.type in ("text", "code_inline")
        )
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = used.get(slug, 0)
        used[slug] = count + 1
        slug = f"{slug}-{count}" if count else slug
        token.attrSet("id", slug)
        yield slug, text


def _linked(tokens: list[Token]) -> Iterator[tuple[int, Token]]:
    for token in tokens:
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield (token.map or [0])[0] + 1, child


def _lead(token: Token, name: str, anchors: dict[str, dict[str, str]], copied: set[str], root: Path) -> str | None:
    """Have a link lead to its place in the site; return what is wrong with it, None where nothing is."""
    key = "src" if token.type == "image" else "href"
    address = str(token.attrGet(key))
    if token.type != "image" and address.startswith("https://"):
        return None
    if re.match(r"[a-z+.-]+:|//", address):
        return f"{address}: leads out of the site by other means than https"
    path, _, anchor = unquote(address).partition("#")
    target = _within(PurePosixPath(f"{name}.md").parent, path) if path else f"{name}.md"
    if target is None or not (root / target).exists():
        return f"{address}: there is nothing"
    page = target.removesuffix(".md")
    if page in anchors:
        if anchor and anchor not in anchors[page]:
            return f"{address}: {target} has no heading #{anchor}"
        token.attrSet(key, f"{_file(page)}#{anchor}" if anchor else _file(page))
    elif target.startswith("docs/") and (root / target).is_file():
        copied.add(target)
        token.attrSet(key, PurePosixPath(target).name)
    else:  # a file of the repository, which is not in the site
        token.attrs = {"title": target}
    return None


def _within(folder: PurePosixPath, path: str) -> str | None:
    parts: list[str] = [] if folder == PurePosixPath() else list(folder.parts)
    for part in path.rstrip("/").split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _page(name: str, titles: dict[str, str], body: str) -> str:
    menu = []
    grouped = {other for _, names in GROUPS for other in names}
    rest = tuple(other for other in titles if other not in grouped)
    for title, names in (*GROUPS[:-1], (GROUPS[-1][0], (*GROUPS[-1][1], *rest))):
        menu.append(f"<b>{html.escape(title)}</b>")
        for other in names:
            here = ' aria-current="page"' if other == name else ""
            menu.append(f'<a href="{_file(other)}"{here}>{html.escape(titles.get(other, other))}</a>')
    head = (
        '<meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'; object-src 'none'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(titles[name])} | rocm-images</title>"
        '<link rel="stylesheet" href="site.css">'
    )
    inner = f"<nav>{''.join(menu)}</nav>\n<main>\n{body}</main>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{inner}</body></html>\n'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
