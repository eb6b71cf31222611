"""Puts the repository's pages on the site at their own paths, and beside them what they link to.

A hook of mkdocs. Every page keeps its path in the repository, so a link from one to another needs
no change. A file that is no page (ops/roles.sql) becomes a page that shows its text, and a folder
without a README a page that lists what is in it; links to those are rewritten.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "examples/*/*.md", "soak/*.md")
PICTURES = (".svg", ".png")
DBT_DOCS = ROOT / "target" / "dbt-docs" / "index.html"
"""What docs/site/dbt_docs.py makes; the site is complete without it."""

_LINK = re.compile(r"(\]\()([^)\s#]+)")
_FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_FETCHED = re.compile(
    r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)
_LANGUAGES = {
    ".json": "json",
    ".py": "python",
    ".sh": "sh",
    ".sql": "sql",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
# The search is for the docs: a word stands in too many lines of code.
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"

# They have many of a reader's words, in long texts: how it is done comes before why.
_WHY = ("docs/decisions/", "CHANGELOG.md")
_BOOST_OF_WHY = 0.02


def pages() -> list[str]:
    """Return the paths of the repository's pages."""
    return sorted(str(path.relative_to(ROOT)) for pattern in PAGES for path in ROOT.glob(pattern))


def place(path: str) -> str:
    """Return where the site has what is at this path of the repository.

    Raises FileNotFoundError where nothing is.
    """
    found = ROOT / path
    if found.is_dir():
        name = "README.md" if (found / "README.md").exists() else "index.md"
        return posixpath.join(path, name)
    if not found.exists():
        raise FileNotFoundError(path)
    return path if found.suffix in (".md", *PICTURES) else f"{path}.md"


def links(page: str, text: str) -> Iterator[str]:
    """Yield the paths in the repository that a page's text links to."""
    for part in _FENCED.split(text)[::2]:
        for _, target in _LINK.findall(part):
            if not _is_elsewhere(target):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def rewrite(page: str, text: str) -> str:
    """Return the text of the page at this path with every link to what the site has instead."""

    def replace(link: re.Match[str]) -> str:
        opening, target = link.groups()
        if _is_elsewhere(target):
            return link.group()
        folder = posixpath.dirname(page)
        path = place(posixpath.normpath(posixpath.join(folder, target)))
        return opening + posixpath.relpath(path, folder or ".")

    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def _is_elsewhere(target: str) -> bool:
    return target.startswith(("http://", "https://", "mailto:"))


def title(page: str) -> str:
    """Return a page's first heading."""
    found = re.search(r"^# (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    return found.group(1) if found else page


def show_file(path: str) -> str:
    """Return the Markdown of a page that shows a file."""
    text = (ROOT / path).read_text().rstrip()
    language = _LANGUAGES.get(Path(path).suffix, "text")
    heading = f"# {posixpath.basename(path)}\n\n`{path}`"
    return f"{_UNSEARCHED}{heading}\n\n``````{language}\n{text}\n``````\n"


def list_folder(path: str) -> str:
    """Return the Markdown of a page that lists the pages below a folder, or else its files."""
    names = [page for page in pages() if page.startswith(f"{path}/")]
    lines = [f"- [{title(name)}]({posixpath.relpath(name, path)})" for name in names] or [
        f"- `{file.name}`" for file in sorted((ROOT / path).iterdir()) if file.is_file()
    ]
    heading = posixpath.basename(path).capitalize()
    return f"{_UNSEARCHED}# {heading}\n\n" + "\n".join(lines) + "\n"


def collect() -> dict[str, str | Path]:
    """Return what the site has, by its path there: a file, or the Markdown of a made page."""
    found: dict[str, str | Path] = {page: ROOT / page for page in pages()}
    # All of them: an <img> in a page is no link of Markdown.
    for picture in (path for path in ROOT.glob("docs/figures/*") if path.suffix in PICTURES):
        found[str(picture.relative_to(ROOT))] = picture
    for page in pages():
        for path in links(page, (ROOT / page).read_text()):
            name = place(path)
            if (ROOT / name).is_file():
                found[name] = ROOT / name
            elif name not in found:
                found[name] = list_folder(path) if (ROOT / path).is_dir() else show_file(path)
    return found


def find_fetched(html: str) -> str:
    """Return the first tag that makes a browser ask another site; empty without one."""
    found = _FETCHED.search(html)
    return found.group() if found else ""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the whole site."""
    from mkdocs.structure.files import File, InclusionLevel

    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for name, content in collect().items():
        if isinstance(content, Path):
            made = File.generated(config, name, abs_src_path=str(content))
        else:
            made = File.generated(config, name, content=content)
            made.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(made)
    for name in ("site.css", "iframe-worker.js"):
        path = str(Path(__file__).with_name(name))
        files.append(File.generated(config, f"assets/{name}", abs_src_path=path))
    if DBT_DOCS.exists():
        files.append(File.generated(config, "dbt/index.html", abs_src_path=str(DBT_DOCS)))
    return files


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
    """Add dbt's own docs to the reference; nav in mkdocs.yml takes pages of Markdown only."""
    from mkdocs.structure.nav import Link, Section

    for item in nav.items:
        if isinstance(item, Section) and item.title == "Reference" and DBT_DOCS.exists():
            item.children.append(Link("Models and macros (dbt)", "dbt/index.html"))
    return nav


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page of the repository, and say how far up a search shows it."""
    if page.file.src_uri.startswith(_WHY):
        page.meta["search"] = {"boost": _BOOST_OF_WHY}
    is_page = (ROOT / page.file.src_uri).is_file()
    return rewrite(page.file.src_uri, markdown) if is_page else markdown


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Raise PluginError where a reader's browser would fetch something from another site."""
    from mkdocs.exceptions import PluginError

    if fetched := find_fetched(output):
        raise PluginError(f"{page.file.src_uri} fetches from another site: {fetched}")
    return output
