"""Reads built models: their rows, watermarks and positions, and the loader's progress."""
