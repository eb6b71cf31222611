"""The site has every page, each link on it leads to something it has, and it asks nobody else."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs.site import pages
from testkit.commands import ROOT

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
SITE = pages.collect()


def named(part: Any) -> Iterator[str]:
    """Yield the pages that a part of the navigation names."""
    if isinstance(part, str):
        yield part
    else:
        for each in part.values() if isinstance(part, dict) else part:
            yield from named(each)


def test_every_page_is_in_the_navigation_once() -> None:
    """Add a new page to `nav` in mkdocs.yml, where a reader looks for it."""
    assert sorted(named(CONFIG["nav"])) == pages.pages()


@pytest.mark.parametrize("page", pages.pages())
def test_every_link_leads_to_something_on_the_site(page: str) -> None:
    for path in pages.links(page, pages.rewrite(page, (ROOT / page).read_text())):
        assert path in SITE, path


def test_links_to_files_and_folders_lead_to_pages_that_show_them() -> None:
    text = "[a](../ops/roles.sql) [b](../examples/notify) [c](../examples) [d](facts.md#x) [e](#y)"
    assert pages.rewrite("docs/roles.md", text) == (
        "[a](../ops/roles.sql.md) [b](../examples/notify/README.md) [c](../examples/index.md) "
        "[d](facts.md#x) [e](#y)"
    )
    elsewhere = "[a](https://example.com/x) ![b](figures/freshness.svg)\n```\n[c](none)\n```\n"
    assert pages.rewrite("docs/roles.md", elsewhere) == elsewhere
    with pytest.raises(FileNotFoundError):
        pages.rewrite("docs/roles.md", "[a](none)")


def test_a_made_page_shows_the_whole_file_or_folder() -> None:
    assert (ROOT / "ops/roles.sql").read_text().rstrip() in str(SITE["ops/roles.sql.md"])
    listed = [
        posixpath.join("docs/decisions", name)
        for name in re.findall(r"\]\((.*?)\)", str(SITE["docs/decisions/index.md"]))
    ]
    assert listed == [page for page in pages.pages() if page.startswith("docs/decisions/")]
    assert "\n- `waltally-loader.service`\n" in pages.list_folder("ops/systemd")


def test_a_browser_asks_no_other_site() -> None:
    assert CONFIG["theme"]["font"] is False
    for tag in (
        '<img alt="x" src="https://example.com/badge.svg">',
        "<script src=//example.com/x.js>",
        '<link rel="stylesheet" href="https://example.com/x.css">',
    ):
        assert pages.find_fetched(f"<p>{tag}</p>") == tag
    own = '<a href="https://example.com">x</a> <img src="figures/x.svg"> <script src="x.js">'
    assert pages.find_fetched(own) == ""


def test_every_package_is_pinned_with_its_reason() -> None:
    lines = (ROOT / "docs/site/requirements.txt").read_text().splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert len(packages) > 20
    for line in packages:
        assert re.fullmatch(r"[a-z\d-]+==[\d.]+ +# \S.*", line), line
