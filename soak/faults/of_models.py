"""Faults of models: what people do to them beside waltally."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from psycopg2 import errors as pg

from soak.faults.fault import fault
from soak.programs import SoakFailed
from soak.system import Soaked
from soak.world import ODD, ODD_ROLL_UP
from testkit.servers import connect

READER = "reader_without_rights"


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
