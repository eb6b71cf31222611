"""Shared by loader and Spark: positions, errors, settings, tables, connections."""

__version__ = "1.0.0"
