"""One database with the odd tables, and models over models with a slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.lab import Lab
from tests.queries.life import Life
from tests.queries.odd import TABLES, TYPES

OF_EXTENSIONS = """
create extension citext schema public; create extension hstore schema public;
create type public.place as (street text, city text);
create table lab.of_extensions (id bigint primary key, tag public.citext, pairs public.hstore, place public.place);
-- Whoever owns an extension may add to it what is his own.
create function public.added(public.citext) returns text language sql immutable as 'select $1::text';
alter function public.added owner to pg_monitor;
alter extension citext add function public.added;
"""


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    # Not the collation under which models keep texts.
    database = empty_database(
        cluster,
        options="template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'",
    )
    with Lab.following(cluster.dsn(database.name), TYPES + TABLES + OF_EXTENSIONS) as made:
        yield made


@pytest.fixture(scope="module")
def begun(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Life]]:
    """Begin a life, or take that of the test before, where this has left it as it was."""
    lives: list[Life] = []
    with ExitStack() as database:

        def begin() -> Life:
            if not lives or not lives[-1].is_as_begun():
                database.close()
                made = database.enter_context(empty_database(cluster))
                lives.append(Life(made, tmp_path_factory.mktemp("life")))
                lives[-1].begin()
            return lives[-1]

        yield begin


@pytest.fixture
def life(begun: Callable[[], Life]) -> Life:
    """The models of the tables' first rows."""
    made = begun()
    made.fill()
    return made
