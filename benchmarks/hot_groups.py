"""Many clients insert into one group: how many writes remain beside triggers, beside waltally.

python -m benchmarks.hot_groups --seconds 10 --rounds 3

1, 8 and 32 pgbench clients insert notifications of one template and one status, so all of them into
one group, each commit on disk before the next one: with nothing beside them, with triggers per
statement that keep the counts in a table, and with `loader run --build`. There is a database for
each of the three on one server, which shares the machine's cores with clients and loader. Every
round takes each once and begins with another one each time; shares are of `nothing` of the same
round. Checked: the triggers' counts equal a recount, and so does the model.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks import decoding, report, workload
from benchmarks.loader_process import running_loader
from benchmarks.measure import say
from benchmarks.pgbench import write
from benchmarks.triggers import check_triggers, make_triggers
from demo.run import create_database
from testkit import source
from testkit.recount import differences
from testkit.servers import Cluster

CLIENTS = (1, 8, 32)
NOTHING, TRIGGERS, WALTALLY = "nothing", "triggers", "waltally"
DATABASES = {NOTHING: "plain", TRIGGERS: "triggered", WALTALLY: "postgres"}
SLOT = "hot_groups"
SERVER = {"shared_buffers": "256MB", "max_wal_size": "4GB"}

SCRIPT = """\
insert into notifications (
    "to", service_id, template_id, notification_type, notification_status, personalisation
)
select 'someone@example.com', service_id, id, template_type, 'created', repeat('x', 310)
from templates where id = md5('1 template 1')::uuid;
"""
"""The group is that of the first template that `testkit.source.fill` makes."""

_WAIT = "select cdc.wait_for(%(slot)s, %(end)s, interval '5 minutes')"

Samples = dict[int, dict[str, list[float]]]
"""Writes per second by number of clients and by what was beside them, one per round; under
`caught up` the seconds after which the model had them all."""


def measure(rounds: int, seconds: int) -> Iterator[report.Table]:
    """Measure each number of clients. Raises RuntimeError where a count is wrong."""
    samples: Samples = {
        clients: {name: [] for name in (*DATABASES, "caught up")} for clients in CLIENTS
    }
    with Cluster(SERVER) as cluster:
        set_up(cluster)
        for number in range(rounds):
            for clients in CLIENTS:
                names = [*DATABASES]
                for name in names[number % 3 :] + names[: number % 3]:
                    taken = sample(cluster, name, clients, number, seconds)
                    for key, value in taken.items():
                        samples[clients][key].append(value)
                    say(f"round {number + 1}, {clients} at once, {name}: {taken[name]:,.0f}/s")
        check_triggers(cluster.dsn(DATABASES[TRIGGERS]))
        if wrong := differences(cluster.dsn(), slot=SLOT):
            raise RuntimeError(f"{len(wrong)} groups differ from a recount, as {wrong[0]}")
    yield report.Table("hot_groups", table(samples))


def set_up(cluster: Cluster) -> None:
    """Make the three databases, the triggers of one and the model of another."""
    for name in (NOTHING, TRIGGERS):
        create_database(cluster, DATABASES[name])
        source.create(cluster.dsn(DATABASES[name]))
        source.fill(cluster.dsn(DATABASES[name]), services=10, templates=50)
    make_triggers(cluster.dsn(DATABASES[TRIGGERS]))
    workload.create(cluster)
    workload.set_up(cluster, cluster, SLOT)


def sample(
    cluster: Cluster, name: str, clients: int, number: int, seconds: int
) -> dict[str, float]:
    """Return the writes per second; beside waltally also when the model had caught up."""
    with beside(cluster, name):
        dsn = cluster.dsn(DATABASES[name])
        written = write(dsn, SCRIPT, clients=clients, seed=number + 1, seconds=seconds)
        if name != WALTALLY:
            return {name: written.per_second}
        return {name: written.per_second, "caught up": catch_up(cluster)}


@contextmanager
def beside(cluster: Cluster, name: str) -> Iterator[None]:
    """Let the loader follow, and hold everything, where the name says so."""
    if name != WALTALLY:
        yield
        return
    with running_loader(cluster, cluster, SLOT):
        catch_up(cluster)
        yield


def catch_up(cluster: Cluster) -> float:
    """Return the seconds until the model holds what is committed now. Raises RuntimeError."""
    end, began = decoding.wal_end(cluster), time.monotonic()
    if workload.ask(cluster.dsn(), _WAIT, {"slot": SLOT, "end": end}) != [(True,)]:
        raise RuntimeError(f"the model did not reach {end}")
    return time.monotonic() - began


def table(samples: Samples) -> list[report.Row]:
    """Return one row per number of clients."""
    return [
        {
            "clients": clients,
            "nothing, writes/s": statistics.median(taken[NOTHING]),
            "triggers keep": report.spread(shares(taken, TRIGGERS)),
            "waltally keeps": report.spread(shares(taken, WALTALLY)),
            "model caught up, s": statistics.median(taken["caught up"]),
        }
        for clients, taken in samples.items()
    ]


def shares(taken: Mapping[str, Sequence[float]], name: str) -> list[float]:
    """Return the share of each round's writes that remained."""
    return [one / nothing for one, nothing in zip(taken[name], taken[NOTHING], strict=True)]


if __name__ == "__main__":
    report.main(__doc__, measure, rounds=(3, "runs of each"), seconds=(10, "length of each run"))
