"""A database with our functions, so that the compiler need not be installed each time, and a shop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.proposing.wrong import SHOP


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster) as made:
        yield made.with_functions()


@pytest.fixture(scope="module")
def shop(database: Database) -> Database:
    database.execute(SHOP.replace("110000", "3000"))
    database.execute(
        "create view lab.priced as select id, status from lab.orders where amount is not null;"
        "create type lab.mood as enum ('good', 'bad'); create type lab.land as enum ('FR', 'DE', 'IT');"
        "alter table lab.customers add land lab.land; update lab.customers set land = country::lab.land;"
        "alter table lab.customers add \"group\" text default 'a';"
        "create extension citext schema lab;"
        "alter table lab.orders add details jsonb, add took interval, add mood lab.mood default 'bad',"
        " add region lab.citext default 'fr';"
        "update lab.orders set details = to_jsonb(id % 4),"
        " took = (array['1 day', '24:00', '36:00']::interval[])[id % 3 + 1]"
    )
    return database
