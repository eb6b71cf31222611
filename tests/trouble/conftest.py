"""The former name of a function of tests/support, until every folder uses the new one."""

from tests.support.databases import empty_database as new

__all__ = ["new"]
