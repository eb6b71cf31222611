"""The soak: fault after fault under load, and a check of all results after every few of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg2

from soak import world
from soak.faults import BLOCKS_COMMITS, OF_SPARK, WEIGHTS, Fault
from soak.programs import SoakFailed
from soak.system import Soaked
from waltally.settings import DEFAULT_SLOT as SLOT

_IS_PRUNED = f"""
select true from cdc.baseline inner join cdc.slot_position as log using (slot_name)
where slot_name = '{SLOT}' and log.start_lsn > baseline.snapshot_lsn limit 1
"""


@dataclass
class Soak:
    """Disturbs one system; the order of its faults depends on the seed alone.

    `fault_count` is the most; None means as many as the minutes allow. `rate` is in transactions
    per second of each writing session. `keep` leaves the servers and the log files. `weights` are
    how often each kind of fault occurs per round; None means all that the system can have.
    """

    seed: int = 1
    minutes: float = 10.0
    fault_count: int | None = None
    faults_per_check: int = 10
    rate: float = 10.0
    keep: bool = False
    weights: Mapping[Fault, int] | None = None
    checks: int = field(default=0, init=False)
    faults: list[str] = field(default_factory=list, init=False)
    system: Soaked = field(init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    def _order(self) -> Iterator[Fault]:
        """Yield the faults in their order, without end."""
        random = Random(f"{self.seed} order")
        weights = self.weights or (WEIGHTS if self.seed % 2 else WEIGHTS | OF_SPARK)
        while True:
            faults = [fault for fault, weight in weights.items() for _ in range(weight)]
            random.shuffle(faults)
            yield from faults

    def run(self) -> None:
        """Inject faults and check until the plan is over. Raises SoakFailed at a difference."""
        every = self.faults_per_check
        with ExitStack() as stack:
            self.system = Soaked(stack, self.seed, self.rate, self.keep)
            try:
                for fault in self._order():
                    is_late = self._seconds() > self.minutes * 60
                    if is_late or len(self.faults) == self.fault_count:
                        break
                    self._inject(self.system, fault)
                    if len(self.faults) % every == 0:
                        self._check(self.system)
                if len(self.faults) % every:
                    self._check(self.system)
            except (AssertionError, SoakFailed, psycopg2.Error) as failure:
                raise SoakFailed(
                    f"{failure}\nafter fault {len(self.faults)}; the last faults: "
                    f"{', '.join(self.faults[-every:])}\n"
                    f"Try: make soak SEED={self.seed} MINUTES={self.minutes:g} (its first"
                    " system gets the same faults in the same order, at other moments)"
                ) from failure

    def summary(self) -> dict[str, Any]:
        """Return what was done, for a line or for JSON."""
        return {
            "seed": self.seed,
            "seconds": round(self._seconds(), 1),
            "faults": len(self.faults),
            "faults_by_kind": dict(sorted(Counter(self.faults).items())),
            "checks": self.checks,
            "changes_compared": self.system.comparison.changes,
            "positions_observed": self.system.watcher.observations,
            "commits_timed": self.system.watcher.commits,
            "longest_commit_seconds": round(self.system.watcher.longest_commit, 2),
            "exits_of_loader_and_driver": [each.exits for each in self.system.watched],
        }

    def _inject(self, system: Soaked, fault: Fault) -> None:
        number = len(self.faults) + 1
        # Random numbers of its own, so that one fault's use of them does not alter the next.
        system.random = Random(f"{self.seed} {number}")
        self.faults.append(fault.__name__)
        # Every fifth fault or so begins before the system has recovered from the one before.
        if system.random.random() < 0.8:
            system.wait_until_streaming()
            system.pause_randomly(0, 0.7)
        self._say(f"fault {number}: {fault.__name__}")
        with system.watcher.not_timed() if fault in BLOCKS_COMMITS else nullcontext():
            fault(system)
        for proxy in (system.source_proxy, system.target_proxy):
            proxy.restore()
        system.check_services()
        system.watcher.check()

    def _check(self, system: Soaked) -> None:
        """Pause the traffic, apply everything, and compare model and change log with the source."""
        if system.random.random() < 0.5:
            system.wait_until_streaming()
        for each in system.writers:
            each.stop()
        system.service.stop()
        self._apply_everything(system)
        # Spark applies its model by itself.
        staged = "select position_lsn from cdc.slot_position where slot_name = %s"
        system.wait_until_applied(*world.BY_SPARK, end=system.ask_target(staged, SLOT))
        found = world.differences(system.dsn, system.target_dsn)
        if found:
            shown = "\n".join(map(str, found[:10]))
            raise SoakFailed(f"{len(found)} rows or groups of models differ:\n{shown}")
        for model in (*world.MODELS, *world.OVER_MODELS):
            if not system.has(model, "follows"):
                raise SoakFailed(f"{model} does not follow: {system.of_model('reason', model)}")
        system.comparison.check()
        system.watcher.check()
        self.checks += 1
        self._say(f"check {self.checks}: {system.comparison.changes:,} changes, no difference")
        system.service.start()
        for each in system.writers:
            each.start()

    def _apply_everything(self, system: Soaked) -> None:
        if system.random.random() < 0.3:
            system.do("loader", "run", "--once", "--build")
            return
        system.do("loader", "run", "--once")
        # Where a prune has taken changes since the baseline, a model cannot be built from it again.
        is_refresh = system.random.random() < 0.2 and not system.ask_target(_IS_PRUNED)
        options = ["--full-refresh"] if is_refresh else []
        system.do("dbt", "run", *options)

    def _say(self, line: str) -> None:
        minutes, seconds = divmod(int(self._seconds()), 60)
        print(f"seed {self.seed} {minutes}:{seconds:02} {line}", file=sys.stderr, flush=True)

    def _seconds(self) -> float:
        return time.monotonic() - self._began
