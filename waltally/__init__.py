"""What the loader and Spark both stand on: positions, errors, settings, tables, connections."""
