"""Sessions of Spark's driver: what the target has for a slot, and what executors connect with."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from psycopg import pq
from psycopg.conninfo import make_conninfo

from loader.staging.records import SlotPosition
from loader.staging.registration import read_registration
from loader.staging.target_state import require_slot_position
from waltally import database, lsn, session_settings
from waltally.database import Connection, Target
from waltally.errors import CannotConnect, Interrupted, NotSetUp, SettingError
from waltally.models import Model, needed_columns, source_tables
from waltally.settings import SlotSettings, complete_conninfo
from waltally.tables import Table


def connect(dsn: str, place: str, work: str = "seed") -> Connection:
    """Open a session at the `source` or the `target`.

    Raises SettingError, CannotConnect, LoginRefused.
    """
    setting = f"LOADER_{place.upper()}_DSN"
    return database.connect(complete_conninfo(dsn, setting, work), place)


def resolved(connection: Connection) -> str:
    """Return a connection string that works on other machines too.

    Environment variables, service files and password files exist on the driver alone. The host is
    the one that answered, so that a string of several hosts leads every reader to the same server.
    The session settings travel as `options`, with those that only newer servers know.
    """
    compiled = {each.keyword.decode(): each.compiled for each in pq.Conninfo.get_defaults()}
    info = connection.info
    parts = {
        name: value
        for name, value in info.dsn_parameters.items()
        if name in compiled and value.encode() != compiled[name]
    }
    for local in ("service", "servicefile", "passfile", "hostaddr", "target_session_attrs"):
        parts.pop(local, None)
    parts.update(host=info.host, port=str(info.port), dbname=info.dbname, user=info.user)
    if info.password:
        parts["password"] = info.password
    newer = connection.ask(session_settings.NEWER_TIMEOUTS)
    options = session_settings.without_mark(parts.get("options", ""))
    parts["options"] = " ".join([*(f"-c {name}=0" for (name,) in newer), options])
    return make_conninfo("", **parts)


class TargetSession(Target):
    """A session at the target that knows what a slot's jobs ask there."""

    incoming: Table
    """The table beside the baselines that a seed counts into, once it has the seeds' lock."""

    def position(self) -> SlotPosition:
        """Return the slot's row in slot_position. Raises NotSetUp where it has none."""
        return require_slot_position(self)

    def registered_models(self, names: Sequence[str] = ()) -> list[Model]:
        """Return the slot's models with these names, all without names, in their names' order.

        Raises NotSetUp where no model is installed, SettingError for a name that is not.
        """
        models = read_registration(self).models
        if not models:
            raise NotSetUp(
                f"no model is installed for the slot {self.slot} in schema {self.schema}",
                "`dbt build` with the same LOADER_SLOT, LOADER_SCHEMA and target",
            )
        known = [model.name for model in models]
        unknown = [name for name in dict.fromkeys(names) if name not in known]
        if unknown:
            raise SettingError(
                f"--model names {', '.join(unknown)}, but the models of the slot {self.slot} are"
                f" {', '.join(known)}",
                "name one of these; a new one is installed by `dbt build`",
            )
        return [model for model in models if not names or model.name in names]

    def unfollowed(self, models: Sequence[Model]) -> list[str]:
        """Return the models' tables of which the log does not hold all that they need yet."""
        needed = {str(table): needed_columns(models, table) for table in source_tables(models)}
        rows = self.ask(
            "select key from jsonb_each(%s)"
            f" where {self.table('held_since')}(%s, jsonb_build_object(key, value)) is null",
            (json.dumps(needed), self.slot),
        )
        return [table for (table,) in rows]

    def limits(self, models: Sequence[Model]) -> list[tuple[int, str, str, str]]:
        """Return what a baseline of the models must not be older than: cdc.baseline_limits."""
        rows = self.ask(
            f"select * from {self.table('baseline_limits')}(%s, %s)",
            (self.slot, [model.name for model in models]),
        )
        return [(lsn.parse(at), *rest) for at, *rest in rows]

    def emptied(self) -> dict[str, int]:
        """Return by table a position after the last drop or TRUNCATE of a counted partition.

        Tables of which none went are left out.
        """
        roots = read_registration(self).leaves
        return {
            str(table): root.emptied_lsn
            for table, root in roots.items()
            if root.emptied_lsn is not None
        }


def connect_target(settings: SlotSettings, work: str = "seed") -> TargetSession:
    """Open a session at the target. Raises SettingError, CannotConnect, LoginRefused."""
    conninfo = complete_conninfo(settings.target, "LOADER_TARGET_DSN", work)
    return database.open_target(TargetSession, conninfo, settings)


@contextlib.contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """Read within the block as of its beginning."""
    connection.ask("begin isolation level repeatable read read only")
    try:
        # The first query takes the snapshot.
        connection.ask("select 1")
        yield
    finally:
        # Where the session has ended, what the block raises says more.
        with contextlib.suppress(CannotConnect, Interrupted):
            connection.ask("rollback")
