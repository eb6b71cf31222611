"""The commands of docs/dashboards.md lead to views that stay equal to their queries."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import psycopg2
import pytest

from testkit.commands import RunningLoader, run_loader, wait_until
from testkit.comparison import apart
from testkit.databases import Database
from tests.acceptance.test_readme import blocks, environment_of, run
from tests.queries import writer

VALUES = {
    "patient_id": [f"md5('patient {n}')::uuid" for n in range(3)],
    "clinic_id": [f"md5('clinic {n}')::uuid" for n in range(3)],
    "status": ("'done'", "'missed'", "'booked'"),
    "fee": ("0", "9999999.5", "70"),
    "starts_at": [f"now() - interval '{days} days'" for days in (-1, 0, 29, 30, 31, 400)],
    "born_on": ("'1950-01-01'",),
}


class Writer(writer.Writer):
    """Changes the page's tables, a statement a transaction."""

    truncates = False
    schema = "public"

    def write(self, count: int) -> None:
        for _ in range(count):
            with suppress(psycopg2.IntegrityError, psycopg2.errors.CardinalityViolation):
                self.lab.execute(self._statement())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_page_s_views_equal_their_queries_under_random_changes(
    database: Database, tmp_path: Path
) -> None:
    make, *asked, identity, up = blocks("docs/dashboards.md")
    assert (len(asked), up) == (4, "cd live\nloader up\n")
    said = run("".join([make, *asked, identity]), tmp_path, environment_of(database))
    queries = {path.stem: path.read_text() for path in tmp_path.glob("*.sql")}
    assert said.count(": same rows: ") == len(queries) == 5
    environment = environment_of(database, tmp_path / "live")
    # What current_date means on the page.
    database.execute("set timezone to 'Europe/Berlin'")
    changes = Writer.of(database, Random(1), ("clinics", "patients", "visits"), VALUES)  # type: ignore[arg-type]
    answers: dict[str, set[str]] = {name: set() for name in queries}
    with RunningLoader(environment, tmp_path / "run.log", verb="up") as running:
        wait_until(
            lambda: running.said().count("live: ") == len(queries),
            f"all are live: {running.said()}",
            300,
        )
        for _ in range(10):
            changes.write(30)
            assert run_loader(("wait", "--timeout", "60s"), environment).returncode == 0
            for name, query in queries.items():
                view = f"select * from analytics.{name}"
                assert database.execute(apart(view, query)) == [], name
                answers[name].add(str(database.execute(f"{view} order by 1, 2")))
        running.end()
    assert all(len(own) > 5 for own in answers.values())
