"""Looks, while programs run, whether a secret shows where other users could see it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import psycopg2

_PAUSE = 0.1

# The server shows a session's statement to itself, so this one does not count.
_ACTIVITY = """
select usename || ' ' || application_name || ': ' || query
from pg_stat_activity
where pid <> pg_backend_pid() and strpos(application_name || query, %s) > 0
"""


class SecretWatch:
    """Watches command lines, the server's sessions and the files of a folder until left."""

    def __init__(self, secret: str, dsn: str, folder: Path) -> None:
        self._secret = secret
        # What it looks for must not come into the server's log by its looking.
        self._server = psycopg2.connect(dsn, options="-c log_statement=none")
        self._server.autocommit = True
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="secret watch", daemon=True)
        self.found: set[str] = set()
        """Where the secret showed."""
        self.holders: set[str] = set()
        """Command lines of the programs that had the secret in their environment."""

    def __enter__(self) -> SecretWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._server.close()

    def _run(self) -> None:
        while not self._ended.wait(_PAUSE):
            self._look_at_processes()
            with self._server.cursor() as cursor:
                cursor.execute(_ACTIVITY, (self._secret,))
                self.found |= {f"session: {row[0]}" for row in cursor}
            self.found |= files_with(self._folder, self._secret)

    def _look_at_processes(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            # It may have ended, or be another user's.
            with suppress(OSError):
                words = (process / "cmdline").read_text(errors="replace").replace("\0", " ")
                if self._secret in words:
                    self.found.add(f"command line: {words}")
                if self._secret in (process / "environ").read_text(errors="replace"):
                    self.holders.add(words)


def files_with(folder: Path, secret: str) -> set[str]:
    """Return the files below the folder that hold the secret, by name or content."""
    found = set()
    # Path.rglob would fail on a folder that a program deletes meanwhile.
    for home, folders, files in os.walk(folder):
        for file in (Path(home, name) for name in (*folders, *files)):
            with suppress(OSError):  # a temporary file that is gone
                if secret in file.name or (file.is_file() and secret.encode() in file.read_bytes()):
                    found.add(f"file: {file}")
    return found
