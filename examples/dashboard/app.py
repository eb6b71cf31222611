"""Notify's counts: a page that moves with them, and one service's over HTTP.

One connection for all open pages adds what changed in the model to what they show.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import psycopg
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from psycopg.rows import dict_row

from waltally.freshness import judge

HERE = Path(__file__).parent
SLOT = os.environ.get("LOADER_SLOT", "waltally")
POSITION = """
select (
    select applied_lsn::text from cdc.model_watermark
    where relation = 'analytics.ft_service_stats' and slot_name = %s
) as position
"""
AGE = """
select
    extract(epoch from clock_timestamp() - cdc.exact_as_of(%s, 'ft_service_stats'))::float8 as age
"""
TOTALS = """
    coalesce(sum(count) filter (where notification_status <> 'cancelled'), 0)::bigint as requested,
    coalesce(sum(count) filter (where notification_status in ('delivered', 'sent')), 0)::bigint
        as delivered,
    coalesce(sum(count) filter (where notification_status in (
        'failed', 'permanent-failure', 'technical-failure', 'temporary-failure',
        'validation-failed', 'virus-scan-failed'
    )), 0)::bigint as failed
"""
MODEL = "analytics.ft_service_stats"
COUNTS = f"""
select notification_type, {TOTALS} from {MODEL}
where service_id = %s group by notification_type order by notification_type
"""
BARS = f"""
select
    case grouping(notification_type, notification_status, service_id)
        when 3 then 'types' when 5 then 'statuses' else 'services'
    end as list,
    coalesce(notification_type::text, notification_status, service_id::text) as id,
    sum(count)::bigint as count,
    {TOTALS}
from {{}} as model group by grouping sets (notification_type, notification_status, service_id)
"""
NEWS = f"""
select max(number) as newest, bool_or(num_nulls(old, new) = 2) as is_anew
from {MODEL}_changes where number > %(seen)s
"""
MOVED = f"""(
    select service_id, notification_type, notification_status, side.sign * count as count
    from {MODEL}_changes
    cross join lateral (values (-1, old), (1, new)) as side (sign, image)
    cross join lateral jsonb_populate_record(null::{MODEL}, side.image)
    where number > %(seen)s and side.image is not null
)"""
NAMES = """
select id::text, name from analytics.services where id = any (%s::uuid[])
"""
HAS_NAMES = "select to_regclass('analytics.services') is not null as known"

PAUSE = 0.25
"""Seconds between two reads, however often the model moves."""
LOOK = 1
"""Seconds without a change after which the page is told again how fresh its numbers are."""
KEEP_ALIVE = 15
"""Seconds after which an empty line is sent, so that a page that was closed is noticed."""
RETRY = 2
"""Seconds between two tries to reach a database that is gone."""
GONE = "event: gone\ndata:\n\n"

# Whatever the page had in it, the browser would run no script of it and ask no other host.
ONLY_OWN = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:"
}
Kind = Literal["counts", "state"]
"""What an event tells: the numbers, or how fresh they are. Of each a page gets the newest one."""
log = logging.getLogger("uvicorn.error")
app = FastAPI()


@app.exception_handler(psycopg.OperationalError)
def unreachable(_: Request, __: Exception) -> Response:
    """Answer 503 while the database is gone."""
    body = {"detail": "the database does not answer"}
    return JSONResponse(body, 503, headers={"Retry-After": str(RETRY)})


@app.get("/services/{service_id}")
def service(service_id: UUID, request: Request) -> Response:
    """Return the service's counts by type; 304 where the model has not moved since the ETag."""
    with psycopg.connect(row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        [model] = connection.execute(POSITION, [SLOT])
        headers = {"ETag": f'"{model["position"]}"', "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return JSONResponse(connection.execute(COUNTS, [service_id]).fetchall(), headers=headers)


@app.get("/")
def page() -> Response:
    """Return the page."""
    return FileResponse(HERE / "page.html", headers=ONLY_OWN)


@app.get("/page.js")
def script() -> Response:
    """Return what moves the page."""
    return FileResponse(HERE / "page.js")


class LiveCounts:
    """The newest counts as an event, kept by one connection while any page is open.

    A page that reads slowly misses events and gets the newest one, so nothing piles up for it,
    here or in PostgreSQL's queue of notifications.
    """

    def __init__(self) -> None:
        self._newest: dict[Kind, str] = {}
        self._moved = asyncio.Event()
        self._pages = 0
        self._reader: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[str]:
        """Yield the newest counts, now and whenever they have moved."""
        self._pages += 1
        if self._reader is None:
            self._reader = asyncio.create_task(self._follow())
        sent: dict[Kind, str] = {}
        try:
            while True:
                if new := {
                    kind: text for kind, text in self._newest.items() if sent.get(kind) != text
                }:
                    # After that it shows no numbers, so it needs the same ones again.
                    sent = new if new.get("state") == GONE else sent | new
                    yield "".join(new.values())
                    continue
                try:
                    await asyncio.wait_for(self._moved.wait(), KEEP_ALIVE)
                except TimeoutError:
                    yield ":\n\n"
        finally:
            self._pages -= 1
            if not self._pages and self._reader:
                self._reader.cancel()
                self._reader, self._newest = None, {}

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_on()
            except psycopg.Error as failure:
                log.error("cannot read the counts, trying again in %d s: %s", RETRY, failure)
                self._newest = {}
                self._publish("state", GONE)
                await asyncio.sleep(RETRY)

    async def _read_on(self) -> None:
        connect = psycopg.AsyncConnection.connect(
            autocommit=True, row_factory=dict_row, connect_timeout=5, tcp_user_timeout=10_000
        )
        async with await connect as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.execute("listen waltally")
            bars = Bars()
            while True:
                counts = json.dumps(await bars.read(connection))
                self._publish("counts", f"data: {counts}\n\n")
                await self._tell_age(connection)
                await asyncio.sleep(PAUSE)
                while not [each async for each in connection.notifies(timeout=LOOK, stop_after=1)]:
                    await self._tell_age(connection)

    async def _tell_age(self, connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
        age = json.dumps(await freshness(connection))
        self._publish("state", f"event: age\ndata: {age}\n\n")

    def _publish(self, kind: Kind, event: str) -> None:
        self._newest[kind] = event
        self._moved.set()
        self._moved = asyncio.Event()


live_counts = LiveCounts()


@app.get("/events")
def events() -> Response:
    """Return a stream of server-sent events: the page's counts, now and whenever they move."""
    return StreamingResponse(
        live_counts.events(),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


async def freshness(connection: psycopg.AsyncConnection[dict[str, Any]]) -> dict[str, Any]:
    """Return as of how many seconds ago the model is exact, and whether that is fresh."""
    [row] = await (await connection.execute(AGE, [SLOT])).fetchall()
    return {"age": row["age"], "freshness": judge(row["age"])}


class Bars:
    """What the page shows: read once, and from then on moved by what changed in the model."""

    def __init__(self) -> None:
        self._totals: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._seen = 0

    async def read(self, connection: psycopg.AsyncConnection[dict[str, Any]]) -> dict[str, Any]:
        """Add what has come since, and return it all; one snapshot, so that it is one moment."""
        async with connection.transaction():
            [model] = await (await connection.execute(POSITION, [SLOT])).fetchall()
            seen = {"seen": self._seen}
            [news] = await (await connection.execute(NEWS, seen)).fetchall()
            is_anew = news["is_anew"] or not self._totals
            if is_anew:
                self._totals.clear()
            bars = BARS.format(MODEL if is_anew else MOVED)
            async for row in await connection.execute(bars, seen):
                self._totals[row.pop("list"), row.pop("id")].update(row)
            self._seen = news["newest"] or self._seen
            services = self._largest("services", "requested", 8)
            called = {each["id"]: each["id"][:8] for each in services}
            [names] = await (await connection.execute(HAS_NAMES)).fetchall()
            if names["known"]:
                rows = await connection.execute(NAMES, [[*called]])
                called |= {row["id"]: row["name"] async for row in rows}
        return model | {
            "types": self._largest("types", "requested"),
            "statuses": self._largest("statuses", "count", 12),
            "services": [each | {"name": called[each["id"]]} for each in services],
        }

    def _largest(self, of: str, by: str, most: int | None = None) -> list[dict[str, Any]]:
        totals = {id_: total for (own, id_), total in self._totals.items() if own == of}
        found: list[dict[str, Any]] = [
            {"id": id_, **total} for id_, total in totals.items() if total["count"]
        ]
        return sorted(found, key=lambda total: (-total[by], total["id"]))[:most]
