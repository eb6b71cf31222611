"""What `spark-submit` asks of Kubernetes, by the command of docs/spark.md. No pod runs here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.spark.support import ROOT

Asked = list[tuple[str, str, dict[str, Any]]]
"""Method, path and object of each request that makes or changes something."""


@contextmanager
def api_server() -> Iterator[tuple[str, Asked]]:
    """A stand-in for Kubernetes' API: it says yes to all that is made, and knows nothing."""
    asked: Asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(404, {"kind": "Status", "status": "Failure", "code": 404})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.command, self.path, body))
            if isinstance(body, dict):
                body.setdefault("metadata", {}).update(uid="1", resourceVersion="1")
            self.answer(201, body)

        do_PUT = do_PATCH = do_POST

        def answer(self, code: int, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def command(master: str) -> list[str]:
    """The command of docs/spark.md, at this master."""
    text = (ROOT / "docs/spark.md").read_text()
    found = re.search(r"```sh\n(spark-submit --master k8s://.*?)```", text, re.DOTALL)
    assert found is not None
    words = shlex.split(found[1].replace("\\\n", " "))
    assert words[0] == "spark-submit"
    wait = ("--conf", "spark.kubernetes.submission.waitAppCompletion=false")
    words[words.index("--master") + 1] = f"k8s://{master}"
    return [str(Path(sys.executable).parent / "spark-submit"), *wait, *words[1:]]


def test_kubernetes_is_asked_for_a_driver_that_reads_its_password_from_a_secret() -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    with api_server() as (url, asked):
        done = subprocess.run(
            command(url),
            env={**kept, "PGPASSWORD": "Zebra1931Crossing"},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [pod] = [body for method, _, body in asked if method == "POST" and body["kind"] == "Pod"]
    [container] = pod["spec"]["containers"]
    environment = {each["name"]: each for each in container["env"]}
    assert environment["PGPASSWORD"]["valueFrom"]["secretKeyRef"]["name"] == "waltally"
    assert environment["PGHOST"]["value"] == "db.internal"
    assert "local:///opt/waltally/seed.py" in container["args"]
    everything = json.dumps([body for *_, body in asked])
    assert "Zebra1931Crossing" not in everything
    # The environment of this machine does not travel.
    assert str(Path(sys.executable).parent) not in everything
