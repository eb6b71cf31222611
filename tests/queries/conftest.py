"""One database with the odd tables for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.lab import Lab
from tests.queries.odd import TABLES, TYPES

WIDE = "create table lab.wide (id bigint primary key, {});".format(
    ", ".join(
        f"c{n} {('int', 'text', 'numeric', 'timestamptz', 'jsonb', 'date')[n % 6]}"
        for n in range(394)
    )
)
OF_EXTENSIONS = """
create extension citext schema public; create extension hstore schema public;
create table lab.of_extensions (id bigint primary key, tag public.citext, pairs public.hstore);
"""


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    # Not the collation under which models keep texts.
    database = empty_database(
        cluster,
        options="template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'",
    )
    made = Lab(cluster.dsn(database.name), TYPES + TABLES + WIDE + OF_EXTENSIONS)
    for table in ("a", "b", "of_extensions"):
        made.follow(table)
    made.read_shape("wide")
    yield made
    made.connection.close()
