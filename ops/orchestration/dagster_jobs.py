"""waltally's jobs in Dagster (docs/spark.md)."""

import subprocess

import dagster as dg

RETRY = {10, 29, 30, 31, 33, 34, 39, 41, 47, 49}
later = dg.RetryPolicy(max_retries=3, delay=300)


def run(command: str, check_failed: int = 0) -> bool:
    code = subprocess.run(["/opt/waltally/ops/with-settings", *command.split()]).returncode
    if code not in (0, check_failed):
        raise dg.Failure(f"{command}: exit code {code}", allow_retries=code in RETRY)
    return code == 0


@dg.asset_check(asset="models")
def fresh() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=run("loader wait --timeout 60s", check_failed=48))


@dg.asset_check(asset="models", retry_policy=later)
def audit() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=run("spark-submit spark/audit.py", check_failed=42))


@dg.asset(retry_policy=later)
def archive() -> None:
    run("spark-submit spark/archive.py --to /var/lib/waltally/archive")


@dg.asset(deps=[archive], retry_policy=later)
def pruned_change_log() -> None:
    run("loader prune --keep 7d")


night = dg.define_asset_job(
    "waltally_night",
    dg.AssetSelection.assets(archive, pruned_change_log) | dg.AssetSelection.checks(audit),
)
often = dg.define_asset_job("waltally_fresh", dg.AssetSelection.checks(fresh))
defs = dg.Definitions(
    assets=[dg.AssetSpec("models"), archive, pruned_change_log],
    asset_checks=[fresh, audit],
    schedules=[
        dg.ScheduleDefinition(job=night, cron_schedule="10 2 * * *"),
        dg.ScheduleDefinition(job=often, cron_schedule="*/10 * * * *"),
    ],
    executor=dg.in_process_executor,
)
