"""What the loader and Spark both stand on: positions, errors, settings, tables, connections."""

__version__ = "1.0.0"
