"""The soak itself: fault after fault, a stop with recount and comparison every so many."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any

from demo import recount
from tests.soak.commits import LONGEST_SECONDS
from tests.soak.failure import SoakFailed
from tests.soak.faults import STOPS_COMMITS, WEIGHTS, Fault, a_round
from tests.soak.world import World
from waltally.settings import DEFAULT_SLOT as SLOT

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to do to the world, and how long."""

    seed: int = 1
    minutes: float = 10.0
    faults: int | None = None
    """The most faults; None is as many as the minutes allow."""
    every: int = 10
    """Faults between two stops."""
    rate: float = 10.0
    """Transactions a second in each writing session."""
    keep: bool = False
    each_once: bool = False
    """Rounds with each kind of fault once, instead of by weight."""

    def kinds(self) -> Iterator[Fault]:
        """Yield the faults in their order, which the seed alone settles."""
        dice = Random(f"{self.seed} order")
        weights = dict.fromkeys(WEIGHTS, 1) if self.each_once else WEIGHTS
        while True:
            yield from a_round(dice, weights)


class Hand:
    """Disturbs the world by a plan and counts what came of it."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self.plan = plan
        self.done: list[str] = []
        self.stops = 0
        self.observations = 0
        self.changes = 0
        self.commits = 0
        self.longest_commit = 0.0
        self.exits: Counter[int] = Counter()
        self._say = say
        self._began = time.monotonic()

    def run(self) -> None:
        """Disturb and check until the plan is done. Raises SoakFailed at the first difference."""
        with World(self.plan.seed, self.plan.rate, self.plan.keep) as world:
            try:
                for fault in self.plan.kinds():
                    if self._is_over():
                        break
                    self._strike(world, fault)
                    if len(self.done) % self.plan.every == 0:
                        self._stop(world)
                if len(self.done) % self.plan.every:
                    self._stop(world)
            except SoakFailed as failure:
                raise SoakFailed(self._with_the_way_to_repeat(failure)) from failure
            finally:
                self.observations = world.watcher.observations
                self.changes = world.comparison.changes
                self.exits = world.service.exits

    def summary(self) -> dict[str, Any]:
        """Return what was done, for a line or for JSON."""
        return {
            "seed": self.plan.seed,
            "seconds": round(time.monotonic() - self._began, 1),
            "faults": len(self.done),
            "faults_by_kind": dict(sorted(Counter(self.done).items())),
            "stops": self.stops,
            "changes_compared": self.changes,
            "positions_observed": self.observations,
            "commits_timed": self.commits,
            "longest_commit_seconds": round(self.longest_commit, 2),
            "loader_exits": {str(code): count for code, count in sorted(self.exits.items())},
        }

    def _is_over(self) -> bool:
        if self.plan.faults is not None and len(self.done) >= self.plan.faults:
            return True
        return time.monotonic() - self._began > self.plan.minutes * 60

    def _strike(self, world: World, fault: Fault) -> None:
        number = len(self.done) + 1
        # Dice of its own, so that what one fault takes of them does not alter the next.
        world.dice = Random(f"{self.plan.seed} {number}")
        self.done.append(fault.__name__)
        # Now and then a fault befalls what has not yet recovered from the one before.
        if world.dice.random() < 0.8:
            world.until_followed()
            world.some_seconds(0, 0.7)
        self._say(f"{time.monotonic() - self._began:7.1f} s  {number:4}  {fault.__name__}")
        with world.commits.excused() if fault in STOPS_COMMITS else nullcontext():
            fault(world)
        world.calm()
        self._check_commits(world)
        world.service.check()
        self._check_positions(world)

    def _stop(self, world: World) -> None:
        """Pause the traffic, finish, and hold the results against the source."""
        if world.dice.random() < 0.5:
            world.until_followed()
        world.writers.pause()
        world.service.stop()
        world.second_service.stop()
        self._check_finished(world)
        if differences := self._differences(world):
            shown = "\n".join(map(str, differences[:10]))
            raise SoakFailed(f"{len(differences)} groups differ from a recount:\n{shown}")
        world.comparison.check()
        world.must("loader", "run", "--once", more=world.second)
        world.second_comparison.check()
        self._check_positions(world)
        self.stops += 1
        self._say(
            f"{time.monotonic() - self._began:7.1f} s  stop {self.stops}: "
            f"{world.comparison.changes:,} changes staged, no difference"
        )
        world.service.start()
        world.second_service.start()
        world.writers.resume()

    @staticmethod
    def _differences(world: World) -> list[recount.Difference]:
        # No seed was needed at the start: the stream holds everything, every purge too.
        return recount.differences(world.dsn, world.target_dsn, slot=SLOT, every_purge=True)

    def _check_finished(self, world: World) -> None:
        if world.dice.random() < 0.3:
            world.must("loader", "run", "--once", "--build")
            return
        world.must("loader", "run", "--once")
        refresh = ["--full-refresh"] if world.dice.random() < 0.2 else []
        world.must("dbt", "run", *refresh)

    def _check_commits(self, world: World) -> None:
        self.commits, self.longest_commit = world.commits.count, world.commits.longest
        if self.longest_commit > LONGEST_SECONDS:
            raise SoakFailed(f"a commit of the application took {self.longest_commit:.1f} s")

    def _check_positions(self, world: World) -> None:
        if violations := world.watcher.violations:
            raise SoakFailed("confirmed before it was stored:\n" + "\n".join(violations[:10]))

    def _with_the_way_to_repeat(self, failure: SoakFailed) -> str:
        return (
            f"{failure}\n"
            f"after fault {len(self.done)}; the last: {', '.join(self.done[-self.plan.every :])}\n"
            f"To repeat it: make soak SEED={self.plan.seed} MINUTES={self.plan.minutes:g} "
            "(its first world has the same faults in the same order; their moments differ)"
        )
