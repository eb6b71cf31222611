"""Notify's tables and the shipped model, operated as a person would, and what must come of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from threading import Event
from typing import Any

from loader.applying.applier import apply_once
from loader.capture.events import RunState
from loader.capture.follow import follow
from loader.monitoring import status
from loader.setup import setup
from loader.setup.dbt_project import read_manifest
from loader.setup.declared import Declared
from loader.source.asking_tables import read_current
from loader.source.state import Thresholds
from testkit import recount
from testkit.databases import TABLES, Database
from testkit.model import registered
from testkit.system import System
from waltally.errors import combine
from waltally.models import Model


class Pipeline(System):
    """The system of the shipped model: its steps in this process, and what the model must hold."""

    def __init__(self, source: Database, home: Path, target: Database | None = None) -> None:
        super().__init__(source, home, target)

    @property
    def wanted(self) -> Declared:
        """What `loader setup` would register."""
        return read_manifest(self.source.manifest)

    @property
    def registered(self) -> tuple[Model, ...]:
        """The models that are registered."""
        return registered(self.dsns[1], self.slot)

    # The steps in this process, where a test is about their errors.

    def set_up(self) -> None:
        """Set up, and seed where no seed was. Raises what `loader setup` reports."""
        found = setup.set_up(self.loader_settings, self.wanted, timeout=30, renew=False)
        if found.problems:
            raise combine(found.problems)
        self.install_declared(self.environment())
        if not self.target.execute("select from cdc.baseline where slot_name = %s", self.slot):
            # A loader reads the partitions of a table before it holds its changes.
            self.stage()
            self.seed()

    def stage(self) -> None:
        """Follow the slot up to what is committed now. Raises what `loader run` reports."""
        follow(self.loader_settings, Event(), RunState(), once=True)

    def build(self) -> None:
        """Apply what is staged to the installed models. Raises BuildFailed where one failed."""
        apply_once(self.loader_settings)

    def waits(self) -> str:
        """Apply, and return why the model waits."""
        self.build()
        ((state, reason),) = self.target.execute(
            "select state, reason from cdc.model_state where slot_name = %s "
            "and relation = 'analytics.ft_service_stats'",
            self.slot,
        )
        assert state == "waits", state
        return str(reason)

    def begin(self, rows: int = 5) -> None:
        """Set up, with a history that only a seed knows and changes that are staged and built."""
        self.source.insert(rows, "delivered")
        self.must("setup")
        self.seed()
        self.source.insert(rows)
        self.must("run", "--once")
        self.build()

    def seed(self) -> None:
        """Count the quiet source at its WAL's end, as spark/seed.py does without a pause."""
        at = self.source.value("select pg_current_wal_insert_lsn()")
        model = "ft_service_stats"
        for table in ("baseline_group", "baseline"):
            self.target.execute(f"delete from cdc.{table} where model_name = %s", model)
        for group, (live, archived) in recount.expected(self.dsns[0]).items():
            for part, counts in zip(
                TABLES, ([live, live, 0], [archived, 0, archived]), strict=True
            ):
                if counts[0]:
                    self.target.execute(
                        "insert into cdc.baseline_group values (%s, %s, %s, %s, %s::numeric[])",
                        *(self.slot, model, part, list(group), counts),
                    )
        identities = read_current(self.source.connection, self.registered)
        self.target.take_baseline(model, at, json.dumps(identities))

    def catch_up(self) -> None:
        """Stage and build."""
        self.stage()
        self.build()

    # What came of it.

    def position(self) -> str:
        return str(self.target.value("select position_lsn from cdc.slot_position"))

    def model(self) -> recount.Counts:
        """Return what the model says of live and archived rows, by group."""
        return recount.model(self.dsns[1])

    def recount(self) -> recount.Counts:
        """Return what counting the rows of both tables gives."""
        return recount.expected(self.dsns[0])

    def findings(self) -> list[dict[str, Any]]:
        """Return what `loader status` finds wrong, as its JSON has it."""
        body = status.report(self.loader_settings, Thresholds(300, 2**40)).as_json()
        return list(body["findings"])

    def is_said_to_wait(self) -> bool:
        """Whether `loader status` says that a model waits."""
        return any(" waits: " in found["message"] for found in self.findings())

    def rejected(self) -> list[tuple[Any, ...]]:
        """Return action and reason of each rejected change, in order."""
        return self.target.execute(
            "select action, reason from analytics.rejected_changes order by commit_lsn, ordinal"
        )

    def must_be_exact(self) -> None:
        """Catch up; fail where model and recount differ or a change was rejected."""
        self.catch_up()
        assert self.rejected() == []
        assert self.model() == self.recount()

    # Remedies.

    def run_remedy(self, said: str) -> None:
        """Run the commands that an error's `Try:` line names, in their order."""
        named = re.findall(r"`([^`]+)`", said.split("Try: ")[1])
        assert named, said
        for command in named:
            if query := re.fullmatch(r'psql -c "(.*)"', command):
                self.source.execute(query[1])
            elif command.startswith("loader "):
                self.must(*command.split()[1:])
            elif command.startswith("spark-submit spark/seed.py"):
                self.seed()
            else:
                assert command == "dbt build", said
                self.build()

    def recovers_from(self, said: str) -> None:
        """The remedy makes the counts right, and they stay right when more comes."""
        self.run_remedy(said)
        assert self.differences() == []
        self.source.insert(4, "sent")
        self.source.execute("update notifications set notification_status = 'failed'")
        self.goes_on()

    def goes_on(self) -> None:
        """What is committed is staged and built, and equals a recount."""
        self.must("run", "--once")
        self.build()
        assert self.differences() == []
