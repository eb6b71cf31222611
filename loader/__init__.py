"""Follows a wal2json slot into the change log: `loader setup`, `loader run`, `loader status`."""
