"""What a soak has: the tables of Notify and of the example shop, and the models of both."""

from __future__ import annotations

from pathlib import Path

from examples.shop.example import EXAMPLE
from testkit import comparison, recount
from testkit.comparison import Difference
from testkit.project import host_project
from testkit.servers import Cluster, administer
from waltally.settings import DEFAULT_SLOT as SLOT

SHOP = EXAMPLE
NOTIFY, ORDERS, CUSTOMERS, PARCELS = "ft_service_stats", "ft_orders", "customers", "ft_parcels"
REGION_PARCELS, REGIONS = "ft_region_parcels", "ft_regions"
MODELS = (NOTIFY, ORDERS, CUSTOMERS, PARCELS)
OVER_MODELS = (REGION_PARCELS, REGIONS)
BY_SPARK = (PARCELS, *OVER_MODELS)
"""What Spark applies, where it does, and what reads it."""
READ_TOGETHER = {CUSTOMERS, PARCELS}
"""Inputs of one model: a change of one reads the other."""
SHOP_TABLES = ("Orders", "Parcels", "Customers")
TABLES = (
    *("notifications", "notification_history"),
    *(f'"Web Shop"."{name}"' for name in SHOP_TABLES),
)


def create(cluster: Cluster, role: str) -> None:
    """Make the shop's empty tables and let a role read them."""
    SHOP.create(cluster.dsn())
    schema = f'"Web Shop" to {role}'
    administer(
        cluster,
        f"grant usage on schema {schema}; grant select on all tables in schema {schema}",
    )


def make_project(home: Path, engine: str) -> Path:
    """Make the dbt project with all models; return its folder."""
    # A person changes whether the roll-up has one more column.
    more = "{{ ', min(days) as smallest' if var('more', none) }}"
    own = {"engine='spark'": "engine=var('engine')", "as longest_days": f"as longest_days{more}"}
    models = {}
    for path in (SHOP.project / "models").glob("*.sql"):
        models[path.stem] = path.read_text()
        for written, instead in own.items():
            models[path.stem] = models[path.stem].replace(written, instead)
    project = host_project(home, models)
    sources = project / "models" / "_sources.yml"
    sources.write_text((SHOP.project / "models" / sources.name).read_text())
    with (project / "dbt_project.yml").open("a") as file:
        file.write(f"vars: {{notify_models: true, engine: {engine}}}\n")
    return project


def differences(source: str, target: str) -> list[Difference]:
    """Return where a model is not what a recount gives."""
    # The stream holds everything from the first row on, so every purge counts.
    found = recount.differences(source, target, slot=SLOT, every_purge=True)
    for each in SHOP.recounts:
        found += comparison.differences(each, {SLOT: source}, target)
    return found
