"""One service's counts over HTTP, and no query of the fact while nothing has changed."""

from __future__ import annotations

import os
from uuid import UUID

import psycopg
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from psycopg.rows import dict_row

SLOT = os.environ.get("LOADER_SLOT", "waltally")
POSITION = """
select applied_lsn::text as position from cdc.model_watermark
where model_name = 'analytics.ft_service_stats' and slot_name = %s
"""
COUNTS = """
select notification_type, requested, delivered, failed from analytics.service_totals
where service_id = %s order by notification_type
"""
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
