"""What the tests share: servers, databases on them, the project's commands, and waiting."""

from tests.support.commands import LOADER, ROOT, run
from tests.support.databases import Database, paste
from tests.support.waiting import wait_until

__all__ = ["LOADER", "ROOT", "Database", "paste", "run", "wait_until"]
