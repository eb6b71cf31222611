"""Faults of models: what people do to roll-ups and to what these are made of."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
from psycopg2 import errors as pg

from soak.faults.fault import fault
from soak.programs import SoakFailed
from soak.system import Soaked
from soak.world import ODD, ODD_ROLL_UP
from testkit.servers import connect

READER = "reader_without_rights"


def _install(system: Soaked, *options: str, **variables: str) -> None:
    given = ["--vars", json.dumps(variables)] if variables else []
    system.do("dbt", "run", "--select", ODD_ROLL_UP, *options, *given)


@fault(1)
def redeclare_roll_up(system: Soaked) -> None:
    """Give a roll-up another measure, and take it away again."""
    system.must_build()
    for variables in ({"more": "yes"}, {}):
        _install(system, **variables)
        system.wait_for_model(ODD_ROLL_UP, "follows")
        row = f"select to_jsonb(rolled) ? 'smallest' from analytics.{ODD_ROLL_UP} as rolled limit 1"
        if system.ask_target(row) not in (None, bool(variables)):
            raise SoakFailed(f"{ODD_ROLL_UP} has not the columns of {variables}")


@fault(1)
def truncate_roll_up(system: Soaked) -> None:
    """Empty a roll-up by hand: a full refresh fills it."""
    system.must_build()
    system.ask_target(f"truncate analytics.{ODD_ROLL_UP}")
    system.pause_randomly(0, 1)
    _install(system, "--full-refresh")
    system.wait_for_model(ODD_ROLL_UP, "follows")


@fault(1)
def truncate_input(system: Soaked) -> None:
    """Empty the model that a roll-up is made of by hand: a seed of the model heals both."""
    system.must_build()
    system.ask_target(f"truncate analytics.{ODD}")
    system.pause_randomly(0, 1)
    with system.writers.without_truncates():
        system.do("spark-submit", "spark/seed.py", "--model", ODD)
    system.wait_until_applied(ODD, ODD_ROLL_UP)


@fault(1)
def move_roll_up(system: Soaked) -> None:
    """Let a roll-up have another schema for a while: its model goes on."""
    system.must_build()
    _install(system, rolled_schema="marts")
    system.wait_until_applied(ODD)
    moved = f"analytics_marts.{ODD_ROLL_UP}"
    query = "select state = 'follows' from cdc.model_state where relation = %s"
    if not system.ask_target(query, moved):
        raise SoakFailed(f"{moved} does not follow")
    _install(system)
    system.do("loader", "setup")
    system.ask_target("drop schema analytics_marts cascade")
    system.wait_until_applied(ODD, ODD_ROLL_UP)


@fault(1)
def read_without_rights(system: Soaked) -> None:
    """Let a role read that may not, and then one roll-up alone."""
    system.ask_target(
        f"do $$ begin create role {READER} login; exception when duplicate_object then end $$"
    )
    reading = f"select count(*) from analytics.{ODD_ROLL_UP}"
    grant = f"grant select on analytics.{ODD_ROLL_UP} to {READER};"
    system.ask_target(f"grant usage on schema analytics to {READER}; {grant}")
    try:
        session = connect(system.target_cluster.dsn(user=READER))
        with closing(session), session.cursor() as cursor:
            cursor.execute(reading)
            for refused in (f"select from analytics.{ODD}", "select cdc.apply('waltally')"):
                try:
                    cursor.execute(refused)
                except pg.InsufficientPrivilege:
                    continue
                raise SoakFailed(f"a role without rights may: {refused}")
    except psycopg2.OperationalError:
        return  # the server is restarting
    finally:
        system.ask_target(f"drop owned by {READER}")
