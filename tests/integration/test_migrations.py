"""docs/source.md: what setup asks for, as migrations of the application."""

from __future__ import annotations

import re

from testkit.commands import ROOT
from testkit.databases import Database


def migrations() -> list[str]:
    """The statements of the page's section."""
    section = (ROOT / "docs" / "source.md").read_text().partition("## As migrations")[2]
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [statement for statement in block[1].split(";\n") if statement.strip()]


def test_the_migrations_of_the_page_are_what_setup_asks_for(source: Database) -> None:
    source.execute("alter table notifications replica identity default")
    unfit = source.loader("setup", "--check")
    assert unfit.returncode == 18
    assert "public.notifications" in unfit.stderr

    for statement in migrations():
        source.execute(statement)
    fit = source.loader("setup", "--check")
    assert (fit.returncode, fit.stderr.count("Error: ")) == (20, 1), fit.stderr
    assert "is not set up yet" in fit.stderr

    source.must("setup")
    source.insert(1)
    source.execute("delete from notifications")
    source.must("run", "--once")
    old = source.value("select payload::jsonb ->> 'identity' from cdc.change_log where action='D'")
    for column in ("service_id", "template_id", "notification_type", "notification_status"):
        assert column in old
