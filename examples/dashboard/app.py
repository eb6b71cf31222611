"""Notify's counts: a page that moves with them, and one service's over HTTP.

No query of the fact while nothing has changed.
"""

from __future__ import annotations

import asyncio
import json
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
select applied_lsn::text as position from cdc.model_watermark
where model_name = 'analytics.ft_service_stats' and slot_name = %s
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
order by count desc, name
"""
SERVICES = """
select
    service_id::text as name, sum(requested)::bigint as requested,
    sum(delivered)::bigint as delivered, sum(failed)::bigint as failed
from analytics.service_totals group by service_id order by requested desc, name limit 6
"""
PAUSE = 0.25
"""Seconds between two reads for one page, however often the fact moves."""
KEEP_ALIVE = 15
"""Seconds after which an empty line is sent, so that a page that was closed is noticed."""

# Whatever the page had in it, the browser would ask no other host.
ONLY_OWN = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:"}
app = FastAPI()


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


@app.get("/events")
def events() -> Response:
    """Return a stream of server-sent events: the page's counts, now and whenever they move."""
    return StreamingResponse(
        live_counts(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def live_counts() -> AsyncIterator[str]:
    """Yield the counts as events. The stream ends with the connection; the page asks again."""
    connect = psycopg.AsyncConnection.connect(autocommit=True, row_factory=dict_row)
    async with await connect as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("listen waltally")
        while True:
            yield f"data: {json.dumps(await read(connection))}\n\n"
            await asyncio.sleep(PAUSE)
            while not [
                each async for each in connection.notifies(timeout=KEEP_ALIVE, stop_after=1)
            ]:
                yield ":\n\n"


async def read(connection: psycopg.AsyncConnection[dict[str, Any]]) -> dict[str, Any]:
    """Read everything that the page shows in one snapshot, so that it shows one moment."""
    async with connection.transaction():
        [fact] = await (await connection.execute(POSITION, [SLOT])).fetchall()
        return fact | {
            "types": await (await connection.execute(TYPES)).fetchall(),
            "statuses": await (await connection.execute(STATUSES)).fetchall(),
            "services": await (await connection.execute(SERVICES)).fetchall(),
        }
