"""Notify's counts: a page that moves with them, and one service's over HTTP.

One connection reads for all open pages, and queries the fact only after it has moved.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from psycopg.rows import dict_row

HERE = Path(__file__).parent
SLOT = os.environ.get("LOADER_SLOT", "waltally")
POSITION = """
select (
    select applied_lsn::text from cdc.model_watermark
    where model_name = 'analytics.ft_service_stats' and slot_name = %s
) as position
"""
COUNTS = """
select notification_type, requested, delivered, failed from analytics.service_totals
where service_id = %s order by notification_type
"""
TYPES = """
select
    notification_type as name, sum(requested)::bigint as requested,
    sum(delivered)::bigint as delivered, sum(failed)::bigint as failed
from analytics.service_totals group by notification_type order by requested desc, name
"""
STATUSES = """
select notification_status as name, sum(count)::bigint as count
from analytics.ft_service_stats group by notification_status having sum(count) <> 0
order by count desc, name limit 12
"""
SERVICES = """
select
    service_id::text as name, sum(requested)::bigint as requested,
    sum(delivered)::bigint as delivered, sum(failed)::bigint as failed
from analytics.service_totals group by service_id order by requested desc, name limit 6
"""
PAUSE = 0.25
"""Seconds between two reads, however often the fact moves."""
KEEP_ALIVE = 15
"""Seconds after which an empty line is sent, so that a page that was closed is noticed."""
RETRY = 2
"""Seconds between two tries to reach a database that is gone."""
GONE = "event: gone\ndata:\n\n"

# Whatever the page had in it, the browser would run no script of it and ask no other host.
ONLY_OWN = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:"
}
log = logging.getLogger("uvicorn.error")
app = FastAPI()


@app.exception_handler(psycopg.OperationalError)
def unreachable(_: Request, __: Exception) -> Response:
    """Answer 503 while the database is gone."""
    body = {"detail": "the database does not answer"}
    return JSONResponse(body, 503, headers={"Retry-After": str(RETRY)})


@app.get("/services/{service_id}")
def service(service_id: UUID, request: Request) -> Response:
    """Return the service's counts by type; 304 where the fact has not moved since the ETag."""
    with psycopg.connect(row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        [fact] = connection.execute(POSITION, [SLOT])
        headers = {"ETag": f'"{fact["position"]}"', "Cache-Control": "no-cache"}
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
        self._newest = ""
        self._moved = asyncio.Event()
        self._pages = 0
        self._reader: asyncio.Task[None] | None = None

    async def events(self) -> AsyncIterator[str]:
        """Yield the newest counts, now and whenever they have moved."""
        self._pages += 1
        if self._reader is None:
            self._reader = asyncio.create_task(self._follow())
        sent = ""
        try:
            while True:
                if self._newest != sent:
                    sent = self._newest
                    yield sent
                    continue
                try:
                    await asyncio.wait_for(self._moved.wait(), KEEP_ALIVE)
                except TimeoutError:
                    yield ":\n\n"
        finally:
            self._pages -= 1
            if not self._pages and self._reader:
                self._reader.cancel()
                self._reader, self._newest = None, ""

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_on()
            except psycopg.Error as failure:
                log.error("cannot read the counts, trying again in %d s: %s", RETRY, failure)
                self._publish(GONE)
                await asyncio.sleep(RETRY)

    async def _read_on(self) -> None:
        connect = psycopg.AsyncConnection.connect(
            autocommit=True, row_factory=dict_row, connect_timeout=5, tcp_user_timeout=10_000
        )
        async with await connect as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            await connection.execute("listen waltally")
            while True:
                self._publish(f"data: {json.dumps(await read(connection))}\n\n")
                await asyncio.sleep(PAUSE)
                while not [
                    each async for each in connection.notifies(timeout=KEEP_ALIVE, stop_after=1)
                ]:
                    # Finds out that the server is gone where nothing else would.
                    await connection.execute("select 1")

    def _publish(self, event: str) -> None:
        self._newest = event
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


async def read(connection: psycopg.AsyncConnection[dict[str, Any]]) -> dict[str, Any]:
    """Read everything that the page shows in one snapshot, so that it shows one moment."""
    async with connection.transaction():
        [fact] = await (await connection.execute(POSITION, [SLOT])).fetchall()
        return fact | {
            "types": await (await connection.execute(TYPES)).fetchall(),
            "statuses": await (await connection.execute(STATUSES)).fetchall(),
            "services": await (await connection.execute(SERVICES)).fetchall(),
        }
