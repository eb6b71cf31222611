"""The site has every page, each link on it leads to something it has, and it asks nobody else."""

from __future__ import annotations

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
