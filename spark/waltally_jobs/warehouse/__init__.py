"""Reads built facts: their rows, watermarks and positions, and the loader's progress."""
