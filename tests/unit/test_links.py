"""Every link from one of our pages to another leads somewhere, and every page is linked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site import pages
from testkit.commands import ROOT

PAGES = sorted(
    path
    for pattern in ("*.md", "llms.txt", "docs/**/*.md", "examples/*/*.md")
    for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the files that a page links to, each with the heading's anchor, empty for none."""
    found = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if not target.startswith(("http://", "https://")):
            name, _, anchor = target.partition("#")
            found.append(((page.parent / name).resolve() if name else page, anchor))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name}#{anchor}"


def named(part: Any) -> Iterator[str]:
    """Yield the pages that a part of the site's navigation names."""
    if isinstance(part, str):
        yield part
    else:
        for each in part.values() if isinstance(part, dict) else part:
            yield from named(each)


def test_every_page_is_in_the_site_s_navigation_once() -> None:
    """Add a new page to `nav` in mkdocs.yml, where a reader looks for it."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(named(navigation)) == pages.pages()


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [target for target, _ in links(page)]
    decisions = set(ROOT.glob("docs/decisions/*.md"))
    assert set(ROOT.glob("docs/**/*.md")) - decisions <= reached
