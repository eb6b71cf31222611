"""The time entries of two offices for the demo and the tests."""

from __future__ import annotations

from pathlib import Path

from demo.example import Example
from examples.time_entries.changes import CHANGES, TRUNCATES, OfficeSession
from testkit.comparison import Recount
from testkit.source import transaction
from testkit.traffic import Sessions

_HERE = Path(__file__).parent


def create(dsn: str) -> None:
    """Make an office's empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "source.sql").read_text())


def fill(dsn: str, rows: int, seed: int) -> None:
    """Fill an office's empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "fill.sql").read_text(), {"rows": rows, "seed": seed})
        cursor.execute("analyze projects, time_entries")


def traffic(dsn: str, *, seed: int, rate: float | None, truncates: bool) -> Sessions[OfficeSession]:
    """Four sessions that book hours."""
    changes = CHANGES | TRUNCATES if truncates else CHANGES
    return Sessions(dsn, OfficeSession, changes, seed=seed, rate=rate)


_MONTH = """
    date_trunc(
        'month',
        started_at at time zone 'UTC' at time zone
            case %(slot)s when 'berlin' then 'Europe/Berlin' else 'Europe/Lisbon' end
    )::date
"""


def of_office(office: str) -> tuple[Recount, Recount]:
    """Return the recounts of the two models that an office's slot feeds."""
    return (
        Recount(
            f"{office}_hours",
            keys=("month", "project_id"),
            values=("entry_count", "hours"),
            query=f"""
                select {_MONTH}, project_id, count(*), coalesce(sum(hours), 0)
                from time_entries
                where %(slot)s = '{office}'
                group by 1, 2
            """,
        ),
        Recount(
            f"{office}_projects",
            keys=("id",),
            values=("name", "budget", "is_open", "brief"),
            query=f"""
                select id, name, budget, is_open, brief from projects where %(slot)s = '{office}'
            """,
            is_rows=True,
        ),
    )


PROJECT_HOURS = Recount(
    "ft_project_hours",
    keys=("office", "project_id", "month"),
    values=("project_name", "budget", "is_open", "entry_count", "hours"),
    query=f"""
        select
            %(slot)s,
            e.project_id,
            {_MONTH},
            projects.name,
            projects.budget,
            projects.is_open,
            count(*),
            coalesce(sum(e.hours), 0)
        from time_entries as e
        left join projects on projects.id = e.project_id
        group by 2, 3, 4, 5, 6
    """,
)

PROJECTS = Recount(
    "projects",
    keys=("office", "id"),
    values=("name", "budget", "is_open", "brief"),
    query="select %(slot)s, id, name, budget, is_open, brief from projects",
    is_rows=True,
)

MONTHS = Recount(
    "ft_month_hours",
    keys=("office", "month", "is_open"),
    values=(
        *("entry_count", "hours", "project_count", "name_count", "least_budget"),
        "largest_budget",
        "average_hours",
    ),
    query=f"""
        select
            %(slot)s,
            {_MONTH},
            projects.is_open,
            count(*),
            coalesce(sum(e.hours), 0),
            count(distinct e.project_id),
            count(distinct projects.name),
            min(projects.budget),
            max(projects.budget),
            round(coalesce(sum(e.hours), 0) / count(*), 2)
        from time_entries as e
        left join projects on projects.id = e.project_id
        group by 2, 3
    """,
)

EXAMPLE = Example(
    name="time_entries",
    slots=("berlin", "lisbon"),
    about="hours booked, corrected and moved, projects renamed and renumbered, rollbacks",
    create=create,
    fill=fill,
    traffic=traffic,
    recounts=(PROJECT_HOURS, PROJECTS, MONTHS, *of_office("berlin"), *of_office("lisbon")),
    total="select coalesce(sum(entry_count), 0)::bigint from analytics.ft_project_hours",
    total_of="time entries",
    table="""
        with ranked as (
            select
                coalesce(project_name, 'no project') as project,
                office,
                sum(hours) as hours,
                row_number() over (partition by office order by sum(hours) desc) as place
            from analytics.ft_project_hours
            group by office, project_id, project_name
        )

        select project, office, sum(hours)
        from ranked
        where place <= 6
        group by project, office
    """,
    corner="project",
)
