"""A headless Chromium with one page, driven through pipes by its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

CHROMIUM = shutil.which("chromium")

_OPTIONS = [
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's is small
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
]


class Page:
    """The page: what it shows, and what it has asked for."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self.requests: list[str] = []
        """The URLs that the page has asked for so far."""
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        self._call("Network.enable")

    def open(self, url: str) -> None:
        """Begin to load the page at the URL."""
        self._call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in JavaScript, evaluated in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._receive()).get("id") != number:
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            message += byte
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextmanager
def chromium(home: Path) -> Iterator[Page]:
    """Start Chromium with its profile in `home`; end it at the end of the block."""
    # It reads from 3 and writes to 4; what it prints is no answer.
    script = 'exec "$@" 3<&0 4>&1 0</dev/null 1>&2'
    command = [CHROMIUM or "", *_OPTIONS, f"--user-data-dir={home}"]
    with (home / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], stdin=PIPE, stdout=PIPE, stderr=log
        )
        assert process.stdin and process.stdout
        try:
            yield Page(process.stdin, process.stdout)
        finally:
            process.terminate()
            process.communicate()
