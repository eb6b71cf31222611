"""What operators do while everything runs: prune, archive, rename a table."""

from __future__ import annotations

from testkit.commands import run
from tests.soak.commands import kill_group
from tests.soak.failure import SoakFailed
from tests.soak.faults.waiting import wait_at_most
from tests.soak.servers import ROLE
from tests.soak.system import System

# An empty partition before the present one, as if the log had begun there. With a seed nobody
# needs it; without a seed the prune keeps it and says why.
_OLD_PARTITION = """
do $$
begin
    if to_regclass('cdc.change_log_0000000000') is null then
        create table cdc.change_log_0000000000 (like cdc.change_log including all);
        alter table cdc.change_log_0000000000 owner to {role};
        alter table cdc.change_log
            attach partition cdc.change_log_0000000000 for values from ('0/0') to ('0/1000000');
    end if;
end $$
"""


def prune(system: System) -> None:
    """Prune an old partition; often kill the prune."""
    system.ask_target(_OLD_PARTITION.format(role=ROLE))
    job = system.spawn("loader", "prune", "--keep", "0s", "--timeout", "5")
    seconds = system.random.choice([system.random.uniform(0.5, 3), 30])
    wait_at_most(system, lambda: job.poll() is not None, seconds)
    kill_group(job)


def archive(system: System) -> None:
    """Archive the change log; often kill the job."""
    job = system.spawn("spark-submit", "spark/archive.py", "--to", str(system.home / "archive"))
    wait_at_most(system, lambda: job.poll() is not None, system.random.uniform(5, 60))
    kill_group(job)


def rename_away(system: System) -> None:
    """Write to a table under another name; the status reports it, renewal and seed repair it."""
    system.writers.pause()
    try:
        system.loader.stop()
        # The fact must be complete: the new seed reads from it what was purged.
        system.run("loader", "run", "--once", "--build")
        system.wait_for_spark()
        system.comparison.check()
        system.ask("alter table notifications rename to elsewhere")
        system.ask("delete from elsewhere where id in (select id from elsewhere limit 3)")
        system.ask("alter table elsewhere rename to notifications")
        status = run(["loader", "status", "--json"], system.environment)
        if '"TableReplaced"' not in status.stdout:
            raise SoakFailed(
                f"the status does not report the renamed table:\n{status.stdout}{status.stderr}"
            )
        system.position_watcher.is_renewing = True
        system.run("loader", "setup", "--renew")
        system.position_watcher.is_renewing = False
        system.run("spark-submit", "spark/seed.py")
        system.run("dbt", "run")
        system.comparison.skip()
        # The second slot missed the renamed table too; it has no fact to seed.
        system.second_loader.stop()
        system.run("loader", "setup", "--renew", more=system.second)
        system.second_comparison.skip()
        system.second_loader.start()
        system.loader.start()
    finally:
        system.position_watcher.is_renewing = False
        system.writers.resume()
